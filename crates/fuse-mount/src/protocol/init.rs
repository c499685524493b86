//! INIT: negotiates version and flags.

use super::reply::Words;
use crate::limits::{BACKGROUND_MAX, TRANSFER_BYTES_MAX};

/// The newest version supported. With an older kernel, both sides use the kernel's version.
const VERSION: (u32, u32) = (7, 39);
/// The oldest minor version supported, which has `max_pages` (Linux 4.20).
const MINOR_MIN: u32 = 28;

/// Several reads of a file at the same time (FUSE_ASYNC_READ).
const ASYNC_READ: u64 = 1;
/// The kernel sends requests for record locks (FUSE_POSIX_LOCKS).
const POSIX_LOCKS: u64 = 1 << 1;
/// OPEN contains O_TRUNC (FUSE_ATOMIC_O_TRUNC).
const ATOMIC_TRUNCATE: u64 = 1 << 3;
/// Writes of more than a page (FUSE_BIG_WRITES).
const BIG_WRITES: u64 = 1 << 5;
/// The kernel sends requests for flock(2) (FUSE_FLOCK_LOCKS).
const FLOCK_LOCKS: u64 = 1 << 10;
/// The kernel drops cached pages when size or mtime has changed (FUSE_AUTO_INVAL_DATA).
const AUTO_INVALIDATE: u64 = 1 << 12;
/// Asynchronous direct I/O does not wait for replies (FUSE_ASYNC_DIO).
const ASYNC_DIRECT: u64 = 1 << 15;
/// Several lookups and listings of one directory at the same time (FUSE_PARALLEL_DIROPS).
const PARALLEL_DIRECTORIES: u64 = 1 << 18;
/// Requests of up to `max_pages` (FUSE_MAX_PAGES).
const MAX_PAGES: u64 = 1 << 22;
/// There are more than 32 flags (FUSE_INIT_EXT).
const MORE_FLAGS: u64 = 1 << 30;
/// MAP_SHARED on files that bypass the page cache (FUSE_DIRECT_IO_ALLOW_MMAP, Linux 6.6).
const DIRECT_MAPPINGS: u64 = 1 << 36;

/// The flags that are set if the kernel offers them.
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

/// The flags that a mount requires.
const NEEDED: u64 = POSIX_LOCKS | ATOMIC_TRUNCATE | BIG_WRITES | FLOCK_LOCKS | MAX_PAGES;

/// The reply to INIT. `None` if the kernel lacks a required version or flag.
pub(crate) fn answer(major: u32, minor: u32, readahead: u32, flags: u64) -> Option<Vec<u8>> {
    if major != VERSION.0 || minor < MINOR_MIN || flags & NEEDED != NEEDED {
        return None;
    }
    let granted = flags & WANTED;
    let words = Words::default().u32(VERSION.0).u32(VERSION.1.min(minor)).u32(readahead).u32(granted as u32);
    let words = words.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX).u32(TRANSFER_BYTES_MAX as u32);
    // Times are exact to the nanosecond. The number of pages is for 4 KiB; a kernel with larger pages uses fewer.
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
