//! The live server: threads, sockets and workers, met by several connections at once that send anything, cut it off,
//! repeat it, or take no answer. Behind each input a client that does as it should is still answered, and reads what
//! stands in its file; no connection of the input is left.
//!
//! The input is a list of steps: a byte that says what to do and on which connection, then what that takes. Calls have
//! handles that are valid. A connection that brought sound calls only gets one sound reply to each.
#![no_main]

#[path = "../../crates/nfs-proto/tests/every/mod.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod every;
mod input;
#[allow(dead_code, reason = "each target uses its part")]
mod stage;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use filer::exports::{Entry, Exports};
use filer::policy::{Policy, Rights};
use filer::server::Server;
use filer::{Config, Export, Filer, Listener, ListenerRole};
use input::{take, take_counted, take_up_to};
use libfuzzer_sys::fuzz_target;
use nfs_proto::channel1::{self, AttachArgs, ChannelResult, FenceArgs};
use nfs_proto::nfs3::{self, FileHandle, Procedure, ReadArgs, ReadResult};
use nfs_proto::record::LAST_FRAGMENT;
use nfs_proto::xdr::{Encode, decode_all};
use nfs_proto::{mount3, portmap2};
use stage::{Raw, Stage};

/// Connections of an input.
const PEERS: usize = 3;
/// Calls of an input: each may ask for a MiB.
const CALLS_MAX: usize = 32;
/// How long anything may take before it counts as hung; the engine's own limit is 10 s for an input.
const PATIENCE: Duration = Duration::from_secs(8);
/// What the well-behaved client reads.
const KEPT: &[u8] = b"what stands here stays";

fuzz_target!(|input: &[u8]| {
    static LIVE: OnceLock<Mutex<Live>> = OnceLock::new();
    let live = LIVE.get_or_init(|| Mutex::new(Live::new()));
    let mut live = live.lock().expect("one input at a time");
    live.stage.reset();
    live.inputs += 1;
    live.play(input);
    live.behaved_is_served();
});

struct Live {
    stage: Stage,
    server: Arc<Server>,
    port: u16,
    /// The run of the server, as the program CHANNEL calls it.
    instance: u64,
    behaved: TcpStream,
    kept: FileHandle,
    xid: u32,
    inputs: u64,
}

/// A connection of an input, and what was sent on it.
struct Peer {
    stream: TcpStream,
    /// Sound calls by xid, without mark; copies are counted once.
    calls: HashMap<u32, Vec<u8>>,
    last: Vec<u8>,
    received: Vec<u8>,
    /// Only sound calls were sent, each once, and none that may end the connection.
    sound: bool,
    half_closed: bool,
}

impl Live {
    fn new() -> Self {
        let (stage, keep) = (Stage::new("any"), Stage::new("kept"));
        let path = keep.export.join("kept");
        std::fs::write(&path, KEPT).expect("make the file that is kept");
        stage::open_to_all(&path, 0o444);
        let kept = keep.handle_of("kept");
        let entry = |name: &str, volume, rights| Entry {
            export: Arc::new(Export::new(name, &format!("/{name}"), volume)),
            policy: Policy::open(rights),
        };
        let exports = Exports::new(vec![
            entry("vol", stage.volume.clone(), Rights::default()),
            entry("kept", keep.volume, Rights { read_only: true, ..Rights::default() }),
        ]);
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
        let port = socket.local_addr().expect("have a port").port();
        let filer = Filer::new(Config { exports: exports.expect("two exports"), only: None, port });
        let server =
            Server::new(filer, vec![Listener { socket, role: ListenerRole::Nfs }], None, filer::iscsi::Settings::default());
        let running = Arc::clone(&server);
        std::thread::spawn(move || running.run());
        let behaved = connect(port).expect("connect");
        let mut live = Self { stage, server, port, instance: 0, behaved, kept, xid: 0, inputs: 0 };
        // No run has the number 0: the filer attaches nothing and answers with its own number.
        let unknown = AttachArgs { instance: 0, process: 0, channel: 0, generation: 0, secret: 0, root: live.stage.handle(0) };
        let result = live.ask(channel1::PROGRAM, channel1::VERSION, channel1::Procedure::Attach.number(), &unknown);
        live.instance = decode_all::<ChannelResult>(&result).expect("decode the result of ATTACH").instance;
        live
    }

    fn next_xid(&mut self) -> u32 {
        self.xid = self.xid.wrapping_add(1);
        self.xid
    }

    /// A call of the well-behaved client; its results.
    fn ask(&mut self, program: u32, version: u32, procedure: u32, arguments: &dyn Encode) -> Vec<u8> {
        let xid = self.next_xid();
        let record = stage::call(xid, program, version, procedure, arguments);
        self.behaved.write_all(&record).expect("call on a connection that did nothing wrong");
        let mut mark = [0; 4];
        self.behaved.read_exact(&mut mark).expect("an answer to a sound call");
        let mut reply = vec![0; (u32::from_be_bytes(mark) & !LAST_FRAGMENT) as usize];
        self.behaved.read_exact(&mut reply).expect("a whole answer");
        stage::check_reply(&record[4..], &reply);
        every::reply_parts(&reply).expect("decode the reply").1.to_vec()
    }

    fn behaved_is_served(&mut self) {
        assert_eq!(self.ask(nfs3::PROGRAM, nfs3::VERSION, Procedure::Null.number(), &()), b"");
        let args = ReadArgs { file: self.kept, offset: 0, count: 4096 };
        let read = self.ask(nfs3::PROGRAM, nfs3::VERSION, Procedure::Read.number(), &args);
        let read = decode_all::<ReadResult<'_>>(&read).expect("decode the read").expect("a read that is allowed");
        assert!(read.data.0 == KEPT && read.eof, "{read:?}");
        // Now and then as a client that reconnects.
        if self.inputs.is_multiple_of(64)
            && let Some(stream) = connect(self.port)
        {
            self.behaved = stream;
            self.all_gone();
        }
    }

    fn play(&mut self, mut input: &[u8]) {
        let mut peers: [Option<Peer>; PEERS] = [const { None }; PEERS];
        let mut calls = 0;
        while let [step, rest @ ..] = input {
            input = rest;
            let place = &mut peers[usize::from(step >> 3) % PEERS];
            if place.is_none() {
                *place = connect(self.port).map(Peer::new);
            }
            let Some(peer) = place else { return };
            match step & 7 {
                0 => peer.send_raw(take_counted(&mut input)),
                1 | 2 if calls < CALLS_MAX => {
                    calls += 1;
                    let [procedure, choice] = take(&mut input);
                    let xid = self.next_xid();
                    let arguments = take_up_to(&mut input, usize::from(choice >> 2) * 4);
                    let record = self.stage.nfs_call(xid, procedure, choice, arguments);
                    if step & 7 == 1 { peer.send_sound(xid, record) } else { peer.send_raw(&damaged(record, &mut input)) }
                }
                3 if calls < CALLS_MAX => {
                    calls += 1;
                    let xid = self.next_xid();
                    let record = self.other_program(xid, &mut input);
                    peer.sound &= every::call_parts(&record[4..]).is_ok_and(|(kind, ..)| kind.program != channel1::PROGRAM);
                    peer.send_sound(xid, record);
                }
                4 if calls < CALLS_MAX => {
                    calls += 1;
                    let again = peer.last.clone();
                    peer.send_raw(&again);
                }
                5 => peer.receive_some(),
                6 => peer.close_half(),
                _ => *place = None,
            }
        }
        peers.into_iter().flatten().for_each(Peer::end);
        self.all_gone();
    }

    /// A call of one of the other programs.
    fn other_program(&self, xid: u32, input: &mut &[u8]) -> Vec<u8> {
        let [which, procedure] = take(input);
        let procedure = u32::from(procedure % 8);
        // Processes of this input alone: one that was fenced stays so.
        let process = |which: u8| (self.inputs << 8) | u64::from(which % 4);
        match which % 4 {
            0 => stage::call(xid, mount3::PROGRAM, mount3::VERSION, procedure, &Raw(take_counted(input))),
            1 => stage::call(xid, portmap2::PROGRAM, portmap2::VERSION, procedure, &Raw(take_counted(input))),
            2 => {
                let [of, channel, generation, secret, object] = take(input);
                let (process, channel, generation) = (process(of), u64::from(channel % 4), u32::from(generation));
                let (secret, root) = (u64::from(secret % 3), self.stage.handle(object));
                let args = AttachArgs { instance: self.instance, process, channel, generation, secret, root };
                stage::call(xid, channel1::PROGRAM, channel1::VERSION, channel1::Procedure::Attach.number(), &args)
            }
            _ => {
                let [of] = take(input);
                let args = FenceArgs { instance: self.instance, process: process(of) };
                stage::call(xid, channel1::PROGRAM, channel1::VERSION, channel1::Procedure::Fence.number(), &args)
            }
        }
    }

    /// Waits until only the well-behaved client is connected.
    fn all_gone(&self) {
        let end = Instant::now() + PATIENCE;
        while self.server.connection_count() > 1 {
            assert!(Instant::now() < end, "a connection is left whose peer is gone");
            std::thread::yield_now();
        }
    }
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        let (calls, last, received, half_closed) = Default::default();
        Self { stream, calls, last, received, sound: true, half_closed }
    }

    /// Sends what may not be a call, or one again.
    fn send_raw(&mut self, bytes: &[u8]) {
        self.sound &= bytes.is_empty();
        self.send(bytes);
    }

    fn send_sound(&mut self, xid: u32, record: Vec<u8>) {
        // What is not sent is not answered.
        if !self.half_closed {
            self.send(&record);
            self.calls.insert(xid, record[4..].to_vec());
            self.last = record;
        }
    }

    /// The filer may have hung up: that is an answer, but not to sound calls.
    fn send(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            assert!(!self.sound, "cut off a client that makes sound calls: {error}");
        }
    }

    fn receive_some(&mut self) {
        let mut some = [0; 4096];
        let _ = self.stream.set_nonblocking(true);
        if let Ok(bytes) = self.stream.read(&mut some) {
            self.received.extend_from_slice(&some[..bytes]);
        }
        let _ = self.stream.set_nonblocking(false);
    }

    fn close_half(&mut self) {
        self.half_closed = true;
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Takes all that still comes, and looks at it.
    fn end(mut self) {
        self.close_half();
        match self.stream.read_to_end(&mut self.received) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the filer neither answers nor hangs up")
            }
            Err(error) => assert!(!self.sound, "cut off a client that makes sound calls: {error}"),
        }
        let mut replies = self.received.as_slice();
        while let Some((mark, rest)) = replies.split_first_chunk::<4>() {
            let mark = u32::from_be_bytes(*mark);
            assert!(mark & LAST_FRAGMENT != 0, "a reply in several fragments");
            let Some((reply, behind)) = rest.split_at_checked((mark & !LAST_FRAGMENT) as usize) else { break };
            replies = behind;
            let (xid, _) = every::reply_parts(reply).expect("decode a reply");
            if !self.sound {
                continue;
            }
            let call = self.calls.remove(&xid).unwrap_or_else(|| panic!("xid {xid} is answered twice, or was not asked"));
            stage::check_reply(&call, reply);
        }
        assert!(!self.sound || (self.calls.is_empty() && replies.is_empty()), "{} sound calls have no answer", self.calls.len());
    }
}

/// None when the host is out of ports for a while.
fn connect(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    let stream = match stream {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => return None,
        stream => stream.expect("be let in"),
    };
    stream.set_nodelay(true).expect("set the socket up");
    stream.set_read_timeout(Some(PATIENCE)).expect("set the socket up");
    stream.set_write_timeout(Some(PATIENCE)).expect("set the socket up");
    Some(stream)
}

/// The record with one word of it changed, cut short, or under another mark.
fn damaged(mut record: Vec<u8>, input: &mut &[u8]) -> Vec<u8> {
    let [how, at, value] = take(input);
    let at = usize::from(at) * 4 % record.len();
    match how % 4 {
        0 => record[at..].iter_mut().take(4).for_each(|byte| *byte = value),
        1 => record[at] ^= value,
        2 => record.truncate(at.max(4)),
        _ => record.extend_from_slice(&[value; 32]),
    }
    // Mostly still a whole record: else it only waits for more.
    if how & 0x30 != 0 {
        let mark = (record.len() as u32 - 4) | LAST_FRAGMENT;
        record[..4].copy_from_slice(&mark.to_be_bytes());
    }
    record
}
