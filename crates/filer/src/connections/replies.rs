//! The replies of a turn, gathered in one buffer that is kept while it is of use.

use crate::limits::{REPLY_BYTES_IDLE, SMALL_TURNS};

/// Replies gathered in a turn.
#[derive(Default)]
pub(crate) struct Replies {
    pub(crate) out: Vec<u8>,
    sent_bytes_max: usize, // of one send of this turn: `out` is empty when it ends
    small_turns: u32,      // in a row that a small buffer would have done
}

impl Replies {
    /// Sends what is ready: before a call that waits for the medium, and at the end of a turn.
    pub(crate) fn send<E>(&mut self, send: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        if !self.out.is_empty() {
            send(&mut self.out)?;
            self.sent_bytes_max = self.sent_bytes_max.max(self.out.len());
            self.out.clear();
        }
        Ok(())
    }

    /// Whether the buffer is larger than a idle connection's.
    pub(crate) fn is_large(&self) -> bool {
        self.out.capacity() > REPLY_BYTES_IDLE
    }

    /// Bytes it takes.
    pub(crate) fn size(&self) -> usize {
        self.out.capacity()
    }

    /// After a turn: gives a large buffer back that was not needed for long, or at once where memory is short.
    pub(crate) fn end_turn(&mut self, short_of_memory: bool) {
        let small = std::mem::take(&mut self.sent_bytes_max) <= REPLY_BYTES_IDLE;
        self.small_turns = if small { self.small_turns.saturating_add(1) } else { 0 };
        if self.is_large() && (short_of_memory || self.small_turns >= SMALL_TURNS) {
            self.clear();
        }
    }

    /// Keeps nothing.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn with a reply of so many bytes; whether the buffer was kept behind it.
    fn turn(replies: &mut Replies, bytes: usize, short_of_memory: bool) -> bool {
        replies.out.resize(bytes, 1);
        replies.send(|sent| if sent.len() == bytes { Ok(()) } else { Err(()) }).unwrap();
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
