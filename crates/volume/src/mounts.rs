//! The mounts of the host, and where a directory is in its file system, whatever mount leads to it.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::sys::{self, RawStat};
use crate::volume::Volume;

/// The mounts of the host (proc_pid_mountinfo(5)).
#[derive(Debug)]
pub struct Mounts(pub(crate) Vec<Mount>);

/// A line of mountinfo.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) number: u64,
    /// The directory of the file system that is mounted, and where.
    pub(crate) root: PathBuf,
    pub(crate) at: PathBuf,
}

/// A directory with all below it. It is the same for each bind mount that leads to the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    dev: (u32, u32),
    ino: u64,
    /// The directory's path in its file system. `None` if its mount is not listed.
    path: Option<PathBuf>,
}

impl Mounts {
    /// The mounts that this process sees now.
    ///
    /// **Errors**: the host does not list its mounts.
    pub fn read() -> io::Result<Self> {
        // A path that is not UTF-8 is changed here, so that no file system is found there.
        let mounts = String::from_utf8_lossy(&fs::read("/proc/self/mountinfo")?).into_owned();
        Ok(Self(mounts.lines().filter_map(mount).collect()))
    }

    /// The tree of the directory at a path without links.
    ///
    /// **Errors**: the directory cannot be opened.
    pub fn tree(&self, dir: &Path) -> io::Result<Tree> {
        Ok(self.tree_of(&sys::stat(sys::open_path(dir, libc::O_PATH, 0)?)?, dir))
    }

    pub(crate) fn tree_of(&self, stat: &RawStat, dir: &Path) -> Tree {
        let at = self.0.iter().find(|mount| mount.number == stat.mount);
        let path = at.and_then(|mount| Some(mount.root.join(dir.strip_prefix(&mount.at).ok()?)));
        Tree { dev: stat.dev, ino: stat.ino, path }
    }
}

impl Tree {
    /// Whether the directories are the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }

    /// Whether the directories are the same, or one is in the other.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let nested = |one: &PathBuf, other: &PathBuf| one.starts_with(other) || other.starts_with(one);
        let paths = self.path.as_ref().zip(other.path.as_ref());
        self.dev == other.dev && (self.ino == other.ino || paths.is_some_and(|(one, other)| nested(one, other)))
    }
}

impl Volume {
    /// The tree that this volume serves, also if another one is at its path by now.
    #[must_use]
    pub fn tree(&self, mounts: &Mounts) -> Tree {
        let now = fs::read_link(format!("/proc/self/fd/{}", self.0.root_fd.as_raw_fd()));
        mounts.tree_of(&self.0.root_stat, &now.unwrap_or_else(|_| self.0.dir.clone()))
    }
}

/// Parses a line of mountinfo. `None` for an automounter, because opening its directory would mount.
fn mount(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ');
    let (number, root, at) = (fields.next()?.parse().ok()?, fields.nth(2)?, fields.next()?);
    let kind = fields.skip_while(|field| *field != "-").nth(1)?;
    // The backslash last, because a backslash in the path is itself encoded.
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let path = |field: &str| escapes.iter().fold(field.to_owned(), |path, (escaped, byte)| path.replace(escaped, byte)).into();
    (kind != "autofs").then(|| Mount { number, root: path(root), at: path(at) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_from_its_line_and_that_of_an_automounter_is_left_out() {
        let line = "212 21 0:45 /vol /mnt/a\\040b\\134 rw,relatime shared:1 master:2 - btrfs /dev/mapper/x rw,subvol=/vol";
        let expected = Mount { number: 212, root: "/vol".into(), at: "/mnt/a b\\".into() };
        assert_eq!(mount(line), Some(expected));
        assert_eq!(mount("30 21 0:40 / /home rw - autofs auto rw"), None);
        assert_eq!(mount(""), None);
    }
}
