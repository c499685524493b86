//! Keeps written data in memory shared by all processes of a mount until a COMMIT covers it. The client resends it if the
//! server's write verifier changes (docs/design/010-retention.md).
//!
//! This module has the records, the data and the locks; `mount/retained.rs` decides what is sent and when.

mod area;
mod asked_commit;
mod block_locks;
mod claim;
pub(crate) mod layout;
mod record;
mod runs;
mod scope;

pub(crate) use area::Retention;
pub(crate) use block_locks::{Gate, WriteGuard};
pub(crate) use claim::{Claims, NoChunk};
pub(crate) use record::{Extent, State};
pub(crate) use runs::{Gathered, HeldRun, Hold};
pub(crate) use scope::{ENTRY_BYTES, Entry, Scope, chunk_of};

use layout::CHUNK_BYTES;

/// Written data kept until COMMIT, of all processes of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// Bytes kept now.
    pub bytes: u64,
    /// Maximum; 0: nothing is kept, and a changed write verifier means lost data.
    pub bytes_max: u64,
}

/// Maximum size of the pieces in which a write is retained and sent.
pub(crate) const PIECE_BYTES_MAX: usize = 1 << 20;
/// Blocks, and therefore records, of one piece, which may begin inside a block.
pub(crate) const PIECE_BLOCKS_MAX: usize = PIECE_BYTES_MAX / CHUNK_BYTES + 1;
