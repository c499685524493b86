//! The memory that one connection keeps between turns, and when it frees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Totals;
use super::ended::Ended;
use super::receive_buffer::ReceiveBuffer;
use super::replies::Replies;
use super::transport::Receiver;
use crate::limits::{
    BUFFER_BYTES_KEPT, BUFFER_BYTES_PER_CLIENT_MAX, BUFFER_WAIT, RECEIVE_BYTES_START, REPLY_BYTES_IDLE, SMALL_TURNS,
};

/// The buffers of a connection. Their sizes are part of the sum over all connections.
pub(super) struct Buffers<'a> {
    totals: &'a Totals,
    pub(super) received: ReceiveBuffer,
    pub(super) receiver: Receiver,
    pub(super) replies: Replies,
    counted: usize,                     // this connection's part of `Totals::buffer_bytes`
    pub(super) share: Arc<AtomicUsize>, // large buffers of the client
    shared: usize,                      // this connection's part of it
}

impl<'a> Buffers<'a> {
    pub(super) fn new(totals: &'a Totals, share: &Arc<AtomicUsize>, receiver: Receiver) -> Self {
        let (received, replies) = Default::default();
        let mut buffers = Self { totals, received, receiver, replies, counted: 0, share: Arc::clone(share), shared: 0 };
        buffers.count(buffers.size());
        buffers
    }

    /// Makes the receive buffer as large as the current frame needs, and waits for memory if necessary. Makes it larger where that saves
    /// receives, if memory is free now. Returns how long it waited.
    ///
    /// # Errors
    /// The buffers of all connections have reached their limit, and no connection frees memory in time.
    pub(super) fn make_space(&mut self) -> Result<Duration, Ended> {
        let Some(more) = self.received.growth() else { return Ok(Duration::ZERO) };
        let fits = self.totals.grow_within(&self.share, more, Duration::ZERO);
        if !fits && !self.received.must_grow() {
            self.received.stay();
            return Ok(Duration::ZERO);
        }
        let waited = if fits { Duration::ZERO } else { self.wait_for(more)? };
        self.counted += more;
        self.shared += more;
        Ok(waited)
    }

    /// Waits for `more` bytes. Returns how long it waited.
    fn wait_for(&self, more: usize) -> Result<Duration, Ended> {
        let begin = Instant::now();
        if self.totals.grow_within(&self.share, more, BUFFER_WAIT) { Ok(begin.elapsed()) } else { Err(Ended::BuffersFull) }
    }

    /// Whether little memory is left for buffers of all connections or of this client.
    pub(super) fn are_short(&self) -> bool {
        self.totals.is_short() || self.share.load(Ordering::Relaxed) > BUFFER_BYTES_PER_CLIENT_MAX / 4 * 3
    }

    /// Whether a buffer can be freed.
    pub(super) fn have_spare(&self) -> bool {
        self.received.has_spare() || self.receiver.has_spare() || self.replies.is_large()
    }

    /// Frees nearly all memory, after a time without data.
    pub(super) fn shrink_idle(&mut self) {
        self.received.shrink_idle();
        self.receiver.shrink();
        self.replies.clear();
        self.count(self.size());
    }

    /// Ends a turn: frees memory that was not needed for some turns, or at once when all connections together hold much. Returns the bytes
    /// that all connections hold.
    pub(super) fn end_turn(&mut self) -> usize {
        self.take_ahead();
        let total = self.count(self.size());
        let short_of_memory = total > BUFFER_BYTES_KEPT;
        if self.received.has_spare() && (short_of_memory || self.received.small_turns() >= SMALL_TURNS) {
            self.received.shrink();
            self.receiver.shrink();
        }
        self.replies.end_turn(short_of_memory);
        self.count(self.size())
    }

    /// Counts what a turn added to the sums before the reply buffer grew.
    fn take_ahead(&mut self) {
        let ahead = std::mem::take(&mut self.replies.ahead_bytes);
        self.counted += ahead;
        self.shared += ahead;
    }

    fn size(&self) -> usize {
        self.received.size() + self.receiver.size() + self.replies.size()
    }

    /// Sets this connection's part of the sum to `bytes`. Returns the sum.
    fn count(&mut self, bytes: usize) -> usize {
        let above = |size: usize, small: usize| size.saturating_sub(small);
        let large = above(self.received.size(), RECEIVE_BYTES_START) + above(self.replies.size(), REPLY_BYTES_IDLE);
        let large = if bytes == 0 { 0 } else { large };
        let less = self.shared.saturating_sub(large);
        if less > 0 {
            self.shared -= less;
            self.share.fetch_sub(less, Ordering::SeqCst);
        }
        if bytes == self.counted {
            return self.totals.buffer_bytes();
        }
        self.totals.count(std::mem::replace(&mut self.counted, bytes), bytes)
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        self.take_ahead();
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::receive_buffer::Framed;
    use crate::limits::{BUFFER_BYTES_MAX, RECEIVE_BYTES_MAX};

    /// A connection that has received the first four bytes of a frame of the largest size.
    fn begun(totals: &Totals) -> Buffers<'_> {
        let mut buffers = Buffers::new(totals, &Arc::default(), Receiver::default());
        buffers.received.space()[..4].fill(1);
        buffers.received.filled(4);
        let announced = Framed::Incomplete { bytes_needed: RECEIVE_BYTES_MAX };
        assert!(buffers.received.next_frame(|_| Ok::<_, ()>(announced)).unwrap().is_none());
        buffers
    }

    #[test]
    fn a_client_whose_frames_hold_its_share_leaves_memory_to_another() {
        let totals = Totals::default();
        let share = Arc::default();
        let mut held = Vec::new();
        loop {
            let mut buffers = begun(&totals);
            buffers.share = Arc::clone(&share);
            if !totals.grow_within(&share, RECEIVE_BYTES_MAX, Duration::ZERO) {
                break;
            }
            totals.count(RECEIVE_BYTES_MAX, 0);
            share.fetch_sub(RECEIVE_BYTES_MAX, Ordering::Relaxed);
            assert_eq!(buffers.make_space().unwrap(), Duration::ZERO);
            buffers.received.space();
            held.push(buffers);
        }
        assert!(held.iter().all(Buffers::are_short), "the client's frames get the short time limit");
        let mut other = begun(&totals);
        assert_eq!(other.make_space().unwrap(), Duration::ZERO);
        drop(held);
        assert_eq!(share.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_client_whose_replies_hold_its_share_leaves_memory_to_another_and_gives_it_back() {
        const REPLY: usize = 1 << 20;
        let (totals, share, other) = (Totals::default(), Arc::default(), AtomicUsize::new(0));
        let mut held = Vec::new();
        loop {
            let mut buffers = Buffers::new(&totals, &share, Receiver::default());
            if !buffers.replies.make_space(REPLY, Duration::ZERO, &totals, &share) {
                break;
            }
            buffers.replies.out.resize(REPLY, 1);
            held.push(buffers);
        }
        assert_eq!(held.len(), BUFFER_BYTES_PER_CLIENT_MAX / REPLY);
        assert!(Replies::default().make_space(REPLY, Duration::ZERO, &totals, &other));
        held.iter_mut().for_each(|buffers| {
            buffers.replies.out.clear();
            buffers.end_turn();
        });
        assert!(share.load(Ordering::Relaxed) <= BUFFER_BYTES_KEPT, "memory is short, so most turns free their buffers");
        drop(held);
        assert_eq!((share.load(Ordering::Relaxed), totals.buffer_bytes()), (0, REPLY));
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
        assert!(held.len() > 380 && totals.is_short());
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
