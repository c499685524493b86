//! Counters in several copies, so that threads on several cores do not pass one cache line to and fro.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::limits::COUNTER_SETS;

/// Copies of counters that threads are spread over. A copy is made when a thread first counts in it: an unused one takes
/// no memory.
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

    /// All copies there are.
    pub(crate) fn each(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get).map(Box::as_ref)
    }
}

/// Adds one counter to another.
pub(crate) fn add(to: &AtomicU64, from: &AtomicU64) {
    to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// The index of this thread's copies; threads take them in turn.
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
