//! Detects whether a function's frame is still on a stack: `longjmp` leaves functions without notice.
//!
//! A mark is a unique word in the frame. Later calls eventually overwrite a frame that was left. If the mark is gone, so is the
//! frame, whatever stack it was on.

use super::raw::call;
use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

/// The mark, in the frame of the function that has it as a local variable and calls [`Self::set`].
#[derive(Debug)]
pub(crate) struct StackMark(Cell<u64>);

/// The address and value of the current mark.
#[derive(Debug)]
pub(crate) struct MarkPlace {
    address: AtomicU64,
    word: AtomicU64,
    /// Number of marks noted here so far.
    serial: AtomicU64,
}

impl StackMark {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(0))
    }

    /// Sets the mark and notes it. The mark must not move afterwards.
    #[inline]
    pub(crate) fn set(&self, place: &MarkPlace) {
        let address = core::ptr::from_ref(self) as u64;
        let serial = place.serial.load(Relaxed) + 1;
        place.serial.store(serial, Relaxed);
        let word = (serial ^ core::ptr::from_ref(place) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        self.0.set(word);
        core::hint::black_box(self);
        place.word.store(0, Relaxed);
        place.address.store(address, Relaxed);
        place.word.store(word, Relaxed);
    }
}

#[cfg(test)]
impl StackMark {
    /// Overwrites the mark, as a later call does with the frame of a function that was left.
    pub(crate) fn overwrite(&self) {
        self.0.set(0);
    }
}

impl Drop for StackMark {
    #[inline]
    fn drop(&mut self) {
        self.0.set(0);
        core::hint::black_box(&*self);
    }
}

impl MarkPlace {
    pub(crate) const fn new() -> Self {
        Self { address: AtomicU64::new(0), word: AtomicU64::new(0), serial: AtomicU64::new(0) }
    }

    /// A place with this address and word of a mark ([`Self::noted`]).
    pub(crate) const fn at((address, word): (u64, u64)) -> Self {
        Self { address: AtomicU64::new(address), word: AtomicU64::new(word), serial: AtomicU64::new(0) }
    }

    /// Restores the place to the state before another mark was noted.
    pub(crate) fn restore(&self, (address, word): (u64, u64)) {
        self.word.store(0, Relaxed);
        self.address.store(address, Relaxed);
        self.word.store(word, Relaxed);
    }

    /// Removes the noted mark.
    pub(crate) fn clear(&self) {
        self.word.store(0, Relaxed);
    }

    /// Whether the function that set the mark was left. If several callers ask, only one gets true.
    #[cold]
    pub(crate) fn take_left(&self) -> bool {
        let (_, word) = self.noted();
        self.is_left() && self.word.compare_exchange(word, 0, AcqRel, Relaxed).is_ok()
    }

    pub(crate) fn noted(&self) -> (u64, u64) {
        (self.address.load(Relaxed), self.word.load(Relaxed))
    }

    /// Whether the function that set the mark was left. Reads the mark through the kernel, since its stack may have been
    /// unmapped.
    #[cold]
    pub(crate) fn is_left(&self) -> bool {
        let (address, word) = self.noted();
        if word == 0 {
            return false; // no mark is set, or it is being set
        }
        let mut found = 0u64;
        let local = libc::iovec { iov_base: (&raw mut found).cast(), iov_len: 8 };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 8 };
        let pid = rustix::process::getpid().as_raw_nonzero().get() as usize;
        // SAFETY: the kernel writes eight bytes to `found`. It checks the other address: an unmapped one gives an error.
        let read =
            unsafe { call(libc::SYS_process_vm_readv, [pid, &raw const local as usize, 1, &raw const remote as usize, 1, 0]) };
        read == -(libc::EFAULT as isize) || read == 8 && found != word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_left_inside(place: &MarkPlace) -> bool {
        let mark = StackMark::new();
        mark.set(place);
        place.is_left()
    }

    #[test]
    fn a_mark_is_there_until_its_function_is_left_and_is_taken_once() {
        let place = MarkPlace::new();
        assert!(!place.is_left(), "nobody set it");
        assert!(!is_left_inside(&place));
        let noted = place.noted();
        assert!(place.take_left());
        assert!(!place.take_left());
        assert!(!is_left_inside(&place));
        place.restore(noted);
        assert!(place.is_left());
        place.restore((8, 1));
        assert!(place.is_left(), "there is no memory");
        place.clear();
        assert!(!place.is_left());
    }
}
