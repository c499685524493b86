//! The mount of the Direct NFS client against a running filer: what processes of one host see of
//! each other, and what survives the end of the filer.

use crate::mounted::{MAKE, Mounted, READ_WRITE, at, at_link, attach, open};
use dnfs::mount::{Mount, OpenHow, Target};
use dnfs::{Error, FsError, SetAttributes, Stability};
use std::io::IoSlice;
use std::sync::atomic::AtomicU32;

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

/// Also a job of other files' workers.
pub(crate) fn worker_extends(mount: &Mount, path: &str) {
    let file = open(mount, path, &READ_WRITE);
    file.write(8192, &[b'b'; 8192]);
}

fn worker_truncates(mount: &Mount, path: &str) {
    let file = open(mount, path, &READ_WRITE);
    mount.truncate(file.file, 100).unwrap();
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
    // The number of the old file finds nothing of the new volume.
    stale(fresh.write(held.file, 0, &[IoSlice::new(b"x")], Stability::Unstable).unwrap_err());
    assert_eq!(std::fs::read(second.export().join("data")).unwrap(), b"of the new");
    second.kill();
}

workers!(worker_extends, worker_truncates, worker_appends);
