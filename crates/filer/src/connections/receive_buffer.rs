//! Extracts whole frames from the received bytes of one connection. It has no socket: the driver receives into
//! [`ReceiveBuffer::space`].

use std::ops::Range;

use crate::limits::{RECEIVE_BYTES_BUSY, RECEIVE_BYTES_IDLE, RECEIVE_BYTES_MAX, RECEIVE_BYTES_START};

/// The receive side of a connection: one buffer, in which requests are parsed in place.
///
/// The buffer starts small, doubles while the socket fills it, grows at once for a larger frame that was announced, and
/// is freed when it was not needed for some turns.
#[derive(Debug)]
pub struct ReceiveBuffer {
    buffer: Vec<u8>, // all of it initialised; its length is its size
    start: usize,    // first byte not yet taken
    end: usize,      // after the last byte received
    needed: usize,   // bytes from `start` that the incomplete frame takes, if known
    wanted: usize,   // size the buffer should have, because the socket filled it
    small_turns: u32,
    frames: u64, // taken so far
}

/// What a protocol finds at the start of received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed {
    /// No whole frame yet.
    Incomplete {
        /// Bytes, counted from the start, that must be received before another call makes sense.
        bytes_needed: usize,
    },
    /// A whole frame.
    Whole {
        /// Position of its body in the received bytes.
        body: Range<usize>,
        /// Bytes of the frame, headers included.
        consumed: usize,
    },
}

/// A frame of which only a part was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Number of the frame on its connection.
    pub number: u64,
    /// Bytes of the frame, as far as known.
    pub bytes: usize,
}

/// A received frame: an RPC record, a PDU.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Its body.
    pub bytes: &'a [u8],
    /// Whether more bytes were received after it.
    pub more: bool,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self { buffer: vec![0; RECEIVE_BYTES_START], start: 0, end: 0, needed: 0, wanted: 0, small_turns: 0, frames: 0 }
    }
}

impl ReceiveBuffer {
    /// The memory to receive into. Never empty. Call it when [`Self::next_frame`] has no further frame.
    pub fn space(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.growth().is_some() {
            self.resize(self.size_next());
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Number of bytes by which [`Self::space`] will enlarge the buffer. `None` if it will not.
    #[must_use]
    pub fn growth(&self) -> Option<usize> {
        self.size_next().checked_sub(self.buffer.len()).filter(|more| *more > 0)
    }

    /// Whether the incomplete frame does not fit into the buffer as it is.
    #[must_use]
    pub fn must_grow(&self) -> bool {
        self.needed.min(RECEIVE_BYTES_MAX) > self.buffer.len() || self.start == 0 && self.end == self.buffer.len()
    }

    /// Cancels a growth that no frame needs.
    pub fn stay(&mut self) {
        self.wanted = 0;
    }

    fn size_next(&self) -> usize {
        self.needed.max(self.wanted).min(RECEIVE_BYTES_MAX)
    }

    /// Notes that `bytes` were received into [`Self::space`].
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
        if self.end == self.buffer.len() && self.buffer.len() < RECEIVE_BYTES_BUSY {
            // The socket has more data than the buffer holds, so the next receives are fewer and larger.
            self.wanted = (self.buffer.len() * 2).min(RECEIVE_BYTES_BUSY);
        }
        self.small_turns = if self.end > RECEIVE_BYTES_START { 0 } else { self.small_turns.saturating_add(1) };
    }

    /// Takes the next whole frame. `None` if it is incomplete. `find` parses the received bytes from the start of the
    /// frame.
    ///
    /// # Errors
    /// That of `find`: the bytes do not follow its protocol.
    pub fn next_frame<E>(&mut self, find: impl FnOnce(&mut [u8]) -> Result<Framed, E>) -> Result<Option<Frame<'_>>, E> {
        let unread = self.buffer.get_mut(self.start..self.end).unwrap_or_default();
        let unread_bytes = unread.len();
        match find(unread)? {
            Framed::Incomplete { bytes_needed } => {
                self.needed = self.needed.max(bytes_needed);
                Ok(None)
            }
            Framed::Whole { body, consumed } => {
                let from = self.start + body.start;
                let to = self.start + body.end;
                self.start += consumed;
                self.needed = 0;
                self.frames += 1;
                let bytes = self.buffer.get(from..to).unwrap_or_default();
                Ok(Some(Frame { bytes, more: unread_bytes > consumed }))
            }
        }
    }

    /// The incomplete frame, if one was begun.
    #[must_use]
    pub fn partial(&self) -> Option<Partial> {
        (self.start != self.end).then_some(Partial { number: self.frames, bytes: self.needed })
    }

    /// Consecutive turns for which a small buffer would have been enough.
    #[must_use]
    pub const fn small_turns(&self) -> u32 {
        self.small_turns
    }

    /// Size of the buffer, in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the buffer is empty, and larger than at the start of a connection.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.buffer.len() > RECEIVE_BYTES_START && self.start == self.end
    }

    /// Frees a large buffer.
    pub fn shrink(&mut self) {
        if self.has_spare() {
            self.make_empty(RECEIVE_BYTES_START);
        }
    }

    /// Keeps space for a few requests only. Called after a time without data.
    pub fn shrink_idle(&mut self) {
        if self.buffer.len() > RECEIVE_BYTES_IDLE && self.start == self.end {
            self.make_empty(RECEIVE_BYTES_IDLE);
        }
    }

    fn make_empty(&mut self, size: usize) {
        (self.start, self.end, self.needed, self.wanted) = (0, 0, 0, 0);
        self.resize(size);
    }

    fn resize(&mut self, size: usize) {
        // A new allocation, not a realloc: large blocks are mapped separately and return to the system at once.
        let mut buffer = vec![0; size];
        let kept = self.end.min(size);
        if let (Some(to), Some(from)) = (buffer.get_mut(..kept), self.buffer.get(..kept)) {
            to.copy_from_slice(from);
        }
        self.buffer = buffer;
        self.small_turns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME_BYTES_MAX: usize = RECEIVE_BYTES_MAX - 4;

    /// Frames that consist of a length of four bytes and a body.
    fn find(unread: &mut [u8]) -> Result<Framed, usize> {
        let Some(length) = unread.first_chunk() else { return Ok(Framed::Incomplete { bytes_needed: 4 }) };
        let consumed = 4 + u32::from_be_bytes(*length) as usize;
        if consumed > FRAME_BYTES_MAX {
            return Err(consumed);
        }
        let whole = Framed::Whole { body: 4..consumed, consumed };
        Ok(if unread.len() < consumed { Framed::Incomplete { bytes_needed: consumed } } else { whole })
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_be_bytes(), body].concat()
    }

    /// Feeds `bytes` in pieces of `piece` and collects the frames.
    fn feed(received: &mut ReceiveBuffer, bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut left = bytes;
        while !left.is_empty() {
            let space = received.space();
            let take = left.len().min(piece).min(space.len());
            space[..take].copy_from_slice(&left[..take]);
            received.filled(take);
            left = &left[take..];
            while let Some(frame) = received.next_frame(find).unwrap() {
                frames.push(frame.bytes.to_vec());
            }
        }
        frames
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_are_cut() {
        let bodies: Vec<Vec<u8>> = [40usize, 4, 70_000, 0, 1 << 20, 44].iter().map(|&n| vec![n as u8; n]).collect();
        let stream: Vec<u8> = bodies.iter().flat_map(|body| framed(body)).collect();
        for piece in [1 << 20, 65_536, 8191, 997] {
            assert_eq!(feed(&mut ReceiveBuffer::default(), &stream, piece), bodies, "pieces of {piece}");
        }
    }

    #[test]
    fn a_full_socket_makes_the_buffer_grow_and_quiet_turns_are_counted() {
        let mut received = ReceiveBuffer::default();
        let stream: Vec<u8> = (0..200).flat_map(|_| framed(&[7; 8300])).collect();
        feed(&mut received, &stream, usize::MAX);
        assert_eq!(received.size(), RECEIVE_BYTES_BUSY);
        for _ in 0..64 {
            feed(&mut received, &framed(&[1; 100]), usize::MAX);
        }
        assert!(received.small_turns() >= 64 && received.has_spare());
        received.shrink();
        assert_eq!((received.size(), received.small_turns()), (RECEIVE_BYTES_START, 0));
    }

    #[test]
    fn a_frame_that_is_refused_gets_no_buffer() {
        let mut received = ReceiveBuffer::default();
        received.space()[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        received.filled(4);
        assert!(received.next_frame(find).is_err());
        assert_eq!(received.buffer.len(), RECEIVE_BYTES_START);
    }

    #[test]
    fn more_tells_whether_bytes_wait_behind_a_frame() {
        let mut received = ReceiveBuffer::default();
        let two = [framed(&[1; 8]), framed(&[2; 8])].concat();
        received.space()[..two.len()].copy_from_slice(&two);
        received.filled(two.len());
        assert!(received.next_frame(find).unwrap().unwrap().more);
        assert!(!received.next_frame(find).unwrap().unwrap().more);
    }
}
