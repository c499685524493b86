//! Several processes that sync one file at the same time share COMMITs, and no sync returns before
//! its data is stable.

use crate::mounted::{MAKE, Mounted, READ_WRITE, Worker, open, report_ready};
use dnfs::mount::Mount;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PROCESSES: u64 = 8;
const BLOCK_BYTES: u64 = 8192;

/// The results of the worker of this number: successful syncs, and the value that the last of them covers.
fn told(notes: &Path, worker: u64) -> [u64; 2] {
    let mut bytes = [0; 16];
    let Ok(file) = std::fs::File::open(notes.join(worker.to_string())) else { return [0, 0] };
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return [0, 0];
    }
    [&bytes[..8], &bytes[8..]].map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
}

fn syncs(notes: &Path) -> u64 {
    (0..PROCESSES).map(|worker| told(notes, worker)[0]).sum()
}

fn await_syncs(notes: &Path, count: u64) {
    let begun = Instant::now();
    while syncs(notes) < count {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} of {count} syncs", syncs(notes));
        std::thread::yield_now();
    }
}

fn begin(mounted: &Mounted) -> (Vec<Worker>, PathBuf) {
    let notes = mounted.filer.admin.with_extension("notes");
    std::fs::create_dir_all(&notes).unwrap();
    drop(open(&mounted.mount, "log", &MAKE));
    let start = |worker| mounted.worker("worker_syncs", &format!("{worker} {}", notes.display()));
    let mut workers: Vec<_> = (0..PROCESSES).map(start).collect();
    workers.iter_mut().for_each(Worker::await_ready);
    (workers, notes)
}

fn assert_stable(mounted: &Mounted, notes: &Path) {
    let file = std::fs::File::open(mounted.filer.export().join("log")).unwrap();
    for worker in 0..PROCESSES {
        let mut found = [0; 8];
        file.read_exact_at(&mut found, worker * BLOCK_BYTES).unwrap();
        let ([_, value], found) = (told(notes, worker), u64::from_ne_bytes(found));
        assert!(found >= value, "process {worker} was told that {value} is stable, and {found} is there");
    }
}

#[test]
fn processes_that_sync_one_file_send_fewer_commits_than_syncs_and_lose_nothing_in_power_cuts() {
    let options = ["--loss-layer", "--fault", "slow-flush,delay_ms=2"];
    let mounted = Mounted::with_query("commits-shared", &options, "&retain=0");
    let (workers, notes) = begin(&mounted);
    for round in 1..=6 {
        await_syncs(&notes, round * 100);
        mounted.power_cut();
    }
    workers.into_iter().for_each(Worker::kill);
    mounted.power_cut();
    assert_stable(&mounted, &notes);
    let (commits, syncs, totals) = (mounted.filer.calls("COMMIT"), syncs(&notes), mounted.mount.totals());
    println!("{commits} COMMITs for {syncs} syncs");
    assert!(commits * 3 < syncs * 2, "{commits} COMMITs for {syncs} syncs");
    assert!(totals.commits_shared * 3 > syncs, "{totals:?} for {syncs} syncs");
}

#[test]
fn a_sender_of_a_commit_that_is_killed_keeps_nobody_waiting() {
    let mounted = Mounted::with_query("commits-killed", &["--fault", "slow-flush,delay_ms=20"], "&retain=0");
    let (mut workers, notes) = begin(&mounted);
    while let Some(worker) = workers.pop() {
        await_syncs(&notes, syncs(&notes) + 10);
        worker.kill();
    }
    assert_stable(&mounted, &notes);
}

#[test]
fn a_sender_of_a_commit_that_is_stopped_is_waited_for_once() {
    let mounted = Mounted::with_query("commits-stopped", &["--fault", "slow-flush,delay_ms=50"], "&retain=0");
    let (workers, notes) = begin(&mounted);
    let begun = Instant::now();
    for stopped in &workers[..2] {
        await_syncs(&notes, syncs(&notes) + 10);
        stopped.signal("-STOP"); // usually in a COMMIT
    }
    await_syncs(&notes, syncs(&notes) + 60);
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    workers.iter().for_each(|worker| worker.signal("-CONT"));
    await_syncs(&notes, syncs(&notes) + 20);
    workers.into_iter().for_each(Worker::kill);
    assert_stable(&mounted, &notes);
}

#[test]
fn every_one_who_syncs_a_file_is_told_that_the_server_refused() {
    let mounted = Mounted::with_query("commits-refused", &[], "&retain=0");
    let files: Vec<_> = (0..8).map(|_| open(&mounted.mount, "log", &MAKE)).collect();
    let fault = r#"{"op":"fault-add","fault":{"kind":"enospc","on":["flush"],"path":"log"}}"#;
    assert_eq!(mounted.filer.admin(fault)["ok"], true);
    files.iter().zip(0..).for_each(|(file, block)| file.write(block * BLOCK_BYTES, &[1; 512]));
    std::thread::scope(|scope| {
        let syncs: Vec<_> = files.iter().map(|file| scope.spawn(|| file.sync())).collect();
        assert!(syncs.into_iter().all(|sync| sync.join().unwrap().is_err()));
    });
}

fn worker_syncs(mount: &Mount, argument: &str) {
    let (worker, notes) = argument.split_once(' ').unwrap();
    let notes = std::fs::File::create(Path::new(notes).join(worker)).unwrap();
    let worker: u64 = worker.parse().unwrap();
    let log = open(mount, "log", &READ_WRITE);
    println!("ready");
    let mut count = 0u64;
    for value in 1u64.. {
        // Two writes, because a single write that is always flushed next would be sent stable, and
        // would leave nothing to commit.
        log.write(worker * BLOCK_BYTES + 8, &value.to_ne_bytes());
        log.write(worker * BLOCK_BYTES, &value.to_ne_bytes());
        if log.sync().is_ok() {
            count += 1;
            notes.write_all_at(&[count.to_ne_bytes(), value.to_ne_bytes()].concat(), 0).unwrap();
        }
    }
    report_ready();
}

workers!(worker_syncs);
