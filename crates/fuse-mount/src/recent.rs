//! The last lookup of each thread. For stat(2) and open(2) of a path the kernel sends a LOOKUP and then a request about the same
//! object, whose attributes are then known. Only the next request of the thread uses them.

use crate::limits::{RECENT_MAX, RECENT_MS};
use dnfs::mount::Entry;
use host::Unpoisoned;
use std::collections::HashMap;
use std::sync::Mutex;
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
    /// Notes that a thread looked up an object, which the kernel knows as this node.
    pub(crate) fn keep(&self, thread: u32, node: u64, entry: Entry) {
        if thread == 0 {
            return;
        }
        let mut found = self.0.lock().unpoisoned();
        if found.len() >= RECENT_MAX {
            found.clear(); // most of these threads have ended
        }
        found.insert(thread, Found { node, entry, at: Instant::now() });
    }

    /// Takes the last lookup of a thread for its next request. `None` if it is too old, or about another node.
    pub(crate) fn take(&self, thread: u32, node: u64) -> Option<Entry> {
        let found = self.0.lock().unpoisoned().remove(&thread)?;
        (found.node == node && found.at.elapsed() < Duration::from_millis(RECENT_MS)).then_some(found.entry)
    }
}
