//! Close-to-open between hosts: the complete data that one host wrote and made stable is visible to
//! another at its next open.

use crate::mounted::{MAKE, Mounted, READ_WRITE, at, open, status};
use dnfs::file::{FsError, SetAttributes};
use dnfs::mount::{Mount, OpenHow, Target};

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

/// Through a file that stays open, with `noac`: no change waits for an open or for the age of
/// cached attributes.
#[test]
fn with_noac_what_another_host_does_to_an_open_file_is_seen_at_once() {
    let mounted = Mounted::with_query("hosts-noac", &[], "&noac");
    let mount = &mounted.mount;
    let file = open(mount, "log", &MAKE);
    file.write(0, b"begun");
    assert_eq!(mount.size(file.file), 5);
    mounted.worker_on_another_host("worker_appends", "1").finish();
    assert_eq!((mount.size(file.file), mount.attr(file.file).unwrap().size), (20_005, 20_005), "grown");
    assert_eq!(file.read(4, 3), b"n\x01\x01");
    mounted.worker_on_another_host("worker_overwrites", "other").finish();
    assert_eq!(file.read(0, 6), b"other\x01", "data");
    mounted.worker_on_another_host("worker_shortens", "").finish();
    assert_eq!(file.read(0, 100), b"other\x01\x01", "data behind the new end");
    assert_eq!((mount.size(file.file), mount.attr(file.file).unwrap().size), (7, 7), "shortened");
    assert_eq!(file.append(b"!"), 7, "an append behind the new end");
    mounted.worker_on_another_host("worker_appends", "3").finish();
    assert_eq!(file.append(b"!"), 20_008, "and behind what another host appended");
    mounted.worker_on_another_host("worker_protects", "400").finish();
    assert_eq!(mount.attr(file.file).unwrap().mode & 0o777, 0o400, "mode");
    mounted.worker_on_another_host("worker_removes", "log").finish();
    assert_eq!(status(mount.attr(file.file)), Some(FsError::Stale), "removed");
}

#[test]
fn with_noac_names_that_another_host_changes_are_seen_at_once() {
    let mounted = Mounted::with_query("hosts-noac-names", &[], "&noac");
    let mount = &mounted.mount;
    let exported = |name: &str| mounted.filer.export().join(name);
    std::fs::create_dir_all(exported("a/b")).unwrap();
    std::fs::write(exported("a/b/log"), b"of a").unwrap();
    assert_eq!(at(mount, "a/b/log").object.unwrap().attr.size, 4);
    mounted.worker_on_another_host("worker_renames", "a moved").finish();
    assert!(matches!(status(mount.walk(b"a/b/log", true)), Some(FsError::NotFound)), "a directory on the way");
    assert_eq!(at(mount, "moved/b/log").object.unwrap().attr.size, 4);
    std::fs::create_dir_all(exported("other/b")).unwrap();
    std::fs::write(exported("other/b/log"), b"of another").unwrap();
    mounted.worker_on_another_host("worker_renames", "moved gone").finish();
    mounted.worker_on_another_host("worker_renames", "other moved").finish();
    assert_eq!(at(mount, "moved/b/log").object.unwrap().attr.size, 10, "another directory of that name");
    mounted.worker_on_another_host("worker_removes", "moved/b/log").finish();
    assert_eq!(at(mount, "moved/b/log").object.map(|object| object.attr.size), None);
}

fn worker_appends(mount: &Mount, round: &str) {
    let file = open(mount, "log", &READ_WRITE);
    file.append(&vec![round.parse().unwrap(); 20_000]);
    file.sync().unwrap();
}

fn worker_shortens(mount: &Mount, _: &str) {
    let file = open(mount, "log", &READ_WRITE);
    mount.truncate(file.file, 7).unwrap();
}

fn worker_overwrites(mount: &Mount, data: &str) {
    let file = open(mount, "log", &READ_WRITE);
    file.write(0, data.as_bytes());
}

fn worker_protects(mount: &Mount, mode: &str) {
    let mode = Some(u32::from_str_radix(mode, 8).unwrap());
    mount.set_attr(Target::Entry(&at(mount, "log")), &SetAttributes { mode, ..SetAttributes::default() }).unwrap();
}

fn worker_renames(mount: &Mount, names: &str) {
    let (from, to) = names.split_once(' ').unwrap();
    mount.rename(&at(mount, from), &at(mount, to)).unwrap();
}

fn worker_removes(mount: &Mount, name: &str) {
    mount.unlink(&at(mount, name)).unwrap();
}

workers!(worker_appends, worker_shortens, worker_overwrites, worker_protects, worker_renames, worker_removes);
