//! The calls that an operation on a mount makes.

use crate::mount::worker_extends;
use crate::mounted::{MAKE, Mounted, READ_WRITE, at, open, status};
use dnfs::mount::{LastName, Observer, OpenHow, Target, Walk};
use dnfs::{FsError, SetAttributes};
use std::time::Duration;

#[test]
fn stat_and_open_of_a_file_in_a_known_directory_take_one_lookup() {
    let mounted = Mounted::new("cost", &[]);
    mounted.mount.mkdir(&at(&mounted.mount, "base"), 0o700).unwrap();
    mounted.mount.mkdir(&at(&mounted.mount, "base/1"), 0o700).unwrap();
    drop(open(&mounted.mount, "base/1/2601", &MAKE));
    let calls = || {
        let stats = mounted.filer.admin(r#"{"op":"stats"}"#);
        let procedures = stats["procedures"].as_object().unwrap();
        procedures.values().map(|procedure| procedure["calls"].as_u64().unwrap()).sum::<u64>()
    };
    let before = calls();
    mounted.mount.stat(&at(&mounted.mount, "base/1/2601")).unwrap();
    assert_eq!(calls() - before, 1);
    // Root's rights depend on the export, so this needs one ACCESS.
    let file = open(&mounted.mount, "base/1/2601", &READ_WRITE);
    assert_eq!(calls() - before, 3);
    file.write(0, b"x");
    file.sync().unwrap();
    let before = calls();
    file.sync().unwrap();
    assert_eq!(calls() - before, 0, "a clean file needs no COMMIT");
}

#[test]
fn totals_of_all_processes_match_what_the_filer_counted() {
    let mounted = Mounted::new("totals", &[]);
    let file = open(&mounted.mount, "data", &MAKE);
    mounted.worker("worker_extends", "data").finish();
    file.sync().unwrap(); // otherwise the first read asks for the verifier by an empty WRITE
    for block in 0..10 {
        file.read(block * 1024, 1024);
    }
    let totals = mounted.mount.totals();
    assert_eq!((totals.read_calls, totals.write_calls, totals.commit_calls), (10, 1, 1));
    assert_eq!(mounted.filer.calls("READ"), totals.read_calls);
    assert_eq!(mounted.filer.calls("WRITE"), totals.write_calls);
    assert_eq!(mounted.filer.calls("COMMIT"), totals.commit_calls);
    assert_eq!((totals.read_bytes, totals.write_bytes), (10_240, 8192));
    let runtime = mounted.mount.runtime_dir().parent().unwrap();
    let url = mounted.filer.url.parse().unwrap();
    let seen = Observer::open(runtime, &url).unwrap().unwrap();
    assert_eq!(seen.totals(), totals, "an observer counts the same");
}

#[test]
fn the_only_write_of_a_small_new_file_is_stable_and_its_close_sends_nothing() {
    let mounted = Mounted::new("small", &["--loss-layer"]);
    let made = OpenHow { exclusive: true, ..MAKE };
    let file = open(&mounted.mount, "small", &made);
    file.write(0, b"all of it");
    mounted.power_cut();
    assert_eq!(std::fs::read(mounted.filer.export().join("small")).unwrap(), b"all of it");
    mounted.mount.flush(file.file, std::iter::empty()).unwrap();
    drop(file);
    // A write of whole sectors is not stable, because more may follow, and one COMMIT covers all.
    let large = open(&mounted.mount, "large", &made);
    large.write(0, &[1; 8192]);
    large.write(8192, b"its end");
    assert_eq!(mounted.filer.calls("COMMIT"), 0);
    mounted.mount.flush(large.file, std::iter::empty()).unwrap();
    assert_eq!(mounted.filer.calls("COMMIT"), 1);
}

#[test]
fn writes_to_a_log_that_is_flushed_after_each_of_them_become_stable_ones() {
    let mounted = Mounted::new("log", &["--loss-layer"]);
    let log = open(&mounted.mount, "log", &MAKE);
    for block in 0..100 {
        log.write(block * 8192, &[1; 8192]);
        log.sync().unwrap();
    }
    let (writes, commits) = (mounted.filer.calls("WRITE"), mounted.filer.calls("COMMIT"));
    assert_eq!(writes, 100);
    assert!(commits < 10, "{commits} COMMITs");
    log.write(100 * 8192, &[1; 8192]); // a write that would be flushed
    mounted.power_cut();
    assert_eq!(std::fs::read(mounted.filer.export().join("log")).unwrap(), [1; 101 * 8192]);
    log.write(0, &[2; 8192]);
    log.write(8192, &[2; 8192]);
    log.sync().unwrap();
    assert_eq!(mounted.filer.calls("COMMIT"), commits + 1, "who writes twice before the flush is no log");
    mounted.power_cut();
    assert_eq!(log.read(0, 16_384), [2; 16_384]);
}

#[test]
fn a_file_made_exclusively_takes_one_call_that_carries_its_mode() {
    let mounted = Mounted::new("exclusive", &[]);
    let made = OpenHow { exclusive: true, mode: 0o4640, ..MAKE };
    drop(open(&mounted.mount, "first", &made)); // learns what the server keeps
    let before = mounted.filer.calls("SETATTR");
    drop(open(&mounted.mount, "second", &made));
    assert_eq!((mounted.filer.calls("CREATE"), mounted.filer.calls("SETATTR")), (2, before));
    assert_eq!(at(&mounted.mount, "second").object.unwrap().attr.mode, 0o4640);
    let unseen = mounted.mount.walk(b"second", LastName::New).unwrap();
    let Walk::At(entry) = unseen else { panic!("{unseen:?}") };
    assert_eq!(status(mounted.mount.open(&entry, &made)), Some(FsError::Exists), "the server knows what nobody looked up");
}

#[test]
fn a_change_of_owner_to_the_same_one_is_sent_unless_it_follows_another_change_at_once() {
    let mounted = Mounted::new("owner", &[]);
    let mount = &mounted.mount;
    let file = open(mount, "data", &MAKE);
    let attr = mount.attr(file.file).unwrap();
    let same = SetAttributes { uid: Some(attr.uid), gid: Some(attr.gid), ..SetAttributes::default() };
    let sent = |set: &SetAttributes| {
        let before = mounted.filer.calls("SETATTR");
        mount.set_attr(Target::File(file.file), set).unwrap();
        mounted.filer.calls("SETATTR") - before
    };
    assert_eq!(sent(&same), 1, "its change time moves");
    assert_eq!(sent(&SetAttributes { mode: Some(0o4755), ..SetAttributes::default() }), 1);
    assert_eq!(sent(&same), 1, "it takes the set-user-ID bit away");
    std::thread::sleep(Duration::from_millis(100)); // longer than a change counts as recent
    assert_eq!(sent(&same), 1, "its change time moves");
    assert_eq!(sent(&SetAttributes { uid: Some(attr.uid), gid: Some(4711), ..SetAttributes::default() }), 1);
    let changed = SetAttributes { mode: Some(0o640), gid: Some(attr.gid), ..SetAttributes::default() };
    let follows_at_once = || sent(&changed) == 1 && sent(&same) == 0;
    assert!((0..100).any(|_| follows_at_once()), "a busy host may take long between two calls, but not each time");
}

workers!(worker_extends);
