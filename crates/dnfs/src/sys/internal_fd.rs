//! Descriptors of this crate that stay open: out of the way of the program, and known as ours.

use std::sync::atomic::{AtomicU64, Ordering};

use super::fd::Fd;
use super::fork;
use crate::limits::DESCRIPTOR_MIN;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::{Resource, getrlimit};

/// Descriptors that can be marked as ours; the lowest free one from 900 is taken, so higher ones do not occur in practice.
const MARKED_DESCRIPTORS: usize = 1 << 16;

static INTERNAL: [AtomicU64; MARKED_DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; MARKED_DESCRIPTORS / 64];

/// True when `fd` is a descriptor of this crate: a program that closes every descriptor must not close it.
#[must_use]
pub fn is_internal_fd(fd: i32) -> bool {
    let Ok(fd) = usize::try_from(fd) else { return false };
    INTERNAL.get(fd / 64).is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (fd % 64) != 0)
}

/// A descriptor that programs which count on low numbers, or close them all, do not meet.
#[derive(Debug)]
pub(crate) struct InternalFd(Fd);

impl InternalFd {
    /// Moves a descriptor up; it stays where it is if there is no free number.
    pub(crate) fn moved_up(fd: Fd) -> Self {
        let fd = rustix::io::fcntl_dupfd_cloexec(&fd, lowest_internal_fd()).map_or(fd, Fd::from);
        set_internal_fd(fd.number(), true);
        Self(fd)
    }

    /// The descriptor, now the caller's; it stays marked as ours.
    pub(crate) const fn into_raw(self) -> i32 {
        let fd = self.0.number();
        core::mem::forget(self);
        fd
    }

    /// Takes over a descriptor that [`Self::into_raw`] gave.
    ///
    /// # Safety
    /// It is open, and nothing else closes it.
    pub(crate) const unsafe fn from_raw(fd: i32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Fd::from_raw(fd) })
    }

    /// Its number.
    pub(crate) const fn number(&self) -> i32 {
        self.0.number()
    }
}

impl AsFd for InternalFd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for InternalFd {
    fn drop(&mut self) {
        // Before it is closed: its number may be another's at once.
        set_internal_fd(self.0.number(), false);
    }
}

/// The lowest number to move to: 900, or near the end of what the process may have.
#[must_use]
pub fn lowest_internal_fd() -> i32 {
    let limit = getrlimit(Resource::Nofile).current.map_or(i32::MAX, |limit| i32::try_from(limit).unwrap_or(i32::MAX));
    DESCRIPTOR_MIN.min((limit - 64).max(3))
}

/// Marks a descriptor as ours, or takes the mark away: for the preload library, which has some, too.
pub fn set_internal_fd(fd: i32, internal: bool) {
    if fork::shares_memory() {
        return; // the marks are the parent's, and so are the numbers
    }
    let Some(word) = usize::try_from(fd).ok().and_then(|fd| INTERNAL.get(fd / 64)) else { return };
    let bit = 1 << (fd % 64);
    if internal {
        word.fetch_or(bit, Ordering::Relaxed)
    } else {
        word.fetch_and(!bit, Ordering::Relaxed)
    };
}
