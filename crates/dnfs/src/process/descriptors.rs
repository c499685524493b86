//! Descriptors of this crate that stay open: their marks and their numbers.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Number of descriptors that can be marked as internal. The lowest free one from 900 is taken, so higher ones do not occur in
/// practice.
const MARKED_DESCRIPTORS: usize = 1 << 16;

/// Which descriptors are internal, which of them may move to another number, and where they moved. A child inherits the
/// descriptors and this table.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// A bit for each internal descriptor.
    internal: [AtomicU64; MARKED_DESCRIPTORS / 64],
    /// A bit for the first number of each descriptor that may move.
    movable: [AtomicU64; MARKED_DESCRIPTORS / 64],
    /// For the first number of a descriptor: its current number + 1, or 0 if it has not moved.
    moved: [AtomicI32; MARKED_DESCRIPTORS],
}

impl Descriptors {
    pub(super) const fn new() -> Self {
        Self {
            internal: [const { AtomicU64::new(0) }; MARKED_DESCRIPTORS / 64],
            movable: [const { AtomicU64::new(0) }; MARKED_DESCRIPTORS / 64],
            moved: [const { AtomicI32::new(0) }; MARKED_DESCRIPTORS],
        }
    }

    pub(crate) fn is_internal(&self, fd: i32) -> bool {
        is_set(&self.internal, fd)
    }

    pub(crate) fn set_internal(&self, fd: i32, to: bool) {
        set(&self.internal, fd, to);
    }

    /// Notes whether the descriptor with this first number may move.
    pub(crate) fn set_movable(&self, first: i32, to: bool) {
        set(&self.movable, first, to);
    }

    /// The first number of the descriptor that has the number `fd` now. `None` if there is no such descriptor that may move.
    pub(crate) fn first_number(&self, fd: i32) -> Option<i32> {
        (0..MARKED_DESCRIPTORS as i32).find(|first| is_set(&self.movable, *first) && self.number(*first) == fd)
    }

    /// The current number of the descriptor that had this number first.
    #[inline]
    pub(crate) fn number(&self, first: i32) -> i32 {
        match self.place(first).map(|moved| moved.load(Ordering::Acquire)) {
            None | Some(0) => first,
            Some(moved) => moved - 1,
        }
    }

    /// Notes that a descriptor has moved. False if there is no place for its new number.
    pub(crate) fn note_move(&self, first: i32, to: i32) -> bool {
        let place = self.place(first).filter(|_| to < MARKED_DESCRIPTORS as i32);
        place.inspect(|moved| moved.store(to + 1, Ordering::Release)).is_some()
    }

    /// Removes the note of a move: the descriptor is closed, or is known by its current number.
    pub(crate) fn forget_move(&self, first: i32) {
        if let Some(moved) = self.place(first) {
            moved.store(0, Ordering::Release);
        }
    }

    fn place(&self, first: i32) -> Option<&AtomicI32> {
        usize::try_from(first).ok().and_then(|first| self.moved.get(first))
    }
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

fn is_set(words: &[AtomicU64], fd: i32) -> bool {
    let word = usize::try_from(fd).ok().and_then(|fd| words.get(fd / 64));
    word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (fd % 64) != 0)
}
