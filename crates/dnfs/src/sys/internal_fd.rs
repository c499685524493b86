//! Descriptors of this crate that stay open. They have high numbers, and are marked as this crate's. If a program takes such a
//! number by dup2(2), the descriptor moves to another number.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use super::clock::sleep;
use super::fd::Fd;
use crate::limits::DESCRIPTOR_MIN;
use crate::process::this_process;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::{Resource, getrlimit};

/// Number of descriptors that can be marked as this crate's. The lowest free one from 900 is taken, so higher ones do not occur
/// in practice.
const MARKED_DESCRIPTORS: usize = 1 << 16;

/// Time within which a thread that has read a number makes its system call with it.
const NUMBER_IN_USE: Duration = Duration::from_millis(10);

static INTERNAL: [AtomicU64; MARKED_DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; MARKED_DESCRIPTORS / 64];
/// For the first number of each [`InternalFd`]: its current number + 1, or 0 if it has not moved.
static MOVED: [AtomicI32; MARKED_DESCRIPTORS] = [const { AtomicI32::new(0) }; MARKED_DESCRIPTORS];
/// The first numbers of those that may move.
static MOVABLE: [AtomicU64; MARKED_DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; MARKED_DESCRIPTORS / 64];

/// True when `fd` is a descriptor of this crate: a program that closes every descriptor must not close it.
#[must_use]
pub fn is_internal_fd(fd: i32) -> bool {
    usize::try_from(fd).is_ok_and(|fd| is_set(&INTERNAL, fd))
}

/// Moves a descriptor of this crate to another number, so that a program can use this one. False if its number cannot change: it
/// is not this crate's, its record locks would end with it, or the number itself was passed on.
///
/// The old number stays open for 10 ms, for threads that were about to use it.
#[must_use]
pub fn move_internal_fd(fd: i32) -> bool {
    if this_process().identity.shares_memory() {
        return false; // the numbers are the parent's
    }
    let has_it = |first: &usize| is_set(&MOVABLE, *first) && number_of(*first as i32) == fd;
    let Some(first) = (0..MARKED_DESCRIPTORS).find(has_it) else { return false };
    // SAFETY: a descriptor of this crate, which is open; only copied.
    let old = unsafe { BorrowedFd::borrow_raw(fd) };
    let Ok(new) = rustix::io::fcntl_dupfd_cloexec(old, fd + 1).map(Fd::from) else { return false };
    let new = new.into_raw();
    set_internal_fd(new, true);
    let moved = MOVED.get(first).is_some_and(|moved| {
        new < MARKED_DESCRIPTORS as i32 && {
            moved.store(new + 1, Ordering::Release);
            true
        }
    });
    if !moved {
        // SAFETY: made here, and nobody else has its number.
        drop(unsafe { Fd::from_raw(new) });
        return false;
    }
    sleep(NUMBER_IN_USE);
    set_internal_fd(fd, false);
    true
}

/// The current number of the descriptor that had this number first.
#[inline]
fn number_of(first: i32) -> i32 {
    match usize::try_from(first).ok().and_then(|first| MOVED.get(first)).map(|moved| moved.load(Ordering::Acquire)) {
        None | Some(0) => first,
        Some(moved) => moved - 1,
    }
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
            if number_of(up.number()) == up.number() {
                break up;
            }
            lowest = up.number() + 1;
        };
        set_internal_fd(fd.number(), true);
        if !this_process().identity.shares_memory() {
            set(&MOVABLE, fd.number(), true);
        }
        Self(ManuallyDrop::new(fd))
    }

    /// The descriptor, which now belongs to the caller. It stays marked as this crate's, and does not move.
    pub(crate) fn into_raw(self) -> i32 {
        set(&MOVABLE, self.0.number(), false);
        let fd = self.number();
        if let Some(moved) = usize::try_from(self.0.number()).ok().and_then(|first| MOVED.get(first)) {
            moved.store(0, Ordering::Release);
        }
        core::mem::forget(self);
        fd
    }

    /// Takes over a descriptor that [`Self::into_raw`] gave.
    ///
    /// # Safety
    /// It is open, and nothing else closes it.
    pub(crate) const unsafe fn from_raw(fd: i32) -> Self {
        // SAFETY: the caller's promise.
        Self(ManuallyDrop::new(unsafe { Fd::from_raw(fd) }))
    }

    /// Its number, for a system call that is made at once.
    #[inline]
    pub(crate) fn number(&self) -> i32 {
        number_of(self.0.number())
    }
}

impl AsFd for InternalFd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as self, which owns it.
        unsafe { BorrowedFd::borrow_raw(self.number()) }
    }
}

impl Drop for InternalFd {
    fn drop(&mut self) {
        let (first, fd) = (self.0.number(), self.number());
        // Before it is closed: its number may be reused at once.
        set(&MOVABLE, first, false);
        set_internal_fd(fd, false);
        // SAFETY: open and owned by self, which ends here.
        drop(unsafe { Fd::from_raw(fd) });
        if let Some(moved) = usize::try_from(first).ok().and_then(|first| MOVED.get(first)) {
            moved.store(0, Ordering::Release);
        }
    }
}

/// The lowest number to move to: 900, or near the end of what the process may have.
#[must_use]
pub fn lowest_internal_fd() -> i32 {
    let limit = getrlimit(Resource::Nofile).current.map_or(i32::MAX, |limit| i32::try_from(limit).unwrap_or(i32::MAX));
    DESCRIPTOR_MIN.min((limit - 64).max(3))
}

/// Marks a descriptor as this crate's, or removes the mark. For the preload library, which has such descriptors too.
pub fn set_internal_fd(fd: i32, internal: bool) {
    if this_process().identity.shares_memory() {
        return; // the marks are the parent's, and so are the numbers
    }
    set(&INTERNAL, fd, internal);
}

fn set(words: &[AtomicU64], fd: i32, to: bool) {
    let Some(word) = usize::try_from(fd).ok().and_then(|fd| words.get(fd / 64)) else { return };
    let bit = 1 << (fd % 64);
    if to {
        word.fetch_or(bit, Ordering::Relaxed)
    } else {
        word.fetch_and(!bit, Ordering::Relaxed)
    };
}

fn is_set(words: &[AtomicU64], fd: usize) -> bool {
    words.get(fd / 64).is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (fd % 64) != 0)
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
        // SAFETY: the number is the program's now; it is open still.
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
        // SAFETY: given by `into_raw` above.
        drop(unsafe { InternalFd::from_raw(raw) });
    }
}
