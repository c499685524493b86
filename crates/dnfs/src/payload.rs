//! The bytes of a write: given by the caller, or read from their source while the bytes before them are in flight.

use crate::limits::{LAZY_CALL_BYTES_MAX, LAZY_STEP_BYTES};
use crate::rpc::io_slices::{SendList, overlap, total};
use std::fmt;
use std::io::IoSlice;
use std::ops::Range;

/// A buffer that is filled from a source as its bytes are needed: [`crate::mount::Mount::write_from`] sends the first
/// of them while it reads the others.
pub struct LazyBuffer<'b> {
    buffer: &'b mut [u8],
    filled: usize,
    ended: bool,
    read: &'b mut dyn FnMut(&mut [u8]) -> usize,
}

impl<'b> LazyBuffer<'b> {
    /// A buffer that `read` fills. `read` stores bytes into the given memory from its start and returns how many; 0 at the end.
    /// After the first bytes it is called with locks of the file held, and must not wait.
    pub fn new(buffer: &'b mut [u8], read: &'b mut dyn FnMut(&mut [u8]) -> usize) -> Self {
        Self { buffer, filled: 0, ended: false, read }
    }

    /// Reads until there are `bytes` bytes, or the source ends. Returns how many there are.
    pub fn fill(&mut self, bytes: usize) -> usize {
        let wanted = bytes.min(self.buffer.len());
        while self.filled < wanted && !self.ended {
            let Some(to) = self.buffer.get_mut(self.filled..wanted).filter(|to| !to.is_empty()) else { break };
            let got = (self.read)(to).min(wanted - self.filled);
            self.filled += got;
            self.ended = got == 0;
        }
        self.filled
    }

    /// Bytes read so far.
    #[must_use]
    pub const fn filled(&self) -> usize {
        self.filled
    }

    /// Its capacity in bytes.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.buffer.len()
    }

    fn len(&self) -> usize {
        if self.ended { self.filled } else { self.buffer.len() }
    }
}

impl fmt::Debug for LazyBuffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buffer, filled, ended, read: _ } = self;
        f.debug_struct("LazyBuffer").field("bytes", &buffer.len()).field("filled", filled).field("ended", ended).finish()
    }
}

/// The data of one write, or of a piece of one. Positions count from its first byte.
pub enum Payload<'p, 'b> {
    /// All bytes are available.
    Given(&'p [IoSlice<'p>]),
    /// This part of a buffer.
    Lazy(&'p mut LazyBuffer<'b>, Range<usize>),
}

impl<'b> Payload<'_, 'b> {
    /// Number of bytes, as far as known.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Given(bufs) => total(bufs),
            Self::Lazy(lazy, part) => part.end.min(lazy.len()).saturating_sub(part.start),
        }
    }

    /// Number of available bytes.
    pub(crate) fn available(&self) -> usize {
        match self {
            Self::Given(bufs) => total(bufs),
            Self::Lazy(lazy, part) => part.end.min(lazy.filled).saturating_sub(part.start),
        }
    }

    /// Makes these bytes available. Returns how many are, fewer only at the end of the source.
    pub(crate) fn prepare(&mut self, range: &Range<usize>) -> usize {
        if let Self::Lazy(lazy, part) = self {
            let end = part.end.min(part.start + range.end.next_multiple_of(LAZY_STEP_BYTES));
            lazy.fill(end);
        }
        self.available().min(range.end).saturating_sub(range.start)
    }

    /// One piece of the payload. If the payload is a list of buffers, the piece ends where `list`
    /// is full.
    pub(crate) fn piece<'q: 'l, 'l, const N: usize>(
        &'q mut self,
        range: Range<usize>,
        list: &'l mut SendList<'q, N>,
    ) -> Payload<'l, 'b> {
        match self {
            Self::Given(bufs) => {
                let _ = list.push_range(bufs, range); // a list that is full makes the piece shorter
                Payload::Given(list.as_slice())
            }
            Self::Lazy(lazy, part) => Payload::Lazy(lazy, part.start + range.start..part.end.min(part.start + range.end)),
        }
    }

    /// Largest call for the payload, if the server accepts `bytes_max`.
    pub(crate) fn call_bytes(&self, bytes_max: u32) -> u32 {
        match self {
            Self::Given(_) => bytes_max,
            Self::Lazy(..) => bytes_max.min(LAZY_CALL_BYTES_MAX),
        }
    }

    /// Number of the payload's buffers.
    pub(crate) const fn segments(&self) -> usize {
        match self {
            Self::Given(bufs) => bufs.len(),
            Self::Lazy(..) => 1,
        }
    }

    /// Appends available bytes. False if the list is full.
    pub(crate) fn push<'a, const N: usize>(&'a self, range: Range<usize>, list: &mut SendList<'a, N>) -> bool {
        match self {
            Self::Given(bufs) => list.push_range(bufs, range),
            Self::Lazy(..) => list.push(self.lazy_bytes(range)),
        }
    }

    /// Calls `take` with each contiguous part of these bytes, which are all available, and its offset.
    pub(crate) fn each(&self, range: Range<usize>, mut take: impl FnMut(usize, &[u8])) {
        let Self::Given(bufs) = self else { return take(0, self.lazy_bytes(range)) };
        let (mut start, mut at) = (0, 0);
        for buffer in *bufs {
            let end = start + buffer.len();
            if let Some(bytes) = buffer.get(overlap(start..end, &range)).filter(|bytes| !bytes.is_empty()) {
                take(at, bytes);
                at += bytes.len();
            }
            if end >= range.end {
                break;
            }
            start = end;
        }
    }

    fn lazy_bytes(&self, range: Range<usize>) -> &[u8] {
        match self {
            Self::Given(_) => &[],
            Self::Lazy(lazy, part) => {
                let end = (part.start + range.end).min(lazy.filled);
                lazy.buffer.get(part.start + range.start..end).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::io_slices::LONG;

    /// A source of `length` bytes that returns up to 3,000 at once. Byte n has the value n, truncated.
    fn source(length: usize) -> impl FnMut(&mut [u8]) -> usize {
        let mut at = 0;
        move |to| {
            let count = to.len().min(3000).min(length - at);
            to.iter_mut().take(count).enumerate().for_each(|(n, byte)| *byte = (at + n) as u8);
            at += count;
            count
        }
    }

    fn bytes_of(payload: &Payload<'_, '_>, range: Range<usize>) -> Vec<u8> {
        let mut pushed = SendList::<LONG>::new();
        assert!(payload.push(range.clone(), &mut pushed));
        let pushed: Vec<u8> = pushed.as_slice().iter().flat_map(|part| part.to_vec()).collect();
        let mut each = Vec::new();
        payload.each(range, |at, bytes| {
            assert_eq!(at, each.len());
            each.extend_from_slice(bytes);
        });
        assert_eq!(each, pushed);
        each
    }

    #[test]
    fn a_lazy_payload_reads_no_further_than_the_chunk_of_what_is_sent() {
        let (mut memory, mut read) = (vec![0; 100_000], source(100_000));
        let mut lazy = LazyBuffer::new(&mut memory, &mut read);
        let mut payload = Payload::Lazy(&mut lazy, 0..usize::MAX);
        assert_eq!((payload.len(), payload.available()), (100_000, 0));
        assert_eq!(payload.prepare(&(0..10_000)), 10_000);
        assert_eq!((payload.len(), payload.available()), (100_000, LAZY_STEP_BYTES));
        assert_eq!(bytes_of(&payload, 250..260), (250..260).map(|n| n as u8).collect::<Vec<_>>());
        assert_eq!(payload.prepare(&(90_000..100_000)), 10_000);
        assert_eq!(payload.available(), 100_000);
    }

    #[test]
    fn a_source_that_ends_early_ends_the_payload() {
        let (mut memory, mut read) = (vec![0; 400_000], source(200_000));
        let mut lazy = LazyBuffer::new(&mut memory, &mut read);
        let mut payload = Payload::Lazy(&mut lazy, 0..usize::MAX);
        assert_eq!(payload.prepare(&(0..160_000)), 160_000);
        assert_eq!(payload.prepare(&(160_000..320_000)), 40_000);
        assert_eq!(payload.prepare(&(320_000..400_000)), 0);
        assert_eq!((payload.len(), lazy.filled()), (200_000, 200_000));
    }

    #[test]
    fn pieces_are_counted_from_their_own_start() {
        let (mut memory, mut read) = (vec![0; 500_000], source(300_000));
        let mut lazy = LazyBuffer::new(&mut memory, &mut read);
        let mut payload = Payload::Lazy(&mut lazy, 0..usize::MAX);
        let mut list = SendList::<LONG>::new();
        let mut piece = payload.piece(16_384..400_000, &mut list);
        assert_eq!((piece.len(), piece.prepare(&(0..10)), piece.available()), (383_616, 10, LAZY_STEP_BYTES));
        assert_eq!(bytes_of(&piece, 0..3), [0, 1, 2]);
        assert_eq!(piece.prepare(&(0..383_616)), 300_000 - 16_384);
        assert_eq!(piece.len(), 300_000 - 16_384);

        let (left, right) = ([1u8; 5], [2u8; 5]);
        let buffers = [IoSlice::new(&left), IoSlice::new(&right)];
        let mut given = Payload::Given(&buffers);
        let mut list = SendList::<LONG>::new();
        let mut piece = given.piece(3..8, &mut list);
        assert_eq!((piece.len(), piece.prepare(&(0..5)), piece.segments()), (5, 5, 2));
        assert_eq!(bytes_of(&piece, 1..4), [1, 2, 2]);
    }
}
