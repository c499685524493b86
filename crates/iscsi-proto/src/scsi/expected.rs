//! The amount of data that a CDB transfers, computed before any of the data is received.

use super::cdb::Cdb;
use super::command_table::Data;

/// The direction of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The command has no data.
    None,
    /// To the initiator.
    In,
    /// From the initiator.
    Out,
}

/// The data that a CDB transfers. For [`Direction::In`] this is an upper bound: an allocation length, or the blocks of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The direction of the data.
    pub direction: Direction,
    /// Number of bytes.
    pub bytes: u64,
}

/// The data that a CDB transfers on a unit with blocks of `block_bytes` bytes (any number for a LUN without a unit). An unknown CDB
/// transfers no data. The result may be above the limit of a command. A caller may limit its buffers to
/// [`SCSI_TRANSFER_BYTES_MAX`](crate::limits::SCSI_TRANSFER_BYTES_MAX), because commands that transfer more are refused.
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
        // SBC-3 5.39: BYTCHK 01b compares all blocks, 11b compares one block with each.
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
