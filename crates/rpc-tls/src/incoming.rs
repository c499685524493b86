//! Received records in one buffer, decrypted in place.

use std::io::IoSliceMut;
use std::ops::{DerefMut, Range};

use crate::error::RecordFault;
use crate::limits::RECORD_BYTES_MAX;
use crate::open::{Opened, Opener, record_bytes};

/// The receiving side of a connection: it takes bytes of records and returns data. `B` is its buffer, of at least
/// [`RECORD_BYTES_MAX`] bytes.
#[derive(Debug)]
pub struct Incoming<B> {
    opener: Opener,
    buffer: B,
    plain: Range<usize>, // data of the last decrypted record that is not taken yet
    start: usize,        // of the records that are not decrypted yet
    end: usize,          // after the last byte received
    closed: bool,
}

/// The result of taking data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// This many bytes of data, at least one.
    Bytes(usize),
    /// No data is left; more must be received.
    None,
    /// The peer has sent close_notify.
    Closed,
}

impl<B: DerefMut<Target = [u8]>> Incoming<B> {
    /// Begins with the bytes that were received after the handshake.
    ///
    /// # Panics
    /// If the buffer is too small: a bug of the caller.
    #[must_use]
    pub fn new(opener: Opener, mut buffer: B, early: &[u8]) -> Self {
        assert!(buffer.len() >= RECORD_BYTES_MAX.max(early.len()), "memory for records: {} bytes", buffer.len());
        buffer[..early.len()].copy_from_slice(early);
        Self { opener, buffer, plain: 0..0, start: 0, end: early.len(), closed: false }
    }

    /// The part of the buffer to receive into. It is never empty after [`Taken::None`].
    pub fn room(&mut self) -> &mut [u8] {
        if self.plain.is_empty() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            (self.plain, self.start) = (0..0, 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Notes that `bytes` bytes were received into [`Self::room`].
    pub fn received(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// Copies received data to `to`, from several records if necessary.
    ///
    /// # Errors
    /// [`RecordFault`]: the caller must close the connection.
    pub fn take(&mut self, to: &mut [u8]) -> Result<Taken, RecordFault> {
        let mut done = 0;
        while done < to.len() && self.open_next()? {
            done += self.copy(&mut to[done..]);
        }
        Ok(self.outcome(done))
    }

    /// As [`Self::take`], into several buffers.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_scattered(&mut self, to: &mut [IoSliceMut<'_>]) -> Result<Taken, RecordFault> {
        let mut total = 0;
        for part in to {
            let mut done = 0;
            while done < part.len() && self.open_next()? {
                done += self.copy(&mut part[done..]);
            }
            total += done;
            if done < part.len() {
                break;
            }
        }
        Ok(self.outcome(total))
    }

    /// Whether the buffer is empty: it has no data and no part of a record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.start == self.end
    }

    /// Whether the peer has sent close_notify.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    const fn outcome(&self, done: usize) -> Taken {
        match done {
            0 if self.closed => Taken::Closed,
            0 => Taken::None,
            bytes => Taken::Bytes(bytes),
        }
    }

    fn copy(&mut self, to: &mut [u8]) -> usize {
        let from = self.buffer.get(self.plain.clone()).unwrap_or_default();
        let count = from.len().min(to.len());
        to[..count].copy_from_slice(&from[..count]);
        self.plain.start += count;
        count
    }

    /// Decrypts records until there is data. Returns false if there is no data.
    fn open_next(&mut self) -> Result<bool, RecordFault> {
        while self.plain.is_empty() {
            if self.closed {
                return Ok(false);
            }
            let unopened = self.buffer.get_mut(self.start..self.end).unwrap_or_default();
            let Some(bytes) = record_bytes(unopened)? else { return Ok(false) };
            let Some(record) = unopened.get_mut(..bytes) else { return Ok(false) };
            match self.opener.open(record)? {
                Opened::Data(range) => self.plain = self.start + range.start..self.start + range.end,
                Opened::Nothing => {}
                Opened::Closed => self.closed = true,
            }
            self.start += bytes;
        }
        Ok(true)
    }
}

impl Incoming<Vec<u8>> {
    /// Size of the buffer, in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the buffer is full, so that more bytes may be waiting.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.end == self.buffer.len()
    }

    /// Changes the size of the buffer, if all data is taken and the received records fit.
    pub fn resize(&mut self, bytes: usize) {
        let kept = self.start..self.end;
        if self.plain.is_empty() && bytes >= RECORD_BYTES_MAX.max(kept.len()) && bytes != self.buffer.len() {
            let mut fresh = vec![0; bytes];
            fresh[..kept.len()].copy_from_slice(&self.buffer[kept.clone()]);
            (self.buffer, self.end, self.start, self.plain) = (fresh, kept.len(), 0, 0..0);
        }
    }
}
