//! What one connection keeps in memory between turns, and when it gives it back.

use std::sync::atomic::Ordering;

use crate::filer::Filer;
use crate::limits::{BUFFER_BYTES_KEPT, REPLY_BYTES_QUIET, SMALL_TURNS};
use crate::session::Session;
use crate::transport::Receiver;

/// The two buffers of a connection, counted into those of all.
pub(crate) struct Buffers<'a> {
    filer: &'a Filer,
    pub(crate) session: Session,
    pub(crate) receiver: Receiver,
    pub(crate) out: Vec<u8>,
    small_turns: u32, // in a row that a small reply buffer would have done
    counted: usize,   // bytes of ours in `Filer::buffer_bytes`
}

impl<'a> Buffers<'a> {
    pub(crate) fn new(filer: &'a Filer) -> Self {
        let (session, receiver, out) = Default::default();
        Self { filer, session, receiver, out, small_turns: 0, counted: 0 }
    }

    /// Whether there is anything to give back.
    pub(crate) fn spare(&self) -> bool {
        self.session.holds_spare() || self.receiver.holds_spare() || self.out.capacity() > REPLY_BYTES_QUIET
    }

    /// After a silence.
    pub(crate) fn rest(&mut self) {
        self.session.rest();
        self.receiver.shrink();
        self.out = Vec::new();
        self.count(self.size());
    }

    /// After a turn: gives back what was not needed for long, or at once when all connections together hold much. The bytes
    /// that all hold.
    pub(crate) fn turn_over(&mut self) -> usize {
        self.small_turns = if self.out.len() > REPLY_BYTES_QUIET { 0 } else { self.small_turns.saturating_add(1) };
        let total = self.count(self.size());
        let crowded = total > BUFFER_BYTES_KEPT;
        if self.session.holds_spare() && (crowded || self.session.small_turns() >= SMALL_TURNS) {
            self.session.shrink();
            self.receiver.shrink();
        }
        if self.out.capacity() > REPLY_BYTES_QUIET && (crowded || self.small_turns >= SMALL_TURNS) {
            self.out = Vec::new();
        }
        self.count(self.size())
    }

    fn size(&self) -> usize {
        self.session.size() + self.receiver.size() + self.out.capacity()
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
