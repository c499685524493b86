//! Descriptors of this crate that stay open. They have high numbers, and are marked as this crate's. If a program takes such a
//! number by dup2(2), the descriptor moves to another number.

use std::mem::ManuallyDrop;
use std::time::Duration;

use super::clock::sleep;
use super::fd::Fd;
use super::process::limits;
use crate::limits::DESCRIPTOR_MIN;
use crate::process::this_process;
use rustix::fd::{AsFd, BorrowedFd};

/// Time within which a thread that has read a number makes its system call with it.
const NUMBER_IN_USE: Duration = Duration::from_millis(10);

/// Whether `fd` is a descriptor of this crate: a program that closes every descriptor must not close it.
#[must_use]
pub fn is_internal_fd(fd: i32) -> bool {
    this_process().descriptors.is_internal(fd)
}

/// Moves a descriptor of this crate to another number, so that a program can use this one. Returns false if the number cannot
/// change: the descriptor is not this crate's, its record locks would end, or the number itself was passed on.
///
/// The old number stays open for 10 ms, for threads that were about to use it.
#[must_use]
pub fn move_internal_fd(fd: i32) -> bool {
    if this_process().identity.shares_memory() {
        return false; // the numbers are the parent's
    }
    let descriptors = this_process().descriptors;
    let Some(first) = descriptors.first_number(fd) else { return false };
    // SAFETY: the number is an open descriptor of this crate, which is only copied.
    let old = unsafe { BorrowedFd::borrow_raw(fd) };
    let Ok(new) = rustix::io::fcntl_dupfd_cloexec(old, fd + 1).map(Fd::from) else { return false };
    let new = new.into_raw();
    set_internal_fd(new, true);
    if !descriptors.note_move(first, new) {
        // SAFETY: the descriptor was made here, and no other code has its number.
        drop(unsafe { Fd::from_raw(new) });
        return false;
    }
    sleep(NUMBER_IN_USE);
    set_internal_fd(fd, false);
    true
}

/// A descriptor with a high number, which programs that use low numbers, or close them all, do not meet.
#[derive(Debug)]
pub(crate) struct InternalFd(ManuallyDrop<Fd>); // by its first number

impl InternalFd {
    /// Moves a descriptor to a high number. It keeps its number if no high one is free.
    pub(crate) fn moved_up(fd: Fd) -> Self {
        let mut lowest = lowest_internal_fd();
        let fd = loop {
            let Ok(up) = rustix::io::fcntl_dupfd_cloexec(&fd, lowest).map(Fd::from) else { break fd };
            // The first number of a descriptor that has moved is not used again.
            if this_process().descriptors.number(up.number()) == up.number() {
                break up;
            }
            lowest = up.number() + 1;
        };
        set_internal_fd(fd.number(), true);
        if !this_process().identity.shares_memory() {
            this_process().descriptors.set_movable(fd.number(), true);
        }
        Self(ManuallyDrop::new(fd))
    }

    /// The descriptor, which now belongs to the caller. It stays marked as this crate's, and does not move.
    pub(crate) fn into_raw(self) -> i32 {
        let (descriptors, first) = (this_process().descriptors, self.0.number());
        descriptors.set_movable(first, false);
        let fd = self.number();
        descriptors.forget_move(first);
        core::mem::forget(self);
        fd
    }

    /// Takes ownership of a descriptor that [`Self::into_raw`] returned.
    ///
    /// # Safety
    /// The descriptor is open, and no other code closes it.
    pub(crate) const unsafe fn from_raw(fd: i32) -> Self {
        // SAFETY: the caller's guarantee.
        Self(ManuallyDrop::new(unsafe { Fd::from_raw(fd) }))
    }

    /// Its number, for a system call that is made at once.
    #[inline]
    pub(crate) fn number(&self) -> i32 {
        this_process().descriptors.number(self.0.number())
    }
}

impl AsFd for InternalFd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as self, which owns it.
        unsafe { BorrowedFd::borrow_raw(self.number()) }
    }
}

impl Drop for InternalFd {
    fn drop(&mut self) {
        let (first, fd) = (self.0.number(), self.number());
        // The marks are removed before the descriptor is closed, because its number may be reused
        // at once.
        this_process().descriptors.set_movable(first, false);
        set_internal_fd(fd, false);
        // SAFETY: the descriptor is open and owned by self, which ends here.
        drop(unsafe { Fd::from_raw(fd) });
        this_process().descriptors.forget_move(first);
    }
}

/// The lowest number to move to: 900, or 64 below the limit of the process if that is lower.
#[must_use]
pub fn lowest_internal_fd() -> i32 {
    let (limit, _) = limits(libc::RLIMIT_NOFILE);
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    DESCRIPTOR_MIN.min((limit - 64).max(3))
}

/// Marks a descriptor as this crate's, or removes the mark. For the preload library, which has such descriptors too.
pub fn set_internal_fd(fd: i32, internal: bool) {
    if this_process().identity.shares_memory() {
        return; // the marks are the parent's, and so are the numbers
    }
    this_process().descriptors.set_internal(fd, internal);
}

#[cfg(test)]
mod tests {
    use super::super::local_file::{CPath, open};
    use super::*;

    #[test]
    fn a_descriptor_that_moves_is_the_same_file_by_another_number_and_leaves_the_old_one_to_others() {
        let null = || open(&CPath::new(b"/dev/null"), libc::O_RDONLY, 0).unwrap();
        let device = |fd: &InternalFd| rustix::fs::fstat(fd).unwrap().st_rdev;
        let moving = InternalFd::moved_up(null());
        let (first, rdev) = (moving.number(), device(&moving));
        assert!(move_internal_fd(first) && moving.number() != first);
        assert!(is_internal_fd(moving.number()) && !is_internal_fd(first));
        // SAFETY: the number belongs to the program now, and is still open.
        drop(unsafe { Fd::from_raw(first) });
        assert_eq!(device(&moving), rdev);
        // A descriptor that could get the number does not take it while the moved one is known by it.
        let next = InternalFd::moved_up(null());
        assert_ne!(next.number(), first);
        let second = moving.number();
        assert!(move_internal_fd(second) && moving.number() != second, "again");
        drop(moving);
        assert_eq!(device(&next), rdev);
        let raw = next.into_raw();
        assert!(!move_internal_fd(raw), "handed on as a number");
        // SAFETY: `into_raw` returned the number above.
        drop(unsafe { InternalFd::from_raw(raw) });
    }
}
