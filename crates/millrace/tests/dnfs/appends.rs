//! Appends at the same time as changes of the size. No append leaves a hole, as with a kernel's
//! lock of the inode.

use crate::mounted::{MAKE, Mounted, READ_WRITE, open};
use dnfs::mount::Mount;

const LINE: &[u8] = b"a line of a log that is cut off at times\n";

/// Asserts that the data consists of complete lines, without zeros.
fn assert_whole(data: &[u8]) {
    let hole = data.iter().position(|byte| *byte == 0);
    assert_eq!(hole, None, "a hole in {} bytes", data.len());
    assert!(data.chunks(LINE.len()).all(|line| line == LINE));
}

#[test]
fn appends_of_several_processes_beside_truncations_leave_no_hole() {
    let mounted = Mounted::new("appends-cut", &[]);
    let log = open(&mounted.mount, "log", &MAKE);
    let mut workers: Vec<_> = (0..3).map(|_| mounted.worker("worker_appends", "log")).collect();
    workers.iter_mut().for_each(crate::mounted::Worker::await_ready);
    for _ in 0..300 {
        log.append(LINE);
        mounted.mount.truncate(log.file, 0).unwrap();
        let size = mounted.mount.size(log.file);
        let found = log.read(0, size as usize);
        assert_eq!(found.iter().position(|byte| *byte == 0), None, "a hole in {} bytes", found.len());
    }
    for worker in workers {
        worker.kill();
    }
    log.append(LINE);
    let path = mounted.filer.export().join("log");
    assert!(std::fs::metadata(path).unwrap().len() > 0);
}

fn worker_appends(mount: &Mount, path: &str) {
    let log = open(mount, path, &READ_WRITE);
    println!("ready");
    loop {
        log.append(LINE);
    }
}

#[test]
fn append_after_a_loss_begins_where_the_file_ends_now() {
    let mounted = Mounted::with_query("appends-lost", &["--loss-layer"], "&retain=0");
    let log = open(&mounted.mount, "log", &MAKE);
    log.append(LINE);
    log.sync().unwrap();
    log.append(LINE);
    mounted.power_cut();
    assert!(log.sync().is_err());
    log.append(LINE);
    assert_whole(&std::fs::read(mounted.filer.export().join("log")).unwrap());
}

#[test]
fn append_waits_once_for_one_that_was_killed_setting_the_size() {
    let mounted = Mounted::new("appends-killed", &[]);
    let log = open(&mounted.mount, "log", &MAKE);
    for _ in 0..2 {
        let mut worker = mounted.worker("worker_truncates", "log");
        worker.await_ready();
        log.append(LINE);
        worker.kill();
    }
    log.append(LINE);
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        log.append(LINE);
    }
    assert!(begun.elapsed().as_secs() < 6, "waited more than once: {:?}", begun.elapsed());
}

fn worker_truncates(mount: &Mount, path: &str) {
    let log = open(mount, path, &READ_WRITE);
    println!("ready");
    loop {
        mount.truncate(log.file, 0).unwrap();
    }
}

workers!(worker_appends, worker_truncates);
