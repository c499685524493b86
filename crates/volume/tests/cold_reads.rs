//! Reads that must not wait: they bring what the host has in memory, or say that they would have to wait.
#![allow(clippy::unwrap_used, reason = "a panic is a test's verdict")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Scratch, make_file};
use volume::{Config, Node, Options, ReadAhead, Volume};

/// How often the host is told to forget a file before it has to have done so.
const FORGETTING_TRIES: usize = 100;

/// Has the host forget the content of a file; false where it has nowhere else to keep it.
fn drop_from_memory(path: &Path) -> bool {
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(path).output().unwrap().stdout;
    if kind.starts_with(b"tmpfs") {
        return false;
    }
    std::fs::File::open(path).unwrap().sync_all().unwrap();
    let input = format!("if={}", path.display());
    Command::new("dd").args([&input, "iflag=nocache", "count=0", "status=none"]).status().unwrap().success()
}

/// Has the host forget a file until a read of these bytes would have to wait; false where it has nowhere else to keep it.
fn make_cold(scratch: &Scratch, volume: &Volume, file: &Node, offset: u64) -> bool {
    let cold = || volume.read_with_attr_now(file, offset, &mut [0; 8192]).unwrap().is_none();
    // The kernel forgets what nobody is about to use: another processor may still have a page in hand.
    for _ in 0..FORGETTING_TRIES {
        if !drop_from_memory(&scratch.dir().join("f")) {
            println!("SKIP: the scratch directory is in memory, where nothing is cold");
            return false;
        }
        if cold() {
            return true;
        }
    }
    panic!("it would have had to wait");
}

#[test]
fn a_read_that_must_not_wait_brings_what_is_in_memory_and_refuses_the_rest() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let content: Vec<u8> = (0..1 << 20).map(|index| (index / 4096) as u8).collect();
    let file = make_file(&volume, &volume.root(), "f", &content);
    let mut buffer = vec![0; 8192];
    let (bytes, eof, attr) = volume.read_with_attr_now(&file, 8192, &mut buffer).unwrap().expect("just written");
    assert_eq!((bytes, eof, attr.size), (8192, false, 1 << 20));
    assert_eq!(buffer, content[8192..16_384]);
    // The end of the file is an answer, not something to wait for.
    assert_eq!(
        volume.read_with_attr_now(&file, (1 << 20) - 100, &mut buffer).unwrap().map(|read| (read.0, read.1)),
        Some((100, true))
    );
    assert_eq!(volume.read_with_attr_now(&file, 1 << 21, &mut buffer).unwrap().map(|read| (read.0, read.1)), Some((0, true)));
    assert_eq!(volume.read_with_attr_now(&file, u64::MAX, &mut buffer).unwrap().map(|read| (read.0, read.1)), Some((0, true)));

    if !make_cold(&scratch, &volume, &file, 524_288) {
        return;
    }
    let (bytes, _, _) = volume.read_with_attr(&file, 524_288, &mut buffer).unwrap();
    assert_eq!((bytes, &buffer[..]), (8192, &content[524_288..532_480]));
    let again = volume.read_with_attr_now(&file, 524_288, &mut buffer).unwrap();
    assert_eq!(again.map(|read| read.0), Some(8192), "in memory now");
}

#[test]
fn with_minimal_read_ahead_only_what_is_asked_for_comes_into_memory() {
    for read_ahead in [ReadAhead::Host, ReadAhead::Minimal] {
        let scratch = Scratch::new();
        let options = Options { read_ahead, ..Options::default() };
        let volume = Volume::open(Config { options, ..scratch.config(None) }).unwrap();
        let file = make_file(&volume, &volume.root(), "f", &[7; 1 << 20]);
        // Whether what follows has come as well. Even a read that does not wait has its own pages fetched, so it is tried far away
        // whether the file is cold; a page that was kept all the same, or has not come yet, is another try.
        let follows = || {
            let cold = make_cold(&scratch, &volume, &file, 524_288);
            cold.then(|| {
                assert_eq!(volume.read_with_attr(&file, 0, &mut [0; 8192]).unwrap().0, 8192);
                volume.read_with_attr_now(&file, 8192, &mut [0; 8192]).unwrap().is_some()
            })
        };
        let Some(first) = follows() else { return };
        let expected = read_ahead == ReadAhead::Host;
        assert!(first == expected || (0..10).any(|_| follows() == Some(expected)), "{read_ahead}");
        assert_eq!(volume.read_with_attr(&file, 8192, &mut [0; 8192]).unwrap().0, 8192, "it comes when it is asked for");
    }
}
