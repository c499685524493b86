//! The attribute record of a slot: a sequence lock that survives its writer, and the order of replies.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::fence;

use super::layout::Slot;
use crate::file::FileTime;
use crate::sys::clock::give_way;

/// How often a process yields to a writer before it takes over the lock of the record. A live writer needs nanoseconds. A
/// killed writer never ends. A stopped writer finds at its end that it lost the lock, and the record is fetched again.
const WRITER_TURNS_MAX: u32 = 64;

/// Attributes of a file that change, except its size. Times are packed ([`packed_time`]), so that they compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttrRecord {
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Disk space in bytes.
    pub(crate) used: u64,
    pub(crate) atime: u64,
    pub(crate) mtime: u64,
    pub(crate) ctime: u64,
}

/// State of a slot's record when a request is sent: it shows afterwards whether other replies came first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttrMoment {
    sequence: u64,
    doubts: u32,
}

impl AttrMoment {
    /// For a request that was sent before the slot was known: only a later change time makes its reply newer.
    pub(crate) const UNKNOWN: Self = Self { sequence: u64::MAX, doubts: 0 };
}

impl AttrRecord {
    fn to_words(self) -> [u64; 6] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [pair(self.mode, self.nlink), pair(self.uid, self.gid), self.used, self.atime, self.mtime, self.ctime]
    }

    fn of_words([first, second, used, atime, mtime, ctime]: [u64; 6]) -> Self {
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        let (mode, nlink, uid, gid) = (low(first), high(first), low(second), high(second));
        Self { mode, nlink, uid, gid, used, atime, mtime, ctime }
    }

    /// Whether they differ in more than times and space, which a late reply must not undo.
    fn differs_in_rights(self, other: Self) -> bool {
        (self.mode, self.nlink, self.uid, self.gid) != (other.mode, other.nlink, other.uid, other.gid)
    }
}

/// Seconds before 1970 in the range of a packed time, which is that of ext4: from 1901 to 2446.
const TIME_BIAS_SECONDS: i64 = 1 << 31;
/// Bits of a packed time's nanoseconds, below 10^9.
const NANOSECOND_BITS: u32 = 30;

/// A time as one number that compares as the time does. A time beyond the range becomes the nearest
/// one in it.
pub(crate) fn packed_time(time: FileTime) -> u64 {
    let seconds = time.seconds.saturating_add(TIME_BIAS_SECONDS).clamp(0, (1 << (u64::BITS - NANOSECOND_BITS)) - 1);
    (seconds as u64) << NANOSECOND_BITS | u64::from(time.nanoseconds.min(999_999_999))
}

/// The time of a packed time.
pub(crate) const fn unpacked_time(packed: u64) -> FileTime {
    let seconds = (packed >> NANOSECOND_BITS) as i64 - TIME_BIAS_SECONDS;
    FileTime { seconds, nanoseconds: (packed & ((1 << NANOSECOND_BITS) - 1)) as u32 }
}

fn checksum(words: [u64; 6]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, word| (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29))
}

impl Slot {
    /// The current state, taken when a request is sent whose reply contains attributes.
    pub(crate) fn attr_moment(&self) -> AttrMoment {
        AttrMoment { doubts: self.attr_doubts.load(Acquire), sequence: self.attr_sequence.load(Acquire) }
    }

    /// The record. `None` if it was never fetched, is outdated, or a killed process left it incomplete.
    pub(crate) fn attr_record(&self) -> Option<AttrRecord> {
        for _ in 0..WRITER_TURNS_MAX {
            let before = self.attr_sequence.load(Acquire);
            if before & 1 == 0 {
                let (words, sum) = self.attr_words();
                fence(Acquire);
                if self.attr_sequence.load(Relaxed) == before {
                    // A writer that doubts what it stores announces that before it unlocks the record.
                    let is_doubted = self.attr_doubts.load(Acquire) != self.attr_resolved.load(Acquire);
                    return (!is_doubted && sum == checksum(words)).then(|| AttrRecord::of_words(words));
                }
            }
            give_way();
        }
        None
    }

    /// Marks the record as outdated: the next reader fetches it.
    pub(crate) fn attr_doubt(&self) {
        self.attr_doubts.fetch_add(1, AcqRel);
    }

    /// Stores the attributes of a reply to a request sent at `moment`, unless those of a newer reply are stored
    /// already.
    ///
    /// A request sent after the last change of the record must have seen at least as much. If two requests overlapped, a reply
    /// is newer only if its change time is. If the change times are equal (a coarse clock) and the rights differ, the order is
    /// unknown, and the record is marked as outdated.
    pub(crate) fn attr_apply(&self, generation: u32, record: AttrRecord, moment: AttrMoment) {
        let (owned, before) = self.attr_lock();
        if self.generation.load(Acquire) != generation {
            let _ = self.attr_sequence.compare_exchange(owned, owned + 1, Release, Relaxed);
            self.attr_doubt();
            return;
        }
        let (words, sum) = self.attr_words();
        let known = (sum == checksum(words)).then(|| AttrRecord::of_words(words));
        // Also after the lock was taken over: the killed writer had its reply before this request was sent.
        let newest = before == moment.sequence;
        let accept = newest || known.is_none_or(|known| record.ctime > known.ctime);
        if accept {
            self.store_attr(record);
            if known.is_none() && !newest {
                self.attr_doubt(); // a killed writer left the record incomplete: a reader may have seen a newer one
            }
        } else if known.is_some_and(|known| record.ctime == known.ctime && record.differs_in_rights(known)) {
            self.attr_doubt();
        }
        if self.attr_sequence.compare_exchange(owned, owned + 1, Release, Relaxed).is_err() {
            self.attr_doubt(); // the lock was taken over while this process was stopped: the record may be incomplete
        }
        if accept && newest {
            self.attr_resolved.fetch_max(moment.doubts, AcqRel);
        }
    }

    /// Initialises the record of a slot that no other process uses yet.
    pub(crate) fn attr_begin(&self, record: AttrRecord) {
        let (owned, _) = self.attr_lock();
        self.store_attr(record);
        if self.attr_sequence.compare_exchange(owned, owned + 1, Release, Relaxed).is_ok() {
            self.attr_resolved.store(self.attr_doubts.load(Acquire), Release);
        } else {
            self.attr_doubt();
        }
    }

    /// Locks the record. Returns this writer's odd sequence number, and the one before it, which is odd if the lock was taken over.
    fn attr_lock(&self) -> (u64, u64) {
        let mut turns = 0;
        loop {
            let sequence = self.attr_sequence.load(Acquire);
            let free = sequence & 1 == 0;
            if free || turns >= WRITER_TURNS_MAX {
                let owned = if free { sequence + 1 } else { sequence + 2 };
                if self.attr_sequence.compare_exchange(sequence, owned, Acquire, Relaxed).is_ok() {
                    fence(Release);
                    return (owned, sequence);
                }
            } else {
                turns += 1;
                give_way();
            }
        }
    }

    fn attr_words(&self) -> ([u64; 6], u64) {
        (core::array::from_fn(|place| self.attr[place].load(Relaxed)), self.attr_sum.load(Relaxed))
    }

    fn store_attr(&self, record: AttrRecord) {
        let words = record.to_words();
        for (place, word) in self.attr.iter().zip(words) {
            place.store(word, Relaxed);
        }
        self.attr_sum.store(checksum(words), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::blank_slot;
    use super::*;

    fn record(mode: u32, ctime: u64) -> AttrRecord {
        AttrRecord { mode, ctime, nlink: 1, ..AttrRecord::default() }
    }

    #[test]
    fn packed_times_come_back_and_compare_as_times_do() {
        let time = |seconds, nanoseconds| FileTime { seconds, nanoseconds };
        let times = [time(-1, 999_999_999), time(0, 0), time(0, 1), time(i64::from(u32::MAX), 5), time(1 << 33, 0)];
        assert!(times.windows(2).all(|two| packed_time(two[0]) < packed_time(two[1])));
        assert!(times.iter().all(|time| unpacked_time(packed_time(*time)) == *time));
        assert_eq!(unpacked_time(packed_time(time(i64::MIN, 0))).seconds, -(1 << 31));
    }

    #[test]
    fn late_older_reply_never_overwrites_a_newer_one() {
        let slot = blank_slot();
        slot.attr_begin(record(0o600, 10));
        let early = slot.attr_moment();
        slot.attr_apply(1, record(0o640, 20), slot.attr_moment());
        slot.attr_apply(1, record(0o600, 15), early);
        assert_eq!(slot.attr_record(), Some(record(0o640, 20)));
    }

    #[test]
    fn request_sent_after_the_last_change_wins_even_if_the_servers_clock_went_back() {
        let slot = blank_slot();
        slot.attr_begin(record(0o600, 100));
        slot.attr_apply(1, record(0o640, 50), slot.attr_moment());
        assert_eq!(slot.attr_record(), Some(record(0o640, 50)));
    }

    #[test]
    fn overlapping_replies_of_one_tick_with_different_rights_put_the_record_in_doubt() {
        let slot = blank_slot();
        slot.attr_begin(record(0o600, 10));
        let early = slot.attr_moment();
        slot.attr_apply(1, record(0o640, 20), slot.attr_moment());
        slot.attr_apply(1, record(0o600, 20), early);
        assert_eq!(slot.attr_record(), None);
        slot.attr_apply(1, record(0o640, 20), slot.attr_moment());
        assert_eq!(slot.attr_record(), Some(record(0o640, 20)));
    }

    #[test]
    fn record_torn_by_a_killed_writer_is_not_believed_and_its_lock_is_taken_over() {
        let slot = blank_slot();
        slot.attr_begin(record(0o600, 10));
        let (_, _) = slot.attr_lock();
        slot.attr[0].store(7, Relaxed); // killed here
        assert_eq!(slot.attr_record(), None);
        slot.attr_apply(1, record(0o644, 11), slot.attr_moment());
        assert_eq!(slot.attr_record().map(|found| found.mode), Some(0o644));
    }

    #[test]
    fn doubt_raised_while_a_request_is_out_is_not_settled_by_its_reply() {
        let slot = blank_slot();
        slot.attr_begin(record(0o600, 10));
        slot.attr_doubt();
        let moment = slot.attr_moment();
        slot.attr_doubt();
        slot.attr_apply(1, record(0o600, 10), moment);
        assert_eq!(slot.attr_record(), None);
    }

    #[test]
    fn reply_for_a_slot_that_now_stands_for_another_file_changes_nothing() {
        let slot = blank_slot();
        slot.attr_begin(record(0o600, 10));
        slot.attr_apply(3, record(0o777, 90), slot.attr_moment());
        slot.attr_apply(1, record(0o600, 10), slot.attr_moment());
        assert_eq!(slot.attr_record(), Some(record(0o600, 10)));
    }
}
