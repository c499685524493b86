//! A liveness lock: the lock of one byte of a file, held through a descriptor of its own, which the kernel releases when the
//! process dies.

use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use super::internal_fd::InternalFd;
use super::local_file::{CPath, Errno, open};
use super::raw::call;

/// An open of the members' file, and perhaps the lock of one byte of it.
///
/// The lock belongs to the open file (`F_OFD_SETLK`), not to the process: it goes when the process dies, unless a forked
/// child kept the descriptor, which is why children close it.
#[derive(Debug)]
pub(crate) struct LivenessLock(InternalFd);

impl LivenessLock {
    /// Opens the file, makes it when missing.
    pub(crate) fn open(path: &CPath) -> Result<Self, Errno> {
        Ok(Self(InternalFd::moved_up(open(path, libc::O_RDWR | libc::O_CREAT, 0o600)?)))
    }

    /// Takes the lock of this byte; false when another open file has it.
    pub(crate) fn take(&self, byte: u32) -> bool {
        lock_call(self.0.number(), libc::F_OFD_SETLK, byte).is_ok()
    }
}

/// Place of the lock of this process, which all its threads and signal handlers see.
#[derive(Debug)]
pub(crate) struct LivenessCell(AtomicI32); // descriptor of the lock; -1: none

impl LivenessCell {
    /// A cell without a lock.
    pub(crate) const fn empty() -> Self {
        Self(AtomicI32::new(-1))
    }

    /// Puts another lock in, or none: the one that was there.
    pub(crate) fn replace(&self, lock: Option<LivenessLock>) -> Option<LivenessLock> {
        let before = self.0.swap(lock.map_or(-1, |lock| lock.0.into_raw()), AcqRel);
        // SAFETY: the number came out of `into_raw` when it was put in, and was taken out of the cell just now, by nobody else.
        (before >= 0).then(|| LivenessLock(unsafe { InternalFd::from_raw(before) }))
    }

    /// Whether somebody else holds the lock of this byte. When that cannot be found out, yes.
    pub(crate) fn is_taken_elsewhere(&self, byte: u32) -> bool {
        !lock_call(self.0.load(Acquire), libc::F_OFD_GETLK, byte).is_ok_and(|found| found.l_type == libc::F_UNLCK as i16)
    }
}

/// `fcntl(2)` with a lock of one byte, by hand: rustix has only the locks that belong to a process.
fn lock_call(fd: i32, operation: i32, byte: u32) -> Result<libc::flock, Errno> {
    let (kind, whence) = (libc::F_WRLCK as i16, libc::SEEK_SET as i16);
    let mut range = libc::flock { l_type: kind, l_whence: whence, l_start: i64::from(byte), l_len: 1, l_pid: 0 };
    // SAFETY: `range` is ours to be read and written.
    let result = unsafe { call(libc::SYS_fcntl, [fd as usize, operation as usize, &raw mut range as usize, 0, 0, 0]) };
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(range) }
}
