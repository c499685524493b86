//! Directory handles and symbolic links this process met on its way, good while the namespace stands still.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::file::FileHandle;
use crate::limits::DIRECTORIES_MAX;

/// What a path below the root is.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// A directory.
    Directory(FileHandle),
    /// A symbolic link with this text.
    Link(Vec<u8>),
}

/// The cache. A caller that finds it taken (another thread, the frame below a signal handler, a thread that did not
/// come along in a fork) goes to the server instead of waiting.
#[derive(Debug, Default)]
pub(crate) struct Directories(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    generation: u64,
    known: HashMap<Vec<u8>, Known>,
}

impl Directories {
    /// What is known of `path` at this generation of the namespace.
    pub(crate) fn find(&self, generation: u64, path: &[u8]) -> Option<Known> {
        let inner = self.0.try_lock().ok()?;
        (inner.generation == generation).then(|| inner.known.get(path).cloned()).flatten()
    }

    /// Keeps what a call sent at this generation found.
    pub(crate) fn keep(&self, generation: u64, path: &[u8], known: Known) {
        let Ok(mut inner) = self.0.try_lock() else { return };
        if inner.generation != generation || inner.known.len() >= DIRECTORIES_MAX {
            inner.known.clear();
            inner.generation = generation;
        }
        inner.known.insert(path.to_vec(), known);
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        if let Ok(mut inner) = self.0.try_lock() {
            inner.known.clear();
        }
    }
}
