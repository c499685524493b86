//! Additional header segments (RFC 7143 11.2.2): extended CDBs and the expected length of bidirectional reads.

use super::PduError;
use crate::limits::CDB_BYTES_MAX;

const EXTENDED_CDB: u8 = 1;
const CDB_BYTES_SHORT: usize = 16;

/// A command descriptor block. A CDB of up to 16 bytes needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cdb {
    /// The CDB of the basic header segment. Shorter CDBs are padded with zeros.
    Short([u8; CDB_BYTES_SHORT]),
    /// A CDB that continues in an additional header segment.
    Long(Box<[u8]>),
}

impl Cdb {
    /// Assembles the CDB of a SCSI Command from its header and its additional header segments. Ignores segments of other
    /// types.
    ///
    /// # Errors
    /// [`PduError::AhsMalformed`] if a segment does not fit, or if the CDB is too long.
    pub fn new(first: [u8; 16], ahs: &[u8]) -> Result<Self, PduError> {
        let mut at = 0;
        let mut cdb = Self::Short(first);
        while let Some(rest) = ahs.get(at..).filter(|rest| !rest.is_empty()) {
            let malformed = PduError::AhsMalformed { at };
            let [high, low, kind, _, ..] = *rest else { return Err(malformed) };
            // The length counts the bytes after the type. The first of them is reserved.
            let length = usize::from(u16::from_be_bytes([high, low]));
            let body = rest.get(3..3 + length).ok_or(malformed)?;
            if kind & 0x3f == EXTENDED_CDB {
                let more = body.get(1..).ok_or(malformed)?;
                if more.len() > CDB_BYTES_MAX - CDB_BYTES_SHORT {
                    return Err(malformed);
                }
                cdb = Self::Long([&first, more].concat().into());
            }
            at += (3 + length).next_multiple_of(4);
        }
        Ok(cdb)
    }

    /// The bytes of the CDB.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => bytes,
            Self::Long(bytes) => bytes,
        }
    }
}

/// The part of a CDB in the basic header, and the additional header segment for the rest, which is empty for CDBs of up to 16
/// bytes.
#[must_use]
pub fn extended_cdb(cdb: &[u8]) -> ([u8; 16], Vec<u8>) {
    let cdb = cdb.get(..CDB_BYTES_MAX).unwrap_or(cdb);
    let (short, more) = cdb.split_at(cdb.len().min(CDB_BYTES_SHORT));
    let mut first = [0; CDB_BYTES_SHORT];
    first.iter_mut().zip(short).for_each(|(to, from)| *to = *from);
    let mut ahs = Vec::new();
    if !more.is_empty() {
        ahs.extend_from_slice(&(more.len() as u16 + 1).to_be_bytes());
        ahs.extend_from_slice(&[EXTENDED_CDB, 0]);
        ahs.extend_from_slice(more);
        ahs.resize(ahs.len().next_multiple_of(4), 0);
    }
    (first, ahs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cdbs_of_all_lengths_come_back() {
        for length in [6, 10, 16, 17, 20, 32, 33, 260] {
            let cdb: Vec<u8> = (1..=length).map(|byte: u16| byte as u8).collect();
            let (first, ahs) = extended_cdb(&cdb);
            let back = Cdb::new(first, &ahs).unwrap();
            assert_eq!(&back.as_slice()[..cdb.len()], cdb);
            assert!(back.as_slice().len() == cdb.len().max(16));
        }
    }

    #[test]
    fn segments_that_do_not_fit_are_refused() {
        for ahs in [&[0, 1, 1][..], &[0, 9, 1, 0], &[0, 0, 1, 0], &[0, 1, 2, 0, 0, 5, 1, 0]] {
            assert!(matches!(Cdb::new([0; 16], ahs), Err(PduError::AhsMalformed { .. })), "{ahs:?}");
        }
    }

    #[test]
    fn segments_of_other_types_are_passed_over() {
        let bidirectional = [0, 5, 2, 0, 0, 0, 2, 0];
        assert_eq!(Cdb::new([9; 16], &bidirectional), Ok(Cdb::Short([9; 16])));
    }
}
