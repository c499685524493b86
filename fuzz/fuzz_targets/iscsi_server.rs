//! The live target: threads, sockets and workers, met by several connections at once that log in rightly or wrongly, send any CDB,
//! PDUs that were damaged on their way, task management, and bytes that are no PDUs, and take no answer or hang up. Behind each input an
//! initiator that does as it should reads what stands on its LUN; no connection of the input is left.
//!
//! The input is a list of steps: a byte that says what to do and on which connection, then what that takes. A connection that sent
//! sound commands only, beside others that ended none of them, gets an answer to each.
#![no_main]

mod input;
#[path = "../../crates/millrace/tests/support/scsi.rs"]
#[allow(dead_code, reason = "of the tests' initiator, a part")]
mod scsi;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use filer::admin::AdminSocket;
use filer::exports::{Entry, Exports};
use filer::policy::{Policy, Rights};
use filer::server::Server;
use filer::{Config, Export, Filer, Listener, ListenerRole};
use input::{take, take_counted};
use iscsi_proto::initiator::Transfer;
use iscsi_proto::login::{DigestChoice, Offer};
use iscsi_proto::pdu::{Itt, TaskFunction};
use libfuzzer_sys::fuzz_target;
use scsi::{Client, Who};
use volume::Volume;

/// Connections of an input.
const PEERS: usize = 3;
/// Commands of an input: each may carry 64 KiB.
const COMMANDS_MAX: usize = 32;
/// How long anything may take before it counts as hung; the engine's own limit is 10 s for an input.
const PATIENCE: Duration = Duration::from_secs(8);
/// What the well-behaved initiator reads.
const KEPT: [u8; 512] = [0xa5; 512];
/// The LUN of the well-behaved initiator alone; LUN 0 is for anybody.
const OWN: u16 = 1;

fuzz_target!(|input: &[u8]| {
    static LIVE: OnceLock<Mutex<Live>> = OnceLock::new();
    let live = LIVE.get_or_init(|| Mutex::new(Live::new()));
    let mut live = live.lock().expect("one input at a time");
    live.inputs += 1;
    live.play(input);
    live.behaved_is_served();
});

struct Live {
    server: Arc<Server>,
    portal: SocketAddr,
    target: String,
    behaved: Client,
    inputs: u64,
}

/// A connection of an input: bytes only, or a session.
enum Peer {
    Bytes(TcpStream),
    Session(Box<Session>),
}

struct Session {
    client: Client,
    /// Data of the commands that have no answer yet.
    waiting: HashMap<Itt, Vec<u8>>,
    /// Only whole commands were sent, none that ends others.
    sound: bool,
}

impl Live {
    fn new() -> Self {
        let base = std::env::temp_dir().join(format!("millrace-fuzz-{}-luns", std::process::id()));
        let (export, state) = (base.join("export"), base.join("state"));
        for folder in [&export, &state] {
            std::fs::create_dir_all(folder).expect("make a folder");
        }
        let volume = volume::Config { dir: export, state_dir: state, loss: None, options: volume::Options::default() };
        let volume = Volume::open(volume).expect("open the volume");
        let export = Arc::new(Export::new("vol", "/vol", volume));
        let exports = Exports::new(vec![Entry { export, policy: Policy::open(Rights::default()) }]).expect("an export");
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
        let portal = socket.local_addr().expect("have a port");
        let filer = Filer::new(Config { exports, only: None, port: portal.port() });
        let listener = Listener { socket, role: ListenerRole::Iscsi(1) };
        let server = Server::new(filer, vec![listener], None, filer::iscsi::Settings::default());
        let running = Arc::clone(&server);
        std::thread::spawn(move || running.run());
        let name = behaved();
        let admin = base.join("admin");
        let socket = AdminSocket::bind(&admin).expect("bind the admin socket");
        socket.serve(&server).expect("serve it");
        administer(&admin, r#"{"op":"lun-create","lun":"vol/any","size_bytes":65536,"number":0,"block_bytes":512}"#);
        let own = r#"{"op":"lun-create","lun":"vol/own","size_bytes":65536,"number":1,"block_bytes":512,"initiators":["NAME"]}"#;
        administer(&admin, &own.replace("NAME", &name));
        let target = server.targets().expect("iSCSI is served").1.remove(0).1;
        let mut behaved = Client::ready(portal, &target, &Who::named(&name), OWN);
        assert!(behaved.write(OWN, 3, &KEPT, true).expect("write what is kept").is_good());
        Self { server, portal, target, behaved, inputs: 0 }
    }

    fn behaved_is_served(&mut self) {
        // A reset of the whole target, by another, is told once.
        self.behaved.take_attentions(OWN);
        let read = self.behaved.read(OWN, 3, 1).expect("an answer to a sound command");
        assert!(read.is_good() && read.data == KEPT, "{read:?}");
        // Now and then as a client that reconnects.
        if self.inputs.is_multiple_of(64) {
            self.behaved = Client::ready(self.portal, &self.target, &Who::named(&behaved()), OWN);
            self.all_gone();
        }
    }

    fn play(&mut self, mut input: &[u8]) {
        let mut peers: [Option<Peer>; PEERS] = [const { None }; PEERS];
        let (mut commands, mut all_sound) = (0, true);
        while let [step, rest @ ..] = input {
            input = rest;
            let nth = usize::from(step >> 3) % PEERS;
            if peers[nth].is_none() {
                peers[nth] = self.connect(nth as u8, step & 7 != 0, &mut input);
            }
            let Some(peer) = &mut peers[nth] else { continue };
            match (step & 7, peer) {
                (0, peer) => peer.send_raw(take_counted(&mut input)),
                (1..=3, Peer::Session(session)) if commands < COMMANDS_MAX => {
                    commands += 1;
                    all_sound &= session.command(step & 7 == 3, &mut input);
                }
                (4, Peer::Session(session)) => {
                    all_sound = false;
                    session.manage(&mut input);
                }
                (5, Peer::Session(session)) => session.receive(),
                (6, peer) => peer.close_half(),
                (7, _) => {
                    // What it asked for may still end what others ask for.
                    all_sound = false;
                    peers[nth] = None;
                }
                _ => {}
            }
        }
        peers.into_iter().flatten().for_each(|peer| peer.end(all_sound));
        self.all_gone();
    }

    /// A session with what the input wants to negotiate, or a bare connection; none where the host is out of ports, or what an
    /// input before did is still under way.
    fn connect(&self, nth: u8, logs_in: bool, input: &mut &[u8]) -> Option<Peer> {
        if !logs_in {
            let stream = TcpStream::connect(self.portal).ok()?;
            return Some(Peer::Bytes(stream));
        }
        let [choice] = take(input);
        let mut who = Who::named("iqn.2026-11.test:fuzz").session(nth + 1);
        who.offer = offer(choice);
        let client = Client::login(self.portal, &self.target, &who).ok()?;
        Some(Peer::Session(Box::new(Session { client, waiting: HashMap::new(), sound: true })))
    }

    /// Waits until only the well-behaved initiator is connected.
    fn all_gone(&self) {
        let end = Instant::now() + PATIENCE;
        while self.server.connection_count() > 1 {
            assert!(Instant::now() < end, "a connection is left whose peer is gone");
            std::thread::yield_now();
        }
    }
}

impl Peer {
    fn stream(&self) -> &TcpStream {
        match self {
            Self::Bytes(stream) => stream,
            Self::Session(session) => session.client.stream(),
        }
    }

    /// The target may have hung up: that is an answer.
    fn send_raw(&mut self, bytes: &[u8]) {
        if let Self::Session(session) = self {
            session.sound &= bytes.is_empty();
        }
        let _ = self.stream().write_all(bytes);
    }

    /// It can say no more, and is not owed an answer.
    fn close_half(&mut self) {
        if let Self::Session(session) = self {
            session.sound = false;
        }
        let _ = self.stream().shutdown(Shutdown::Write);
    }

    /// Waits for the answers that are due, then for the target to hang up.
    fn end(mut self, all_sound: bool) {
        if let Self::Session(session) = &mut self
            && session.sound
            && all_sound
        {
            session.settle();
        }
        let stream = self.stream();
        let _ = stream.shutdown(Shutdown::Write);
        stream.set_read_timeout(Some(PATIENCE)).expect("set the socket up");
        match std::io::copy(&mut stream.take(u64::MAX), &mut std::io::sink()) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the target does not hang up")
            }
            _ => {}
        }
    }
}

impl Session {
    /// A command of a CDB from the input, whole or damaged; whether it cannot end another's.
    fn command(&mut self, is_damaged: bool, input: &mut &[u8]) -> bool {
        let [how, opcode, size] = take(input);
        let mut cdb: [u8; 16] = take(input);
        cdb[0] = if how & 1 == 0 { KNOWN[usize::from(opcode) % KNOWN.len()] } else { opcode };
        if how & 2 == 0 {
            within(&mut cdb);
        }
        let data = vec![size; usize::from(size) * 256];
        let transfer = match how >> 2 & 3 {
            0 => Transfer::None,
            1 => Transfer::Read(u32::from(size) * 256),
            _ => Transfer::Write(&data),
        };
        let lun = u16::from(how >> 6 & 3); // one is there, one is not mapped, two do not exist
        let sent = if is_damaged {
            self.sound = false;
            self.client.send_changed(lun, &cdb, transfer, |pdus| damage(pdus, input))
        } else {
            self.client.send(lun, &cdb, transfer)
        };
        match sent {
            Ok(itt) => drop(self.waiting.insert(itt, data)),
            // The window is full, or the target hung up on one that was not sound.
            Err(error) => assert!(!self.sound || error.kind() == ErrorKind::Other, "cut off an initiator that is sound: {error}"),
        }
        // PERSISTENT RESERVE OUT may preempt and abort.
        !is_damaged && cdb[0] != 0x5f
    }

    fn manage(&mut self, input: &mut &[u8]) {
        let [which, lun] = take(input);
        self.sound = false;
        let function = match which % 5 {
            0 => TaskFunction::AbortTask,
            1 => TaskFunction::AbortTaskSet,
            2 => TaskFunction::ClearTaskSet,
            3 => TaskFunction::LogicalUnitReset,
            _ => TaskFunction::TargetWarmReset,
        };
        let referenced = (which % 5 == 0).then(|| self.waiting.keys().next().copied()).flatten();
        let _ = self.client.send_management(function, u16::from(lun % 3), referenced);
    }

    /// Takes what has come.
    fn receive(&mut self) {
        self.client.stream().set_read_timeout(Some(Duration::from_millis(1))).expect("set the socket up");
        let _ = self.turn();
    }

    fn settle(&mut self) {
        self.client.stream().set_read_timeout(Some(PATIENCE)).expect("set the socket up");
        while !self.waiting.is_empty() {
            self.turn().expect("an answer to each sound command");
        }
    }

    fn turn(&mut self) -> std::io::Result<()> {
        let waiting = &self.waiting;
        let ended = self.client.next_ended(&|itt| waiting.get(&itt).map(Vec::as_slice))?;
        for (itt, _) in ended {
            assert!(self.waiting.remove(&itt).is_some() || !self.sound, "answered twice, or not asked");
        }
        Ok(())
    }
}

/// READ, WRITE, WRITE SAME, COMPARE AND WRITE, SYNCHRONIZE CACHE, UNMAP, reservations, inquiries and sense.
const KNOWN: [u8; 24] = [
    0x00, 0x03, 0x08, 0x0a, 0x12, 0x1a, 0x25, 0x28, 0x2a, 0x2e, 0x2f, 0x35, 0x41, 0x42, 0x5a, 0x5e, 0x5f, 0x88, 0x89, 0x8a, 0x8f,
    0x91, 0x93, 0x9e,
];

/// Keeps LBA and length within or near the LUN.
fn within(cdb: &mut [u8; 16]) {
    match cdb[0] >> 5 {
        1 | 2 => {
            cdb[2..5].fill(0);
            cdb[7] = 0;
        }
        4 => {
            cdb[2..9].fill(0);
            cdb[10..13].fill(0);
        }
        _ => {}
    }
}

fn offer(choice: u8) -> Offer {
    let digest = if choice & 1 != 0 { DigestChoice::Preferred } else { DigestChoice::Never };
    Offer {
        header_digest: digest,
        data_digest: digest,
        initial_r2t: choice & 2 != 0,
        immediate_data: choice & 4 == 0,
        receive_segment_bytes_max: if choice & 8 != 0 { 512 } else { 8192 },
        max_burst_bytes: if choice & 16 != 0 { 1024 } else { 65_536 },
        ..Offer::default()
    }
}

/// One byte of the PDUs changed, some repeated, or the end cut off.
fn damage(pdus: &mut Vec<u8>, input: &mut &[u8]) {
    let [how, at, value] = take(input);
    let at = usize::from(at) % pdus.len().min(64);
    match how % 8 {
        0 => pdus.truncate(at),
        1 => pdus.extend_from_within(..),
        2 => pdus.extend_from_slice(&[value; 48]),
        3 => pdus[at] = value,
        _ => pdus[at] ^= value,
    }
}

/// The name of the well-behaved initiator, which no input can know.
fn behaved() -> String {
    format!("iqn.2026-11.test:behaved-{}", std::process::id())
}

/// A request of the admin socket, which has to be done.
fn administer(socket: &Path, request: &str) {
    let mut stream = UnixStream::connect(socket).expect("connect to the admin socket");
    writeln!(stream, "{request}").expect("send a request");
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).expect("a reply");
    assert!(reply.contains("\"ok\":true"), "{request}: {reply}");
}
