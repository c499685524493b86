//! The lock of a file: who appends, sets the size or changes a mapped file holds it; under `writers=one` whoever writes, and readers read only between
//! writers: what a client with a lock on the file does.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Instant;

use super::Members;
use super::lease_lock::{LeaseLock, Locked};
use super::leases::Strength;
use crate::segment::layout::Slot;

/// The lock of a file, released when dropped.
pub(crate) type WriterGuard<'s> = LeaseLock<'s>;

impl Members {
    /// Waits until nobody writes to the file; then this call does. None when it does already, or when this process can hold no lock.
    pub(crate) fn lock_for_writing<'s>(&'s self, slot: &'s Slot) -> Option<WriterGuard<'s>> {
        self.lock_file(slot).held()
    }

    /// The same, telling why not.
    pub(crate) fn lock_file<'s>(&'s self, slot: &'s Slot) -> Locked<'s> {
        if slot.writer.load(Relaxed) == 0 {
            return self.lock(&slot.writer, &slot.writer_unlocked, Strength::Strong);
        }
        let begun = Instant::now();
        let locked = self.lock(&slot.writer, &slot.writer_unlocked, Strength::Strong);
        self.note_wait(begun);
        locked
    }

    /// [`Self::lock_for_writing`] for one who does not wait for anybody alive.
    pub(crate) fn try_lock_for_writing<'s>(&'s self, slot: &'s Slot) -> Option<WriterGuard<'s>> {
        self.try_lock(&slot.writer, &slot.writer_unlocked, Strength::Strong).held()
    }

    /// Waits until nobody writes to the file.
    pub(crate) fn wait_for_writer(&self, slot: &Slot) {
        if slot.writer.load(Acquire) == 0 {
            return;
        }
        let begun = Instant::now();
        slot.writer_unlocked.wait_until(|overdue| {
            self.renew_leases();
            let holder = slot.writer.load(Acquire);
            let is_looked_at = overdue || self.is_of_other_call(holder);
            let is_free = holder == 0 || self.is_of_this_call(holder) || is_looked_at && self.is_gone(holder);
            is_free.then_some(())
        });
        self.note_wait(begun);
    }

    fn note_wait(&self, begun: Instant) {
        let table = self.table();
        table.writer_waits.fetch_add(1, Relaxed);
        table.writer_wait_ns.fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
    }
}
