//! All sorts of concurrent writes and reads of the same pages of one file. No call fails, and every
//! read returns what a register may contain, in every cache mode and with any number of writes that
//! share a flush.
//!
//! `MILLRACE_E2E_SEEDS` rounds for each mode (2 by default). Each seed above 2 adds at least 11 s
//! of rounds to each mode, so the 20 of `make nightly` take ten minutes. `MILLRACE_SEED` replays
//! one round.

use crate::support::filer::Filer;
use crate::support::wire::{Reply, Wire, write_args};
use crate::support::{Scratch, environment_number, seed_count};
use nfs_proto::nfs3::{CommitArgs, CommitResult, FileHandle, Procedure, ReadArgs, ReadResult, StableHow, WriteResult};
use sim::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Bytes that are written, read and judged together: half a page, so that writes also meet inside pages.
const CELL: usize = 2048;
const CELLS: usize = 32;
const CLIENTS: u64 = 4;
/// Maximum number of calls sent together, some of which then share a flush.
const BURST_MAX: u64 = 8;
const BURSTS: u64 = 40;
/// Time for each mode and each seed above the default: three modes and 18 more seeds take ten minutes.
const SEED_TIME: Duration = Duration::from_secs(11);
const SEEDS_DEFAULT: u64 = 2;

/// A value that was written to a cell, and the times of the write.
#[derive(Clone, Copy)]
struct Put {
    value: u64,
    from: Instant,
    to: Instant,
}

/// Values that were read from a cell, and the times of the read.
struct Seen {
    cell: usize,
    values: BTreeSet<u64>,
    from: Instant,
    to: Instant,
}

/// The writes and reads of one client.
#[derive(Default)]
struct Log {
    puts: Vec<(usize, Put)>,
    seen: Vec<Seen>,
}

enum Sent {
    Write { cells: std::ops::Range<usize>, value: u64 },
    Read { cells: std::ops::Range<usize> },
    Commit,
}

#[test]
fn mixed_writes_and_reads_of_one_file_meet_no_error_and_read_as_a_register() {
    let one = environment_number("MILLRACE_SEED");
    let seeds = seed_count();
    let time = SEED_TIME * u32::try_from(seeds.saturating_sub(SEEDS_DEFAULT)).unwrap();
    for mode in ["cached", "write-around", "direct", "dropbehind"] {
        let scratch = Scratch::new("register");
        let mut filer = Filer::start(&scratch, &["--cache", mode]);
        let mut wire = Wire::connect(filer.port);
        let root = wire.root();
        let file = wire.create(root, "f");
        wire.write(file, 0, &[0; CELL * CELLS], StableHow::FileSync);
        let before = filer.admin(r#"{"op":"stats"}"#);
        let begun = Instant::now();
        let rounds = |seed: &u64| one.is_none() && (*seed <= seeds || begun.elapsed() < time);
        for seed in one.into_iter().chain((1..).take_while(rounds)) {
            println!("{mode}, MILLRACE_SEED={seed}");
            round(&filer, file, seed);
        }
        let after = filer.admin(r#"{"op":"stats"}"#);
        assert_eq!((&after["verifier"], &after["loss_epoch"]), (&before["verifier"], &before["loss_epoch"]), "{mode}");
        assert_eq!(after["cache"], mode);
        for procedure in ["WRITE", "READ", "COMMIT"] {
            assert_eq!(after["procedures"][procedure]["errors"], 0, "{mode}: {procedure}");
        }
        println!(
            "{mode}: {} durable writes, {} direct, {} flushes",
            after["stable_writes"], after["direct_writes"], after["flushes"]
        );
        // If the kernel reported a false error for a healthy file, the last flush would find it.
        assert_eq!(filer.stop(), Some(0), "{mode}");
        std::fs::File::open(filer.export().join("f")).unwrap().sync_all().unwrap();
    }
}

/// Lets the clients work on the file, then judges what they read.
fn round(filer: &Filer, file: FileHandle, seed: u64) {
    let begun = Instant::now();
    let mut first = Wire::connect(filer.port);
    let start = look(&mut first, file);
    let logs: Vec<Log> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || run(filer.port, file, Rng::new(seed * 1000 + client), seed, client)))
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let mut puts: BTreeMap<usize, Vec<Put>> = BTreeMap::new();
    for (cell, values) in start {
        puts.insert(cell, values.into_iter().map(|value| Put { value, from: begun, to: begun }).collect());
    }
    let mut seen: Vec<Seen> = Vec::new();
    for log in logs {
        log.puts.into_iter().for_each(|(cell, put)| puts.entry(cell).or_default().push(put));
        seen.extend(log.seen);
    }
    let ended = Instant::now();
    seen.extend(look(&mut first, file).into_iter().map(|(cell, values)| Seen { cell, values, from: ended, to: Instant::now() }));
    for seen in &seen {
        for value in &seen.values {
            if let Err(why) = judge(&puts[&seen.cell], *value, seen) {
                let story = story(&puts[&seen.cell], seen, begun);
                let now = std::fs::read(filer.export().join("f")).unwrap();
                let now = values_of(&now[seen.cell * CELL..][..CELL]);
                panic!("cell {} held {value:#x}: {why}; the file holds {now:x?} now\n{story}", seen.cell);
            }
        }
    }
    assert!(seen.len() > CELLS * 4, "{} cells looked at", seen.len());
}

/// Whether a read may return this value: its write had begun before the read ended, and no later
/// write had ended before the read began. A read during a write may return a torn word: its first
/// bytes of one value and the others of another, both of which it may return.
fn judge(puts: &[Put], value: u64, seen: &Seen) -> Result<(), &'static str> {
    match puts.iter().find(|put| put.value == value) {
        Some(put) => judge_put(puts, put, seen),
        None => {
            let fits = |part: u64| puts.iter().any(|put| (put.value ^ value) & part == 0 && judge_put(puts, put, seen).is_ok());
            let torn = (1..8).any(|bytes| fits(u64::MAX << (8 * bytes)) && fits(!(u64::MAX << (8 * bytes))));
            torn.then_some(()).ok_or("nobody wrote that")
        }
    }
}

fn judge_put(puts: &[Put], put: &Put, seen: &Seen) -> Result<(), &'static str> {
    if put.from > seen.to {
        return Err("it was written only after it was read");
    }
    if puts.iter().any(|later| later.from > put.to && later.to < seen.from) {
        return Err("it had been overwritten before it was read");
    }
    Ok(())
}

/// The writes to a cell around the time of a read, in microseconds since the beginning of the round.
fn story(puts: &[Put], seen: &Seen, begun: Instant) -> String {
    let us = |moment: Instant| moment.saturating_duration_since(begun).as_micros();
    let mut puts: Vec<&Put> = puts.iter().collect();
    puts.sort_by_key(|put| put.from);
    let lines = puts.iter().map(|put| format!("{:>9} to {:>9} written {:#x}\n", us(put.from), us(put.to), put.value));
    format!("{:>9} to {:>9} read {:x?}\n{}", us(seen.from), us(seen.to), seen.values, lines.collect::<String>())
}

/// The values of all cells while no call is in progress.
fn look(wire: &mut Wire, file: FileHandle) -> Vec<(usize, BTreeSet<u64>)> {
    let reply = wire.nfs(Procedure::Read, &ReadArgs { file, offset: 0, count: (CELL * CELLS) as u32 });
    cells_of(&reply, 0..CELLS)
}

fn cells_of(reply: &Reply, cells: std::ops::Range<usize>) -> Vec<(usize, BTreeSet<u64>)> {
    let results: ReadResult<'_> = reply.results();
    let data = results.unwrap_or_else(|failure| panic!("a read failed: {:?}", failure.status)).data.0;
    assert_eq!(data.len(), cells.len() * CELL);
    cells.zip(data.chunks(CELL).map(values_of)).collect()
}

/// The values of one cell.
fn values_of(cell: &[u8]) -> BTreeSet<u64> {
    cell.chunks_exact(8).map(|word| u64::from_be_bytes(word.try_into().unwrap())).collect()
}

/// Runs one client, which sends bursts of calls and receives all replies of a burst before the next.
fn run(port: u16, file: FileHandle, mut rng: Rng, seed: u64, client: u64) -> Log {
    let mut wire = Wire::connect(port);
    let mut log = Log::default();
    let mut count = 0;
    for _ in 0..BURSTS {
        let (mut bytes, mut sent) = (Vec::new(), BTreeMap::new());
        for _ in 0..=rng.below(BURST_MAX) {
            count += 1;
            let value = (seed << 32) | (client << 24) | count;
            let (record, what) = next_call(&mut wire, file, &mut rng, value);
            bytes.extend(record);
            sent.insert(wire.xid, what);
        }
        let from = Instant::now();
        wire.send(&bytes);
        while !sent.is_empty() {
            let reply = wire.receive();
            let to = Instant::now();
            match sent.remove(&reply.header().xid.0).expect("a reply to one of the calls") {
                Sent::Write { cells, value } => {
                    let written: WriteResult = reply.results();
                    let written = written.unwrap_or_else(|failure| panic!("a write failed: {:?}", failure.status));
                    assert_eq!(written.count as usize, cells.len() * CELL);
                    log.puts.extend(cells.map(|cell| (cell, Put { value, from, to })));
                }
                Sent::Read { cells } => {
                    let found = cells_of(&reply, cells).into_iter();
                    log.seen.extend(found.map(|(cell, values)| Seen { cell, values, from, to }));
                }
                Sent::Commit => {
                    let committed: CommitResult = reply.results();
                    committed.unwrap_or_else(|failure| panic!("a commit failed: {:?}", failure.status));
                }
            }
        }
    }
    log
}

fn next_call(wire: &mut Wire, file: FileHandle, rng: &mut Rng, value: u64) -> (Vec<u8>, Sent) {
    // Mostly whole pages, so that some transfers are direct; sometimes cells across two pages.
    let (start, len) = if rng.below(4) > 0 {
        let page = rng.below(CELLS as u64 / 2) as usize;
        (page * 2, 2 * (1 + rng.below(2) as usize))
    } else {
        (rng.below(CELLS as u64) as usize, 1 + rng.below(3) as usize)
    };
    let cells = start..(start + len).min(CELLS);
    let (offset, bytes) = ((cells.start * CELL) as u64, cells.len() * CELL);
    match rng.below(10) {
        0..=2 => (wire.nfs_record(Procedure::Read, &ReadArgs { file, offset, count: bytes as u32 }), Sent::Read { cells }),
        3 => (wire.nfs_record(Procedure::Commit, &CommitArgs { file, offset: 0, count: 0 }), Sent::Commit),
        sort => {
            let stable = match sort {
                4 => StableHow::Unstable,
                5..=7 => StableHow::FileSync,
                _ => StableHow::DataSync,
            };
            let data: Vec<u8> = value.to_be_bytes().into_iter().cycle().take(bytes).collect();
            (wire.nfs_record(Procedure::Write, &write_args(file, offset, &data, stable)), Sent::Write { cells, value })
        }
    }
}

#[test]
fn the_judge_knows_a_stale_read_and_one_from_the_future() {
    let begun = Instant::now();
    let at = |ms: u64| begun + std::time::Duration::from_millis(ms);
    let puts = [(1, 0, 10), (2, 20, 30), (3, 25, 50)].map(|(value, from, to)| Put { value, from: at(from), to: at(to) });
    let seen = |from: u64, to: u64| Seen { cell: 0, values: BTreeSet::new(), from: at(from), to: at(to) };
    assert!(judge(&puts, 1, &seen(15, 24)).is_ok() && judge(&puts, 2, &seen(15, 24)).is_ok());
    assert!(judge(&puts, 1, &seen(31, 40)).is_err(), "overwritten");
    assert!(judge(&puts, 2, &seen(60, 70)).is_ok(), "of two writes at once either may be the last");
    assert!(judge(&puts, 3, &seen(5, 15)).is_err(), "not written yet");
    assert!(judge(&puts, 4, &seen(5, 15)).is_err(), "never written");
    let puts = [(0x0101, 0, 10), (0x0202, 20, 30)].map(|(value, from, to)| Put { value, from: at(from), to: at(to) });
    assert!(judge(&puts, 0x0201, &seen(22, 24)).is_ok() && judge(&puts, 0x0102, &seen(22, 24)).is_ok(), "torn beside a write");
    assert!(judge(&puts, 0x0201, &seen(40, 50)).is_err(), "nobody writes: no word is torn");
}
