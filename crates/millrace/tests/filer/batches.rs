//! Calls that a worker executes together. Stable writes that wait for each other's flush share it,
//! and share its failure. On a volume without flushes, a worker executes all calls of a connection
//! together.

use crate::support::Scratch;
use crate::support::wire::{Wire, place, write_args};
use filer::exports::Exports;
use filer::policy::{Policy, Rights, Squash};
use filer::server::Server;
use filer::{Config, Export, Filer, Listener, ListenerRole};
use nfs_proto::nfs3::{CreateResult, FileHandle, MkDirArgs, NfsStatus, Procedure, SetAttr, StableHow, WriteResult};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use volume::faults::FaultSpec;
use volume::{Durability, Options, Volume};

const PAGE: usize = 4096;
const WRITES: u64 = 48;

/// A filer in this process, so that a test can read its volume and set faults in it.
pub(crate) struct FilerHere {
    pub volume: Volume,
    pub server: Arc<Server>,
    thread: Option<std::thread::JoinHandle<Result<(), volume::Error>>>,
    pub port: u16,
    pub scratch: Scratch,
}

impl FilerHere {
    pub(crate) fn new(options: Options) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), options)
    }

    pub(crate) fn on(socket: TcpListener, options: Options) -> Self {
        let scratch = Scratch::new("batches");
        let (dir, state_dir) = (scratch.folder("export"), scratch.folder("state"));
        let volume = Volume::open(volume::Config { dir, state_dir, loss: None, options }).unwrap();
        let port = socket.local_addr().unwrap().port();
        let policy = Policy::open(Rights { squash: Squash::None, ..Rights::default() });
        let exports = Exports::one(Export::new("vol", "/vol", volume.clone()), policy);
        let server = Server::new(
            Filer::new(Config { exports, only: None, port }),
            vec![Listener { socket, role: ListenerRole::Nfs }],
            None,
            filer::iscsi::Settings::default(),
        );
        let running = Arc::clone(&server);
        let thread = Some(std::thread::spawn(move || running.run()));
        Self { volume, server, thread, port, scratch }
    }

    /// Sends [`WRITES`] stable writes of one page each at once. Each page contains its number,
    /// counted from 1. Returns the result of each.
    fn write_at_once(&self, wire: &mut Wire, file: FileHandle) -> Vec<Result<u32, NfsStatus>> {
        let (mut bytes, mut sent) = (Vec::new(), BTreeSet::new());
        for n in 0..WRITES {
            let stable = if n % 3 == 0 { StableHow::FileSync } else { StableHow::DataSync };
            let page = [n as u8 + 1; PAGE];
            bytes.extend(wire.nfs_record(Procedure::Write, &write_args(file, n * PAGE as u64, &page, stable)));
            sent.insert(wire.xid);
        }
        wire.send(&bytes);
        let answer = |_| {
            let reply = wire.receive();
            assert!(sent.remove(&reply.header().xid.0), "each call is answered once");
            reply.results::<WriteResult>().map(|ok| ok.count).map_err(|failure| failure.status)
        };
        (0..WRITES).map(answer).collect()
    }
}

impl Drop for FilerHere {
    fn drop(&mut self) {
        self.server.stop();
        let ended = self.thread.take().unwrap().join();
        // A poisoned volume reports that at its end. The test checks the error itself.
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

#[test]
fn writes_that_wait_for_a_slow_flush_share_the_next_one() {
    let filer = FilerHere::new(Options::default());
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    filer.volume.set_fault(FaultSpec::parse("slow-flush,delay_ms=50").unwrap()).unwrap();
    let before = filer.volume.counters();
    let answers = filer.write_at_once(&mut wire, file);
    assert!(answers.iter().all(|answer| *answer == Ok(PAGE as u32)), "{answers:?}");
    let after = filer.volume.counters();
    assert_eq!(after.stable_writes - before.stable_writes, WRITES);
    // Two flushes begin at once with the writes that have arrived. Writes that arrive meanwhile
    // share the next flushes.
    let flushes = after.data_flushes - before.data_flushes;
    assert!(flushes <= WRITES / 4, "{flushes} flushes for {WRITES} writes");
    assert_eq!(flushes + after.shared_flushes - before.shared_flushes, WRITES);
    let expected: Vec<u8> = (1..=WRITES as u8).flat_map(|n| [n; PAGE]).collect();
    assert!(std::fs::read(filer.scratch.folder("export").join("f")).unwrap() == expected);
}

#[test]
fn a_flush_that_fails_fails_every_write_that_waited_for_it() {
    let filer = FilerHere::new(Options::default());
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    let verifier = wire.write(file, 0, &[0; PAGE], StableHow::FileSync).verifier;
    filer.volume.set_fault(FaultSpec::parse("eio,on=flush").unwrap()).unwrap();
    let answers = filer.write_at_once(&mut wire, file);
    assert!(answers.iter().all(|answer| *answer == Err(NfsStatus::Io)), "{answers:?}");
    assert!(filer.volume.is_poisoned());
    assert_ne!(filer.volume.verifier(), verifier.0, "clients with unstable data there must learn of it");
    filer.volume.faults().clear(None);
    let later = wire.try_write(file, 0, &[9; PAGE], StableHow::FileSync);
    assert_eq!(later.map_err(|failure| failure.status).map(|ok| ok.count), Err(NfsStatus::Io), "until it is opened anew");
}

#[test]
fn by_battery_calls_that_come_together_are_each_answered_once_and_flush_nothing() {
    let filer = FilerHere::new(Options { durability: Durability::Battery, ..Options::default() });
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    let answers = filer.write_at_once(&mut wire, file);
    assert!(answers.iter().all(|answer| *answer == Ok(PAGE as u32)), "{answers:?}");
    let names: Vec<String> = (0..WRITES).map(|n| format!("n{n}")).collect();
    let (mut bytes, mut sent) = (Vec::new(), BTreeSet::new());
    for name in &names {
        let what = MkDirArgs { place: place(root, name), attributes: SetAttr::default() };
        bytes.extend(wire.nfs_record(Procedure::MkDir, &what));
        sent.insert(wire.xid);
    }
    wire.send(&bytes);
    for _ in &names {
        let reply = wire.receive();
        assert!(sent.remove(&reply.header().xid.0), "each call is answered once");
        assert!(reply.results::<CreateResult>().is_ok());
    }
    let export = filer.scratch.folder("export");
    assert!(names.iter().all(|name| export.join(name).is_dir()));
    let counted = filer.volume.counters();
    assert_eq!((counted.flushes, counted.stable_writes), (0, WRITES));
}

#[test]
fn by_battery_a_delayed_reply_is_late_though_its_call_came_with_others() {
    let filer = FilerHere::new(Options { durability: Durability::Battery, ..Options::default() });
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    let delay = Duration::from_millis(100);
    filer.volume.set_fault(FaultSpec::parse("delay-reply,delay_ms=100").unwrap()).unwrap();
    let began = Instant::now();
    let answers = filer.write_at_once(&mut wire, file);
    assert!(answers.iter().all(|answer| *answer == Ok(PAGE as u32)), "{answers:?}");
    assert!(began.elapsed() >= delay, "{:?}", began.elapsed());
}
