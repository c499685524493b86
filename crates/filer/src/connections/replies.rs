//! The replies of a turn, collected in one buffer that is kept while turns need it.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::Totals;
use super::delivery::{SentMark, SentMarks};
use crate::limits::{REPLY_BYTES_GATHERED, REPLY_BYTES_IDLE, SMALL_TURNS};

/// Replies collected in a turn.
#[derive(Default)]
pub(crate) struct Replies {
    pub(crate) out: Vec<u8>,
    pub(super) marks: SentMarks,   // of replies in `out`
    pub(super) ahead_bytes: usize, // added to the sums of the client and of all connections before `out` grows by them
    sent_bytes_max: usize,         // the largest send of this turn; `out` is empty when the turn ends
    small_turns: u32,              // successive turns for which a small buffer would have been enough
}

impl Replies {
    /// Sends the collected replies: before a call that waits for the medium, and at the end of a turn.
    pub(crate) fn send<E>(&mut self, send: impl FnOnce(&mut Vec<u8>, &[SentMark]) -> Result<(), E>) -> Result<(), E> {
        if !self.out.is_empty() {
            send(&mut self.out, &self.marks)?;
            self.marks.clear();
            self.sent_bytes_max = self.sent_bytes_max.max(self.out.len());
            self.out.clear();
        }
        Ok(())
    }

    /// Adds a large reply of `bytes` bytes to the sum of the client and to that of all connections, before `out` grows. Returns false if a
    /// sum would exceed its limit for longer than `wait`.
    pub(super) fn make_space(&mut self, bytes: usize, wait: Duration, totals: &Totals, share: &AtomicUsize) -> bool {
        let more = (self.out.len() + bytes).saturating_sub(self.out.capacity() + self.ahead_bytes);
        if bytes <= REPLY_BYTES_GATHERED || more == 0 {
            return true;
        }
        let fits = totals.grow_within(share, more, wait);
        self.ahead_bytes += if fits { more } else { 0 };
        fits
    }

    /// Whether the buffer is larger than that of an idle connection.
    pub(crate) fn is_large(&self) -> bool {
        self.out.capacity() > REPLY_BYTES_IDLE
    }

    /// The buffer's size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.out.capacity()
    }

    /// Ends a turn: frees a large buffer that some turns did not need, or at once if memory is short.
    pub(crate) fn end_turn(&mut self, short_of_memory: bool) {
        let small = std::mem::take(&mut self.sent_bytes_max) <= REPLY_BYTES_IDLE;
        self.small_turns = if small { self.small_turns.saturating_add(1) } else { 0 };
        if self.is_large() && (short_of_memory || self.small_turns >= SMALL_TURNS) {
            self.clear();
        }
    }

    /// Frees the buffer.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn with a reply of `bytes` bytes. Returns whether the buffer was kept after it.
    fn turn(replies: &mut Replies, bytes: usize, short_of_memory: bool) -> bool {
        replies.out.resize(bytes, 1);
        replies.send(|sent, _| if sent.len() == bytes { Ok(()) } else { Err(()) }).unwrap();
        assert!(replies.out.is_empty());
        replies.end_turn(short_of_memory);
        replies.is_large()
    }

    #[test]
    fn a_large_buffer_is_kept_while_replies_are_large() {
        let mut replies = Replies::default();
        assert!((0..4 * SMALL_TURNS).all(|_| turn(&mut replies, 4 * REPLY_BYTES_IDLE, false)));
    }

    #[test]
    fn a_large_buffer_is_given_back_after_small_turns_and_at_once_where_memory_is_short() {
        let mut replies = Replies::default();
        assert!(turn(&mut replies, 4 * REPLY_BYTES_IDLE, false));
        assert!((1..SMALL_TURNS).all(|_| turn(&mut replies, 100, false)));
        assert!(!turn(&mut replies, 100, false));
        assert!(!turn(&mut replies, 4 * REPLY_BYTES_IDLE, true));
    }
}
