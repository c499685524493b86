//! How much data a CDB moves, known before any of it is there.

use super::cdb::Cdb;
use super::command_table::Data;

/// The way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The command has no data.
    None,
    /// To the initiator.
    In,
    /// From the initiator.
    Out,
}

/// What a CDB asks to transfer. For [`Direction::In`] it is an upper bound: an allocation length, or the blocks of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The way the data goes.
    pub direction: Direction,
    /// Bytes.
    pub bytes: u64,
}

/// What a CDB asks to transfer on a unit with blocks of that many bytes (any number for a unit that is not there). A CDB that is not known
/// transfers nothing. It may ask for more than any command is allowed to; a caller that bounds its buffers by
/// [`SCSI_TRANSFER_BYTES_MAX`](crate::limits::SCSI_TRANSFER_BYTES_MAX) loses nothing, since more than that is refused.
#[must_use]
pub fn expected_data(cdb: &[u8], block_bytes: u32) -> Expected {
    Cdb::find(cdb).map_or(Expected { direction: Direction::None, bytes: 0 }, |cdb| expected(&cdb, block_bytes))
}

pub(super) fn expected(cdb: &Cdb, block_bytes: u32) -> Expected {
    let block = u64::from(block_bytes);
    let (direction, bytes) = match cdb.info.data {
        Data::None => (Direction::None, 0),
        Data::Fixed(bytes) => (Direction::In, bytes),
        Data::Allocation { at, bytes } => (Direction::In, cdb.number(at, bytes)),
        Data::Parameters { at, bytes } => (Direction::Out, cdb.number(at, bytes)),
        Data::BlocksIn => (Direction::In, cdb.blocks().count * block),
        Data::BlocksOut => (Direction::Out, cdb.blocks().count * block),
        // SBC-3 5.39: BYTCHK 01b compares all blocks, 11b one block with each.
        Data::Verify => match cdb.byte(1) >> 1 & 3 {
            1 => (Direction::Out, cdb.blocks().count * block),
            3 if cdb.blocks().count > 0 => (Direction::Out, block),
            _ => (Direction::None, 0),
        },
        Data::OneBlock if cdb.info.length == 16 && cdb.flag(0x01) => (Direction::None, 0),
        Data::OneBlock => (Direction::Out, block),
        Data::TwiceBlocks => (Direction::Out, cdb.blocks().count * block * 2),
    };
    Expected { direction: if bytes == 0 { Direction::None } else { direction }, bytes }
}
