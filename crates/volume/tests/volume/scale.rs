//! Old handles of many files after a restart: the first use of one is served at once with the right to open by handle, and
//! without it as soon as the search has seen the directory that the handle hints at.
//!
//! 4,000 files; a million in `make nightly`, or as many as `MILLRACE_SCALE_FILES` says.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Scratch, owner, without_privilege_in};
use volume::{Error, Handle, Identity, Volume};

/// What the first use of an old handle may take, however many files there are.
const FIRST_USE_MAX: Duration = Duration::from_secs(2);
/// Handles kept over the restart.
const KEPT: usize = 16;

/// Files of each test that is not a nightly one.
const FEW: usize = 4_000;

/// Files of the nightly tests.
fn many() -> usize {
    let asked = std::env::var("MILLRACE_SCALE_FILES").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(1_000_000).max(KEPT * 2)
}

/// A tree of that many files in directories of `each`, made on the host.
fn grow(dir: &Path, files: usize, each: usize) {
    for first in (0..files).step_by(each) {
        let dir = dir.join(format!("d{}", first / each));
        fs::create_dir(&dir).unwrap();
        for n in first..files.min(first + each) {
            File::create(dir.join(format!("f{n}"))).unwrap();
        }
    }
}

/// What a walk over the tree takes somebody who has nothing else to do.
fn plain_walk(dir: &Path) -> Duration {
    let start = Instant::now();
    let mut seen = 0;
    for below in fs::read_dir(dir).unwrap() {
        seen += fs::read_dir(below.unwrap().path()).unwrap().count();
    }
    assert!(seen > 0);
    start.elapsed()
}

/// Handles of files spread over the tree, each with its number as content.
fn keep(scratch: &Scratch, files: usize, each: usize) -> Vec<(Handle, String)> {
    let volume = scratch.open();
    let kept = (0..KEPT).map(|n| {
        let number = n * (files - 1) / (KEPT - 1);
        fs::write(scratch.dir().join(format!("d{}/f{number}", number / each)), number.to_string()).unwrap();
        let (dir, _) = volume.lookup(&volume.root(), format!("d{}", number / each).as_bytes()).unwrap();
        let (file, _) = volume.lookup(&dir, format!("f{number}").as_bytes()).unwrap();
        (volume.handle(&file), number.to_string())
    });
    kept.collect()
}

/// Times from the start to the first byte of the first handle, and of the slowest of the others; how often the caller was told
/// to come back.
fn first_uses(volume: &Volume, started: Instant, kept: &[(Handle, String)]) -> (Duration, Duration, u64) {
    let (mut first, mut slowest, mut busy) = (None, Duration::ZERO, 0);
    // The last one first: its directory is the last that a search sees.
    for (handle, content) in kept.iter().rev() {
        let asked = Instant::now();
        let mut bytes = [0; 16];
        let got = loop {
            match volume.resolve(handle.as_bytes()).and_then(|file| volume.read(&file, 0, &mut bytes)) {
                Err(Error::Busy) => {
                    busy += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                other => break other.unwrap().0,
            }
        };
        assert_eq!(&bytes[..got], content.as_bytes());
        match first {
            None => first = Some(started.elapsed()),
            Some(_) => slowest = slowest.max(asked.elapsed()),
        }
    }
    (first.unwrap(), slowest, busy)
}

/// Restarts the volume over a grown tree and uses old handles.
fn check(scratch: &Scratch, files: usize, each: usize) -> (Identity, u64) {
    let kept = keep(scratch, files, each);
    let started = Instant::now();
    let volume = scratch.open();
    let (first, slowest, busy) = first_uses(&volume, started, &kept);
    let walk = plain_walk(&scratch.dir());
    let by = volume.identity().as_str();
    println!("{files} files, {each} a directory, by {by}: first {first:?}, others at most {slowest:?}; a plain walk {walk:?}");
    // A host with other work is as slow at walking by itself.
    let allowed = FIRST_USE_MAX.max(walk * 4);
    assert!(first <= allowed && slowest <= allowed, "by {by}: {first:?}, {slowest:?}, allowed {allowed:?}");
    (volume.identity(), busy)
}

/// Who may open by handle is told to come back by no handle.
fn served_at_once(files: usize) {
    if owner().uid != 0 {
        return sim::skip_unsupported("only root may open by handle");
    }
    let scratch = Scratch::new();
    grow(&scratch.dir(), files, 1000);
    assert_eq!(check(&scratch, files, 1000), (Identity::Handles, 0), "nobody was told to come back");
}

fn found_soon(files: usize) {
    without_privilege_in(Scratch::new(), move |scratch| {
        grow(&scratch.dir(), files, 1000);
        let (identity, busy) = check(scratch, files, 1000);
        assert!(identity == Identity::HandlesByName && busy > 0, "{identity:?} {busy}");
    });
}

fn found_soon_in_one_directory(files: usize) {
    without_privilege_in(Scratch::new(), move |scratch| {
        grow(&scratch.dir(), files, files);
        check(scratch, files, files);
    });
}

#[test]
fn old_handles_of_many_files_are_served_at_once_by_who_may_open_them() {
    served_at_once(FEW);
}

#[test]
#[ignore = "nightly: a million files"]
fn old_handles_of_a_million_files_are_served_at_once_by_who_may_open_them() {
    served_at_once(many());
}

#[test]
fn old_handles_of_many_files_are_found_soon_by_who_may_not_open_them() {
    found_soon(FEW);
}

#[test]
#[ignore = "nightly: a million files"]
fn old_handles_of_a_million_files_are_found_soon_by_who_may_not_open_them() {
    found_soon(many());
}

#[test]
fn old_handles_in_one_directory_of_many_files_are_found_soon() {
    found_soon_in_one_directory(FEW / 10);
}

#[test]
#[ignore = "nightly: a hundred thousand files in one directory"]
fn old_handles_in_one_directory_of_a_hundred_thousand_files_are_found_soon() {
    found_soon_in_one_directory(many() / 10);
}
