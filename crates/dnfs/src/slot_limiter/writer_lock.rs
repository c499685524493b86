//! One writer at a time on each file, and readers only between writers: what a client with a lock on the file does.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::time::Instant;

use super::Members;
use super::members::Owner;
use crate::segment::layout::Slot;
use crate::sys::fork;

/// The writer's lock of a file, released when dropped.
pub(crate) struct WriterGuard<'s> {
    slot: &'s Slot,
    owner: Owner,
    fork_generation: u32,
}

impl Members {
    /// Waits until nobody writes to the file; then this thread does. None when it does already (a signal handler inside a
    /// write, or a COMMIT that belongs to one), or is a signal handler inside another call: the writer may need the slot of
    /// that.
    pub(crate) fn lock_for_writing<'s>(&self, slot: &'s Slot) -> Option<WriterGuard<'s>> {
        let owner = self.owner()?;
        let fork_generation = fork::fork_generation();
        let take = || slot.writer.compare_exchange(0, owner, AcqRel, Acquire);
        if let Err(found) = take() {
            if found == owner || self.is_inside_call(owner) {
                return None;
            }
            self.wait(slot, || take().is_ok());
        }
        Some(WriterGuard { slot, owner, fork_generation })
    }

    /// [`Self::lock_for_writing`] for one who does not wait for anybody alive.
    pub(crate) fn try_lock_for_writing<'s>(&self, slot: &'s Slot) -> Option<WriterGuard<'s>> {
        let owner = self.owner()?;
        let fork_generation = fork::fork_generation();
        let holder = slot.writer.load(Acquire);
        if holder != 0 && (holder == owner || !self.is_gone(holder)) {
            return None;
        }
        slot.writer.compare_exchange(holder, owner, AcqRel, Acquire).ok()?;
        Some(WriterGuard { slot, owner, fork_generation })
    }

    /// Waits until nobody writes to the file.
    pub(crate) fn wait_for_writer(&self, slot: &Slot) {
        let found = slot.writer.load(Acquire);
        if found == 0 {
            return;
        }
        let owner = self.owner();
        if Some(found) != owner && !owner.is_some_and(|owner| self.is_inside_call(owner)) {
            self.wait(slot, || slot.writer.load(Acquire) == 0);
        }
    }

    /// Whether this thread holds slots, so that it is in a signal handler that interrupted a call.
    fn is_inside_call(&self, owner: Owner) -> bool {
        self.table().slots.iter().any(|slot| slot.load(Relaxed) == owner)
    }

    fn wait(&self, slot: &Slot, free: impl Fn() -> bool) {
        let table = self.table();
        let begun = Instant::now();
        table.writer_waits.fetch_add(1, Relaxed);
        slot.writer_unlocked.wait_until(|overdue| {
            let holder = slot.writer.load(Acquire);
            if overdue && holder != 0 && self.is_gone(holder) {
                let _ = slot.writer.compare_exchange(holder, 0, AcqRel, Relaxed);
            }
            free().then_some(())
        });
        table.writer_wait_ns.fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
    }
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        if self.fork_generation == fork::fork_generation() {
            let _ = self.slot.writer.compare_exchange(self.owner, 0, SeqCst, Relaxed);
            self.slot.writer_unlocked.notify(u32::MAX); // readers may all go on
        }
    }
}
