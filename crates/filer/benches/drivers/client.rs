//! The client: as many reads out on each connection as asked for, sent as the answers come.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nfs_proto::nfs3::{self, FileHandle, Procedure, ReadArgs};
use nfs_proto::record::{self, Framed};
use nfs_proto::rpc::{CallHeader, OpaqueAuth, RPC_VERSION, Xid, encode_call};
use rustix::event::{PollFd, PollFlags, poll};

use super::stage::{BLOCK_BYTES, BLOCKS};
use super::sys;

/// What is asked of a client.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) seconds: u64,
}

/// What it saw.
pub(crate) struct Measured {
    pub(crate) calls: u64,
    pub(crate) calls_per_s: f64,
    pub(crate) p50_us: f64,    // from a send until its answers were read
    pub(crate) client_us: f64, // of processor time for each call
}

impl Load {
    pub(crate) fn arguments(self, address: SocketAddr) -> [String; 4] {
        [address.to_string(), self.connections.to_string(), self.depth.to_string(), self.seconds.to_string()]
    }
}

impl Measured {
    pub(crate) fn parse(text: &str) -> Self {
        let mut fields = text.split_whitespace().map(|field| field.parse::<f64>().expect("a figure of the client"));
        let mut next = || fields.next().expect("four figures");
        Self { calls: next() as u64, calls_per_s: next(), p50_us: next(), client_us: next() }
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    end: usize, // of what was received and not taken
    calls: Vec<u8>,
    sent: Instant,
}

/// Runs with `ADDRESS CONNECTIONS DEPTH SECONDS HANDLE` and prints what it measured.
pub(crate) fn main(arguments: &[String]) {
    let [address, connections, depth, seconds, handle] = arguments else { panic!("five arguments") };
    let [connections, depth, seconds]: [usize; 3] = [connections, depth, seconds].map(|text| text.parse().expect("a number"));
    let handle: Vec<u8> = (0..handle.len()).step_by(2).map(|at| u8::from_str_radix(&handle[at..at + 2], 16).unwrap()).collect();
    let mut reads = Reads { handle: FileHandle::new(&handle).expect("a handle"), state: 1 };
    let mut open: Vec<Connection> = (0..connections).map(|_| Connection::open(address, &mut reads, depth)).collect();
    let (mut calls, mut waits_us) = (0u64, Vec::new());
    let (began, cpu_before) = (Instant::now(), sys::cpu());
    let until = began + Duration::from_secs(seconds as u64);
    while Instant::now() < until {
        let ready: Vec<usize> = if connections == 1 { vec![0] } else { readable(&open) };
        for at in ready {
            let answers = open[at].receive();
            calls += answers;
            if answers > 0 {
                waits_us.push(open[at].sent.elapsed().as_secs_f64() * 1e6);
                open[at].send(&mut reads, answers);
            }
        }
    }
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), sys::cpu() - cpu_before);
    waits_us.sort_by(f64::total_cmp);
    let p50_us = waits_us[waits_us.len() / 2];
    println!("{calls} {} {p50_us} {}", calls as f64 / seconds, cpu.as_secs_f64() * 1e6 / calls as f64);
}

fn readable(open: &[Connection]) -> Vec<usize> {
    let mut polled: Vec<PollFd<'_>> = open.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)).collect();
    poll(&mut polled, None).expect("poll");
    polled.iter().enumerate().filter(|(_, polled)| !polled.revents().is_empty()).map(|(at, _)| at).collect()
}

impl Connection {
    fn open(address: &str, reads: &mut Reads, depth: usize) -> Self {
        let stream = TcpStream::connect(address).expect("connect");
        stream.set_nodelay(true).unwrap();
        let mut connection = Self { stream, buffer: vec![0; 1 << 20], end: 0, calls: Vec::new(), sent: Instant::now() };
        connection.send(reads, depth as u64);
        connection
    }

    fn send(&mut self, reads: &mut Reads, count: u64) {
        self.calls.clear();
        (0..count).for_each(|_| reads.encode(&mut self.calls));
        self.sent = Instant::now();
        self.stream.write_all(&self.calls).expect("send calls");
    }

    /// Receives once; how many whole answers that made.
    fn receive(&mut self) -> u64 {
        let bytes = self.stream.read(&mut self.buffer[self.end..]).expect("receive");
        assert!(bytes > 0, "the server closed the connection");
        self.end += bytes;
        let (mut start, mut answers) = (0, 0);
        while let Framed::Record { body, consumed } =
            record::frame(&mut self.buffer[start..self.end], 1 << 20).expect("an answer")
        {
            assert!(body.len() > BLOCK_BYTES as usize, "a read failed");
            start += consumed;
            answers += 1;
        }
        self.buffer.copy_within(start..self.end, 0);
        self.end -= start;
        answers
    }
}

/// Calls for random blocks.
struct Reads {
    handle: FileHandle,
    state: u64,
}

impl Reads {
    fn encode(&mut self, out: &mut Vec<u8>) {
        // Any sequence does that goes everywhere (Knuth's MMIX constants).
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (self.state >> 33) % BLOCKS * u64::from(BLOCK_BYTES);
        let header = CallHeader {
            xid: Xid((self.state >> 32) as u32),
            rpc_version: RPC_VERSION,
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            procedure: Procedure::Read as u32,
            credential: OpaqueAuth::NONE,
            verifier: OpaqueAuth::NONE,
        };
        encode_call(&header, &ReadArgs { file: self.handle, offset, count: BLOCK_BYTES }, out);
    }
}
