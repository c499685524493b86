//! The size of a file, shared at once by all processes.
//!
//! In single-owner mode the segment is right and the server is not asked. Growth is one `fetch_max` after the server
//! acknowledged. Whoever sets the size by SETATTR says so before it asks, so that nobody trusts the number meanwhile,
//! not even after the setter was killed. Two counters tell overlapping calls of each other: a writer that finds
//! `size_sets` moved, and a setter that finds `size_events` moved, ask the server what came out.

use core::sync::atomic::Ordering::{AcqRel, Acquire};

use super::layout::Slot;

/// State of a size when a request is sent that changes it or asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeMoment {
    size: u64,
    append_end: u64,
    events: u64,
    sets: u32,
}

impl Slot {
    /// The size, unless somebody is setting it (or was killed doing so).
    pub(crate) fn size_known(&self) -> Option<u64> {
        (self.size_unsure.load(Acquire) == 0).then(|| self.size.load(Acquire))
    }

    /// To be taken before the request is sent.
    pub(crate) fn size_moment(&self) -> SizeMoment {
        let (events, sets) = (self.size_events.load(Acquire), self.size_sets.load(Acquire));
        SizeMoment { size: self.size.load(Acquire), append_end: self.append_end.load(Acquire), events, sets }
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
        self.size_unsure.fetch_add(1, AcqRel);
    }

    /// After the server set it to `size`. False when writes were acknowledged meanwhile: ask the server, then call
    /// [`Slot::size_set_ends`].
    #[must_use]
    pub(crate) fn size_set(&self, size: u64, moment: SizeMoment) -> bool {
        self.size_sets.fetch_add(1, AcqRel);
        let stored = self.size.compare_exchange(moment.size, size, AcqRel, Acquire).is_ok();
        if size < moment.size {
            // Appends under way keep the range they were given; without any, the next one begins at the new end.
            let _ = self.append_end.compare_exchange(moment.append_end, size, AcqRel, Acquire);
        }
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

    /// Gives out the range of an append: its offset, never overlapping another. None beyond the largest file offset.
    pub(crate) fn append_reserve(&self, length: u64) -> Option<u64> {
        let size = self.size.load(Acquire);
        size.checked_add(length).filter(|end| *end <= i64::MAX as u64)?;
        self.append_end.fetch_max(size, AcqRel);
        Some(self.append_end.fetch_add(length, AcqRel))
    }

    /// Gives the unwritten end of a range back, if nobody appended behind it.
    pub(crate) fn append_return(&self, offset: u64, length: u64, written: u64) {
        let _ = self.append_end.compare_exchange(offset + length, offset + written, AcqRel, Acquire);
    }

    /// Whether killed processes left something that the last close puts right.
    pub(crate) fn size_needs_rest(&self) -> bool {
        self.append_end.load(Acquire) > self.size.load(Acquire) || self.size_unsure.load(Acquire) != 0
    }

    /// Forgets what killed processes left: nobody has the file open, and the size was fetched if it was unsure.
    pub(crate) fn size_rest(&self) {
        self.append_end.store(0, core::sync::atomic::Ordering::Release);
        self.size_unsure.store(0, core::sync::atomic::Ordering::Release);
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

    #[test]
    fn appends_never_overlap_and_a_failed_one_leaves_no_hole() {
        let slot = blank_slot();
        assert!(slot.size_grew(50, slot.size_moment()));
        assert_eq!(slot.append_reserve(10), Some(50));
        assert_eq!(slot.append_reserve(10), Some(60));
        slot.append_return(60, 10, 0);
        assert_eq!(slot.append_reserve(5), Some(60));
        assert_eq!(slot.append_reserve(u64::MAX), None);
    }

    #[test]
    fn setting_the_size_to_itself_does_not_take_a_reserved_range_back() {
        let slot = blank_slot();
        assert!(slot.size_grew(100, slot.size_moment()));
        assert_eq!(slot.append_reserve(10), Some(100));
        assert!(slot.size_set(100, slot.size_moment()));
        assert_eq!(slot.append_reserve(10), Some(110));
    }
}
