//! Decrypts records.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::RecordFault;
use crate::keys::{Shared, TrafficKey};
use crate::limits::{BODY_BYTES_MAX, PLAIN_BYTES_MAX, RECORD_HEAD_BYTES};
use crate::seal::{ALERT, DATA, HANDSHAKE, OUTER_HEADER};

/// Handshake messages that may follow a handshake (RFC 8446 4.6).
const NEW_SESSION_TICKET: u8 = 4;
/// As above.
const KEY_UPDATE: u8 = 24;
/// Alerts that are not errors (RFC 8446 6.1).
const CLOSE_NOTIFY: u8 = 0;
/// As above.
const USER_CANCELED: u8 = 90;

/// The receiving side of a connection under TLS.
pub struct Opener {
    key: TrafficKey,
    shared: Arc<Shared>,
    skip: usize, // bytes of a ticket that are in later records
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Data, with its range in the record, which may be empty.
    Data(Range<usize>),
    /// Nothing for the caller: a ticket, or a new key.
    Nothing,
    /// The peer will send no more data (close_notify).
    Closed,
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener").finish_non_exhaustive()
    }
}

/// Length of the record that begins with these bytes. `None` if its head is not complete yet.
///
/// # Errors
/// [`RecordFault`] if a sealed record does not begin so, or if the record is too long.
pub(crate) fn record_bytes(bytes: &[u8]) -> Result<Option<usize>, RecordFault> {
    if let Some(&first) = bytes.first().filter(|first| **first != OUTER_HEADER[0]) {
        return Err(RecordFault::NotTls(first));
    }
    let Some([_, _, _, high, low]) = bytes.first_chunk::<RECORD_HEAD_BYTES>() else { return Ok(None) };
    let body_bytes = usize::from(u16::from_be_bytes([*high, *low]));
    if body_bytes > BODY_BYTES_MAX { Err(RecordFault::TooLong(body_bytes)) } else { Ok(Some(RECORD_HEAD_BYTES + body_bytes)) }
}

impl Opener {
    pub(crate) const fn new(key: TrafficKey, shared: Arc<Shared>) -> Self {
        Self { key, shared, skip: 0 }
    }

    /// Decrypts one whole record in place.
    ///
    /// # Errors
    /// [`RecordFault`] if the record was changed or is not expected: the caller must close the connection.
    pub fn open(&mut self, record: &mut [u8]) -> Result<Opened, RecordFault> {
        let Some((head, body)) = record.split_first_chunk_mut::<RECORD_HEAD_BYTES>() else { return Err(RecordFault::Unexpected) };
        let bytes = self.key.open(*head, body)?;
        // The type is the last byte that is not padding (RFC 8446 5.4).
        let inner = body.get(..bytes).unwrap_or_default();
        let at = inner.iter().rposition(|&byte| byte != 0).ok_or(RecordFault::Unexpected)?;
        if at > PLAIN_BYTES_MAX {
            return Err(RecordFault::TooLong(at));
        }
        let (content, data) = (inner.get(at).copied(), inner.get(..at).unwrap_or_default());
        if self.skip > 0 && content != Some(HANDSHAKE) {
            return Err(RecordFault::Unexpected);
        }
        match content {
            Some(DATA) => Ok(Opened::Data(RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + at)),
            Some(HANDSHAKE) if at > 0 => self.messages(data).map(|()| Opened::Nothing),
            Some(ALERT) => match data {
                [_, CLOSE_NOTIFY] => Ok(Opened::Closed),
                [_, USER_CANCELED] => Ok(Opened::Nothing),
                [_, alert] => Err(RecordFault::Alert(*alert)),
                _ => Err(RecordFault::Unexpected),
            },
            _ => Err(RecordFault::Unexpected),
        }
    }

    /// Handles handshake messages: skips tickets, changes the key.
    fn messages(&mut self, mut data: &[u8]) -> Result<(), RecordFault> {
        while !data.is_empty() {
            let skipped = self.skip.min(data.len());
            self.skip -= skipped;
            data = data.get(skipped..).unwrap_or_default();
            match data {
                [] => {}
                // A change of the key must end its record (RFC 8446 5.1).
                [KEY_UPDATE, 0, 0, 1, asked @ (0 | 1)] => {
                    self.key = self.shared.next_to_open()?;
                    if *asked == 1 {
                        self.shared.key_update_requested.store(true, Ordering::Relaxed);
                    }
                    return Ok(());
                }
                [NEW_SESSION_TICKET, a, b, c, rest @ ..] => {
                    self.skip = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                    if self.skip > BODY_BYTES_MAX * 4 {
                        return Err(RecordFault::TooLong(self.skip));
                    }
                    data = rest;
                }
                _ => return Err(RecordFault::Unexpected),
            }
        }
        Ok(())
    }
}
