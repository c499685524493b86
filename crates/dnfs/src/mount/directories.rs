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
    known: HashMap<Vec<u8>, Known>,
}

impl Directories {
    /// What is known of `path` at this generation of the namespace.
    pub(crate) fn find(&self, generation: u64, path: &[u8]) -> Option<Known> {
        let inner = self.lock()?;
        (inner.generation == generation).then(|| inner.known.get(path).cloned()).flatten()
    }

    /// Keeps what a call sent at this generation found.
    pub(crate) fn keep(&self, generation: u64, path: &[u8], known: Known) {
        let Some(mut inner) = self.lock() else { return };
        if inner.generation != generation || inner.known.len() >= DIRECTORIES_MAX {
            inner.known.clear();
            inner.generation = generation;
        }
        inner.known.insert(path.to_vec(), known);
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
