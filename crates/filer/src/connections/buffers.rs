//! What one connection keeps in memory between turns, and when it gives it back.

use std::sync::atomic::Ordering;

use super::Totals;
use super::receive_buffer::ReceiveBuffer;
use super::replies::Replies;
use super::transport::Receiver;
use crate::limits::{BUFFER_BYTES_KEPT, SMALL_TURNS};

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
        Self { totals, received, receiver, replies, counted: 0 }
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
        let all = &self.totals.buffer_bytes;
        if bytes != self.counted {
            all.fetch_add(bytes, Ordering::Relaxed);
            all.fetch_sub(self.counted, Ordering::Relaxed);
            self.counted = bytes;
        }
        all.load(Ordering::Relaxed)
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        self.count(0);
    }
}
