//! Record marking, RFC 5531 11: a record is one or more fragments. Each follows a mark of four bytes, whose top bit is set for the last.

use crate::limits::{FRAGMENTS_MAX, RECORD_BYTES_MAX};
use core::ops::Range;
use thiserror::Error;

/// The bit that marks a record's last fragment.
pub const LAST_FRAGMENT: u32 = 1 << 31;
/// Size of a record mark, in bytes.
pub const MARK_BYTES: usize = 4;

/// The stream is not record-marked RPC: the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// A record is larger than the limit.
    #[error("record of at least {bytes} bytes, over the limit {limit}")]
    TooLong {
        /// Bytes announced so far.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A record has too many fragments.
    #[error("record of more than {FRAGMENTS_MAX} fragments")]
    TooManyFragments,
}

/// What a buffer has at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed {
    /// Not a whole record yet. At least this many bytes are needed before the next call.
    Incomplete {
        /// Bytes the buffer must hold, counted from its start.
        bytes_needed: usize,
    },
    /// A whole record.
    Record {
        /// The range of its body, after its fragments have been joined.
        body: Range<usize>,
        /// Bytes of the record in the buffer, marks included.
        consumed: usize,
    },
}

/// Finds one record at the start of `buffer`. Joins its fragments in place if there are several.
///
/// # Errors
/// [`RecordError`] if the record is larger than `limit` bytes or has too many fragments. Empty fragments count too.
pub fn frame(buffer: &mut [u8], limit: usize) -> Result<Framed, RecordError> {
    let limit = limit.min(RECORD_BYTES_MAX);
    let mut at = 0; // start of the current mark
    let mut bytes = 0; // of the body, so far
    for fragment in 0..FRAGMENTS_MAX {
        let Some(mark) = buffer.get(at..).and_then(|rest| rest.first_chunk::<MARK_BYTES>()) else {
            return Ok(Framed::Incomplete { bytes_needed: at + MARK_BYTES });
        };
        let mark = u32::from_be_bytes(*mark);
        let length = (mark & !LAST_FRAGMENT) as usize;
        bytes += length;
        if bytes > limit {
            return Err(RecordError::TooLong { bytes, limit });
        }
        let end = at + MARK_BYTES + length;
        if mark & LAST_FRAGMENT != 0 {
            if buffer.len() < end {
                return Ok(Framed::Incomplete { bytes_needed: end });
            }
            if fragment > 0 {
                join(buffer, end);
            }
            return Ok(Framed::Record { body: MARK_BYTES..MARK_BYTES + bytes, consumed: end });
        }
        at = end;
    }
    Err(RecordError::TooManyFragments)
}

/// Writes the mark of a record of one fragment over the four bytes reserved at `position`.
///
/// # Panics
/// If the four bytes do not exist, or the body has 2 GiB or more: a bug of the caller.
pub fn write_mark(out: &mut [u8], position: usize, body_bytes: usize) {
    assert!(body_bytes < LAST_FRAGMENT as usize, "record of {body_bytes} bytes");
    let mark = LAST_FRAGMENT | body_bytes as u32;
    out[position..position + MARK_BYTES].copy_from_slice(&mark.to_be_bytes());
}

/// Joins the bodies of the fragments before `end` after the first mark. The caller has checked all marks.
fn join(buffer: &mut [u8], end: usize) {
    let mut from = 0;
    let mut to = MARK_BYTES;
    while from < end {
        let Some(mark) = buffer.get(from..).and_then(|rest| rest.first_chunk::<MARK_BYTES>()) else { return };
        let length = (u32::from_be_bytes(*mark) & !LAST_FRAGMENT) as usize;
        let body = from + MARK_BYTES..from + MARK_BYTES + length;
        buffer.copy_within(body, to);
        to += length;
        from += MARK_BYTES + length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(last: bool, body: &[u8]) -> Vec<u8> {
        let mark = body.len() as u32 | if last { LAST_FRAGMENT } else { 0 };
        [&mark.to_be_bytes(), body].concat()
    }

    #[test]
    fn fragments_are_joined_in_place() {
        let mut buffer = [marked(false, b"ab"), marked(false, b""), marked(true, b"cde"), b"next".to_vec()].concat();
        let Framed::Record { body, consumed } = frame(&mut buffer, 100).unwrap() else { panic!("incomplete") };
        assert_eq!(&buffer[body], b"abcde");
        assert_eq!(&buffer[consumed..], b"next");
    }

    #[test]
    fn every_cut_of_a_record_asks_for_more_and_changes_nothing() {
        let whole = [marked(false, b"abcd"), marked(true, b"efg")].concat();
        for cut in 0..whole.len() {
            let mut part = whole[..cut].to_vec();
            let Framed::Incomplete { bytes_needed } = frame(&mut part, 100).unwrap() else { panic!("cut {cut}") };
            assert!(bytes_needed > cut && bytes_needed <= whole.len());
            assert_eq!(part, whole[..cut]);
        }
    }

    #[test]
    fn size_bound_holds_over_all_fragments() {
        let mut buffer = [marked(false, &[0; 60]), marked(true, &[0; 60])].concat();
        assert_eq!(frame(&mut buffer, 100), Err(RecordError::TooLong { bytes: 120, limit: 100 }));
        assert_eq!(
            frame(&mut [0xff; 4], usize::MAX).unwrap_err(),
            RecordError::TooLong { bytes: 0x7fff_ffff, limit: RECORD_BYTES_MAX }
        );
    }

    #[test]
    fn endless_empty_fragments_are_refused() {
        assert_eq!(frame(&mut [0; 4 * FRAGMENTS_MAX], 100), Err(RecordError::TooManyFragments));
    }
}
