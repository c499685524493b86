//! What a unit knows of the durability of its writes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) struct Durability {
    /// Writes completed that no flush has covered yet.
    pub(super) unflushed: AtomicBool,
    /// The store's loss epoch at which `unflushed` was last known to be whole.
    pub(super) epoch: AtomicU64,
    /// Writes that completed may be lost: no write is accepted any more.
    pub(super) failed: AtomicBool,
}

impl Durability {
    pub(super) const fn new(epoch: u64) -> Self {
        Self { unflushed: AtomicBool::new(false), epoch: AtomicU64::new(epoch), failed: AtomicBool::new(false) }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}
