//! What a thread looked up just before: stat(2) and open(2) of a path are a LOOKUP and then one more request about the same object,
//! whose attributes need not be asked for twice. Only the very next request of the thread is answered so.

use crate::limits::{RECENT_MAX, RECENT_MS};
use dnfs::mount::Entry;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<HashMap<u32, Found>>);

#[derive(Debug)]
struct Found {
    node: u64,
    entry: Entry,
    at: Instant,
}

impl Recent {
    /// A thread looked an object up that the kernel knows as this node.
    pub(crate) fn keep(&self, thread: u32, node: u64, entry: Entry) {
        if thread == 0 {
            return;
        }
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= RECENT_MAX {
            found.clear(); // of threads that have ended, mostly
        }
        found.insert(thread, Found { node, entry, at: Instant::now() });
    }

    /// The thread asks for something: what it looked up just before, if that is about this node.
    pub(crate) fn take(&self, thread: u32, node: u64) -> Option<Entry> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread)?;
        (found.node == node && found.at.elapsed() < Duration::from_millis(RECENT_MS)).then_some(found.entry)
    }
}
