//! Written data is kept until a COMMIT covers it. If a server loses it and shows that by another
//! verifier, the client resends the data.

use crate::mounted::{Description, MAKE, Mounted, READ_WRITE, attach, open, report_ready};
use dnfs::mount::{Mount, Observer};
use dnfs::{FsError, LazyBuffer, Stability};
use std::io::IoSlice;
use std::process::Command;
use std::time::{Duration, Instant};

const LOSS: &[&str] = &["--loss-layer"];
/// Number of blocks of the file that several processes write to, and bytes of a block: not the size
/// of a chunk, nor a multiple of it.
const BLOCKS: u64 = 200;
const BLOCK_BYTES: usize = 5000;

/// Pseudo-random numbers, the same for each seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random(seed * 2 + 1);
    (0..length).map(|_| random.below(256) as u8).collect()
}

fn whole(file: &Description<'_>) -> Vec<u8> {
    let size = file.mount.size(file.file) as usize;
    (0..size.div_ceil(1 << 20)).flat_map(|piece| file.read(piece as u64 * (1 << 20), 1 << 20)).collect()
}

#[test]
fn what_was_written_survives_a_power_cut_and_nobody_gets_an_error() {
    let mounted = Mounted::new("kept", LOSS);
    let file = open(&mounted.mount, "data", &MAKE);
    let bytes = pattern(1, 3_000_000);
    file.write(0, &bytes);
    let kept = || Observer::at(mounted.mount.runtime_dir()).unwrap().unwrap().retained().bytes;
    assert_eq!(kept(), 3_000_000);
    mounted.power_cut();
    file.sync().unwrap();
    assert_eq!(kept(), 0);
    assert_eq!(whole(&file), bytes);
    mounted.power_cut();
    assert_eq!(whole(&file), bytes, "stable now");
    file.sync().unwrap();
}

#[test]
fn the_data_of_a_process_that_ended_or_was_killed_is_sent_again_by_another() {
    let mounted = Mounted::new("ended", LOSS);
    let file = open(&mounted.mount, "data", &MAKE);
    mounted.worker("worker_writes_and_ends", "data").finish();
    let mut killed = mounted.worker("worker_writes_and_waits", "data");
    killed.await_ready();
    killed.kill();
    mounted.power_cut();
    file.sync().unwrap();
    assert_eq!(whole(&file), [pattern(2, 100_000), pattern(3, 50_000)].concat());
}

fn worker_writes_and_ends(mount: &Mount, path: &str) {
    open(mount, path, &READ_WRITE).write(0, &pattern(2, 100_000));
}

fn worker_writes_and_waits(mount: &Mount, path: &str) {
    let file = open(mount, path, &READ_WRITE);
    file.write(100_000, &pattern(3, 50_000));
    report_ready();
}

#[test]
fn a_read_and_a_size_after_a_power_cut_are_those_of_the_last_write_before_any_sync() {
    for query in ["", "&noac"] {
        let mounted = Mounted::with_query("read", LOSS, query);
        let file = open(&mounted.mount, "data", &MAKE);
        file.write(0, &[1; 20_000]);
        file.sync().unwrap();
        file.write(10_000, &[2; 20_000]);
        mounted.power_cut();
        assert_eq!(file.read(9_999, 3), [1, 2, 2]);
        mounted.power_cut();
        assert_eq!(mounted.mount.size(file.file), 30_000);
        assert_eq!(mounted.mount.attr(file.file).unwrap().size, 30_000);
        mounted.power_cut();
        let reader = attach(&mounted.url);
        assert_eq!(open(&reader, "data", &READ_WRITE).read(29_999, 10), [2], "another process' first read");
    }
}

#[test]
fn of_overlapping_writes_of_several_processes_the_last_one_stays_the_last() {
    let mounted = Mounted::new("order", LOSS);
    let file = open(&mounted.mount, "data", &MAKE);
    file.write(BLOCKS * BLOCK_BYTES as u64, b"end");
    let workers: Vec<_> = (1..=4).map(|seed| mounted.worker("worker_overwrites", &seed.to_string())).collect();
    workers.into_iter().for_each(crate::mounted::Worker::finish);
    let before = whole(&file);
    mounted.power_cut();
    assert_eq!(whole(&file), before);
    file.sync().unwrap();
    assert_eq!(whole(&file), before);
}

fn worker_overwrites(mount: &Mount, seed: &str) {
    let file = open(mount, "data", &READ_WRITE);
    let mut random = Random(seed.parse::<u64>().unwrap() * 77);
    for round in 0..100 {
        let length = 1 + random.below(40_000) as usize;
        let offset = random.below(BLOCKS * BLOCK_BYTES as u64 - 40_000);
        file.write(offset, &pattern(random.below(1 << 30) + round, length));
    }
}

#[test]
fn what_was_cut_off_does_not_come_back_and_what_was_written_after_it_does() {
    let mounted = Mounted::new("truncated", LOSS);
    let file = open(&mounted.mount, "data", &MAKE);
    file.write(0, &[1; 100_000]);
    mounted.mount.truncate(file.file, 30_001).unwrap();
    mounted.power_cut();
    assert_eq!(whole(&file), vec![1; 30_001]);
    file.write(0, &[2; 50_000]);
    mounted.mount.truncate(file.file, 10).unwrap();
    file.write(40_000, &[3; 10]);
    mounted.power_cut();
    file.sync().unwrap();
    let expected = [vec![2; 10], vec![0; 39_990], vec![3; 10]].concat();
    assert_eq!(whole(&file), expected);
}

#[test]
fn an_area_smaller_than_what_is_written_means_earlier_commits_and_no_loss() {
    let mounted = Mounted::with_query("small", LOSS, "&retain=1MiB");
    let (one, two) = (open(&mounted.mount, "one", &MAKE), open(&mounted.mount, "two", &MAKE));
    let bytes = pattern(9, 700_000);
    for round in 0..8 {
        one.write(round * 700_000, &bytes);
        for small in 0..40 {
            two.write(round * 4000 + small * 100, &bytes[..100]);
        }
        if round % 3 == 2 {
            mounted.power_cut();
        }
    }
    assert!(mounted.mount.totals().commit_calls > 3);
    mounted.power_cut();
    one.sync().unwrap();
    two.sync().unwrap();
    assert_eq!(whole(&one), bytes.repeat(8));
    assert_eq!(whole(&two), bytes[..100].repeat(320));
}

/// The parts of a large write after a refused one may never be sent. They must not be kept or use memory.
#[test]
fn a_write_that_the_server_refuses_in_its_midst_keeps_what_was_written_and_no_more() {
    for query in ["&retain=2MiB&slots=1&wsize=64KiB", "&retain=2MiB&wsize=64KiB"] {
        let mounted = Mounted::with_query("refused-midst", LOSS, query);
        let file = open(&mounted.mount, "data", &MAKE);
        let kept = || Observer::at(mounted.mount.runtime_dir()).unwrap().unwrap().retained().bytes;
        let bytes = pattern(4, 1 << 20);
        let refuse = r#"{"op":"fault-add","fault":{"kind":"enospc","on":["write"],"offset":200000,"length":1}}"#;
        assert_eq!(mounted.filer.admin(refuse)["ok"], true);
        for _ in 0..20 {
            let written = mounted.mount.write(file.file, 0, &[IoSlice::new(&bytes)], Stability::Unstable).unwrap();
            assert_eq!(written, 3 << 16, "the fourth part is refused");
        }
        assert_eq!(kept() % (3 << 16), 0);
        file.sync().unwrap();
        assert_eq!(kept(), 0);
        assert_eq!(mounted.filer.admin(r#"{"op":"fault-clear"}"#)["ok"], true);
        file.write(0, &bytes);
        assert_eq!(kept(), 1 << 20, "all chunks are there to be used");
        mounted.power_cut();
        file.sync().unwrap();
        assert_eq!(whole(&file), bytes);
    }
}

/// A source may have less data than it seemed to have when its write began. The write has taken
/// chunks for all of it.
#[test]
fn of_a_source_that_ends_early_nothing_but_what_was_read_is_written_and_kept() {
    for query in ["", "&wsize=100000", "&slots=1", "&retain=1MiB", "&retain=0&stable=always"] {
        let mounted = Mounted::with_query("early-end", LOSS, query);
        let file = open(&mounted.mount, "data", &MAKE);
        file.write(0, &[0xff; 1 << 20]); // old contents of chunks that are used again
        file.sync().unwrap();
        let bytes = pattern(5, 1 << 20);
        for length in [1, 8192, 100_000, 131_072, 300_001, 700_000, (1 << 20) - 1, 1 << 20] {
            let copy = open(&mounted.mount, &format!("copy-{length}"), &MAKE);
            let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
            let mut read = |to: &mut [u8]| {
                let count = to.len().min(5000).min(length - at);
                to[..count].copy_from_slice(&bytes[at..at + count]);
                at += count;
                count
            };
            let mut lazy = LazyBuffer::new(&mut buffer, &mut read);
            let written = mounted.mount.write_from(copy.file, 3, &mut lazy, Stability::Unstable).unwrap();
            assert_eq!((written, lazy.filled()), (length, length), "{query}");
            mounted.power_cut();
            copy.sync().unwrap();
            assert_eq!(whole(&copy), [&[0; 3], &bytes[..length]].concat(), "{query} {length}");
            let host = std::fs::read(mounted.filer.export().join(format!("copy-{length}"))).unwrap();
            assert_eq!(host.len(), length + 3, "{query}");
        }
    }
}

#[test]
fn stable_writes_over_retained_ones_are_not_undone_by_a_resend() {
    let mounted = Mounted::new("stable", LOSS);
    let file = open(&mounted.mount, "data", &MAKE);
    file.write(0, &[1; 30_000]);
    file.write_stable(10_000, &[2; 100]);
    mounted.power_cut();
    assert_eq!(file.read(10_000, 100), [2; 100]);
    file.sync().unwrap();
    assert_eq!(whole(&file), [vec![1; 10_000], vec![2; 100], vec![1; 19_900]].concat());
}

#[test]
fn data_that_cannot_be_sent_again_is_the_error_of_fsync_and_nothing_is_made_anew() {
    let mounted = Mounted::new("refused", LOSS);
    let (gone, other) = (open(&mounted.mount, "gone", &MAKE), open(&mounted.mount, "other", &MAKE));
    gone.write(0, &[1; 1000]);
    other.write(0, &[2; 1000]);
    std::fs::remove_file(mounted.filer.export().join("gone")).unwrap();
    mounted.power_cut();
    assert!(gone.sync().is_err());
    other.sync().unwrap();
    assert_eq!(whole(&other), [2; 1000]);
    assert!(!mounted.host_names().contains(&"gone".into()));
}

#[test]
fn a_full_volume_at_a_resend_is_enospc_of_fsync() {
    let mounted = Mounted::new("full-at-resend", LOSS);
    // One fault refuses all of a resend, the other the end of it.
    for (name, offset) in [("all", 0), ("end", 900_000)] {
        let file = open(&mounted.mount, name, &MAKE);
        file.write(0, &pattern(4, 1 << 20));
        let full = format!(
            r#"{{"op":"fault-add","fault":{{"kind":"enospc","on":["write"],"path":"{name}","offset":{offset},"length":1000000}}}}"#
        );
        assert_eq!(mounted.filer.admin(&full)["ok"], true);
        mounted.power_cut();
        assert_eq!(file.sync().unwrap_err().fs_error(), Some(FsError::NoSpace), "{name}");
        assert_eq!(mounted.filer.admin(r#"{"op":"fault-clear"}"#)["ok"], true);
        file.sync().unwrap();
    }
}

#[test]
fn power_cuts_under_writers_readers_and_syncs_of_several_processes_lose_nothing() {
    let mounted = Mounted::new("many", LOSS);
    open(&mounted.mount, "data", &MAKE).write(BLOCKS * BLOCK_BYTES as u64 * 4, b"end");
    let workers: Vec<_> = (0..4).map(|number| mounted.worker("worker_checks_its_blocks", &number.to_string())).collect();
    let begun = Instant::now();
    let mut cuts = 0;
    while begun.elapsed() < Duration::from_secs(4) {
        mounted.power_cut();
        cuts += 1;
        let calls = mounted.filer.calls("WRITE");
        while mounted.filer.calls("WRITE") < calls + 50 && begun.elapsed() < Duration::from_secs(30) {}
    }
    workers.into_iter().for_each(crate::mounted::Worker::finish);
    assert!(cuts > 5, "{cuts} cuts");
}

/// Writes, syncs and reads its own blocks, every fourth one, until its input ends. Each read must
/// return the last write.
fn worker_checks_its_blocks(mount: &Mount, number: &str) {
    let file = open(mount, "data", &READ_WRITE);
    let number: u64 = number.parse().unwrap();
    let mut random = Random(number + 5);
    let mut written = vec![0; BLOCKS as usize];
    let ended = std::thread::spawn(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    while !ended.is_finished() {
        let block = random.below(BLOCKS);
        let offset = (block * 4 + number) * BLOCK_BYTES as u64;
        match random.below(20) {
            0 => file.sync().unwrap(),
            1..8 => {
                let expected = match written[block as usize] {
                    0 => vec![0; BLOCK_BYTES],
                    seed => pattern(seed, BLOCK_BYTES),
                };
                assert_eq!(file.read(offset, BLOCK_BYTES), expected, "block {block} of {number}");
            }
            _ => {
                let seed = random.below(1 << 40) + 1;
                file.write(offset, &pattern(seed, BLOCK_BYTES));
                written[block as usize] = seed;
            }
        }
    }
    file.sync().unwrap();
}

#[test]
fn writers_killed_at_any_moment_leave_nothing_locked_and_nothing_wrong() {
    let mounted = Mounted::new("killed", LOSS);
    let file = open(&mounted.mount, "data", &MAKE);
    file.write(BLOCKS * BLOCK_BYTES as u64 * 4, b"end");
    let mut random = Random(11);
    for round in 0..20 {
        let mut workers: Vec<_> =
            (0..2).map(|number| mounted.worker("worker_says_ready_and_checks", &number.to_string())).collect();
        workers.iter_mut().for_each(crate::mounted::Worker::await_ready);
        if round % 3 == 0 {
            mounted.power_cut();
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        workers.into_iter().for_each(crate::mounted::Worker::kill);
        let own = pattern(round + 1, BLOCK_BYTES);
        file.write(3 * BLOCK_BYTES as u64, &own);
        mounted.power_cut();
        assert_eq!(file.read(3 * BLOCK_BYTES as u64, BLOCK_BYTES), own);
        file.sync().unwrap();
    }
}

/// A process is killed in a write that the server may or may not have received. The newer,
/// committed data of other processes stays.
#[test]
fn what_a_killed_writer_left_never_comes_back_over_what_others_committed_after_it() {
    for cut_before in [false, true] {
        let mounted = Mounted::new("killed-over", LOSS);
        let file = open(&mounted.mount, "data", &MAKE);
        file.write(0, &[0; BLOCK_BYTES]);
        file.sync().unwrap();
        let mut killed = mounted.worker("worker_overwrites_one_block", "data");
        killed.await_ready();
        let kept = || Observer::at(mounted.mount.runtime_dir()).unwrap().unwrap().retained().bytes;
        let pid = mounted.filer.pid().to_string();
        crate::support::succeed(Command::new("kill").args(["-STOP", &pid]));
        // The writer waits for a reply if it keeps no more data than a moment ago.
        crate::support::await_until("the writer to be inside a write", Duration::from_secs(20), || {
            let before = kept();
            std::thread::sleep(Duration::from_millis(50)); // as long as some hundred writes take
            (before > 0 && kept() == before).then_some(())
        });
        killed.kill();
        crate::support::succeed(Command::new("kill").args(["-CONT", &pid]));
        if cut_before {
            mounted.power_cut();
        }
        let newer = pattern(7, BLOCK_BYTES);
        file.write(0, &newer);
        file.sync().unwrap();
        for _ in 0..2 {
            mounted.power_cut();
            assert_eq!(file.read(0, BLOCK_BYTES), newer, "cut before: {cut_before}");
            file.write(BLOCKS * BLOCK_BYTES as u64, b"elsewhere");
        }
        file.sync().unwrap();
        assert_eq!(std::fs::read(mounted.filer.export().join("data")).unwrap()[..BLOCK_BYTES], newer);
    }
}

fn worker_overwrites_one_block(mount: &Mount, name: &str) {
    let file = open(mount, name, &READ_WRITE);
    println!("ready");
    for seed in 1.. {
        file.write(0, &pattern(seed + 100, BLOCK_BYTES));
    }
}

fn worker_says_ready_and_checks(mount: &Mount, number: &str) {
    open(mount, "data", &READ_WRITE).write(number.parse::<u64>().unwrap() * BLOCK_BYTES as u64, &[0; BLOCK_BYTES]);
    println!("ready");
    worker_overwrites_for_ever(mount, number.parse().unwrap());
}

fn worker_overwrites_for_ever(mount: &Mount, number: u64) {
    let file = open(mount, "data", &READ_WRITE);
    let mut random = Random(number + 9);
    loop {
        let offset = (random.below(BLOCKS) * 4 + number) * BLOCK_BYTES as u64;
        file.write(offset, &pattern(random.below(1 << 40) + 1, BLOCK_BYTES));
        if random.below(10) == 0 {
            mount.truncate(file.file, BLOCKS * BLOCK_BYTES as u64 * 4 + random.below(100)).unwrap();
        }
    }
}

workers!(
    worker_writes_and_ends,
    worker_writes_and_waits,
    worker_overwrites,
    worker_checks_its_blocks,
    worker_overwrites_one_block,
    worker_says_ready_and_checks
);
