//! What one connection keeps in memory between turns, and when it gives it back.

use std::time::{Duration, Instant};

use super::Totals;
use super::ended::Ended;
use super::receive_buffer::ReceiveBuffer;
use super::replies::Replies;
use super::transport::Receiver;
use crate::limits::{BUFFER_BYTES_KEPT, BUFFER_WAIT, SMALL_TURNS};

/// The buffers of a connection, counted into those of all.
pub(super) struct Buffers<'a> {
    totals: &'a Totals,
    pub(super) received: ReceiveBuffer,
    pub(super) receiver: Receiver,
    pub(super) replies: Replies,
    counted: usize, // bytes of ours in `Totals::buffer_bytes`
}

impl<'a> Buffers<'a> {
    pub(super) fn new(totals: &'a Totals) -> Self {
        let (received, receiver, replies) = Default::default();
        let mut buffers = Self { totals, received, receiver, replies, counted: 0 };
        buffers.count(buffers.size());
        buffers
    }

    /// Makes the receive buffer as large as the frame under way needs, waiting for memory; as large as it would be of use if
    /// there is memory now. How long it waited.
    ///
    /// # Errors
    /// All connections together hold as much as they may, and it stays so.
    pub(super) fn make_space(&mut self) -> Result<Duration, Ended> {
        let Some(more) = self.received.growth() else { return Ok(Duration::ZERO) };
        let fits = self.totals.grow(more, Duration::ZERO);
        if !fits && !self.received.must_grow() {
            self.received.stay();
            return Ok(Duration::ZERO);
        }
        let waited = if fits { Duration::ZERO } else { self.wait_for(more)? };
        self.counted += more;
        Ok(waited)
    }

    /// Waits for `more` bytes; how long.
    fn wait_for(&self, more: usize) -> Result<Duration, Ended> {
        let begin = Instant::now();
        if self.totals.grow(more, BUFFER_WAIT) { Ok(begin.elapsed()) } else { Err(Ended::BuffersFull) }
    }

    /// Whether there is anything to give back.
    pub(super) fn have_spare(&self) -> bool {
        self.received.has_spare() || self.receiver.has_spare() || self.replies.is_large()
    }

    /// When nothing came for a while: keeps next to nothing.
    pub(super) fn shrink_idle(&mut self) {
        self.received.shrink_idle();
        self.receiver.shrink();
        self.replies.clear();
        self.count(self.size());
    }

    /// After a turn: gives back what was not needed for long, or at once when all connections together hold much. The bytes
    /// that all hold.
    pub(super) fn end_turn(&mut self) -> usize {
        let total = self.count(self.size());
        let short_of_memory = total > BUFFER_BYTES_KEPT;
        if self.received.has_spare() && (short_of_memory || self.received.small_turns() >= SMALL_TURNS) {
            self.received.shrink();
            self.receiver.shrink();
        }
        self.replies.end_turn(short_of_memory);
        self.count(self.size())
    }

    fn size(&self) -> usize {
        self.received.size() + self.receiver.size() + self.replies.size()
    }

    /// Counts ours as `bytes`; the bytes of all.
    fn count(&mut self, bytes: usize) -> usize {
        if bytes == self.counted {
            return self.totals.buffer_bytes();
        }
        self.totals.count(std::mem::replace(&mut self.counted, bytes), bytes)
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::receive_buffer::Framed;
    use crate::limits::{BUFFER_BYTES_MAX, RECEIVE_BYTES_MAX};

    /// A connection that was announced a frame of the largest size, of which four bytes have come.
    fn begun(totals: &Totals) -> Buffers<'_> {
        let mut buffers = Buffers::new(totals);
        buffers.received.space()[..4].fill(1);
        buffers.received.filled(4);
        let announced = Framed::Incomplete { bytes_needed: RECEIVE_BYTES_MAX };
        assert!(buffers.received.next_frame(|_| Ok::<_, ()>(announced)).unwrap().is_none());
        buffers
    }

    #[test]
    fn frames_that_were_begun_never_take_more_than_all_may_and_one_that_ends_makes_space_for_another() {
        let totals = Totals::default();
        let mut held = Vec::new();
        let mut waits = loop {
            let mut buffers = begun(&totals);
            if !totals.grow(RECEIVE_BYTES_MAX, Duration::ZERO) {
                break buffers;
            }
            totals.count(RECEIVE_BYTES_MAX, 0);
            assert_eq!(buffers.make_space().unwrap(), Duration::ZERO);
            buffers.received.space();
            held.push(buffers);
            assert!(totals.buffer_bytes() <= BUFFER_BYTES_MAX);
        };
        assert!(held.len() > 400 && totals.is_short());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || waits.make_space());
            while *totals.waiting() == 0 {
                std::thread::yield_now();
            }
            held.pop();
            assert!(!waiting.join().unwrap().unwrap().is_zero(), "it says that it waited");
        });
        drop(held);
        assert_eq!(totals.buffer_bytes(), 0);
    }
}
