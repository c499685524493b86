//! Cache of directory handles and symbolic links that this process looked up, valid until a name changes. The key of an entry
//! is the handle of the directory and the name in it. So a path that begins in an open directory uses the cache as a path from
//! the root does, and an entry stays valid when another directory takes the path.

use crate::file::FileHandle;
use crate::limits::DIRECTORIES_MAX;
use crate::process::this_process;
use crate::sys::fork_lock::{ForkGuard, ForkLock};
use std::collections::HashMap;

/// What a name in a directory is.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// A directory.
    Directory(FileHandle),
    /// A symbolic link with this text.
    Link(Vec<u8>),
}

/// The cache. A caller that finds it locked (by another thread, or by the frame below a signal handler) asks the server instead
/// of waiting. If a fork copied it during a change, it starts empty in the child.
#[derive(Debug)]
pub(crate) struct Directories(ForkLock<Inner>);

impl Default for Directories {
    fn default() -> Self {
        Self(ForkLock::new(Inner::default()))
    }
}

#[derive(Debug, Default)]
struct Inner {
    generation: u64,
    /// Key: the directory's handle and the name. Value: the time of the lookup in ms, and the result.
    known: HashMap<(FileHandle, Vec<u8>), (u64, Known)>,
}

impl Directories {
    /// The entry of a name in this generation of the namespace, if it is not older than `oldest_ms`.
    pub(crate) fn find(&self, generation: u64, name: &(FileHandle, Vec<u8>), oldest_ms: u64) -> Option<Known> {
        let inner = self.lock()?;
        let (found_ms, known) = inner.known.get(name)?;
        (inner.generation == generation && *found_ms >= oldest_ms).then(|| known.clone())
    }

    /// Stores the result of a call that was sent at this generation and time.
    pub(crate) fn keep(&self, generation: u64, name: (FileHandle, Vec<u8>), now_ms: u64, known: Known) {
        let Some(mut inner) = self.lock() else { return };
        if inner.generation != generation || inner.known.len() >= DIRECTORIES_MAX {
            inner.known.clear();
            inner.generation = generation;
        }
        inner.known.insert(name, (now_ms, known));
    }

    fn lock(&self) -> Option<ForkGuard<'_, Inner>> {
        self.0.try_lock(this_process().current_thread(), |torn| std::mem::forget(std::mem::take(torn)))
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        if let Some(mut inner) = self.lock() {
            inner.known.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_before_a_change_or_too_long_ago_is_not_believed() {
        let directories = Directories::default();
        let name = (FileHandle::new(b"directory").unwrap(), b"a".to_vec());
        directories.keep(3, name.clone(), 1000, Known::Link(b"b".to_vec()));
        assert!(directories.find(3, &name, 1000).is_some());
        assert!(directories.find(3, &name, 1001).is_none());
        assert!(directories.find(4, &name, 0).is_none());
        assert!(directories.find(3, &(FileHandle::new(b"another").unwrap(), name.1), 0).is_none());
    }
}
