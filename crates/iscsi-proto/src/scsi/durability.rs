//! What the unit knows about the durability of its writes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) struct Durability {
    /// Number of starts and ends of changes that are not durable when they complete.
    changes: AtomicU64,
    /// The value of `changes` up to which all changes are durable.
    flushed: AtomicU64,
    /// The loss epoch of the store when the unflushed changes began.
    pub(super) epoch: AtomicU64,
    /// Whether completed writes may be lost. If so, no further write is accepted.
    pub(super) failed: AtomicBool,
}

impl Durability {
    pub(super) const fn new(epoch: u64) -> Self {
        Self {
            changes: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            epoch: AtomicU64::new(epoch),
            failed: AtomicBool::new(false),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Notes the start or the end of a change.
    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The changes that a flush covers if it begins now.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Whether some of these changes are not durable. Several flushes may run at a time. Only a successful one makes changes durable.
    pub(super) fn are_unflushed(&self, changes: u64) -> bool {
        changes > self.flushed.load(Ordering::SeqCst)
    }

    /// Notes that a flush of these changes has succeeded.
    pub(super) fn note_flushed(&self, changes: u64) {
        self.flushed.fetch_max(changes, Ordering::SeqCst);
    }
}
