//! Counters in several copies, so that the cores do not compete for one cache line.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::limits::COUNTER_SETS;

/// Several copies of counters. Threads are spread over the copies. A copy is allocated when a thread first counts in it.
#[derive(Debug)]
pub(crate) struct Sharded<T>([OnceLock<Box<T>>; COUNTER_SETS]);

impl<T> Default for Sharded<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; COUNTER_SETS])
    }
}

impl<T: Default> Sharded<T> {
    /// The copy that this thread adds to.
    pub(crate) fn own(&self) -> Option<&T> {
        Some(self.0.get(own_index())?.get_or_init(Box::default))
    }

    /// All allocated copies.
    pub(crate) fn each(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get).map(Box::as_ref)
    }
}

/// Adds the value of one counter to another.
pub(crate) fn add(to: &AtomicU64, from: &AtomicU64) {
    to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// The index of this thread's copy. New threads take the indexes in turn.
fn own_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let own = OWN.get();
    if own < COUNTER_SETS {
        return own;
    }
    let own = NEXT.fetch_add(1, Ordering::Relaxed) % COUNTER_SETS;
    OWN.set(own);
    own
}
