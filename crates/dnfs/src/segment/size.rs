//! The size of a file, shared at once by all processes.
//!
//! In single-owner mode the segment is right and the server is not asked. Growth is one `fetch_max` after the server
//! acknowledged. Whoever sets the size by SETATTR says so before it asks, so that nobody trusts the number meanwhile,
//! not even after the setter was killed. Two counters tell overlapping calls of each other: a writer that finds
//! `size_sets` moved, and a setter that finds `size_events` moved, ask the server what came out.

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
    /// The size, unless somebody is setting it (or was killed doing so).
    pub(crate) fn size_known(&self) -> Option<u64> {
        (self.size_unsure.load(Acquire) == 0).then(|| self.size.load(Acquire))
    }

    /// To be taken before the request is sent.
    pub(crate) fn size_moment(&self) -> SizeMoment {
        let (events, sets) = (self.size_events.load(Acquire), self.size_sets.load(Acquire));
        SizeMoment { size: self.size.load(Acquire), events, sets }
    }

    /// After a write up to `end` was acknowledged. False when the size was set in between: ask the server.
    #[must_use]
    pub(crate) fn size_grew(&self, end: u64, moment: SizeMoment) -> bool {
        self.size_events.fetch_add(1, AcqRel);
        self.size.fetch_max(end, AcqRel);
        self.size_sets.load(Acquire) == moment.sets
    }

    /// Before the server is asked to set the size.
    pub(crate) fn size_set_starts(&self) {
        self.size_unsure.fetch_add(1, SeqCst);
    }

    /// After the server set it to `size`. False when writes were acknowledged meanwhile: ask the server, then call
    /// [`Slot::size_set_ends`].
    #[must_use]
    pub(crate) fn size_set(&self, size: u64, moment: SizeMoment) -> bool {
        self.size_sets.fetch_add(1, AcqRel);
        let stored = self.size.compare_exchange(moment.size, size, AcqRel, Acquire).is_ok();
        stored && self.size_events.load(Acquire) == moment.events && self.size_sets.load(Acquire) == moment.sets.wrapping_add(1)
    }

    /// After setting it, whether the server did it or not.
    pub(crate) fn size_set_ends(&self) {
        let _ = self.size_unsure.fetch_update(AcqRel, Acquire, |unsure| unsure.checked_sub(1));
    }

    /// Takes over the size in the server's answer to a request sent at `moment`. False when it was changed meanwhile by
    /// others: nobody knows what the server counted, ask again.
    #[must_use]
    pub(crate) fn size_fetched(&self, size: u64, moment: SizeMoment) -> bool {
        let stored = self.size.compare_exchange(moment.size, size, AcqRel, Acquire).is_ok();
        stored && self.size_events.load(Acquire) == moment.events && self.size_sets.load(Acquire) == moment.sets
    }

    /// Whether processes that died or were stopped while they set the size left it unknown.
    pub(crate) fn size_needs_rest(&self) -> bool {
        self.size_unsure.load(Acquire) != 0
    }

    /// Forgets them: nobody sets the size now, and it was fetched.
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
