//! What is promised stable is flushed, concurrent callers share flushes, and a flush that fails is told.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

use crate::common::{Scratch, content, make_dir, make_file, owner};
use volume::{Config, Error, NodeKind, Options, SetAttr, SetTime, Stability, Time, Volume};

#[test]
fn each_change_of_names_flushes_before_it_returns() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let mut last = volume.flushes();
    let mut flushed = |what: &str, least: u64| {
        let now = volume.flushes();
        assert!(now - last >= least, "{what}: {} flushes", now - last);
        last = now;
    };
    let node = make_file(&volume, &root, "a", b"");
    flushed("create: the file and the directory", 2);
    let sub = make_dir(&volume, &root, "d");
    flushed("mkdir", 2);
    volume.symlink(&root, b"l", b"x", &SetAttr::default(), owner()).unwrap();
    flushed("symlink", 2);
    volume.link(&node, &sub, b"b").unwrap();
    flushed("link", 2);
    volume.rename(&root, b"a", &sub, b"c").unwrap();
    flushed("rename between directories", 2);
    volume.remove(&sub, b"b").unwrap();
    flushed("remove", 1);
    volume.set_attr(&node, &SetAttr { mode: Some(0o600), ..SetAttr::default() }, None).unwrap();
    flushed("setattr", 1);
    volume.write(&node, 0, b"x", Stability::DataSync).unwrap();
    flushed("durable write", 1);
    volume.write(&node, 0, b"y", Stability::Unstable).unwrap();
    volume.commit(&node).unwrap();
    flushed("commit", 1);
    let before = volume.flushes();
    volume.commit(&node).unwrap();
    volume.write(&node, 0, b"z", Stability::Unstable).unwrap();
    assert_eq!(volume.flushes(), before, "a clean file needs no flush, an unstable write makes none");
}

#[test]
fn first_commit_after_reopen_flushes_what_a_killed_process_left() {
    let scratch = Scratch::new();
    let handle = {
        let volume = scratch.open();
        let node = make_file(&volume, &volume.root(), "a", b"");
        volume.write(&node, 0, b"left in the page cache", Stability::Unstable).unwrap();
        volume.handle(&node)
    };
    let volume = scratch.open();
    let node = volume.resolve(handle.as_bytes()).unwrap();
    let before = volume.flushes();
    volume.commit(&node).unwrap();
    assert_eq!(volume.flushes(), before + 1);
}

#[test]
fn concurrent_creators_need_no_more_flushes_than_one_after_the_other() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let (threads, files) = (8, 25);
    let barrier = Barrier::new(threads);
    let before = volume.flushes();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (volume, barrier) = (&volume, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for n in 0..files {
                    make_file(volume, &volume.root(), &format!("{thread}-{n}"), b"");
                }
            });
        }
    });
    let alone = 2 * (threads * files) as u64;
    let made = volume.flushes() - before;
    println!("{made} flushes for {alone} asked");
    // How many are shared is the disk's choice: none where a flush takes no time.
    assert!(made <= alone);
    assert_eq!(crate::common::names(&volume, &volume.root()).len(), 2 + threads * files);
}

#[test]
fn reads_know_the_end_of_the_file() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let node = make_file(&volume, &volume.root(), "a", &[7; 8192]);
    let mut buf = [0; 4096];
    assert_eq!(volume.read(&node, 0, &mut buf), Ok((4096, false)));
    assert_eq!(volume.read(&node, 4096, &mut buf), Ok((4096, true)));
    assert_eq!(volume.read(&node, 6000, &mut buf), Ok((2192, true)));
    assert_eq!(volume.read(&node, 8192, &mut buf), Ok((0, true)));
    assert_eq!(volume.read(&node, u64::MAX, &mut buf), Ok((0, true)));
    let (bytes, eof, attr) = volume.read_with_attr(&node, 4000, &mut buf).unwrap();
    assert_eq!((bytes, eof, attr.size), (4096, false, 8192));
    assert_eq!(volume.write(&node, u64::MAX - 1, b"xx", Stability::Unstable), Err(Error::TooBig));
    assert_eq!(volume.write(&node, i64::MAX as u64, b"x", Stability::FileSync), Err(Error::TooBig));
}

/// An ext4 on a loop device whose backing file lies on a small tmpfs: it believes to have more room than
/// there is, so flushes fail for real.
struct LyingDisk {
    base: PathBuf,
    device: Option<String>,
}

impl LyingDisk {
    fn new(base: &Path) -> Result<Self, String> {
        let mut disk = Self { base: base.to_path_buf(), device: None };
        for dir in ["backing", "mnt"] {
            std::fs::create_dir(base.join(dir)).map_err(|error| error.to_string())?;
        }
        let backing = base.join("backing").display().to_string();
        let image = format!("{backing}/image");
        run("mount", &["-t", "tmpfs", "-o", "size=24m", "tmpfs", &backing])?;
        run("truncate", &["-s", "256m", &image])?;
        run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=1", "-J", "size=4", &image])?;
        let device = run("losetup", &["-f", "--show", &image])?;
        disk.device = Some(device.trim().to_owned());
        run("mount", &[device.trim(), &base.join("mnt").display().to_string()])?;
        Ok(disk)
    }

    fn dir(&self) -> PathBuf {
        self.base.join("mnt")
    }

    /// Gives the disk the space that it claims to have.
    fn make_room(&self) {
        run("mount", &["-o", "remount,size=300m", &self.base.join("backing").display().to_string()]).unwrap();
    }

    fn mount_again(&mut self) {
        let dir = self.dir().display().to_string();
        run("umount", &[&dir]).unwrap();
        run("mount", &[self.device.as_deref().unwrap_or_default(), &dir]).unwrap();
    }
}

impl Drop for LyingDisk {
    fn drop(&mut self) {
        let _ = run("umount", &[&self.dir().display().to_string()]);
        if let Some(device) = &self.device {
            let _ = run("losetup", &["-d", device]);
        }
        let _ = run("umount", &[&self.base.join("backing").display().to_string()]);
    }
}

/// A tmpfs mounted for one test.
struct Mounted(String);

impl Mounted {
    fn new(path: &Path, options: &str) -> Result<Self, String> {
        let path = path.display().to_string();
        run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &path])?;
        Ok(Self(path))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = run("umount", &[&self.0]);
    }
}

/// A mounted file system. `None`, with a message that skips the test, if it cannot be mounted.
pub fn or_skip<T>(mounted: Result<T, String>) -> Option<T> {
    let skip = |reason: &String| sim::skip_unsupported(&format!("no file system can be mounted here: {reason}"));
    mounted.inspect_err(skip).ok()
}

pub fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

#[test]
fn a_flush_on_a_full_pool_fails_and_changes_the_verifier_and_the_service_continues_once_there_is_room() {
    let base = tempfile::tempdir().unwrap();
    let Some(disk) = or_skip(LyingDisk::new(base.path())) else { return };
    let config = Config { dir: disk.dir(), state_dir: base.path().join("state"), loss: None, options: Options::default() };
    let volume = Volume::open(config.clone()).unwrap();
    let root = volume.root();
    let node = make_file(&volume, &root, "a", b"fine");
    let (verifier, epoch) = (volume.verifier(), volume.loss_epoch());
    let block = vec![0x5a; 1 << 20];
    for n in 0..48 {
        volume.write(&node, n << 20, &block, Stability::Unstable).expect("the page cache takes it");
    }
    assert_eq!(volume.commit(&node), Err(Error::NoSpace));
    assert_ne!(volume.verifier(), verifier, "clients must resend their data");
    assert!(!volume.is_poisoned());
    disk.make_room();
    let (verifier, moved) = (volume.verifier(), volume.loss_epoch());
    // As a client does after it has seen the new verifier.
    for n in 0..48 {
        volume.write(&node, n << 20, &block, Stability::Unstable).unwrap();
    }
    volume.commit(&node).unwrap();
    volume.write(&node, 0, b"stable", Stability::FileSync).unwrap();
    assert_eq!(volume.verifier(), verifier, "no further data is lost");
    drop((node, root, volume));
    let record = std::fs::read_to_string(base.path().join("state/volume-state")).unwrap();
    assert!(moved > epoch && record.contains(&format!("loss-epoch {moved}\n")), "{record}");
    Volume::open(config).expect("the volume opens although the host reports the failure to the next process too");
}

#[test]
fn a_write_beyond_the_hosts_largest_file_is_refused_and_the_verifier_stays_the_same() {
    let base = tempfile::tempdir().unwrap();
    let Some(disk) = or_skip(LyingDisk::new(base.path())) else { return };
    let config = Config { dir: disk.dir(), state_dir: base.path().join("state"), loss: None, options: Options::default() };
    let volume = Volume::open(config).unwrap();
    let node = make_file(&volume, &volume.root(), "a", b"");
    let verifier = volume.verifier();
    for stability in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
        volume.write(&node, 0, b"unstable", Stability::Unstable).unwrap();
        assert_eq!(volume.write(&node, 1 << 50, b"x", stability), Err(Error::TooBig));
    }
    volume.commit(&node).unwrap();
    assert_eq!(volume.verifier(), verifier);
}

#[test]
fn the_verifier_changes_when_the_file_system_is_mounted_again() {
    let base = tempfile::tempdir().unwrap();
    let Some(mut disk) = or_skip(LyingDisk::new(base.path())) else { return };
    let config = Config { dir: disk.dir(), state_dir: base.path().join("state"), loss: None, options: Options::default() };
    let verifier = |config: &Config| Volume::open(config.clone()).unwrap().verifier();
    let first = verifier(&config);
    assert_eq!(verifier(&config), first, "the same page cache");
    disk.mount_again();
    assert_ne!(verifier(&config), first, "unmounted in between: unflushed data may be lost");
}

#[test]
fn full_store_is_reported_and_does_not_poison() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let Some(_mounted) = or_skip(Mounted::new(&dir, "size=2m")) else { return };
    let config = Config { dir: dir.clone(), state_dir: base.path().join("state"), loss: None, options: Options::default() };
    let volume = Volume::open(config).unwrap();
    let node = make_file(&volume, &volume.root(), "a", b"");
    let verifier = volume.verifier();
    let block = vec![1; 1 << 20];
    // Unstable data of the same file is in no doubt when a write is refused.
    volume.write(&node, 0, b"unstable", Stability::Unstable).unwrap();
    let mut written = 0;
    let error = loop {
        volume.write(&node, 0, b"unstable", Stability::Unstable).unwrap();
        match volume.write(&node, written, &block, Stability::FileSync) {
            Ok(bytes) => written += bytes as u64,
            Err(error) => break error,
        }
        assert!(written <= 4 << 20);
    };
    assert_eq!(error, Error::NoSpace);
    assert!(!volume.is_poisoned());
    assert_eq!(volume.verifier(), verifier);
    volume.set_attr(&node, &SetAttr { size: Some(0), ..SetAttr::default() }, None).unwrap();
    volume.write(&node, 0, b"room again", Stability::FileSync).unwrap();
    assert_eq!(content(&volume, &node).unwrap(), b"room again");
    drop((node, volume));
}

#[test]
fn a_read_beyond_the_largest_offset_returns_the_bytes_up_to_it() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let Some(_mounted) = or_skip(Mounted::new(&dir, "size=2m")) else { return };
    let config = Config { dir, state_dir: base.path().join("state"), loss: None, options: Options::default() };
    let volume = Volume::open(config).unwrap();
    let node = make_file(&volume, &volume.root(), "a", b"");
    let end = i64::MAX as u64;
    volume.write(&node, end - 1, b"x", Stability::FileSync).unwrap();
    let mut bytes = [1; 4096];
    assert_eq!(volume.read(&node, end - 2, &mut bytes), Ok((2, true)));
    assert_eq!(bytes[..2], *b"\0x");
    assert_eq!(volume.read(&node, end, &mut bytes), Ok((0, true)));
    drop((node, volume));
}

#[test]
fn an_error_that_a_lost_writeback_may_have_given_moves_the_verifier_only_if_the_file_cannot_be_flushed() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let node = make_file(&volume, &volume.root(), "a", b"");
    for (failures, moved) in [(1, 0), (2, 1)] {
        let (verifier, epoch) = (volume.verifier(), volume.loss_epoch());
        volume.write(&node, 0, b"unstable", Stability::Unstable).unwrap();
        let fault = format!("enospc,on=flush,times={failures}");
        volume.set_fault(volume::faults::FaultSpec::parse(&fault).unwrap()).unwrap();
        assert_eq!(volume.write(&node, 9, b"refused", Stability::FileSync), Err(Error::NoSpace));
        assert_eq!((volume.loss_epoch() - epoch, volume.verifier() != verifier), (moved, moved == 1), "{failures}");
        assert!(!volume.is_poisoned());
        volume.commit(&node).unwrap();
    }
}

#[test]
fn mount_points_are_listed_but_not_entered() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    make_dir(&volume, &root, "mnt");
    let Some(mounted) = or_skip(Mounted::new(&scratch.dir().join("mnt"), "size=1m")) else { return };
    std::fs::write(scratch.dir().join("mnt/inside"), "another file system").unwrap();
    let found = volume.lookup(&root, b"mnt").map(drop);
    let listed = crate::common::names(&volume, &root);
    let removed = volume.rmdir(&root, b"mnt");
    let file = make_file(&volume, &root, "a", b"");
    let moved = volume.rename(&root, b"a", &root, b"mnt");
    drop(mounted);
    assert_eq!(found, Err(Error::CrossDevice));
    assert_eq!(listed, [".", "..", "mnt"]);
    assert_eq!(removed, Err(Error::Access), "busy is no JUKEBOX: waiting does not help");
    assert!(moved.is_err());
    assert!(volume.attr(&file).is_ok());
}

/// Whether data of a file has no blocks on the disk yet, by `filefrag`. `None` if `filefrag` fails.
pub fn waits_for_writeback(file: &Path) -> Option<bool> {
    let output = Command::new("filefrag").arg("-v").arg(file).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).contains("delalloc"))
}

#[test]
fn links_and_special_files_are_durable_without_the_data_of_other_files() {
    let base = tempfile::tempdir().unwrap();
    // A separate file system, because other tests sync that of the host.
    let Some(disk) = or_skip(LyingDisk::new(base.path())) else { return };
    let (dir, other) = (disk.dir().join("vol"), disk.dir().join("of-another-program"));
    std::fs::create_dir(&dir).unwrap();
    let config = Config { dir, state_dir: base.path().join("state"), loss: None, options: Options::default() };
    let volume = Volume::open(config).unwrap();
    let root = volume.root();
    std::fs::write(&other, vec![7; 1 << 20]).unwrap();
    if waits_for_writeback(&other) != Some(true) {
        return sim::skip("filefrag is not installed");
    }
    let before = volume.flushes();
    let (link, _) = volume.symlink(&root, b"l", b"x", &SetAttr::default(), owner()).unwrap();
    let (fifo, _) = volume.mknod(&root, b"p", NodeKind::Fifo, (0, 0), &SetAttr::default(), owner()).unwrap();
    let times = SetAttr { mtime: SetTime::Client(Time { sec: 1, nsec: 0 }), ..SetAttr::default() };
    volume.set_attr(&link, &times, None).unwrap();
    volume.set_attr(&fifo, &SetAttr { mode: Some(0o600), ..SetAttr::default() }, None).unwrap();
    volume.link(&link, &root, b"k").unwrap();
    assert!(volume.flushes() - before >= 8, "{} flushes", volume.flushes() - before);
    assert_eq!(waits_for_writeback(&other), Some(true), "the data of another program was written");
}
