//! The size of a file, shared by all processes at once.
//!
//! In single-owner mode the size in the segment is valid and the server is not asked. A write grows it by one `fetch_max` after
//! the server's reply. A process that sets the size by SETATTR first notes that in the slot. So no process trusts the number
//! meanwhile, even if that process is killed. Two counters detect overlapping calls: a writer that finds `size_sets` changed,
//! and a setter that finds `size_events` changed, ask the server for the result.

use core::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};

use super::layout::Slot;

/// State of a size when a request is sent that changes it or asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeMoment {
    size: u64,
    events: u64,
    sets: u32,
}

#[cfg(test)]
impl SizeMoment {
    pub(super) const fn size(self) -> u64 {
        self.size
    }
}

impl Slot {
    /// The size. `None` while a process sets it, or after a process was killed while it did.
    pub(crate) fn size_known(&self) -> Option<u64> {
        (self.size_unsure.load(Acquire) == 0).then(|| self.size.load(Acquire))
    }

    /// The current state, taken before the request is sent.
    pub(crate) fn size_moment(&self) -> SizeMoment {
        let (events, sets) = (self.size_events.load(Acquire), self.size_sets.load(Acquire));
        SizeMoment { size: self.size.load(Acquire), events, sets }
    }

    /// Raises the size to `end` after the server acknowledged a write up to there. Returns false if the size was set in
    /// between: the caller must ask the server.
    #[must_use]
    pub(crate) fn size_grew(&self, end: u64, moment: SizeMoment) -> bool {
        self.size_events.fetch_add(1, AcqRel);
        self.size.fetch_max(end, AcqRel);
        self.size_sets.load(Acquire) == moment.sets
    }

    /// Notes that a SETATTR of the size is about to be sent.
    pub(crate) fn size_set_starts(&self) {
        self.size_unsure.fetch_add(1, SeqCst);
    }

    /// Stores the size after the server set it to `size`. Returns false if writes were acknowledged meanwhile: the caller must
    /// ask the server, then call [`Slot::size_set_ends`].
    #[must_use]
    pub(crate) fn size_set(&self, size: u64, moment: SizeMoment) -> bool {
        self.size_sets.fetch_add(1, AcqRel);
        let stored = self.size.compare_exchange(moment.size, size, AcqRel, Acquire).is_ok();
        stored && self.size_events.load(Acquire) == moment.events && self.size_sets.load(Acquire) == moment.sets.wrapping_add(1)
    }

    /// Notes that setting the size has ended, with or without success.
    pub(crate) fn size_set_ends(&self) {
        let _ = self.size_unsure.fetch_update(AcqRel, Acquire, |unsure| unsure.checked_sub(1));
    }

    /// Stores the size in the server's reply to a request sent at `moment`. Returns false if other calls changed the size
    /// meanwhile: it is unknown whether the reply contains their changes, so the caller must ask again.
    #[must_use]
    pub(crate) fn size_fetched(&self, size: u64, moment: SizeMoment) -> bool {
        let stored = self.size.compare_exchange(moment.size, size, AcqRel, Acquire).is_ok();
        stored && self.size_events.load(Acquire) == moment.events && self.size_sets.load(Acquire) == moment.sets
    }

    /// Whether the size is unknown because processes died or were stopped while they set it.
    pub(crate) fn size_needs_rest(&self) -> bool {
        self.size_unsure.load(Acquire) != 0
    }

    /// Makes the size known again. The caller has fetched it, and no process is setting it.
    pub(crate) fn size_rest(&self) {
        self.size_unsure.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::blank_slot;

    #[test]
    fn write_acknowledged_after_the_size_was_set_asks_the_server() {
        let slot = blank_slot();
        assert!(slot.size_grew(100, slot.size_moment()));
        let write = slot.size_moment();
        slot.size_set_starts();
        assert_eq!(slot.size_known(), None);
        assert!(slot.size_set(10, slot.size_moment()));
        slot.size_set_ends();
        assert_eq!(slot.size_known(), Some(10));
        assert!(!slot.size_grew(60, write));
    }

    #[test]
    fn size_set_while_a_write_was_acknowledged_asks_the_server() {
        let slot = blank_slot();
        assert!(slot.size_grew(100, slot.size_moment()));
        let set = slot.size_moment();
        assert!(slot.size_grew(60, slot.size_moment()));
        assert!(!slot.size_set(10, set));
        let asked = slot.size_moment();
        assert!(slot.size_fetched(60, asked));
    }

    #[test]
    fn fetched_size_older_than_a_growth_is_refused() {
        let slot = blank_slot();
        let asked = slot.size_moment();
        assert!(slot.size_grew(8192, slot.size_moment()));
        assert!(!slot.size_fetched(0, asked));
        assert_eq!(slot.size_known(), Some(8192));
    }
}
