//! Detects files that are flushed after each write, as a database's log is. The next write is then sent as a stable one, which
//! takes one call and one wait for the server instead of two.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::FileRef;

/// Number of files tracked in one process. Two files that share a place replace each other and are written as if untracked.
const PLACES: usize = 8;
/// Pairs of a write and a flush before the next write is sent as a stable one.
const PAIRS_MIN: u64 = 4;

/// How this process writes to files. It is not exact if threads write to one file: a wrong guess costs a flush or a call.
#[derive(Debug, Default)]
pub(super) struct LogWrites([AtomicU64; PLACES]);

impl LogWrites {
    /// Called before a write. Returns whether a flush will probably follow before the next one.
    pub(super) fn write_begins(&self, file: FileRef) -> bool {
        let place = self.place(file);
        let habit = Habit::of(place.load(Relaxed), file);
        let pairs = if habit.is_written { 0 } else { habit.pairs };
        place.store(Habit { pairs, is_written: true }.packed(file), Relaxed);
        pairs >= PAIRS_MIN
    }

    /// Called at a flush.
    pub(super) fn flushed(&self, file: FileRef) {
        let place = self.place(file);
        let habit = Habit::of(place.load(Relaxed), file);
        if habit.is_written {
            let pairs = (habit.pairs + 1).min(PAIRS_MIN);
            place.store(Habit { pairs, is_written: false }.packed(file), Relaxed);
        }
    }

    fn place(&self, file: FileRef) -> &AtomicU64 {
        &self.0[file.slot as usize % PLACES]
    }
}

/// The recent writes of one file.
#[derive(Clone, Copy, Debug, Default)]
struct Habit {
    pairs: u64,
    /// There was no flush since the last write.
    is_written: bool,
}

impl Habit {
    fn of(packed: u64, file: FileRef) -> Self {
        let is_its = packed >> 32 == Self::key(file);
        if is_its { Self { pairs: packed >> 1 & 0xff, is_written: packed & 1 != 0 } } else { Self::default() }
    }

    fn packed(self, file: FileRef) -> u64 {
        Self::key(file) << 32 | self.pairs << 1 | u64::from(self.is_written)
    }

    fn key(file: FileRef) -> u64 {
        // The generation of a slot in use is odd, so the key of a file is never zero.
        u64::from(file.slot & 0xffff) << 16 | u64::from(file.generation & 0xffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: FileRef = FileRef { slot: 3, generation: 5 };

    #[test]
    fn a_file_that_is_flushed_after_each_write_is_known_after_a_few() {
        let seen = LogWrites::default();
        for _ in 0..PAIRS_MIN {
            assert!(!seen.write_begins(LOG));
            seen.flushed(LOG);
        }
        for _ in 0..1000 {
            assert!(seen.write_begins(LOG));
            seen.flushed(LOG);
        }
    }

    #[test]
    fn a_second_write_before_the_flush_ends_it() {
        let seen = LogWrites::default();
        for _ in 0..PAIRS_MIN {
            seen.write_begins(LOG);
            seen.flushed(LOG);
        }
        assert!(seen.write_begins(LOG));
        assert!(!seen.write_begins(LOG));
        seen.flushed(LOG);
        assert!(!seen.write_begins(LOG), "it begins anew");
    }

    #[test]
    fn flushes_without_a_write_and_other_files_count_for_nothing() {
        let seen = LogWrites::default();
        let other = FileRef { slot: LOG.slot + PLACES as u32, generation: 5 };
        for _ in 0..10 {
            seen.write_begins(LOG);
            seen.flushed(other);
            seen.flushed(LOG);
            seen.flushed(LOG);
            seen.write_begins(other);
        }
        assert!(!seen.write_begins(LOG));
    }
}
