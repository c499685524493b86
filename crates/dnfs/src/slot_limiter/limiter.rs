//! Limits the calls in flight of the whole mount, as the slot table of old clients does.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::Arc;
use std::time::Instant;

use super::Members;
use super::leases::{Lease, Strength};
use crate::limits::{CALL_SLOTS_MAX, SLOTS_MAX};
use crate::segment::layout::SlotTable;
use crate::sys::local_file::Errno;
use crate::sys::shm::Mapping;

/// A limit on the calls in flight, shared by all that use the same table.
///
/// It is not fair: the first caller that finds a free slot takes it.
#[derive(Debug)]
pub(crate) struct SlotLimiter {
    pub(super) members: Arc<Members>,
    limit: usize,
}

/// The slots that a caller holds. It may send that many calls. Dropping this releases the slots.
#[derive(Debug)]
pub(crate) struct SlotPermit<'g> {
    limiter: &'g SlotLimiter,
    lease: Option<Lease<'g>>, // `None`: the calls go through without a slot
    since: Instant,
    count: usize,
    places: [u16; SLOTS_MAX],
}

impl SlotLimiter {
    /// A limit of `limit` calls for all members.
    pub(crate) fn new(members: Arc<Members>, limit: usize) -> Self {
        Self { members, limit: limit.clamp(1, CALL_SLOTS_MAX) }
    }

    /// A limit for this process alone.
    pub(crate) fn alone(limit: usize) -> Result<Self, Errno> {
        let memory = Arc::new(Mapping::private(size_of::<SlotTable>())?);
        Ok(Self::new(Arc::new(Members::alone(memory)), limit))
    }

    /// Waits for a slot, and takes up to `wanted` if more are free. [`SlotPermit::count`] returns how many calls may be
    /// sent together.
    pub(crate) fn acquire(&self, wanted: usize) -> SlotPermit<'_> {
        if let Some(permit) = self.try_acquire(wanted) {
            return permit;
        }
        let table = self.members.table();
        let begun = Instant::now();
        table.waits.fetch_add(1, Relaxed);
        let permit = table.slot_freed.wait_until(|overdue| {
            self.members.renew_leases();
            if overdue {
                self.reclaim_slots();
            } else if table.slots.iter().take(self.limit).any(|slot| self.members.is_of_this_thread(slot.load(Relaxed))) {
                // A signal handler inside a call would wait for the call that it interrupted.
                return Some(self.over_limit(wanted));
            }
            self.try_acquire(wanted)
        });
        table.wait_ns.fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
        permit
    }

    /// As [`Self::acquire`], without waiting. `None` if all slots are taken.
    pub(crate) fn try_acquire(&self, wanted: usize) -> Option<SlotPermit<'_>> {
        let table = self.members.table();
        let Some(lease) = self.members.lease(Strength::Weak) else { return Some(self.over_limit(wanted)) };
        let owner = lease.owner();
        let wanted = wanted.clamp(1, SLOTS_MAX);
        let (mut places, mut count, mut most) = ([0; SLOTS_MAX], 0, 0);
        for (place, slot) in table.slots.iter().take(self.limit).enumerate() {
            if slot.load(Relaxed) == 0 && slot.compare_exchange(0, owner, AcqRel, Relaxed).is_ok() {
                places[count] = place as u16;
                count += 1;
                most = place as u32 + 1;
                if count == wanted {
                    break;
                }
            }
        }
        if count == 0 {
            return None;
        }
        // The lowest free slot is taken, so that the highest one ever taken shows how many were in use.
        if table.most.load(Relaxed) < most {
            table.most.fetch_max(most, Relaxed);
        }
        table.limit.store(self.limit as u32, Relaxed);
        table.calls.fetch_add(count as u64, Relaxed);
        Some(SlotPermit { limiter: self, lease: Some(lease), since: Instant::now(), count, places })
    }

    /// Lets calls through without a slot, and counts them.
    fn over_limit(&self, wanted: usize) -> SlotPermit<'_> {
        let count = wanted.clamp(1, SLOTS_MAX);
        self.members.table().beyond.fetch_add(count as u64, Relaxed);
        SlotPermit { limiter: self, lease: None, since: Instant::now(), count, places: [0; SLOTS_MAX] }
    }

    /// The table with the slots, and with the counts of calls and waits.
    pub(crate) fn table(&self) -> &SlotTable {
        self.members.table()
    }

    /// Takes back the slots of processes that died or were stopped.
    pub(super) fn reclaim_slots(&self) {
        let table = self.members.table();
        for slot in table.slots.iter().take(self.limit) {
            let owner = slot.load(Acquire);
            if owner != 0 && self.members.is_gone(owner) && slot.compare_exchange(owner, 0, AcqRel, Relaxed).is_ok() {
                table.reclaimed.fetch_add(1, Relaxed);
            }
        }
    }
}

impl SlotPermit<'_> {
    /// Calls that may be sent together.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }
}

impl Drop for SlotPermit<'_> {
    fn drop(&mut self) {
        // After a fork inside a call, the slots belong to the parent.
        let Some(lease) = self.lease.as_ref().filter(|lease| lease.is_of_this_process()) else { return };
        let table = self.limiter.members.table();
        table.held_ns.fetch_add(self.since.elapsed().as_nanos() as u64 * self.count as u64, Relaxed);
        for place in self.places.iter().take(self.count) {
            if let Some(slot) = table.slots.get(usize::from(*place)) {
                let _ = slot.compare_exchange(lease.owner(), 0, SeqCst, Relaxed);
            }
        }
        table.slot_freed.notify(self.count as u32);
    }
}
