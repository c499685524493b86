//! Connections in unusual use: calls that overlap, reads that wait for the store, peers that stall.

use crate::support::filer::Filer;
use crate::support::wire::Wire;
use crate::support::{Scratch, await_until, descriptors_up_to, skip_unsupported, succeed};
use filer::limits::SEND_TIMEOUT;
use nfs_proto::nfs3::{FileHandle, ObjectArgs, Procedure, ReadArgs, ReadResult, StableHow};
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Makes the kernel drop the content of a file from memory. False if the file is only in memory.
fn drop_from_memory(path: &Path) -> bool {
    if succeed(Command::new("stat").args(["-f", "-c", "%T"]).arg(path)).starts_with("tmpfs") {
        return false;
    }
    std::fs::File::open(path).unwrap().sync_all().unwrap();
    succeed(Command::new("dd").args([&format!("if={}", path.display()), "iflag=nocache", "count=0", "status=none"]));
    true
}

fn read_call(wire: &mut Wire, file: FileHandle, offset: u64, count: u32) -> Vec<u8> {
    wire.nfs_record(Procedure::Read, &ReadArgs { file, offset, count })
}

#[test]
fn a_read_that_waits_for_the_store_does_not_hold_up_the_calls_behind_it() {
    const READ: usize = 64 << 10;
    const READS: usize = 8;
    let scratch = Scratch::new("cold");
    let filer = Filer::start(&scratch, &[]);
    let path = filer.export().join("f");
    let content: Vec<u8> = (0..64 * READ).map(|index| (index / 4096) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.lookup(root, "f").unwrap().object;
    let at = |part: usize| part * 8 * READ;
    // Whether the filer answers the last read or the call after it first is a race. The call must
    // sometimes win; if it had to wait, it would never win.
    for _ in 0..100 {
        if !drop_from_memory(&path) {
            return skip_unsupported("the scratch directory is in memory, where nothing is cold");
        }
        let first = wire.xid + 1;
        let reads = |part: usize| read_call(&mut wire, file, at(part) as u64, READ as u32);
        let mut calls: Vec<u8> = (0..READS).flat_map(reads).collect();
        calls.extend(wire.nfs_record(Procedure::GetAttr, &ObjectArgs { object: file }));
        wire.send(&calls);
        let order: Vec<usize> = (0..=READS)
            .map(|_| {
                let reply = wire.receive();
                let number = (reply.header().xid.0 - first) as usize;
                if number < READS {
                    let data = reply.results::<ReadResult<'_>>().unwrap().data.0.to_vec();
                    assert!(data == content[at(number)..][..READ], "the data of read {number}");
                }
                number
            })
            .collect();
        if order[READS] != READS {
            assert!(filer.admin(r#"{"op":"stats"}"#)["cold_reads"].as_u64().unwrap() > 0);
            return;
        }
    }
    panic!("the call behind the reads always waited for them");
}

/// Some connections have transferred a million bytes each. All have mounted, and have written and
/// read a page. Now they are idle.
#[test]
fn a_thousand_idle_connections_stay_below_64_mebibytes() {
    assert!(descriptors_up_to(4096) > 1200, "the host lets a process have too few descriptors for 1,000 connections");
    let scratch = Scratch::new("idle");
    let filer = Filer::start(&scratch, &[]);
    let mut first = Wire::connect(filer.port);
    let root = first.root();
    let file = first.create(root, "f");
    let mut wires: Vec<Wire> = (0..1000).map(|_| Wire::connect(filer.port)).collect();
    for (nth, wire) in wires.iter_mut().enumerate() {
        assert_eq!(wire.root(), root);
        let bytes = if nth % 10 == 0 { 1 << 20 } else { 8192 };
        wire.write(file, 0, &vec![1; bytes], StableHow::Unstable);
        let read = read_call(wire, file, 0, bytes as u32);
        wire.send(&read.repeat(4));
        for _ in 0..4 {
            assert_eq!(wire.receive().results::<ReadResult<'_>>().unwrap().data.0.len(), bytes);
        }
    }
    // The program's own pages are about 8 MiB of a release build, whose complete memory `make
    // bench` checks against 64 MiB.
    let quiet = await_until("1,000 quiet connections below 56 MiB of their own", Duration::from_secs(30), || {
        Some(filer.anonymous()).filter(|bytes| *bytes < 56 << 20)
    });
    println!("1,000 idle connections: {} MiB beside the program", quiet >> 20);
    assert_eq!(filer.admin(r#"{"op":"stats"}"#)["connections"], 1001);
    for wire in wires.iter_mut().step_by(100) {
        assert!(wire.getattr(root).is_ok(), "an idle connection is served when it calls");
    }
}

/// Each peer requests much, by calls that wait for the store and by calls that do not, and reads no replies.
#[test]
fn peers_that_take_no_replies_share_a_bounded_memory() {
    let scratch = Scratch::new("takers");
    let filer = Filer::start(&scratch, &[]);
    drop(peers_that_take_nothing(&filer));
    await_connections(&filer, 1, Duration::from_secs(20));
}

/// A peer that reads a little now and then is treated as one that reads nothing.
#[test]
#[ignore = "nightly: two minutes, four times the time limit of a reply"]
fn peers_that_take_a_little_now_and_then_are_dropped() {
    let scratch = Scratch::new("trickle");
    let filer = Filer::start(&scratch, &[]);
    let mut other = Wire::connect(filer.port);
    let root = other.root();
    let wires = peers_that_take_nothing(&filer);
    let trickle = Trickle::start(wires.iter().step_by(4).map(|wire| wire.stream.try_clone().unwrap()).collect());
    let begun = Instant::now();
    // Two time limits for the reply that is being sent. If that was nearly complete, two more for
    // the next one.
    await_connections(&filer, 1, SEND_TIMEOUT * 4 + Duration::from_secs(30));
    println!("dropped after {:?}, {} bytes were taken meanwhile", begun.elapsed(), trickle.finish());
    assert!(other.getattr(root).is_ok(), "who takes replies stays");
}

/// Peers that have requested 64 MiB each and read none of it, when their sockets are full. The
/// filer's memory is bounded.
fn peers_that_take_nothing(filer: &Filer) -> Vec<Wire> {
    let path = filer.export().join("f");
    std::fs::write(&path, vec![1; 64 << 20]).unwrap();
    let mut other = Wire::connect(filer.port);
    let root = other.root();
    let file = other.lookup(root, "f").unwrap().object;
    drop_from_memory(&path);
    let wires: Vec<Wire> = (0..24)
        .map(|nth| {
            let mut wire = Wire::connect(filer.port);
            let calls: Vec<u8> =
                (0..64).flat_map(|part| read_call(&mut wire, file, ((part + nth) % 64) << 20, 1 << 20)).collect();
            wire.send(&calls);
            wire
        })
        .collect();
    // The filer waits for its peers if no READ was executed for a while.
    let reads = || filer.calls("READ");
    let mut before = reads();
    await_until("the filer to wait for its peers", Duration::from_secs(60), || {
        std::thread::sleep(Duration::from_millis(300));
        (std::mem::replace(&mut before, reads()) == before).then_some(())
    });
    let bytes = filer.resident();
    println!("24 peers that take nothing: {} MiB resident", bytes >> 20);
    assert!(bytes < 128 << 20, "{bytes} bytes resident");
    other.write(file, 0, b"served", StableHow::FileSync);
    wires
}

fn await_connections(filer: &Filer, count: u64, limit: Duration) {
    await_until("connections to end", limit, || {
        (filer.admin(r#"{"op":"stats"}"#)["connections"].as_u64()? <= count).then_some(())
    });
}

/// Reads 2 KiB per second from each peer.
struct Trickle {
    stop: Sender<()>,
    work: JoinHandle<usize>,
}

impl Trickle {
    fn start(mut streams: Vec<TcpStream>) -> Self {
        let (stop, stopped) = channel();
        let work = std::thread::spawn(move || {
            let (mut taken, mut piece) = (0, [0; 2048]);
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                taken += streams.iter_mut().map(|stream| stream.read(&mut piece).unwrap_or(0)).sum::<usize>();
            }
            taken
        });
        Self { stop, work }
    }

    /// Ends the reading. Returns the number of bytes that were read.
    fn finish(self) -> usize {
        drop(self.stop);
        self.work.join().unwrap()
    }
}
