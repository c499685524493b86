//! Encrypts data into records.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::RecordFault;
use crate::keys::{Shared, TrafficKey};
use crate::limits::{
    KEY_UPDATE_BYTES, OVERHEAD_BYTES, PLAIN_BYTES_MAX, RECORD_HEAD_BYTES, RECORD_TAIL_BYTES, RECORDS_PER_KEY, SEAL_BYTES_MIN,
};

/// Content types (RFC 8446 5.1).
pub(crate) const ALERT: u8 = 21;
/// As above.
pub(crate) const HANDSHAKE: u8 = 22;
/// As above.
pub(crate) const DATA: u8 = 23;
/// Outer type and version of every protected record (RFC 8446 5.2).
pub(crate) const OUTER_HEADER: [u8; 3] = [DATA, 3, 3];
/// KeyUpdate that does not request one of the peer (RFC 8446 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
/// The alert close_notify (RFC 8446 6.1): level warning, number 0.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// The sending side of a connection under TLS.
pub struct Sealer {
    key: TrafficKey,
    shared: Arc<Shared>,
    left: u64,            // records until the next change of the key
    records_per_key: u64, // between two changes
}

/// The result of one call of [`Sealer::seal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Bytes of data that were sealed.
    pub plain: usize,
    /// Bytes of the records.
    pub sealed: usize,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Sealer {
    pub(crate) const fn new(key: TrafficKey, shared: Arc<Shared>) -> Self {
        Self { key, shared, left: RECORDS_PER_KEY, records_per_key: RECORDS_PER_KEY }
    }

    /// Changes the key after each `records` records, instead of [`RECORDS_PER_KEY`].
    pub const fn change_keys_after(&mut self, records: u64) {
        (self.left, self.records_per_key) = (records, records);
    }

    /// Most bytes of the records for `plain` bytes of data that are sealed together.
    #[must_use]
    pub const fn room_for(plain: usize) -> usize {
        plain + plain.div_ceil(PLAIN_BYTES_MAX) * OVERHEAD_BYTES + KEY_UPDATE_BYTES
    }

    /// Seals as much of `parts`, one after the other, as fits into `out`. Allocates only when the key is changed.
    ///
    /// # Errors
    /// [`RecordFault::NoKey`] if no further key is available: nothing more can be sent.
    ///
    /// # Panics
    /// If `out` is shorter than [`SEAL_BYTES_MIN`]: a bug of the caller.
    pub fn seal<P: Deref<Target = [u8]>>(&mut self, parts: &[P], out: &mut [u8]) -> Result<Sealed, RecordFault> {
        assert!(out.len() >= SEAL_BYTES_MIN, "room for a record: {} bytes", out.len());
        let mut source = Source { parts, part: 0, offset: 0 };
        let mut done = Sealed { plain: 0, sealed: 0 };
        if self.shared.key_update_requested.load(Ordering::Relaxed) {
            done.sealed = self.change_key(out)?;
        }
        loop {
            if self.left == 0 {
                if out.len() - done.sealed < KEY_UPDATE_BYTES {
                    return Ok(done);
                }
                done.sealed += self.change_key(out.get_mut(done.sealed..).unwrap_or_default())?;
            }
            let Some(room) = out.get_mut(done.sealed..).filter(|room| room.len() > OVERHEAD_BYTES) else { return Ok(done) };
            let most = (room.len() - OVERHEAD_BYTES).min(PLAIN_BYTES_MAX);
            let plain = source.copy_to(&mut room[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + most]);
            if plain == 0 {
                return Ok(done);
            }
            done.sealed += self.record(DATA, plain, room)?;
            done.plain += plain;
        }
    }

    /// A record with the alert close_notify, the last one of this side (RFC 8446 6.1).
    ///
    /// # Errors
    /// As [`Self::seal`].
    pub fn close(&mut self) -> Result<Vec<u8>, RecordFault> {
        let mut out = vec![0; OVERHEAD_BYTES + CLOSE_NOTIFY.len()];
        self.small(ALERT, &CLOSE_NOTIFY, &mut out)?;
        Ok(out)
    }

    fn change_key(&mut self, out: &mut [u8]) -> Result<usize, RecordFault> {
        let bytes = self.small(HANDSHAKE, &KEY_UPDATE, out)?;
        self.key = self.shared.next_to_seal()?;
        self.left = self.records_per_key;
        Ok(bytes)
    }

    fn small(&mut self, content: u8, body: &[u8], out: &mut [u8]) -> Result<usize, RecordFault> {
        out[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + body.len()].copy_from_slice(body);
        self.record(content, body.len(), out)
    }

    /// Seals the `plain` bytes that follow the space for the head. Returns the length of the record.
    fn record(&mut self, content: u8, plain: usize, out: &mut [u8]) -> Result<usize, RecordFault> {
        let body_bytes = plain + RECORD_TAIL_BYTES;
        let [a, b, c] = OUTER_HEADER;
        let [high, low] = (body_bytes as u16).to_be_bytes(); // at most BODY_BYTES_MAX
        let head = [a, b, c, high, low];
        let (start, rest) = out.split_at_mut(RECORD_HEAD_BYTES);
        start.copy_from_slice(&head);
        rest[plain] = content;
        let (body, rest) = rest.split_at_mut(plain + 1);
        let tag = self.key.seal(head, body)?;
        rest[..tag.as_ref().len()].copy_from_slice(tag.as_ref());
        self.left = self.left.saturating_sub(1);
        Ok(RECORD_HEAD_BYTES + body_bytes)
    }
}

/// The data to seal, and the position in it.
struct Source<'p, P> {
    parts: &'p [P],
    part: usize,
    offset: usize, // in that part
}

impl<P: Deref<Target = [u8]>> Source<'_, P> {
    /// Copies data to `to`. Returns the number of bytes, which is smaller than `to` only at the end of the data.
    fn copy_to(&mut self, to: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(part) = self.parts.get(self.part) {
            let from = part.get(self.offset..).unwrap_or_default();
            let count = from.len().min(to.len() - done);
            to[done..done + count].copy_from_slice(&from[..count]);
            done += count;
            self.offset += count;
            if count < from.len() {
                break;
            }
            (self.part, self.offset) = (self.part + 1, 0);
        }
        done
    }
}

const _: () = assert!(crate::limits::BODY_BYTES_MAX <= u16::MAX as usize);
