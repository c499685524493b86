//! What reaches the caller is right whatever happens on the way: cuts, lost and shuffled replies, fragments, garbage.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test")]

mod script;

use dnfs::{EndpointIndex, Error, FileHandle, Stability, Work, WriteVerifier};
use nfs_proto::nfs3::Procedure;
use script::{Fault, Server, once};
use sim::Rng;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Seeds tried at a time: lost replies are waited for, hardly anything is computed.
const LANES: usize = 16;

/// Reads into buffers cut at random places.
fn read(client: &dnfs::Client, file: &FileHandle, offset: u64, count: usize, rng: &mut Rng) -> (Vec<u8>, bool) {
    let mut bytes = vec![0xaa; count];
    let done = {
        let mut parts = Vec::new();
        let mut rest = &mut bytes[..];
        while !rest.is_empty() {
            let (part, tail) = rest.split_at_mut(1 + rng.index(rest.len()));
            parts.push(IoSliceMut::new(part));
            rest = tail;
        }
        client.read(file, offset, &mut parts).unwrap()
    };
    bytes.truncate(done.bytes);
    (bytes, done.eof)
}

fn any_fault(rng: &mut Rng) -> Fault {
    match rng.below(16) {
        0 => Fault::Lose,
        1 => Fault::Ignore,
        2 => Fault::Cut(rng.index(400)),
        3 => Fault::Split(20 + rng.index(2000)),
        4 => Fault::Drip(50 + rng.index(500)),
        5 => Fault::Stray,
        6 => Fault::Bare,
        7 => Fault::Short,
        _ => Fault::None,
    }
}

#[test]
fn reads_and_writes_agree_with_a_model_under_faults() {
    sim::sweep_at_once(32, LANES, |seed, mut rng| {
        let mut faults = rng.fork();
        let server = Server::start(seed, Box::new(move |_, _| any_fault(&mut faults)));
        let sizes = (512 << rng.below(6), 512 << rng.below(6), 1 + rng.below(16));
        let client = server.client(&format!("rsize={}&wsize={}&slots={}", sizes.0, sizes.1, sizes.2));
        let mut model = rng.bytes(30_000);
        let file = server.file(b"f", &model);
        for _ in 0..12 {
            let offset = rng.index(40_000);
            let count = rng.index(20_000);
            if rng.chance(1, 2) {
                let (got, eof) = read(&client, &file, offset as u64, count, &mut rng);
                let start = offset.min(model.len());
                let end = (start + count).min(model.len());
                assert_eq!(got, model[start..end], "seed {seed}: {count} bytes at {offset}");
                assert_eq!(eof, end == model.len(), "seed {seed}");
            } else {
                let data = rng.bytes(count);
                let cut = rng.index(count + 1);
                let parts = [IoSlice::new(&data[..cut]), IoSlice::new(&data[cut..])];
                let done = client.write(&file, offset as u64, &parts, Stability::Unstable).unwrap();
                assert_eq!((done.bytes, done.verifier_changed), (count, false));
                if count > 0 {
                    model.resize(model.len().max(offset + count), 0);
                    model[offset..offset + count].copy_from_slice(&data);
                }
                assert_eq!(client.commit(&file).unwrap().0, done.verifier);
            }
        }
        assert_eq!(server.state.lock().unwrap().objects[&2].data, model, "seed {seed}");
    });
}

#[test]
fn a_reply_cut_at_any_byte_is_asked_for_again() {
    let data: Vec<u8> = (0..=255).cycle().take(301).collect();
    let server = Server::start(1, Box::new(|_, _| Fault::None));
    let file = server.file(b"f", &data);
    let client = server.client("");
    for cut in 0..132 + 304 {
        server.plan(once(Procedure::Read, Fault::Cut(cut)));
        let (got, eof) = read(&client, &file, 0, 400, &mut Rng::new(cut as u64));
        assert_eq!((got.as_slice(), eof), (data.as_slice(), true), "cut at {cut}");
    }
    let counters = client.counters();
    assert_eq!(counters.resends, counters.reconnects);
    assert!(counters.resends >= 132 + 300, "{counters:?}");
}

#[test]
fn spoiled_replies_end_in_right_data_or_an_error() {
    sim::sweep_at_once(64, LANES, |seed, mut rng| {
        let data = rng.bytes(700);
        let server = Server::start(seed, Box::new(|_, _| Fault::None));
        let file = server.file(b"f", &data);
        let client = server.client("timeo=10&soft&retrans=1");
        // Behind the head anything is data, which nobody can tell from other data.
        let at = rng.index(132);
        server.plan(once(Procedure::Read, Fault::Spoil(at)));
        let mut got = vec![0; 700];
        match client.read(&file, 0, &mut [IoSliceMut::new(&mut got)]) {
            Ok(done) if done.bytes == 700 => assert_eq!(got, data, "seed {seed}: spoiled at {at}"),
            Ok(done) => panic!("seed {seed}: {} bytes, spoiled at {at}", done.bytes),
            Err(Error::Refused { .. } | Error::Fs(_) | Error::Protocol { .. }) => {}
            Err(error) => panic!("seed {seed}: {error}, spoiled at {at}"),
        }
        server.plan(Box::new(|_, _| Fault::None));
        assert_eq!(read(&client, &file, 0, 700, &mut rng).0, data, "seed {seed}: afterwards");
    });
}

#[test]
fn nothing_but_garbage_is_an_error_and_not_an_endless_loop() {
    let server = Server::start(1, Box::new(|_, _| Fault::Spoil(4 + 8)));
    let file = server.file(b"f", b"data");
    let error = server.client("").getattr(&file).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
}

#[test]
fn jukebox_is_waited_out() {
    let server = Server::start(1, once(Procedure::Read, Fault::JukeBox));
    let file = server.file(b"f", b"data");
    let client = server.client("");
    assert_eq!(read(&client, &file, 0, 4, &mut Rng::new(1)).0, b"data");
    assert_eq!((client.counters().read_calls, client.counters().resends), (2, 0));
    server.plan(once(Procedure::Write, Fault::JukeBox));
    let done = client.write(&file, 0, &[IoSlice::new(b"more")], Stability::FileSync).unwrap();
    assert_eq!((done.bytes, done.committed), (4, Stability::FileSync));
}

#[test]
fn a_verifier_that_changes_within_one_write_is_told() {
    // The third write ends the connection; the server that does it on the next one is another life.
    let server = Server::start(1, Box::new(|_, count| if count == 2 { Fault::Reboot } else { Fault::None }));
    let file = server.file(b"f", b"");
    let client = server.client("wsize=512&slots=1");
    let data = vec![7; 8 * 512];
    let done = client.write(&file, 0, &[IoSlice::new(&data)], Stability::Unstable).unwrap();
    let second = WriteVerifier { endpoint: EndpointIndex::FIRST, bytes: [9; 8] };
    assert_eq!((done.bytes, done.verifier, done.verifier_changed), (data.len(), second, true));
    assert_eq!(server.state.lock().unwrap().objects[&2].data, data);
    let again = client.write(&file, 0, &[IoSlice::new(&data)], Stability::Unstable).unwrap();
    assert!(!again.verifier_changed);
}

#[test]
fn a_server_that_comes_back_on_its_port_is_found_and_a_soft_mount_gives_up() {
    let server = Server::start(1, Box::new(|_, _| Fault::None));
    let file = server.file(b"f", b"data");
    let soft = server.client("soft&timeo=10&retrans=0");
    assert_eq!(soft.getattr(&file).unwrap().size, 4);
    server.plan(Box::new(|_, _| Fault::Ignore));
    let error = soft.getattr(&file).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    server.plan(Box::new(|_, count| if count % 4 == 0 { Fault::None } else { Fault::Ignore }));
    assert_eq!(server.client("").getattr(&file).unwrap().size, 4);
}

#[test]
fn pipelines_deliver_every_block_once_under_faults() {
    sim::sweep_at_once(32, LANES, |seed, mut rng| {
        let data = rng.bytes(64 * 512);
        let mut faults = rng.fork();
        let plan = Box::new(move |_, _| if faults.chance(1, 8) { any_fault(&mut faults) } else { Fault::None });
        let server = Server::start(seed, plan);
        let file = server.file(b"f", &data);
        let client = server.client("");
        let depth = 1 + rng.index(40);
        let mut pipeline = client.pipeline(&file, Work::Read, 512, depth, &[]).unwrap();
        let mut offsets = (0..64u64).map(|block| block * 512);
        let mut seen = [0u32; 64];
        let mut next = || offsets.next();
        let mut answered = |answer: &dnfs::Answer<'_>| {
            let at = answer.offset as usize;
            seen[at / 512] += 1;
            assert_eq!(answer.data, &data[at..at + answer.data.len()], "seed {seed}");
            assert!(answer.data.len() == 512 || answer.data.len() == 256, "seed {seed}");
        };
        pipeline.run(&mut next, &mut answered).unwrap();
        assert!(seen.iter().all(|&times| times == 1), "seed {seed}: {seen:?}");
    });
}

#[test]
fn threads_share_a_client_and_each_gets_its_own_answer() {
    let server = Server::start(1, Box::new(|_, _| Fault::None));
    let data: Vec<u8> = (0..64 * 512u32).map(|byte| (byte / 512) as u8).collect();
    let file = server.file(b"f", &data);
    let client = server.client("");
    std::thread::scope(|scope| {
        for block in 0..64u64 {
            let (client, file) = (&client, &file);
            scope.spawn(move || {
                let mut got = [0; 512];
                let done = client.read(file, block * 512, &mut [IoSliceMut::new(&mut got)]).unwrap();
                assert_eq!((done.bytes, got), (512, [block as u8; 512]));
            });
        }
    });
    assert!(server.connections.load(Ordering::Relaxed) <= 64);
    assert_eq!(client.counters().read_calls, 64);
}

#[test]
fn counters_only_go_up_while_another_thread_reads_them() {
    let server = Server::start(1, Box::new(|_, _| Fault::None));
    let file = server.file(b"f", b"data");
    let client = server.client("");
    let before = client.counters();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = client.counters();
            while !done.load(Ordering::Relaxed) {
                let now = client.counters();
                assert!(now.commit_calls >= last.commit_calls && now.other_calls == before.other_calls, "{last:?}, {now:?}");
                last = now;
            }
        });
        for _ in 0..300 {
            client.commit(&file).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(client.counters().commit_calls, before.commit_calls + 300);
}
