//! The lock of a file. A call that appends, sets the size or changes a mapped file holds it. Under `writers=one` every write
//! holds it and reads wait for it, as with a client that locks the file.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Instant;

use super::Members;
use super::lease_lock::{LeaseLock, Locked};
use super::leases::Strength;
use crate::segment::layout::Slot;

/// The lock of a file, released when dropped.
pub(crate) type WriterGuard<'s> = LeaseLock<'s>;

impl Members {
    /// Waits for the file's lock. `None` if this call holds it already, or if this process can hold no lock.
    pub(crate) fn lock_for_writing<'s>(&'s self, slot: &'s Slot) -> Option<WriterGuard<'s>> {
        self.lock_file(slot).held()
    }

    /// As [`Self::lock_for_writing`], with the reason if it is not held.
    pub(crate) fn lock_file<'s>(&'s self, slot: &'s Slot) -> Locked<'s> {
        if slot.writer.load(Relaxed) == 0 {
            return self.lock(&slot.writer, &slot.writer_unlocked, Strength::Strong);
        }
        let begun = Instant::now();
        let locked = self.lock(&slot.writer, &slot.writer_unlocked, Strength::Strong);
        self.note_wait(begun);
        locked
    }

    /// As [`Self::lock_for_writing`]; does not wait for a live holder.
    pub(crate) fn try_lock_for_writing<'s>(&'s self, slot: &'s Slot) -> Option<WriterGuard<'s>> {
        self.try_lock(&slot.writer, &slot.writer_unlocked, Strength::Strong).held()
    }

    /// Waits until no other call holds the file's lock.
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
