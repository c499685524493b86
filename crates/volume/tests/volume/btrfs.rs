//! A volume on btrfs: acknowledged changes survive a crash, although other data of the file system was not synced.

use std::path::{Path, PathBuf};

use crate::common::{content, make_dir, make_file, owner};
use crate::durability::{or_skip, run, waits_for_writeback};
use volume::{Config, Kind, Node, NodeKind, Options, SetAttr, SetTime, Stability, Time, Volume};

/// A btrfs file system on a loop device.
struct Btrfs {
    base: PathBuf,
    image: PathBuf,
}

impl Btrfs {
    fn new(base: &Path) -> Result<Self, String> {
        let image = base.join("image");
        std::fs::create_dir(base.join("mnt")).map_err(|error| error.to_string())?;
        run("truncate", &["-s", "512m", &image.display().to_string()])?;
        run("mkfs.btrfs", &["-q", &image.display().to_string()])?;
        let disk = Self { base: base.to_path_buf(), image };
        disk.mount()?;
        std::fs::create_dir(disk.config().dir).map_err(|error| error.to_string())?;
        Ok(disk)
    }

    fn mount(&self) -> Result<(), String> {
        let (image, dir) = (self.image.display().to_string(), self.base.join("mnt").display().to_string());
        // btrfs does not commit by itself during the test.
        run("mount", &["-o", "loop,commit=300", &image, &dir]).map(drop)
    }

    fn config(&self) -> Config {
        let (dir, state_dir) = (self.base.join("mnt/vol"), self.base.join("state"));
        Config { dir, state_dir, loss: None, options: Options::default() }
    }

    /// Simulates a crash of the host: copies the device as it is at this moment, and mounts the copy.
    fn crash(&mut self, volume: Volume) -> Volume {
        let copy = self.base.join("copy");
        run("cp", &["--sparse=always", &self.image.display().to_string(), &copy.display().to_string()]).unwrap();
        drop(volume);
        run("umount", &[&self.base.join("mnt").display().to_string()]).unwrap();
        self.image = copy;
        self.mount().unwrap();
        Volume::open(self.config()).unwrap()
    }
}

impl Drop for Btrfs {
    fn drop(&mut self) {
        // Lazily, because a failed test may still have files of it open.
        let _ = run("umount", &["-l", &self.base.join("mnt").display().to_string()]);
    }
}

fn at(sec: i64) -> SetAttr {
    SetAttr { mtime: SetTime::Client(Time { sec, nsec: 0 }), ..SetAttr::default() }
}

fn found(volume: &Volume, dir: &Node, name: &str) -> Node {
    volume.lookup(dir, name.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}")).0
}

#[test]
fn links_and_special_files_survive_a_crash_and_the_data_of_other_files_is_not_written() {
    let base = tempfile::tempdir().unwrap();
    let Some(mut disk) = or_skip(Btrfs::new(base.path())) else { return };
    let volume = Volume::open(disk.config()).unwrap();
    let root = volume.root();
    let dir = make_dir(&volume, &root, "d");
    let (old, _) = volume.symlink(&root, b"old", b"old target", &SetAttr::default(), owner()).unwrap();
    volume.flush_all().unwrap();
    let other = base.path().join("mnt/of-another-program");
    std::fs::write(&other, vec![7; 1 << 20]).unwrap();
    if waits_for_writeback(&other) != Some(true) {
        return sim::skip("filefrag is not installed");
    }
    let long = "t".repeat(3000);
    let (new, _) = volume.symlink(&root, b"new", long.as_bytes(), &SetAttr::default(), owner()).unwrap();
    let (fifo, _) = volume.mknod(&root, b"fifo", NodeKind::Fifo, (0, 0), &SetAttr::default(), owner()).unwrap();
    let (device, _) = volume.mknod(&dir, b"device", NodeKind::Character, (5, 7), &SetAttr::default(), owner()).unwrap();
    let (socket, _) = volume.mknod(&root, b"socket", NodeKind::Socket, (0, 0), &SetAttr::default(), owner()).unwrap();
    let (moved, _) = volume.symlink(&root, b"before", b"moved target", &SetAttr::default(), owner()).unwrap();
    volume.rename(&root, b"before", &dir, b"after").unwrap();
    volume.link(&old, &dir, b"second").unwrap();
    volume.link(&fifo, &dir, b"second-fifo").unwrap();
    volume.set_attr(&fifo, &SetAttr { mode: Some(0o600), ..at(2) }, None).unwrap();
    volume.set_attr(&old, &at(3), None).unwrap();
    assert_eq!(waits_for_writeback(&other), Some(true), "the data of another program was written");
    let handles = [&old, &new, &fifo, &device, &socket, &moved].map(|node| volume.handle(node));
    drop((root, dir, old, new, fifo, device, socket, moved));

    let volume = disk.crash(volume);
    let root = volume.root();
    let dir = found(&volume, &root, "d");
    assert_eq!(volume.read_link(&found(&volume, &root, "new")).unwrap(), long.as_bytes());
    assert_eq!(volume.read_link(&found(&volume, &dir, "after")).unwrap(), b"moved target");
    assert!(volume.lookup(&root, b"before").is_err());
    assert_eq!(found(&volume, &dir, "second"), found(&volume, &root, "old"));
    assert_eq!(found(&volume, &dir, "second-fifo"), found(&volume, &root, "fifo"));
    let attr = |name| volume.lookup(&root, name).unwrap().1;
    assert_eq!((attr(b"fifo").kind, attr(b"fifo").mode, attr(b"fifo").mtime.sec, attr(b"fifo").nlink), (Kind::Fifo, 0o600, 2, 2));
    assert_eq!((attr(b"old").mtime.sec, attr(b"old").nlink), (3, 2));
    assert_eq!(attr(b"socket").kind, Kind::Socket);
    let device = volume.lookup(&dir, b"device").unwrap().1;
    assert_eq!((device.kind, device.rdev), (Kind::Character, (5, 7)));
    for handle in handles {
        assert!(volume.resolve(handle.as_bytes()).is_ok_and(|node| volume.attr(&node).is_ok()), "handles stay valid");
    }
}

#[test]
fn changes_of_names_survive_a_crash() {
    let base = tempfile::tempdir().unwrap();
    let Some(mut disk) = or_skip(Btrfs::new(base.path())) else { return };
    let volume = Volume::open(disk.config()).unwrap();
    let root = volume.root();
    let old_dir = make_dir(&volume, &root, "old-dir");
    for name in ["moved", "linked", "removed", "replaced"] {
        make_file(&volume, &root, name, name.as_bytes());
    }
    volume.flush_all().unwrap();
    let new_dir = make_dir(&volume, &root, "new-dir");
    let made = make_file(&volume, &new_dir, "made", b"");
    volume.write(&made, 0, b"made", Stability::FileSync).unwrap();
    volume.link(&made, &old_dir, b"made-too").unwrap();
    volume.rename(&root, b"moved", &new_dir, b"moved").unwrap();
    volume.link(&found(&volume, &root, "linked"), &new_dir, b"linked").unwrap();
    volume.remove(&root, b"removed").unwrap();
    volume.rename(&new_dir, b"made", &root, b"replaced").unwrap();
    volume.rename(&root, b"old-dir", &new_dir, b"dir").unwrap();
    drop((root, old_dir, new_dir, made));

    let volume = disk.crash(volume);
    let root = volume.root();
    let new_dir = found(&volume, &root, "new-dir");
    let read = |dir: &Node, name| content(&volume, &found(&volume, dir, name)).unwrap();
    assert_eq!(crate::common::names(&volume, &root), [".", "..", "linked", "new-dir", "replaced"]);
    assert_eq!(crate::common::names(&volume, &new_dir), [".", "..", "dir", "linked", "moved"]);
    assert_eq!(read(&new_dir, "moved"), b"moved");
    assert_eq!(found(&volume, &new_dir, "linked"), found(&volume, &root, "linked"));
    assert_eq!(read(&root, "replaced"), b"made");
    assert_eq!(read(&found(&volume, &new_dir, "dir"), "made-too"), b"made");
}
