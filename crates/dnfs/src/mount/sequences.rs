//! Detects files that this process writes sequentially in small pieces.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::FileRef;

/// Writes below this size, in bytes, are coalesced.
pub(super) const SMALL_BYTES: usize = 64 << 10;
/// Number of files tracked in one process. Two files that share a place replace each other and are written as if untracked.
const PLACES: usize = 16;
/// Consecutive small writes before the next one counts as sequential.
const BEFORE: u64 = 2;

/// The end of the last write to a file, and the number of consecutive small writes. It is not exact if threads write to one
/// file: whether a write is coalesced is checked again in the shared memory.
#[derive(Debug, Default)]
pub(super) struct Sequences([Place; PLACES]);

#[derive(Debug, Default)]
struct Place {
    /// Upper half: the lower 16 bits of slot and of generation. Lower half: number of writes.
    habit: AtomicU64,
    end: AtomicU64,
}

impl Sequences {
    /// Called before a write. Returns whether the write continues earlier small writes.
    pub(super) fn follows(&self, file: FileRef, offset: u64, bytes: usize) -> bool {
        let place = &self.0[file.slot as usize % PLACES];
        let (habit, key) = (place.habit.load(Relaxed), Self::key(file));
        let is_next = habit >> 32 == key && place.end.load(Relaxed) == offset && bytes < SMALL_BYTES;
        let count = if is_next { (habit as u32 as u64 + 1).min(BEFORE) } else { 0 };
        place.habit.store(key << 32 | count, Relaxed);
        place.end.store(offset + bytes as u64, Relaxed);
        count >= BEFORE
    }

    fn key(file: FileRef) -> u64 {
        // The generation of a slot in use is odd, so the key of a file is never zero.
        u64::from(file.slot & 0xffff) << 16 | u64::from(file.generation & 0xffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileRef = FileRef { slot: 3, generation: 5 };

    #[test]
    fn the_third_small_write_in_a_row_follows_and_one_elsewhere_does_not() {
        let seen = Sequences::default();
        assert!(!seen.follows(FILE, 0, 100));
        assert!(!seen.follows(FILE, 100, 100));
        assert!(seen.follows(FILE, 200, 50));
        assert!(seen.follows(FILE, 250, 50));
        assert!(!seen.follows(FILE, 0, 50), "somewhere else");
        assert!(!seen.follows(FILE, 50, SMALL_BYTES), "a large one");
        assert!(!seen.follows(FILE, 50 + SMALL_BYTES as u64, 8));
    }

    #[test]
    fn files_that_share_a_place_do_not_continue_each_other() {
        let seen = Sequences::default();
        let other = FileRef { slot: FILE.slot + PLACES as u32, generation: 5 };
        for step in 0..10 {
            assert!(!seen.follows(FILE, step * 10, 10));
            assert!(!seen.follows(other, step * 10 + 10, 10));
        }
    }
}
