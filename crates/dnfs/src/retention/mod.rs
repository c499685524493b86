//! Written data, kept in memory that all processes of a mount share until a COMMIT covers it, to be sent again when the
//! server's write verifier changes (docs/design/010-retention.md).
//!
//! This module knows records, data and locks; what is sent when is `mount/retained.rs`.

mod area;
mod asked_commit;
mod block_locks;
mod claim;
pub(crate) mod layout;
mod record;
mod runs;

pub(crate) use area::Retention;
pub(crate) use block_locks::{Gate, WriteGuard};
pub(crate) use claim::{Claims, NoChunk};
pub(crate) use record::{Extent, State};
pub(crate) use runs::{Gathered, HeldRun, Hold};

use layout::CHUNK_BYTES;

/// Written data kept until COMMIT, of all processes of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// Bytes kept now.
    pub bytes: u64,
    /// Most bytes that are; 0: nothing is kept, and a changed write verifier is a loss.
    pub bytes_max: u64,
}

/// A write is retained and sent in pieces of so many bytes.
pub(crate) const PIECE_BYTES_MAX: usize = 1 << 20;
/// Blocks, and so records, of one piece: it need not begin at a block's start.
pub(crate) const PIECE_BLOCKS_MAX: usize = PIECE_BYTES_MAX / CHUNK_BYTES + 1;
