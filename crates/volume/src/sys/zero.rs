//! Zeroes a range of a file without writing zeros.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, fallocate};

/// The state of the space of zeroed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZeroRange {
    /// Allocated space that reads as zeros.
    Allocated,
    /// A hole.
    Hole,
}

/// Zeroes a range below the file's size. EOPNOTSUPP if the file system cannot do so.
pub(crate) fn zero_range(fd: impl AsFd, offset: u64, bytes: u64, how: ZeroRange) -> io::Result<()> {
    let flags = match how {
        ZeroRange::Allocated => FallocateFlags::ZERO_RANGE,
        ZeroRange::Hole => FallocateFlags::PUNCH_HOLE,
    };
    rustix::io::retry_on_intr(|| fallocate(&fd, flags | FallocateFlags::KEEP_SIZE, offset, bytes)).map_err(io::Error::from)
}
