//! Reads that must not wait: they bring what the host has in memory, or say that they would have to wait.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Scratch, make_file};
use volume::{Config, Options, ReadAhead, Volume};

const FILE_BYTES: usize = 1 << 20;
const PAGE: usize = 4096;
/// What the host may take until it has forgotten a file, or has a page that it reads ahead.
const HOST_MAX: Duration = Duration::from_secs(10);

/// Whether each page of a file is in the page cache, without bringing it there.
fn pages_in_memory(path: &Path) -> Vec<bool> {
    let file = File::open(path).unwrap();
    let mut pages = vec![0_u8; FILE_BYTES.div_ceil(PAGE)];
    // SAFETY: a new mapping of the whole file, given back below; nothing of it is read.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), FILE_BYTES, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(at, libc::MAP_FAILED);
    // SAFETY: the mapping is that long, and there is a byte for each of its pages.
    let looked = unsafe { libc::mincore(at, FILE_BYTES, pages.as_mut_ptr()) };
    assert_eq!(looked, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the mapping made above, which nobody uses any more.
    unsafe { libc::munmap(at, FILE_BYTES) };
    pages.iter().map(|page| page & 1 == 1).collect()
}

fn await_host(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + HOST_MAX;
    while !done() {
        assert!(Instant::now() < end, "waited {HOST_MAX:?} for {what}");
        std::thread::yield_now();
    }
}

/// Has the host forget the content of a file; false, said loudly, where it has nowhere else to keep it.
fn forget(path: &Path) -> bool {
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(path).output().unwrap().stdout;
    if kind.starts_with(b"tmpfs") {
        sim::skip_unsupported("the scratch directory is in memory, where nothing is cold");
        return false;
    }
    File::open(path).unwrap().sync_all().unwrap();
    // The kernel keeps a page that another processor has in hand.
    await_host("the host to forget a file", || {
        let input = format!("if={}", path.display());
        assert!(Command::new("dd").args([&input, "iflag=nocache", "count=0", "status=none"]).status().unwrap().success());
        !pages_in_memory(path).contains(&true)
    });
    true
}

#[test]
fn a_read_that_must_not_wait_brings_what_is_in_memory_and_refuses_the_rest() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let content: Vec<u8> = (0..FILE_BYTES).map(|index| (index / PAGE) as u8).collect();
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

    if !forget(&scratch.dir().join("f")) {
        return;
    }
    let cold = volume.read_with_attr_now(&file, 524_288, &mut buffer).unwrap();
    assert_eq!(cold.map(|read| read.0), None, "it would have had to wait");
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
        let file = make_file(&volume, &volume.root(), "f", &[7; FILE_BYTES]);
        let path = scratch.dir().join("f");
        if !forget(&path) {
            return;
        }
        let read = |offset| assert_eq!(volume.read_with_attr(&file, offset, &mut [0; 8192]).unwrap().0, 8192);
        read(0);
        match read_ahead {
            ReadAhead::Host => await_host("what follows", || pages_in_memory(&path)[2]),
            ReadAhead::Minimal => {
                // Behind a second read of the same file nothing of the first is on its way any more.
                read(FILE_BYTES as u64 / 2);
                let found: Vec<usize> = (0..).zip(pages_in_memory(&path)).filter_map(|(nth, here)| here.then_some(nth)).collect();
                assert_eq!(found, [0, 1, 128, 129], "pages in memory");
            }
        }
        read(8192);
    }
}
