//! The mounts of the host, and the place of a directory in its file system, whatever mount leads to it.

use host::mount_table::{self, Mount};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::sys::{self, RawStat};
use crate::volume::Volume;

/// The mounts of the host, without automounters, because opening the directory of an automounter mounts its file system.
#[derive(Debug)]
pub struct Mounts(pub(crate) Vec<Mount>);

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
        Ok(Self::of(mount_table::read()?))
    }

    fn of(mut table: Vec<Mount>) -> Self {
        table.retain(|mount| mount.kind != "autofs");
        Self(table)
    }

    /// The tree of the directory at a path without links.
    ///
    /// **Errors**: the directory cannot be opened.
    pub fn tree(&self, dir: &Path) -> io::Result<Tree> {
        Ok(self.tree_of(&sys::stat(sys::open_path(dir, libc::O_PATH, 0)?)?, dir))
    }

    pub(crate) fn tree_of(&self, stat: &RawStat, dir: &Path) -> Tree {
        let at = self.0.iter().find(|mount| mount.id == stat.mount);
        let path = at.and_then(|mount| Some(mount.root.join(dir.strip_prefix(&mount.directory).ok()?)));
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
    /// The tree that this volume serves, also if another directory has its path now.
    #[must_use]
    pub fn tree(&self, mounts: &Mounts) -> Tree {
        let now = fs::read_link(format!("/proc/self/fd/{}", self.0.store.root().as_raw_fd()));
        mounts.tree_of(self.0.store.root_stat(), &now.unwrap_or_else(|_| self.0.dir.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automounters_are_left_out() {
        let table = b"30 21 0:40 / /home rw - autofs auto rw\n31 21 0:41 / /srv rw - tmpfs tmpfs rw\n";
        let mounts = Mounts::of(mount_table::parse(table));
        assert_eq!(mounts.0.iter().map(|mount| mount.id).collect::<Vec<_>>(), [31]);
    }
}
