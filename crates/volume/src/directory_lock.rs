//! One server for a directory tree: the served directory is locked exclusively, those it lies in are locked shared (flock(2), on the
//! directories themselves: no file is made). So a second server of it, of a directory below it or of one above it is refused, whoever
//! runs it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::sys;

/// The locks, until dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _held: Vec<OwnedFd>,
}

impl DirectoryLock {
    /// Locks a directory, whose path has no links. One above it that this user may not read is left out, and so is a file system that
    /// has no locks.
    pub(crate) fn take(dir: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Directory { path: dir.to_path_buf(), source };
        let fd = sys::open_path(dir, libc::O_RDONLY | libc::O_DIRECTORY, 0).map_err(failed)?;
        if !without_support(sys::lock_exclusively(&fd)).map_err(failed)? {
            // Only those that serve a directory below it have it shared.
            let below = without_support(sys::lock_shared(&fd)).map_err(failed)?;
            let dir = dir.to_path_buf();
            return Err(if below { OpenError::ServedBelow { dir } } else { OpenError::Served { dir } });
        }
        let mut held = vec![fd];
        for above in dir.ancestors().skip(1) {
            let Ok(fd) = sys::open_path(above, libc::O_RDONLY | libc::O_DIRECTORY, 0) else { continue };
            if !without_support(sys::lock_shared(&fd)).map_err(failed)? {
                return Err(OpenError::ServedAbove { dir: dir.to_path_buf(), above: PathBuf::from(above) });
            }
            held.push(fd);
        }
        Ok(Self { _held: held })
    }
}

fn without_support(locked: io::Result<bool>) -> io::Result<bool> {
    match locked {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL)) => {
            Ok(true)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_one_server_and_trees_beside_each_other_have_their_own() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let (one, below, other) = (base.join("one"), base.join("one/a/below"), base.join("other"));
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir(&other).unwrap();
        let held = DirectoryLock::take(&one).unwrap();
        assert!(matches!(DirectoryLock::take(&one), Err(OpenError::Served { .. })));
        assert!(matches!(DirectoryLock::take(&below), Err(OpenError::ServedAbove { above, .. }) if above == one));
        assert!(matches!(DirectoryLock::take(&base), Err(OpenError::ServedBelow { .. })));
        let beside = DirectoryLock::take(&other).unwrap();
        drop(held);
        let below = DirectoryLock::take(&below).unwrap();
        assert!(matches!(DirectoryLock::take(&one), Err(OpenError::ServedBelow { .. })));
        drop((below, beside));
        assert!(DirectoryLock::take(&base).is_ok());
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0, "no file is made");
    }
}
