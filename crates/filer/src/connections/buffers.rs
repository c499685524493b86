//! What one connection keeps in memory between turns, and when it gives it back.

use std::sync::atomic::Ordering;

use crate::connections::receive_buffer::Session;
use crate::connections::replies::Replies;
use crate::connections::transport::Receiver;
use crate::limits::{BUFFER_BYTES_KEPT, SMALL_TURNS};
use crate::nfs::filer::Filer;

/// The two buffers of a connection, counted into those of all.
pub(crate) struct Buffers<'a> {
    filer: &'a Filer,
    pub(crate) session: Session,
    pub(crate) receiver: Receiver,
    pub(crate) replies: Replies,
    counted: usize, // bytes of ours in `Filer::buffer_bytes`
}

impl<'a> Buffers<'a> {
    pub(crate) fn new(filer: &'a Filer) -> Self {
        let (session, receiver, replies) = Default::default();
        Self { filer, session, receiver, replies, counted: 0 }
    }

    /// Whether there is anything to give back.
    pub(crate) fn spare(&self) -> bool {
        self.session.holds_spare() || self.receiver.holds_spare() || self.replies.is_large()
    }

    /// After a silence.
    pub(crate) fn rest(&mut self) {
        self.session.rest();
        self.receiver.shrink();
        self.replies.rest();
        self.count(self.size());
    }

    /// After a turn: gives back what was not needed for long, or at once when all connections together hold much. The bytes
    /// that all hold.
    pub(crate) fn turn_over(&mut self) -> usize {
        let total = self.count(self.size());
        let crowded = total > BUFFER_BYTES_KEPT;
        if self.session.holds_spare() && (crowded || self.session.small_turns() >= SMALL_TURNS) {
            self.session.shrink();
            self.receiver.shrink();
        }
        self.replies.turn_over(crowded);
        self.count(self.size())
    }

    fn size(&self) -> usize {
        self.session.size() + self.receiver.size() + self.replies.size()
    }

    /// Counts ours as `bytes`; the bytes of all.
    fn count(&mut self, bytes: usize) -> usize {
        let all = &self.filer.buffer_bytes;
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
