//! The length of a PDU, its parts, and the encoding of a PDU from its parts.

use super::PduError;
use super::digest::{DIGEST_BYTES, Digests, crc32c};
use super::header::{BHS_BYTES, Bhs};
use crate::limits::AHS_BYTES_MAX;

/// The format of PDUs on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// The digests that PDUs have.
    pub digests: Digests,
    /// The longest data segment that is accepted, in bytes.
    pub data_bytes_max: usize,
}

/// The result of looking for a PDU in received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed {
    /// No whole PDU yet.
    Incomplete {
        /// Bytes, counted from the start, that must be received before another call makes sense.
        bytes_needed: usize,
    },
    /// A whole PDU.
    Whole {
        /// Length of the PDU with padding and digests, in bytes.
        bytes: usize,
    },
}

/// A received PDU with borrowed segments.
#[derive(Clone, Copy, Debug)]
pub struct Pdu<'a> {
    /// The basic header segment.
    pub bhs: Bhs,
    /// The additional header segments.
    pub ahs: &'a [u8],
    /// The data segment, without padding.
    pub data: &'a [u8],
}

/// The next multiple of 4.
#[must_use]
pub const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

/// The positions of the parts of a PDU.
struct Layout {
    header_bytes: usize, // BHS and AHS
    data_start: usize,
    data_bytes: usize,
    total: usize,
}

impl Layout {
    fn of(bhs: &Bhs, limits: FrameLimits) -> Result<Self, PduError> {
        let (ahs_bytes, data_bytes) = (bhs.ahs_bytes(), bhs.data_bytes());
        if ahs_bytes > AHS_BYTES_MAX {
            return Err(PduError::AhsTooLong { bytes: ahs_bytes, limit: AHS_BYTES_MAX });
        }
        if data_bytes > limits.data_bytes_max {
            return Err(PduError::DataSegmentTooLong { bytes: data_bytes, limit: limits.data_bytes_max });
        }
        let header_bytes = BHS_BYTES + ahs_bytes;
        let data_start = header_bytes + limits.digests.header_bytes();
        let data_digest = if limits.digests.data && data_bytes > 0 { DIGEST_BYTES } else { 0 };
        Ok(Self { header_bytes, data_start, data_bytes, total: data_start + padded(data_bytes) + data_digest })
    }
}

/// Looks for one PDU at the start of `unread`. If the PDU has a header digest and is incomplete, its length is trusted
/// only after the digest is verified.
///
/// # Errors
/// [`PduError`] of lengths and of the header digest: the caller must close the connection.
pub fn frame(unread: &[u8], limits: FrameLimits) -> Result<Framed, PduError> {
    let Some(bhs) = unread.first_chunk() else { return Ok(Framed::Incomplete { bytes_needed: BHS_BYTES }) };
    let layout = Layout::of(&Bhs(*bhs), limits)?;
    if unread.len() >= layout.total {
        return Ok(Framed::Whole { bytes: layout.total }); // `parse` verifies the digest.
    }
    if unread.len() < layout.data_start {
        return Ok(Framed::Incomplete { bytes_needed: layout.data_start });
    }
    check_header(unread, &layout, limits.digests)?;
    Ok(Framed::Incomplete { bytes_needed: layout.total })
}

/// Splits one whole PDU into its parts and verifies its digests.
///
/// # Errors
/// [`PduError`] of lengths and of digests: the caller must close the connection.
pub fn parse(pdu: &[u8], limits: FrameLimits) -> Result<Pdu<'_>, PduError> {
    let not_whole = |needed| PduError::NotWhole { bytes: pdu.len(), needed };
    let bhs = Bhs(*pdu.first_chunk().ok_or(not_whole(BHS_BYTES))?);
    let layout = Layout::of(&bhs, limits)?;
    if pdu.len() != layout.total {
        return Err(not_whole(layout.total));
    }
    check_header(pdu, &layout, limits.digests)?;
    let ahs = pdu.get(BHS_BYTES..layout.header_bytes).unwrap_or_default();
    let with_padding = pdu.get(layout.data_start..).unwrap_or_default();
    if limits.digests.data && layout.data_bytes > 0 {
        let (covered, digest) = with_padding.split_at(with_padding.len() - DIGEST_BYTES);
        let (received, computed) = (digest_of(digest), crc32c(covered));
        if received != computed {
            return Err(PduError::DataDigest { received, computed });
        }
    }
    Ok(Pdu { bhs, ahs, data: with_padding.get(..layout.data_bytes).unwrap_or_default() })
}

fn check_header(pdu: &[u8], layout: &Layout, digests: Digests) -> Result<(), PduError> {
    if !digests.header {
        return Ok(());
    }
    let covered = pdu.get(..layout.header_bytes).unwrap_or_default();
    let digest = pdu.get(layout.header_bytes..layout.data_start).unwrap_or_default();
    let (received, computed) = (digest_of(digest), crc32c(covered));
    if received == computed { Ok(()) } else { Err(PduError::HeaderDigest { received, computed }) }
}

fn digest_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Appends a PDU. The length of `ahs` is a multiple of 4, and the length of `data` is below 2^24.
pub(crate) fn append(out: &mut Vec<u8>, mut bhs: Bhs, ahs: &[u8], data: &[u8], digests: Digests) {
    debug_assert!(ahs.len().is_multiple_of(4) && ahs.len() <= AHS_BYTES_MAX, "AHS of {} bytes", ahs.len());
    bhs.0[4] = (ahs.len() / 4) as u8;
    bhs.set_data_bytes(data.len());
    let start = out.len();
    out.extend_from_slice(&bhs.0);
    out.extend_from_slice(ahs);
    if digests.header {
        let digest = crc32c(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&digest.to_le_bytes());
    }
    if !data.is_empty() {
        let start = out.len();
        out.extend_from_slice(data);
        out.resize(start + padded(data.len()), 0);
        if digests.data {
            let digest = crc32c(out.get(start..).unwrap_or_default());
            out.extend_from_slice(&digest.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Digests; 4] = [
        Digests { header: false, data: false },
        Digests { header: true, data: false },
        Digests { header: false, data: true },
        Digests { header: true, data: true },
    ];

    fn limits(digests: Digests) -> FrameLimits {
        FrameLimits { digests, data_bytes_max: 8192 }
    }

    fn sample(digests: Digests, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        append(&mut out, Bhs([0x21; BHS_BYTES]), &[7; 8], data, digests);
        out
    }

    #[test]
    fn parts_come_back_under_all_digests() {
        for digests in ALL {
            for data in [&b""[..], b"a", b"abc", b"abcd", b"abcde"] {
                let bytes = sample(digests, data);
                assert_eq!(frame(&bytes, limits(digests)), Ok(Framed::Whole { bytes: bytes.len() }));
                let pdu = parse(&bytes, limits(digests)).unwrap();
                assert_eq!((pdu.ahs, pdu.data), (&[7; 8][..], data));
                assert_eq!(pdu.bhs.data_bytes(), data.len());
            }
        }
    }

    #[test]
    fn every_cut_asks_for_more_and_for_no_more_than_the_pdu() {
        for digests in ALL {
            let bytes = sample(digests, b"abcde");
            for cut in 0..bytes.len() {
                let Ok(Framed::Incomplete { bytes_needed }) = frame(&bytes[..cut], limits(digests)) else { panic!("cut {cut}") };
                assert!(bytes_needed > cut && bytes_needed <= bytes.len());
                assert!(matches!(parse(&bytes[..cut], limits(digests)), Err(PduError::NotWhole { .. })));
            }
        }
    }

    #[test]
    fn every_changed_bit_is_found_by_digests() {
        let digests = Digests { header: true, data: true };
        let good = sample(digests, b"abcde");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&bad, limits(digests)).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_wrong_header_is_found_before_its_data_is_waited_for() {
        let digests = Digests { header: true, data: false };
        let mut bytes = sample(digests, &[1; 100]);
        bytes[7] ^= 0x40;
        assert!(matches!(frame(&bytes[..60], limits(digests)), Err(PduError::HeaderDigest { .. })));
    }

    #[test]
    fn lengths_over_the_limits_are_refused_by_the_header_alone() {
        let mut bhs = Bhs::default();
        bhs.set_data_bytes(8193);
        let too_long = PduError::DataSegmentTooLong { bytes: 8193, limit: 8192 };
        assert_eq!(frame(&bhs.0, limits(ALL[0])), Err(too_long));
        let mut bhs = Bhs::default();
        bhs.0[4] = 255;
        assert_eq!(frame(&bhs.0, limits(ALL[0])), Err(PduError::AhsTooLong { bytes: 1020, limit: AHS_BYTES_MAX }));
    }
}
