//! The mount of the Direct NFS client against a running filer: what several processes of one host see of each other.

use crate::mounted::{MAKE, Mounted, READ_WRITE, at, at_link, attach, open, report_ready, status, try_open, worker_arguments};
use dnfs::mount::{LastName, Mount, Observer, OpenHow, Target, Walk};
use dnfs::{Error, FileKind, FsError, SetAttributes, Stability};
use std::io::IoSlice;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

fn walk_status(mounted: &Mounted, path: &str) -> Option<FsError> {
    status(mounted.mount.walk(path.as_bytes(), true))
}

#[test]
fn size_and_data_of_one_process_are_seen_by_another_at_once_and_cost_no_call() {
    let mounted = Mounted::new("share", &[]);
    let file = open(&mounted.mount, "data", &MAKE);
    let getattrs = || mounted.filer.calls("GETATTR");
    mounted.worker("worker_extends", "data").finish();
    let before = getattrs();
    assert_eq!(mounted.mount.size(file.file), 16_384);
    assert_eq!(mounted.mount.attr(file.file).unwrap().size, 16_384);
    assert_eq!(getattrs(), before);
    assert_eq!(file.read(8192, 20_000), [b'b'; 8192]);
    mounted.worker("worker_truncates", "data").finish();
    assert_eq!(mounted.mount.size(file.file), 100);
    assert_eq!(at(&mounted.mount, "data").object.unwrap().attr.size, 100);
}

fn worker_extends(mount: &Mount, path: &str) {
    let file = open(mount, path, &READ_WRITE);
    file.write(8192, &[b'b'; 8192]);
}

fn worker_truncates(mount: &Mount, path: &str) {
    let file = open(mount, path, &READ_WRITE);
    mount.truncate(file.file, 100).unwrap();
}

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
    // Root's rights depend on the export: one ACCESS.
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
    file.sync().unwrap(); // else the first read asks for the verifier, by a WRITE of no bytes
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
    assert_eq!(seen.totals(), totals, "one who only looks sees the same");
}

fn is_lost(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::Fs(FsError::WritesLost)))
}

#[test]
fn power_cut_between_a_write_and_the_sync_of_another_process_is_told_once_to_each_description() {
    let mounted = Mounted::with_query("cut", &["--loss-layer"], "&retain=0");
    let (one, two) = (open(&mounted.mount, "data", &MAKE), open(&mounted.mount, "data", &READ_WRITE));
    one.sync().unwrap();
    mounted.worker("worker_extends", "data").finish();
    mounted.power_cut();
    assert!(is_lost(one.sync()));
    one.sync().unwrap();
    assert_eq!(mounted.mount.size(one.file), 0, "the lost write had extended the file");
    let late = open(&mounted.mount, "data", &READ_WRITE);
    late.sync().unwrap();
    assert!(is_lost(two.sync()));
    two.sync().unwrap();
    one.write(0, b"again");
    two.sync().unwrap();
    mounted.power_cut();
    one.sync().unwrap();
    assert_eq!(one.read(0, 10), b"again");
}

#[test]
fn a_file_made_shorter_by_a_power_cut_tells_its_size_to_no_writer_before_the_loss() {
    let mounted = Mounted::with_query("shorter", &["--loss-layer"], "&retain=0");
    let mount = &mounted.mount;
    let (one, two) = (open(mount, "data", &MAKE), open(mount, "data", &READ_WRITE));
    one.write(0, &[1; 8192]);
    two.sync().unwrap();
    mounted.worker("worker_extends", "data").finish();
    let extended = mount.size(one.file);
    assert!(extended > 8192);
    mounted.power_cut();
    // The first who notices makes the size smaller for all: its own sync asks the server, another's reading would.
    assert!(is_lost(one.sync()));
    assert_eq!(mount.size(one.file), 8192);
    assert_eq!(mount.size_to_change(one.file, &one.cursor).unwrap(), 8192);
    for _ in 0..2 {
        assert!(is_lost(mount.size_to_change(two.file, &two.cursor).map(|_| ())));
        assert!(is_lost(mount.attr_to_change(two.file, &two.cursor).map(|_| ())));
    }
    assert!(is_lost(two.sync()));
    assert_eq!(mount.size_to_change(two.file, &two.cursor).unwrap(), 8192);
    assert_eq!(mount.attr_to_change(two.file, &two.cursor).unwrap().size, 8192);
}

#[test]
fn a_loss_that_a_write_notices_leaves_the_size_that_the_server_has() {
    let mounted = Mounted::with_query("noticed", &["--loss-layer"], "&retain=0");
    let mount = &mounted.mount;
    let one = open(mount, "data", &MAKE);
    one.write(0, &[1; 100]);
    one.sync().unwrap();
    one.write(5000, &[2; 100]);
    mounted.power_cut();
    one.write(200, &[3; 100]);
    assert!(is_lost(mount.size_to_change(one.file, &one.cursor).map(|_| ())));
    assert!(is_lost(one.sync()));
    assert_eq!(mount.size_to_change(one.file, &one.cursor).unwrap(), 300);
}

#[test]
fn loss_that_nobody_saw_waits_for_the_next_opener() {
    let mounted = Mounted::with_query("unseen", &["--loss-layer"], "&retain=0");
    let writer = open(&mounted.mount, "data", &MAKE);
    writer.write(0, b"first");
    mounted.filer.admin(r#"{"op":"power-cut"}"#);
    writer.write(100, b"second");
    drop(writer);
    let next = open(&mounted.mount, "data", &READ_WRITE);
    assert!(is_lost(next.sync()));
    next.sync().unwrap();
    open(&mounted.mount, "data", &READ_WRITE).sync().unwrap();
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
    // Whole sectors: more may come, and one COMMIT does for all.
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
    log.write(100 * 8192, &[1; 8192]); // one that would be flushed
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
    drop(open(&mounted.mount, "first", &made)); // finds out what the server keeps
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
    std::thread::sleep(Duration::from_millis(100)); // longer than a change counts as just made
    assert_eq!(sent(&same), 1, "its change time moves");
    assert_eq!(sent(&SetAttributes { uid: Some(attr.uid), gid: Some(4711), ..SetAttributes::default() }), 1);
    let changed = SetAttributes { mode: Some(0o640), gid: Some(attr.gid), ..SetAttributes::default() };
    let follows_at_once = || sent(&changed) == 1 && sent(&same) == 0;
    assert!((0..100).any(|_| follows_at_once()), "a busy host may take long between two calls, but not each time");
}

#[test]
fn names_attributes_and_stable_writes_survive_a_power_cut() {
    let mounted = Mounted::new("names", &["--loss-layer"]);
    let mount = &mounted.mount;
    drop(open(mount, "made", &OpenHow { exclusive: true, mode: 0o640, ..MAKE }));
    drop(open(mount, "old name", &MAKE));
    mount.rename(&at(mount, "old name"), &at(mount, "new name")).unwrap();
    mount.mkdir(&at(mount, "folder"), 0o710).unwrap();
    mount.symlink(&at_link(mount, "link"), b"made").unwrap();
    mount.link(&at(mount, "made"), &at(mount, "second name")).unwrap();
    drop(open(mount, "removed", &MAKE));
    mount.unlink(&at(mount, "removed")).unwrap();
    let file = open(mount, "synced", &MAKE);
    let stable = [IoSlice::new(b"stable")];
    assert_eq!(mount.write(file.file, 0, &stable, Stability::DataSync).unwrap(), 6);
    mount.set_attr(Target::File(file.file), &SetAttributes { mode: Some(0o604), ..SetAttributes::default() }).unwrap();
    mounted.filer.admin(r#"{"op":"power-cut"}"#);
    let listed = mount.read_dir(Target::Entry(&at(mount, ""))).unwrap();
    let mut names: Vec<_> = listed.iter().map(|item| String::from_utf8_lossy(&item.name)).collect();
    names.sort();
    assert_eq!(names, [".", "..", "folder", "link", "made", "new name", "second name", "synced"]);
    assert_eq!(at(mount, "made").object.unwrap().attr.mode, 0o640);
    assert_eq!(at(mount, "folder").object.unwrap().attr.mode, 0o710);
    assert_eq!(mount.attr(file.file).unwrap().mode, 0o604);
    assert_eq!(file.read(0, 100), b"stable");
    file.sync().unwrap();
}

#[test]
fn filer_killed_and_started_again_is_waited_for_and_loses_nothing() {
    let mut mounted = Mounted::new("restart", &[]);
    {
        let file = open(&mounted.mount, "data", &MAKE);
        file.write(0, &[1; 8192]);
    }
    mounted.filer.kill();
    mounted.filer.restart();
    let file = open(&mounted.mount, "data", &READ_WRITE);
    file.write(8192, &[2; 8192]);
    file.sync().unwrap();
    assert_eq!(std::fs::metadata(mounted.filer.export().join("data")).unwrap().len(), 16_384);
}

#[test]
fn file_unlinked_while_another_process_has_it_open_lives_until_the_last_close() {
    let mounted = Mounted::new("unlink", &[]);
    let mount = &mounted.mount;
    let file = open(mount, "temp", &MAKE);
    file.write(0, b"still here");
    mounted.worker("worker_unlinks", "temp").finish();
    assert_eq!(walk_status(&mounted, "temp"), None);
    assert!(at(mount, "temp").object.is_none());
    assert_eq!(file.read(0, 100), b"still here");
    assert_eq!(mount.attr(file.file).unwrap().nlink, 0);
    let listed = mount.read_dir(Target::Entry(&at(mount, ""))).unwrap();
    assert!(!listed.iter().any(|item| item.name.starts_with(b".nfs")), "{listed:?}");
    assert_eq!(mounted.host_names().len(), 1);
    file.write(100, b"and writable");
    file.sync().unwrap();
    drop(open(mount, "temp", &MAKE)); // the name is free again
    drop(file);
    mounted.await_host_names(&["temp"]);
    mount.unlink(&at(mount, "temp")).unwrap();
    mounted.await_host_names(&[]);
}

fn worker_unlinks(mount: &Mount, path: &str) {
    mount.unlink(&at(mount, path)).unwrap();
}

#[test]
fn unlinked_file_of_a_killed_process_is_swept() {
    let mounted = Mounted::new("sweep", &[]);
    let mut worker = mounted.worker("worker_holds_unlinked", "temp");
    worker.await_ready();
    mounted.mount.sweep();
    assert_eq!(mounted.host_names().len(), 1, "it is still open");
    worker.kill();
    mounted.await_host_names(&[]);
}

fn worker_holds_unlinked(mount: &Mount, path: &str) {
    let file = open(mount, path, &MAKE);
    mount.unlink(&at(mount, path)).unwrap();
    report_ready();
    drop(file);
}

#[test]
fn file_renamed_over_while_open_stays_readable_and_leaves_nothing() {
    let mounted = Mounted::new("over", &[]);
    let mount = &mounted.mount;
    let (old, new) = (open(mount, "target", &MAKE), open(mount, "source", &MAKE));
    old.write(0, b"old");
    new.write(0, b"new");
    mount.rename(&at(mount, "source"), &at(mount, "target")).unwrap();
    assert_eq!(old.read(0, 10), b"old");
    assert_eq!(open(mount, "target", &READ_WRITE).read(0, 10), b"new");
    assert_eq!(mount.attr(old.file).unwrap().nlink, 0);
    assert_eq!(mount.attr(new.file).unwrap().nlink, 1);
    drop((old, new));
    mounted.await_host_names(&["target"]);
    drop(open(mount, "third", &MAKE));
    mount.rename(&at(mount, "third"), &at(mount, "target")).unwrap();
    mounted.await_host_names(&["target"]);
    assert_eq!(open(mount, "target", &READ_WRITE).read(0, 10), b"");
}

#[test]
fn directory_with_only_unlinked_open_files_can_be_removed() {
    let mounted = Mounted::new("rmdir", &[]);
    let mount = &mounted.mount;
    mount.mkdir(&at(mount, "folder"), 0o700).unwrap();
    let file = open(mount, "folder/temp", &MAKE);
    file.write(0, b"kept");
    assert_eq!(status(mount.rmdir(&at(mount, "folder"))), Some(FsError::NotEmpty));
    mount.unlink(&at(mount, "folder/temp")).unwrap();
    mount.rmdir(&at(mount, "folder")).unwrap();
    assert_eq!(file.read(0, 10), b"kept");
    drop(file);
    mounted.await_host_names(&[]);
}

#[test]
fn directory_renamed_by_another_process_is_not_found_under_its_old_name() {
    let mounted = Mounted::new("rename", &[]);
    let mount = &mounted.mount;
    for folder in ["a", "b"] {
        mount.mkdir(&at(mount, folder), 0o700).unwrap();
        let file = open(mount, &format!("{folder}/file"), &MAKE);
        file.write(0, folder.as_bytes());
    }
    assert_eq!(open(mount, "a/file", &READ_WRITE).read(0, 10), b"a");
    mounted.worker("worker_swaps_directories", "").finish();
    assert_eq!(open(mount, "a/file", &READ_WRITE).read(0, 10), b"b");
    assert_eq!(open(mount, "b/file", &READ_WRITE).read(0, 10), b"a");
    let (by_name, file) = (at(mount, "a/file").object.unwrap().attr, open(mount, "a/file", &READ_WRITE));
    assert_eq!(mount.attr(file.file).unwrap(), by_name);
    assert_eq!(walk_status(&mounted, "c/file"), Some(FsError::NotFound));
}

fn worker_swaps_directories(mount: &Mount, _: &str) {
    for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
        mount.rename(&at(mount, from), &at(mount, to)).unwrap();
    }
}

#[test]
fn appends_of_eight_processes_lose_nothing() {
    let mounted = Mounted::new("append", &[]);
    let file = open(&mounted.mount, "log", &MAKE);
    let workers: Vec<_> = (0..8).map(|number| mounted.worker("worker_appends", &number.to_string())).collect();
    workers.into_iter().for_each(crate::mounted::Worker::finish);
    let size = mounted.mount.size(file.file);
    assert_eq!(size, 8 * 100 * 12);
    let data = file.read(0, size as usize);
    let mut lines: Vec<_> = data.chunks(12).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    lines.sort();
    let mut expected: Vec<_> = (0..8).flat_map(|worker| (0..100).map(move |line| format!("{worker:05} {line:05}\n"))).collect();
    expected.sort();
    assert_eq!(lines, expected);
}

fn worker_appends(mount: &Mount, number: &str) {
    let file = open(mount, "log", &OpenHow { append: true, ..READ_WRITE });
    let worker: u32 = number.parse().unwrap();
    for line in 0..100 {
        file.append(format!("{worker:05} {line:05}\n").as_bytes());
    }
}

#[test]
fn directory_of_ten_thousand_names_is_listed_whole() {
    let mounted = Mounted::new("listing", &[]);
    for number in 0..10_000 {
        std::fs::write(mounted.filer.export().join(format!("file-{number:05}")), "").unwrap();
    }
    let items = mounted.mount.read_dir(Target::Entry(&at(&mounted.mount, ""))).unwrap();
    let mut names: Vec<_> = items.iter().filter(|item| item.name[0] != b'.').collect();
    names.sort_by(|one, two| one.name.cmp(&two.name));
    assert_eq!(names.len(), 10_000);
    assert!(names.iter().enumerate().all(|(number, item)| item.name == format!("file-{number:05}").into_bytes()));
    assert!(names.iter().all(|item| item.kind == Some(FileKind::Regular)));
}

#[test]
fn paths_are_walked_as_the_kernel_does() {
    let mounted = Mounted::new("walk", &[]);
    let mount = &mounted.mount;
    mount.mkdir(&at(mount, "one"), 0o700).unwrap();
    mount.mkdir(&at(mount, "one/two"), 0o700).unwrap();
    drop(open(mount, "one/file", &MAKE));
    for (name, text) in
        [("rel", "one/two"), ("one/up", "../one/file"), ("out", "/elsewhere/x"), ("loop", "loop"), ("far", "../..")]
    {
        mount.symlink(&at_link(mount, name), text.as_bytes()).unwrap();
    }
    let path_of = |path: &str| String::from_utf8(at(mount, path).path).unwrap();
    assert_eq!(path_of("one//./two/../file"), "one/file");
    assert_eq!(path_of("rel/../up"), "one/file", "dots follow the link's target");
    assert_eq!(path_of("one/two/.."), "one");
    assert_eq!(path_of(""), "");
    assert_eq!(path_of("rel/"), "one/two");
    assert_eq!(at_link(mount, "rel").object.unwrap().attr.kind, FileKind::Symlink);
    assert_eq!(mount.readlink(&at_link(mount, "rel")).unwrap(), b"one/two");
    let leaves = |path: &str| match mount.walk(path.as_bytes(), true).unwrap() {
        Walk::Leaves(path) => String::from_utf8(path).unwrap(),
        Walk::At(entry) => panic!("{entry:?}"),
    };
    assert_eq!(leaves("out/y/z"), "/elsewhere/x/y/z");
    assert_eq!(leaves("one/../../etc/passwd"), "/etc/passwd");
    assert_eq!(leaves(".."), "/");
    assert_eq!(leaves("far"), "/..");
    assert!(matches!(mount.walk(b"loop", true), Err(Error::Fs(FsError::SymlinkLoop))));
    assert!(mount.walk(b"loop", false).is_ok());
    assert_eq!(walk_status(&mounted, "one/file/"), Some(FsError::NotDirectory));
    assert_eq!(walk_status(&mounted, "one/file/x"), Some(FsError::NotDirectory));
    assert_eq!(walk_status(&mounted, "none/x"), Some(FsError::NotFound));
    assert_eq!(walk_status(&mounted, &"n".repeat(256)), Some(FsError::NameTooLong));
    assert_eq!(walk_status(&mounted, &"n/".repeat(3000)), Some(FsError::NameTooLong));
    assert!(at(mount, "none").object.is_none());
}

#[test]
fn open_answers_as_open_2_does() {
    let mounted = Mounted::new("open", &[]);
    let mount = &mounted.mount;
    mount.mkdir(&at(mount, "folder"), 0o700).unwrap();
    let exclusive = OpenHow { exclusive: true, ..MAKE };
    let fails = |path: &str, how: &OpenHow| try_open(mount, path, how).err().and_then(|error| error.fs_error());
    assert_eq!(fails("new", &READ_WRITE), Some(FsError::NotFound));
    drop(open(mount, "new", &OpenHow { mode: 0o4, ..exclusive }));
    let attr = at(mount, "new").object.unwrap().attr;
    assert_eq!(attr.mode, 0o4);
    assert!(attr.mtime.seconds > 1_700_000_000, "the verifier is not left in the times");
    assert_eq!(fails("new", &exclusive), Some(FsError::Exists));
    assert_eq!(fails("folder", &READ_WRITE), Some(FsError::IsDirectory));
    assert_eq!(fails("new", &OpenHow { directory: true, ..READ_WRITE }), Some(FsError::NotDirectory));
    let file = open(mount, "data", &MAKE);
    file.write(0, b"content");
    let truncated = open(mount, "data", &OpenHow { truncate: true, ..READ_WRITE });
    assert_eq!(mount.size(file.file), 0);
    assert_eq!(truncated.read(0, 10), b"");
}

#[test]
fn rights_of_another_user_are_those_of_the_mode_even_for_the_owner() {
    let mounted = Mounted::new("rights", &[]);
    let mount = &mounted.mount;
    mount.set_attr(Target::Entry(&at(mount, "")), &SetAttributes { mode: Some(0o777), ..SetAttributes::default() }).unwrap();
    let other = attach(&format!("{}&uid=4711&gid=4711", mounted.filer.url));
    drop(open(&other, "mine", &OpenHow { mode: 0o400, ..MAKE }));
    assert_eq!(at(&other, "mine").object.unwrap().attr.uid, 4711);
    let read = OpenHow { read: true, ..OpenHow::default() };
    open(&other, "mine", &read);
    assert_eq!(try_open(&other, "mine", &READ_WRITE).err().and_then(|error| error.fs_error()), Some(FsError::AccessDenied));
    drop(open(mount, "roots", &MAKE));
    assert_eq!(try_open(&other, "roots", &read).err().and_then(|error| error.fs_error()), Some(FsError::AccessDenied));
}

#[test]
fn other_volume_under_the_same_address_is_never_taken_for_the_old_one() {
    let mut mounted = Mounted::new("replaced", &[]);
    let url = mounted.filer.url.clone();
    let held = open(&mounted.mount, "data", &MAKE);
    held.write(0, b"of the old volume");
    let scratch = crate::support::Scratch::new("replacement");
    mounted.filer.kill();
    let mut second = crate::support::filer::Filer::start_on(&scratch, mounted.filer.port, &[]);
    let fresh = attach(&url);
    let placeholders = std::fs::read_dir(fresh.runtime_dir().join("p")).unwrap().count();
    assert_eq!(placeholders, 0, "no file of the new volume may meet a placeholder of the old one");
    assert!(at(&fresh, "data").object.is_none());
    let stale = |error: Error| assert_eq!(error.fs_error(), Some(FsError::Stale));
    stale(mounted.mount.walk(b"data", true).unwrap_err());
    stale(mounted.mount.write(held.file, 0, &[IoSlice::new(b"x")], Stability::Unstable).unwrap_err());
    stale(mounted.mount.sync(held.file, &AtomicU32::new(0)).unwrap_err());
    let made = open(&fresh, "data", &MAKE);
    made.write(0, b"of the new");
    // By the number that the old file had, nothing of the new volume is found.
    stale(fresh.write(held.file, 0, &[IoSlice::new(b"x")], Stability::Unstable).unwrap_err());
    assert_eq!(std::fs::read(second.export().join("data")).unwrap(), b"of the new");
    second.kill();
}

#[test]
fn processes_that_replace_and_remove_one_name_never_pull_a_file_from_under_a_reader() {
    let mounted = Mounted::new("races", &[]);
    let workers: Vec<_> = (0..4).map(|number| mounted.worker("worker_replaces", &number.to_string())).collect();
    workers.into_iter().for_each(crate::mounted::Worker::finish);
    mounted.mount.sweep();
    let left = mounted.host_names();
    assert!(left.iter().all(|name| name == "shared"), "{left:?}");
}

fn worker_replaces(mount: &Mount, number: &str) {
    let own = format!("new.{number}");
    for round in 0..40 {
        write_file(mount, &own, round);
        let gone = [Some(FsError::NotFound), Some(FsError::Stale)];
        let renamed = mount.rename(&at(mount, &own), &at(mount, "shared"));
        renamed.unwrap_or_else(|error| panic!("rename: {error}"));
        if let Ok(file) = try_open(mount, "shared", &READ_WRITE) {
            let data = file.read(0, 100);
            assert!(data.starts_with(b"complete"), "{data:?}");
            if round % 4 == 0 {
                let removed = status(mount.unlink(&at(mount, "shared")));
                assert!(removed.is_none() || gone.contains(&removed), "{removed:?}");
            }
            assert_eq!(file.read(0, 100), data);
        }
    }
}

fn write_file(mount: &Mount, path: &str, round: u32) {
    let file = open(mount, path, &MAKE);
    file.write(0, format!("complete {round}").as_bytes());
    file.sync().unwrap();
}

#[test]
fn a_file_that_was_opened_or_made_is_there_whatever_others_do_with_its_name_at_that_moment() {
    let mounted = Mounted::new("contended", &[]);
    let workers: Vec<_> = (0..4).map(|number| mounted.worker("worker_contends", &number.to_string())).collect();
    workers.into_iter().for_each(crate::mounted::Worker::finish);
    for name in mounted.host_names().iter().filter(|name| !name.starts_with(".nfs")) {
        mounted.mount.unlink(&at(&mounted.mount, name)).unwrap();
    }
    mounted.await_host_names(&[]);
}

/// Two names only, so that the makers, removers and renamers meet at each step.
fn worker_contends(mount: &Mount, seed: &str) {
    let mut rng = sim::Rng::new(seed.parse().unwrap());
    for _ in 0..500 {
        let name = format!("file {}", rng.below(2));
        let file = open(mount, &name, &MAKE);
        file.append(b"data");
        assert!(!file.read(0, 4).is_empty());
        match rng.below(3) {
            0 => drop(mount.unlink(&at(mount, &name))), // another may have done it
            1 => drop(mount.rename(&at(mount, &name), &at(mount, "file 0"))),
            _ => {}
        }
    }
}

#[test]
fn processes_killed_at_work_leave_every_file_usable_and_no_name_behind() {
    let mounted = Mounted::new("killed", &[]);
    let mount = &mounted.mount;
    let connections = || mounted.filer.admin(r#"{"op":"stats"}"#)["connections"].as_u64().unwrap();
    mount.fsstat(&mount.client().parts().root).unwrap(); // connects
    let own = connections();
    for round in 0..6 {
        let mut workers: Vec<_> =
            (0..4).map(|number| mounted.worker("worker_works", &format!("{}", round * 4 + number))).collect();
        workers.iter_mut().for_each(crate::mounted::Worker::await_ready);
        let goal = mount.totals().write_calls + 50 + 37 * round;
        crate::support::await_until("the workers to write", Duration::from_secs(20), || {
            (mount.totals().write_calls > goal).then_some(())
        });
        workers.into_iter().for_each(crate::mounted::Worker::kill);
        // What they had sent is done once their connections are gone.
        crate::support::await_until("the filer to finish", Duration::from_secs(20), || (connections() <= own).then_some(()));
        for number in 0..3 {
            let name = format!("file {number}");
            let file = open(mount, &name, &MAKE);
            mount.truncate(file.file, 0).unwrap();
            assert_eq!(mount.size(file.file), 0);
            assert_eq!(file.append(b"after"), 0, "a killed append left its range behind");
            file.sync().unwrap();
            assert_eq!(mount.attr(file.file).unwrap().size, 5);
            assert_eq!(std::fs::read(mounted.filer.export().join(&name)).unwrap(), b"after");
        }
    }
    for number in 0..3 {
        mount.unlink(&at(mount, &format!("file {number}"))).unwrap();
    }
    mounted.await_host_names(&[]);
}

fn worker_works(mount: &Mount, seed: &str) {
    let mut rng = sim::Rng::new(seed.parse().unwrap());
    println!("ready");
    loop {
        let name = format!("file {}", rng.below(3));
        let file = open(mount, &name, &MAKE);
        file.append(&[b'x'; 100]);
        match rng.below(16) {
            0..4 => file.sync().unwrap(),
            4..8 => mount.truncate(file.file, 50).unwrap(),
            8..10 => drop(mount.unlink(&at(mount, &name))), // another may have done it
            10..12 => drop(mount.rename(&at(mount, &name), &at(mount, "file 0"))),
            _ => drop(file.read(0, 1000)),
        }
    }
}

/// Not a test of its own: what a process started by [`Mounted::worker`] does.
#[test]
#[ignore = "worker: a process that other tests start"]
fn worker_process() {
    let Some([url, job, argument]) = worker_arguments() else { return };
    let mount = attach(&url);
    match job.as_str() {
        "worker_extends" => worker_extends(&mount, &argument),
        "worker_truncates" => worker_truncates(&mount, &argument),
        "worker_unlinks" => worker_unlinks(&mount, &argument),
        "worker_holds_unlinked" => worker_holds_unlinked(&mount, &argument),
        "worker_swaps_directories" => worker_swaps_directories(&mount, &argument),
        "worker_appends" => worker_appends(&mount, &argument),
        "worker_replaces" => worker_replaces(&mount, &argument),
        "worker_contends" => worker_contends(&mount, &argument),
        "worker_works" => worker_works(&mount, &argument),
        other => panic!("no worker {other}"),
    }
}
