//! Close-to-open between hosts: what one host wrote and made stable, another sees whole at its next open.

use crate::mounted::{MAKE, Mounted, READ_WRITE, at, attach, open, worker_arguments};
use dnfs::mount::{Mount, OpenHow};

const READ: OpenHow = OpenHow { write: false, ..READ_WRITE };

#[test]
fn a_file_another_host_wrote_is_seen_whole_by_the_next_open_and_by_stat() {
    let mounted = Mounted::new("hosts", &[]);
    let mount = &mounted.mount;
    drop(open(mount, "log", &MAKE)); // known here, and empty
    for round in 1..=5_u64 {
        mounted.worker_on_another_host("worker_appends", &round.to_string()).finish();
        assert_eq!(at(mount, "log").object.unwrap().attr.size, round * 20_000, "stat");
        let file = open(mount, "log", &READ);
        assert_eq!(mount.size(file.file), round * 20_000);
        assert_eq!(mount.attr(file.file).unwrap().size, round * 20_000);
        assert_eq!(file.read((round - 1) * 20_000, 30_000), vec![round as u8; 20_000]);
    }
    mounted.worker_on_another_host("worker_shortens", "").finish();
    assert_eq!(mount.size(open(mount, "log", &READ).file), 7);
}

#[test]
fn an_append_behind_what_another_host_wrote_overwrites_nothing() {
    let mounted = Mounted::new("hosts-append", &[]);
    let file = open(&mounted.mount, "log", &MAKE);
    file.append(b"first");
    file.sync().unwrap();
    drop(file);
    mounted.worker_on_another_host("worker_appends", "2").finish();
    let file = open(&mounted.mount, "log", &READ_WRITE);
    assert_eq!(file.append(b"last"), 20_005);
    assert_eq!(file.read(20_003, 10), b"\x02\x02last");
}

#[test]
fn with_a_single_owner_an_open_of_a_known_file_believes_what_this_host_knows() {
    let mounted = Mounted::with_query("hosts-single", &[], "&owner=single");
    drop(open(&mounted.mount, "log", &MAKE));
    mounted.worker_on_another_host("worker_appends", "1").finish();
    assert_eq!(mounted.mount.size(open(&mounted.mount, "log", &READ).file), 0);
}

#[test]
fn an_open_of_an_unchanged_file_takes_no_call_beyond_its_lookup() {
    let mounted = Mounted::new("hosts-cost", &[]);
    let file = open(&mounted.mount, "log", &MAKE);
    file.write(0, &[1; 10_000]);
    file.sync().unwrap();
    let before = (mounted.filer.calls("GETATTR"), mounted.filer.calls("LOOKUP"));
    let again = open(&mounted.mount, "log", &READ);
    assert_eq!(mounted.mount.size(again.file), 10_000);
    assert_eq!((mounted.filer.calls("GETATTR"), mounted.filer.calls("LOOKUP")), (before.0, before.1 + 1));
}

fn worker_appends(mount: &Mount, round: &str) {
    let file = open(mount, "log", &READ_WRITE);
    file.append(&vec![round.parse().unwrap(); 20_000]);
    file.sync().unwrap();
}

fn worker_shortens(mount: &Mount) {
    let file = open(mount, "log", &READ_WRITE);
    mount.truncate(file.file, 7).unwrap();
}

/// Not a test of its own: what a process started by [`Mounted::worker_on_another_host`] does.
#[test]
#[ignore = "worker: a process that other tests start"]
fn worker_process() {
    let Some([url, job, argument]) = worker_arguments() else { return };
    let mount = attach(&url);
    match job.as_str() {
        "worker_appends" => worker_appends(&mount, &argument),
        "worker_shortens" => worker_shortens(&mount),
        other => panic!("no worker {other}"),
    }
}
