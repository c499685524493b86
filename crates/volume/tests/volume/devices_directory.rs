//! The directory for files behind block devices is part of the volume and not of the tree that clients see.

use std::os::unix::fs::PermissionsExt;

use crate::common::{Scratch, content, make_dir, make_file, names, owner};
use volume::{CreateHow, Durable, Error, SetAttr, Volume, flush_deferred};

const NAME: &[u8] = b".millrace-luns";

fn make(volume: &Volume, name: &[u8], size: u64) -> volume::Node {
    let set = SetAttr { size: Some(size), mode: Some(0o600), ..SetAttr::default() };
    let dir = volume.make_devices_directory().unwrap();
    volume.create(&dir, name, CreateHow::Guarded(set), volume.own_user()).unwrap().0
}

#[test]
fn no_operation_on_files_finds_lists_makes_moves_or_removes_it() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    assert_eq!(volume.devices_directory().unwrap(), None);
    make(&volume, b"one", 1 << 20);
    let root = volume.root();
    let (dir, file) = (make_dir(&volume, &root, "dir"), make_file(&volume, &root, "file", b"x"));
    assert_eq!(names(&volume, &root), [".", "..", "dir", "file"]);
    assert_eq!(volume.lookup(&root, NAME).unwrap_err(), Error::NoEntry);
    let set = SetAttr::default();
    for refused in [
        volume.create(&root, NAME, CreateHow::Unchecked(set), owner()).map(drop),
        volume.mkdir(&root, NAME, &set, owner()).map(drop),
        volume.symlink(&root, NAME, b"x", &set, owner()).map(drop),
    ] {
        assert_eq!(refused, Err(Error::Exists));
    }
    for refused in [
        volume.link(&file, &root, NAME).map(drop),
        volume.rename(&root, b"file", &root, NAME),
        volume.rename(&root, NAME, &dir, b"luns"),
        volume.remove(&root, NAME),
        volume.rmdir(&root, NAME),
    ] {
        assert_eq!(refused, Err(Error::NoEntry));
    }
    let elsewhere = make_dir(&volume, &dir, ".millrace-luns");
    assert_eq!(names(&volume, &elsewhere), [".", ".."], "below the root the name is like any other");
    let mode = std::fs::metadata(scratch.dir().join(".millrace-luns")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

#[test]
fn what_is_in_it_counts_in_the_quota_and_survives_a_restart() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    make(&volume, b"one", 1 << 20);
    drop(volume);
    let volume = scratch.open();
    volume.set_quota(Some(3 << 20)).unwrap();
    assert_eq!(volume.quota().unwrap().used_bytes, 1 << 20);
    let dir = volume.devices_directory().unwrap().unwrap();
    assert_eq!(names(&volume, &dir), [".", "..", "one"]);
}

#[test]
fn something_else_of_its_name_is_never_taken_for_it() {
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.dir().join(".millrace-luns"), b"a file").unwrap();
    let volume = scratch.open();
    assert_eq!(volume.devices_directory().unwrap_err(), Error::NotDirectory);
    assert_eq!(volume.make_devices_directory().unwrap_err(), Error::NotDirectory);
}

#[test]
fn a_device_says_what_of_it_is_mapped() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let device = volume.open_device(&make(&volume, b"thin", 1 << 20), 512).unwrap();
    assert_eq!(device.extent(0).unwrap(), (1 << 20, false));
    device.write(256 << 10, &[7; 4096], Durable::OnReturn).unwrap();
    assert_eq!(device.extent(0).unwrap(), (256 << 10, false));
    let (bytes, mapped) = device.extent(256 << 10).unwrap();
    assert!(mapped && bytes >= 4096 && bytes.is_multiple_of(512), "{bytes}");
    assert_eq!(device.extent((256 << 10) + bytes).unwrap(), ((768 << 10) - bytes, false));
    assert!(device.extent(1 << 20).is_err());
}

#[test]
fn durable_writes_of_a_device_share_a_flush() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let node = make(&volume, b"one", 1 << 20);
    let device = volume.open_device(&node, 512).unwrap();
    let before = volume.counters().data_flushes;
    let flushes: Vec<_> = (0..8).map(|n| device.write_deferred(n * 4096, &[n as u8; 4096]).unwrap().unwrap()).collect();
    assert!(flush_deferred(&flushes).iter().all(Result::is_ok));
    assert_eq!(volume.counters().data_flushes, before + 1);
    assert_eq!(content(&volume, &node).unwrap()[4096..8192], [1; 4096]);
    let mut read = vec![0; 4096];
    while !device.read_now(4096, &mut read).unwrap() {
        device.read(4096, &mut read).unwrap();
    }
    assert_eq!(read, [1; 4096]);
}
