//! INIT: what both sides can do.

use super::reply::Words;
use crate::limits::{BACKGROUND_MAX, TRANSFER_BYTES_MAX};

/// The version that is spoken; a kernel with an older one sends and gets what that has.
const VERSION: (u32, u32) = (7, 39);
/// The oldest minor version that is enough: `max_pages` (Linux 4.20).
const MINOR_MIN: u32 = 28;

/// Several reads of a file at once.
const ASYNC_READ: u64 = 1;
/// Record locks are asked for here (FUSE_POSIX_LOCKS).
const POSIX_LOCKS: u64 = 1 << 1;
/// O_TRUNC comes with OPEN.
const ATOMIC_TRUNCATE: u64 = 1 << 3;
/// Writes of more than a page.
const BIG_WRITES: u64 = 1 << 5;
/// flock(2) is asked for here.
const FLOCK_LOCKS: u64 = 1 << 10;
/// Mapped pages are dropped when size or mtime changed.
const AUTO_INVALIDATE: u64 = 1 << 12;
/// Asynchronous direct I/O does not wait.
const ASYNC_DIRECT: u64 = 1 << 15;
/// Lookups and listings of one directory at once.
const PARALLEL_DIRECTORIES: u64 = 1 << 18;
/// Requests of up to `max_pages`.
const MAX_PAGES: u64 = 1 << 22;
/// There are more than 32 flags.
const MORE_FLAGS: u64 = 1 << 30;
/// MAP_SHARED on files past the page cache (FUSE_DIRECT_IO_ALLOW_MMAP, Linux 6.6).
const DIRECT_MAPPINGS: u64 = 1 << 36;

/// What is asked for where the kernel has it.
const WANTED: u64 = ASYNC_READ
    | POSIX_LOCKS
    | ATOMIC_TRUNCATE
    | BIG_WRITES
    | FLOCK_LOCKS
    | AUTO_INVALIDATE
    | ASYNC_DIRECT
    | PARALLEL_DIRECTORIES
    | MAX_PAGES
    | MORE_FLAGS
    | DIRECT_MAPPINGS;

/// What without which a mount would not hold what it promises.
const NEEDED: u64 = POSIX_LOCKS | ATOMIC_TRUNCATE | BIG_WRITES | FLOCK_LOCKS | MAX_PAGES;

/// The answer to INIT; none when the kernel lacks what is needed.
pub(crate) fn answer(major: u32, minor: u32, readahead: u32, flags: u64) -> Option<Vec<u8>> {
    if major != VERSION.0 || minor < MINOR_MIN || flags & NEEDED != NEEDED {
        return None;
    }
    let granted = flags & WANTED;
    let words = Words::default().u32(VERSION.0).u32(VERSION.1.min(minor)).u32(readahead).u32(granted as u32);
    let words = words.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX).u32(TRANSFER_BYTES_MAX as u32);
    // Times are exact to the nanosecond. Pages of 4 KiB: with larger ones the kernel takes less.
    let words = words.u32(1).u16((TRANSFER_BYTES_MAX / 4096) as u16).u16(0).u32((granted >> 32) as u32);
    Some(words.padded(64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_both_sides_have() {
        let answer = answer(7, 45, 1 << 17, NEEDED | MORE_FLAGS | DIRECT_MAPPINGS | 1 << 17).unwrap();
        assert_eq!(answer.len(), 64, "fuse_init_out");
        assert_eq!(answer[4..8], 39u32.to_ne_bytes());
        assert_eq!(answer[12..16], ((NEEDED | MORE_FLAGS) as u32).to_ne_bytes());
        assert_eq!(answer[20..24], (1u32 << 20).to_ne_bytes());
        assert_eq!(answer[32..36], (1u32 << 4).to_ne_bytes());
    }

    #[test]
    fn a_kernel_without_locks_or_large_requests_is_refused() {
        assert_eq!(answer(7, 45, 0, NEEDED & !FLOCK_LOCKS), None);
        assert_eq!(answer(7, 27, 0, u64::MAX), None);
        assert_eq!(answer(8, 1, 0, u64::MAX), None);
    }
}
