//! Directory handles and symbolic links this process met on its way, good while the namespace stands still.

use crate::file::FileHandle;
use crate::limits::DIRECTORIES_MAX;
use crate::sys::fork_lock::{ForkGuard, ForkLock, Holder};
use std::collections::HashMap;

/// What a path below the root is.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// A directory.
    Directory(FileHandle),
    /// A symbolic link with this text.
    Link(Vec<u8>),
}

/// The cache. A caller that finds it taken (another thread, the frame below a signal handler) goes to the server instead of
/// waiting. One that a fork copied in the middle of a change begins empty.
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
    /// With the time each was found, in ms.
    known: HashMap<Vec<u8>, (u64, Known)>,
}

impl Directories {
    /// What is known of `path` at this generation of the namespace, and was found at `oldest_ms` or later.
    pub(crate) fn find(&self, generation: u64, path: &[u8], oldest_ms: u64) -> Option<Known> {
        let inner = self.lock()?;
        let (found_ms, known) = inner.known.get(path)?;
        (inner.generation == generation && *found_ms >= oldest_ms).then(|| known.clone())
    }

    /// Keeps what a call sent at this generation, at this time, found.
    pub(crate) fn keep(&self, generation: u64, path: &[u8], now_ms: u64, known: Known) {
        let Some(mut inner) = self.lock() else { return };
        if inner.generation != generation || inner.known.len() >= DIRECTORIES_MAX {
            inner.known.clear();
            inner.generation = generation;
        }
        inner.known.insert(path.to_vec(), (now_ms, known));
    }

    fn lock(&self) -> Option<ForkGuard<'_, Inner>> {
        self.0.try_lock(Holder::current(), |torn| std::mem::forget(std::mem::take(torn)))
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
        directories.keep(3, b"a", 1000, Known::Link(b"b".to_vec()));
        assert!(directories.find(3, b"a", 1000).is_some());
        assert!(directories.find(3, b"a", 1001).is_none());
        assert!(directories.find(4, b"a", 0).is_none());
    }
}
