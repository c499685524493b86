//! File systems that a test mounts on its host.

use super::text;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system. Dropping it unmounts the file system, even while its files are open.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a tmpfs of this many MiB on a new directory. Skips the test if this process may not mount.
    pub fn tmpfs(at: PathBuf, mebibytes: u32) -> Option<Self> {
        Self::by(&["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=777"), "none"], at)
    }

    /// Mounts a file system that has no ACLs on a new directory.
    pub fn without_acls(at: PathBuf) -> Option<Self> {
        Self::by(&["-t", "ramfs", "none"], at)
    }

    /// Mounts the file system in a file.
    pub fn image(image: &Path, at: PathBuf) -> Option<Self> {
        Self::by(&["-o", "loop", image.to_str().unwrap()], at)
    }

    /// Bind-mounts a directory at another place.
    pub fn bind(dir: &Path, at: PathBuf) -> Option<Self> {
        Self::by(&["--bind", dir.to_str().unwrap()], at)
    }

    fn by(arguments: &[&str], at: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount").args(arguments).arg(&at).output().unwrap();
        if !mounted.status.success() {
            sim::skip_unsupported(&format!("no file system can be mounted here: {}", text(&mounted)));
            return None;
        }
        Some(Self(at))
    }

    /// Unmounts the file system, whose files must be closed.
    pub fn end(self) {
        let ended = Command::new("umount").arg(&self.0).output().unwrap();
        assert!(ended.status.success(), "{}", text(&ended));
        std::mem::forget(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
