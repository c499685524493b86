//! Ensures that one process serves a directory tree. It locks the served directory exclusively and all directories above it shared
//! (flock(2) on the directories themselves: no file is made). A second process that serves the directory, one below it or one above it
//! is refused, whatever user runs it. Volumes of one process share their locks, because a configuration that is read again may name a
//! directory whose former volume still ends.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use host::Unpoisoned;

use crate::error::OpenError;
use crate::sys;

/// The locks; dropping it releases them.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _held: Vec<Arc<OwnedFd>>,
}

/// Descriptors that hold the locks of this process, by directory.
static OF_PROCESS: LazyLock<Mutex<HashMap<Identity, Weak<OwnedFd>>>> = LazyLock::new(Mutex::default);

/// Device and inode number.
type Identity = ((u32, u32), u64);

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Exclusively,
    Shared,
}

impl DirectoryLock {
    /// Locks a directory, whose path has no links. A directory above it that cannot be opened is left out, and so is a file system
    /// without locks.
    ///
    /// **Errors**: [`OpenError::Served`], [`OpenError::ServedBelow`], [`OpenError::ServedAbove`] for a lock of another process;
    /// [`OpenError::Directory`] if it cannot be opened.
    pub(crate) fn take(dir: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Directory { path: dir.to_path_buf(), source };
        let Some(own) = hold(dir, How::Exclusively).map_err(failed)? else {
            // Only a process that serves a directory below it holds a shared lock.
            let below = hold(dir, How::Shared).map_err(failed)?.is_some();
            let dir = dir.to_path_buf();
            return Err(if below { OpenError::ServedBelow { dir } } else { OpenError::Served { dir } });
        };
        let mut held = vec![own];
        for above in dir.ancestors().skip(1) {
            match hold(above, How::Shared) {
                Ok(Some(lock)) => held.push(lock),
                Ok(None) => return Err(OpenError::ServedAbove { dir: dir.to_path_buf(), above: PathBuf::from(above) }),
                Err(_) => {}
            }
        }
        Ok(Self { _held: held })
    }
}

/// Locks a directory, by the descriptor that holds this process's lock if there is one. `None` if another process holds a lock
/// that prevents it.
fn hold(dir: &Path, how: How) -> io::Result<Option<Arc<OwnedFd>>> {
    let fd = sys::open_path(dir, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let found = sys::stat(&fd)?;
    let mut of_process = OF_PROCESS.lock().unpoisoned();
    of_process.retain(|_, lock| lock.strong_count() > 0);
    let known = of_process.get(&(found.dev, found.ino)).and_then(Weak::upgrade);
    let lock = known.clone().unwrap_or_else(|| Arc::new(fd));
    let taken = match how {
        // A shared lock of this process becomes exclusive, unless others share it.
        How::Exclusively => without_support(sys::lock_exclusively(&lock))?,
        How::Shared if known.is_some() => true,
        How::Shared => without_support(sys::lock_shared(&lock))?,
    };
    if !taken {
        if known.is_some() {
            let _ = sys::lock_shared(&lock); // the failed attempt has released it
        }
        return Ok(None);
    }
    of_process.insert((found.dev, found.ino), Arc::downgrade(&lock));
    Ok(Some(lock))
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

    /// A lock by a descriptor of its own: flock(2) treats it as another process's.
    fn by_another(dir: &Path, lock: fn(&OwnedFd) -> io::Result<bool>) -> OwnedFd {
        let fd = sys::open_path(dir, libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        assert!(lock(&fd).unwrap(), "{}", dir.display());
        fd
    }

    #[test]
    fn a_tree_has_one_server_and_trees_beside_each_other_have_their_own() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let (one, below, other) = (base.join("one"), base.join("one/a/below"), base.join("other"));
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir(&other).unwrap();
        let served = by_another(&one, |fd| sys::lock_exclusively(fd));
        assert!(matches!(DirectoryLock::take(&one), Err(OpenError::Served { .. })));
        assert!(matches!(DirectoryLock::take(&below), Err(OpenError::ServedAbove { above, .. }) if above == one));
        let beside = DirectoryLock::take(&other).unwrap();
        drop(served);
        let served_below = by_another(&one, |fd| sys::lock_shared(fd));
        assert!(matches!(DirectoryLock::take(&one), Err(OpenError::ServedBelow { .. })));
        drop((served_below, beside));
        let held = DirectoryLock::take(&one).unwrap();
        let fd = sys::open_path(&one, libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        assert!(!sys::lock_shared(&fd).unwrap(), "others are kept off");
        drop(held);
        assert!(sys::lock_shared(&fd).unwrap());
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0, "no file is made");
    }

    #[test]
    fn volumes_of_one_process_share_their_locks_and_keep_them_as_long_as_one_is_there() {
        let base = tempfile::tempdir().unwrap();
        let one = base.path().canonicalize().unwrap().join("one");
        let below = one.join("below");
        std::fs::create_dir_all(&below).unwrap();
        let first = DirectoryLock::take(&below).unwrap();
        let second = DirectoryLock::take(&below).unwrap();
        drop(first);
        let fd = sys::open_path(&below, libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        assert!(!sys::lock_shared(&fd).unwrap());
        let above = DirectoryLock::take(&one).unwrap();
        drop(second);
        let fd = sys::open_path(&one, libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        assert!(!sys::lock_shared(&fd).unwrap(), "its lock has become exclusive");
        drop(above);
        assert!(sys::lock_exclusively(&fd).unwrap());
    }
}
