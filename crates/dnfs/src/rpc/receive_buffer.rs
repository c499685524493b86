//! The memory of a channel for received bytes, and the records in it.

use crate::error::ProtocolError;
use crate::limits::RECEIVE_BYTES_MAX;
use crate::sys::region::Region;
use nfs_proto::limits::RECORD_BYTES_MAX;
use nfs_proto::record::{self, Framed};
use std::io;
use std::ops::Range;

/// Received bytes: mapped at first use, resident only where touched.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffer {
    memory: Option<Region>,
    pending: Range<usize>, // received and not decoded yet
}

impl ReceiveBuffer {
    /// Maps its memory.
    ///
    /// # Errors
    /// The kernel's error, usually `ENOMEM`.
    pub(super) fn map(&mut self) -> io::Result<()> {
        if self.memory.is_none() {
            self.memory = Some(Region::map(RECEIVE_BYTES_MAX)?);
        }
        Ok(())
    }

    /// Whether nothing is pending.
    pub(super) const fn is_empty(&self) -> bool {
        self.pending.start >= self.pending.end
    }

    /// Discards pending bytes.
    pub(super) const fn clear(&mut self) {
        self.pending = 0..0;
    }

    /// Abandons the memory too: another is mapped at the next use.
    pub(super) fn abandon(&mut self) {
        std::mem::forget(self.memory.take());
        self.clear();
    }

    /// All of its memory, for a receive while nothing is pending. [`Self::set_pending`] follows.
    pub(super) fn memory(&mut self) -> &mut [u8] {
        self.memory.as_deref_mut().unwrap_or_default()
    }

    /// Notes that the first `bytes` bytes of [`Self::memory`] are received.
    pub(super) const fn set_pending(&mut self, bytes: usize) {
        self.pending = 0..bytes;
    }

    /// The memory for the next receive. It is never empty unless the pending record is too long. Moves the pending bytes, a
    /// part of one record, to the front, where the next receives find the memory in the cache.
    pub(super) fn free(&mut self) -> &mut [u8] {
        let memory = self.memory.as_deref_mut().unwrap_or_default();
        if self.pending.start > 0 {
            memory.copy_within(self.pending.clone(), 0);
            self.pending = 0..self.pending.len();
        }
        memory.get_mut(self.pending.end..).unwrap_or_default()
    }

    /// Notes that `bytes` were received into [`Self::free`].
    pub(super) const fn received(&mut self, bytes: usize) {
        self.pending.end += bytes;
    }

    /// Removes one complete record from the pending bytes and returns the range of its body. `None` if no record is complete.
    pub(super) fn next_record(&mut self) -> Result<Option<Range<usize>>, ProtocolError> {
        let start = self.pending.start;
        let pending = self.memory.as_deref_mut().and_then(|memory| memory.get_mut(self.pending.clone())).unwrap_or_default();
        match record::frame(pending, RECORD_BYTES_MAX)? {
            Framed::Record { body, consumed } => {
                self.pending.start += consumed;
                Ok(Some(start + body.start..start + body.end))
            }
            Framed::Incomplete { bytes_needed } if bytes_needed > RECEIVE_BYTES_MAX => Err(ProtocolError::UnexpectedReply),
            Framed::Incomplete { .. } => Ok(None),
        }
    }

    /// The bytes of a record.
    pub(super) fn bytes(&self, body: Range<usize>) -> &[u8] {
        self.memory.as_deref().and_then(|memory| memory.get(body)).unwrap_or_default()
    }
}
