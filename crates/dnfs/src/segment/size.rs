//! The size of a file, shared at once by all processes.
//!
//! In single-owner mode the segment is right and the server is not asked. Growth is one `fetch_max` after the server
//! acknowledged. Whoever sets the size by SETATTR says so before it asks, so that nobody trusts the number meanwhile,
//! not even after the setter was killed. Two counters tell overlapping calls of each other: a writer that finds
//! `size_sets` moved, and a setter that finds `size_events` moved, ask the server what came out.

use core::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};

use super::layout::Slot;

/// An append in flight: nobody sets the size meanwhile.
pub(crate) struct Appending<'a> {
    slot: &'a Slot,
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        let _ = self.slot.appends.fetch_update(AcqRel, Acquire, |appends| appends.checked_sub(1));
    }
}

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

    /// Before the server is asked to set the size, and before the wait for appends in flight ([`Slot::appends_in_flight`]).
    pub(crate) fn size_set_starts(&self) {
        self.size_unsure.fetch_add(1, SeqCst);
    }

    /// Appends in flight: whoever sets the size waits until there are none, as an inode's lock makes it in a kernel. Else a
    /// range reserved before would be written behind the new end, and leave a hole.
    pub(crate) fn appends_in_flight(&self) -> u32 {
        self.appends.load(SeqCst)
    }

    /// So many appends in flight are those of killed processes.
    pub(crate) fn forget_appends(&self, appends: u32) {
        let _ = self.appends.fetch_update(AcqRel, Acquire, |now| Some(now.saturating_sub(appends)));
    }

    /// How many are setting the size: an append waits until nobody is.
    pub(crate) fn size_setters(&self) -> u32 {
        self.size_unsure.load(SeqCst)
    }

    /// So many setters of the size are killed processes, and the size was fetched since.
    pub(crate) fn forget_setters(&self, setters: u32) {
        let _ = self.size_unsure.fetch_update(AcqRel, Acquire, |now| Some(now.saturating_sub(setters)));
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

    /// Before [`Slot::append_reserve`]; none while the size is being set.
    pub(crate) fn append_starts(&self) -> Option<Appending<'_>> {
        let others = self.appends.fetch_add(1, SeqCst);
        let appending = Appending { slot: self };
        if self.size_setters() != 0 {
            return None;
        }
        let (end, size) = (self.append_end.load(Acquire), self.size.load(Acquire));
        // In this order: an append that began meanwhile may have been given a range before its end was read here.
        if others == 0 && end > size && self.appends.load(SeqCst) == 1 {
            // Whatever made the file shorter: no range is given out, so the next one begins at its end.
            let _ = self.append_end.compare_exchange(end, size, AcqRel, Acquire);
        }
        Some(appending)
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
        self.append_end.load(Acquire) > self.size.load(Acquire)
            || self.size_unsure.load(Acquire) != 0
            || self.appends.load(Acquire) != 0
    }

    /// Forgets what killed processes left: nobody has the file open, and the size was fetched if it was unsure.
    pub(crate) fn size_rest(&self) {
        self.append_end.store(0, core::sync::atomic::Ordering::Release);
        self.size_unsure.store(0, core::sync::atomic::Ordering::Release);
        self.appends.store(0, core::sync::atomic::Ordering::Release);
        self.appends_waiting.store(0, core::sync::atomic::Ordering::Release);
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
    fn append_waits_for_the_size_to_be_set_and_the_setter_for_appends() {
        let slot = blank_slot();
        let appending = slot.append_starts().unwrap();
        slot.size_set_starts();
        assert_eq!(slot.appends_in_flight(), 1);
        assert!(slot.append_starts().is_none());
        assert_eq!(slot.appends_in_flight(), 1);
        drop(appending);
        assert_eq!(slot.appends_in_flight(), 0);
        slot.size_set_ends();
        assert!(slot.append_starts().is_some());
    }

    #[test]
    fn first_append_after_the_file_became_shorter_begins_at_its_end() {
        let slot = blank_slot();
        let append = |length| {
            let _appending = slot.append_starts();
            let offset = slot.append_reserve(length).unwrap();
            assert!(slot.size_grew(offset + length, slot.size_moment()));
            offset
        };
        assert_eq!((append(10), append(10)), (0, 10));
        assert!(slot.size_fetched(10, slot.size_moment()), "the server lost the second");
        assert_eq!(append(5), 10);
        let (_one, _two) = (slot.append_starts(), slot.append_reserve(100));
        assert!(slot.size_fetched(3, slot.size_moment()));
        assert_eq!(append(5), 115, "one in flight keeps its range");
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
