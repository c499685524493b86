//! A command descriptor block (SPC-4 4.2).

use super::command_table::{CommandInfo, Lookup, lookup};
use super::sense::{Asc, Sense};

/// A CDB of a known command whose reserved bits are 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cdb {
    bytes: [u8; 16],
    pub(super) info: &'static CommandInfo,
}

/// The blocks of a CDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) lba: u64,
    pub(super) count: u64,
}

impl Cdb {
    /// Finds the command. Does not check its reserved bits.
    ///
    /// # Errors
    /// INVALID COMMAND OPERATION CODE. INVALID FIELD IN CDB for an unknown service action or a CDB that is too short.
    pub(super) fn find(cdb: &[u8]) -> Result<Self, Sense> {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(cdb) {
            *to = *from;
        }
        match lookup(bytes[0], bytes[1] & 0x1f) {
            Lookup::Found(info) if cdb.len() < usize::from(info.length) => Err(Sense::cdb_field(cdb.len() as u16, None)),
            Lookup::Found(info) => Ok(Self { bytes, info }),
            Lookup::NoSuchServiceAction => Err(Sense::cdb_field(1, Some(4))),
            Lookup::Unknown => Err(Sense::illegal(Asc::INVALID_COMMAND_OPERATION_CODE)),
        }
    }

    /// Refuses bits that are not fields of the command, NACA among them. Group numbers are accepted and ignored.
    pub(super) fn check_reserved(&self) -> Result<(), Sense> {
        let known = u128::from_be_bytes(self.info.usage) | 0xff << 120;
        let length = u32::from(self.info.length);
        let present = u128::MAX << (128 - length * 8);
        let unknown = u128::from_be_bytes(self.bytes) & present & !known;
        if unknown == 0 {
            return Ok(());
        }
        let bit = unknown.leading_zeros();
        Err(Sense::cdb_field((bit / 8) as u16, Some((7 - bit % 8) as u8)))
    }

    pub(super) const fn byte(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    /// Whether a bit of byte 1 is set.
    pub(super) const fn flag(&self, mask: u8) -> bool {
        self.bytes[1] & mask != 0
    }

    /// A big-endian number of `bytes` bytes.
    pub(super) fn number(&self, at: usize, bytes: usize) -> u64 {
        self.bytes.iter().skip(at).take(bytes).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The logical block address and the number of blocks. Only for commands that have both.
    pub(super) fn blocks(&self) -> Blocks {
        let bytes = &self.bytes;
        match self.info.length {
            6 => {
                let lba = u64::from(u32::from_be_bytes([0, bytes[1] & 0x1f, bytes[2], bytes[3]]));
                // SBC-3 5.15: a READ (6) or WRITE (6) of 0 blocks means 256.
                Blocks { lba, count: if bytes[4] == 0 { 256 } else { u64::from(bytes[4]) } }
            }
            10 => Blocks { lba: self.number(2, 4), count: self.number(7, 2) },
            12 => Blocks { lba: self.number(2, 4), count: self.number(6, 4) },
            _ if bytes[0] == 0x89 => Blocks { lba: self.number(2, 8), count: u64::from(bytes[13]) },
            _ => Blocks { lba: self.number(2, 8), count: self.number(10, 4) },
        }
    }

    /// Byte of the CDB at which the number of blocks begins.
    pub(super) const fn count_byte(&self) -> u16 {
        match self.info.length {
            6 => 4,
            10 => 7,
            12 => 6,
            _ if self.bytes[0] == 0x89 => 13,
            _ => 10,
        }
    }
}
