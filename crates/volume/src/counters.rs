//! The counters of a volume.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a volume since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Flushes and durable writes that the volume requested from the host.
    pub flushes: u64,
    /// Those of them that durable writes and commits requested.
    pub data_flushes: u64,
    /// Durable writes.
    pub stable_writes: u64,
    /// Flushes that were not made because another caller's flush covered them.
    pub shared_flushes: u64,
    /// Durable writes that bypassed the page cache.
    pub direct_writes: u64,
    /// Reads that bypassed the page cache.
    pub direct_reads: u64,
}

/// The counters, as they are incremented.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) flushes: AtomicU64,
    pub(crate) data_flushes: AtomicU64,
    pub(crate) stable_writes: AtomicU64,
    pub(crate) shared_flushes: AtomicU64,
    pub(crate) direct_writes: AtomicU64,
    pub(crate) direct_reads: AtomicU64,
}

impl Counted {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters as they are now.
    pub(crate) fn load(&self) -> Counters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            flushes: load(&self.flushes),
            data_flushes: load(&self.data_flushes),
            stable_writes: load(&self.stable_writes),
            shared_flushes: load(&self.shared_flushes),
            direct_writes: load(&self.direct_writes),
            direct_reads: load(&self.direct_reads),
        }
    }
}
