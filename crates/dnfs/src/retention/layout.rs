//! Byte layout of the file `retained`, version 5 (drawn in docs/design/010-retention.md).
//!
//! Everything but the data is an atomic integer in the host's byte order.

use crate::sys::atomic::{AtomicU32, AtomicU64};

use crate::event_count::EventCount;

/// First eight bytes of the file.
pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"MILLRET\0");
/// Version of this layout.
pub(crate) const LAYOUT_VERSION: u32 = 5;
/// Bytes of a write that one record keeps.
pub(crate) const CHUNK_BYTES: usize = 8192;
/// Number of block locks. Two writes of different blocks share a lock by chance once in 500 times if 32 are in flight.
pub(crate) const BLOCK_LOCK_COUNT: usize = 16_384;

/// Maximum number of runs: coalesced writes of files that are not sent yet.
pub(crate) const RUN_COUNT: usize = 32;
/// Chunks of one run.
pub(crate) const RUN_CHUNKS: usize = 128;

pub(crate) const LOCKS_OFFSET: usize = 4096;
pub(crate) const RUNS_OFFSET: usize = (LOCKS_OFFSET + BLOCK_LOCK_COUNT * 8).next_multiple_of(4096);
pub(crate) const RECORDS_OFFSET: usize = (RUNS_OFFSET + RUN_COUNT * size_of::<Run>()).next_multiple_of(4096);

/// Where the data of `chunk_max` chunks begin.
pub(crate) const fn data_offset(chunk_max: usize) -> usize {
    (RECORDS_OFFSET + chunk_max * size_of::<Record>()).next_multiple_of(4096)
}

/// Head of the file.
#[repr(C, align(64))]
pub(crate) struct AreaHeader {
    pub(crate) magic: AtomicU64,
    pub(crate) layout_version: AtomicU32,
    /// Chunks the file can have.
    pub(crate) chunk_max: AtomicU32,
    /// Chunks that have memory.
    pub(crate) chunk_count: AtomicU32,
    /// 1: no more chunks will get memory.
    pub(crate) is_full: AtomicU32,
    /// The next chunk to try; it only increases, and its remainder is the index.
    pub(crate) hand: AtomicU64,
    /// The last order number that was drawn.
    pub(crate) order: AtomicU64,
    /// Waiters for block locks and for the gate.
    pub(crate) unlocked: EventCount,
    /// Owner word of the gate's holder, which resends or truncates: no other write begins. 0: the gate is free.
    pub(crate) gate: AtomicU64,
    /// The file (slot, generation) that the gate's holder truncates; 0: no file.
    pub(crate) truncated_file: AtomicU64,
    /// The file (slot, generation) for which a writer asked the keeper to send a COMMIT, until that is done; 0: no file.
    pub(crate) commit_file: AtomicU64,
    /// When the keeper last checked this area, in ms of the monotonic clock.
    pub(crate) keeper_ms: AtomicU64,
    /// The keeper sleeps on this until a COMMIT is requested.
    pub(crate) commit_asked: EventCount,
    /// Writers that found no chunk sleep on this while the keeper commits.
    pub(crate) commit_done: EventCount,
    /// The keeper sleeps on this while there is no run.
    pub(crate) run_begun: EventCount,
}

/// Consecutive small writes of one file that are sent together (runs.rs).
#[repr(C, align(64))]
pub(crate) struct Run {
    /// Owner word of the thread that adds to the run or sends it; 0: free. Only the holder changes the fields below.
    pub(crate) lock: AtomicU64,
    /// Slot and generation of the file; 0 while the run is free.
    pub(crate) file: AtomicU64,
    /// Offset of the run's first byte in the file.
    pub(crate) start: AtomicU64,
    /// When the run was begun, in ms of the monotonic clock.
    pub(crate) since_ms: AtomicU64,
    /// Order number of the run's first chunk, drawn when the run is sent.
    pub(crate) order: AtomicU64,
    /// As in the records, after the server has answered; 0 before.
    pub(crate) answer: AtomicU64,
    /// Bytes written. A write belongs to the run from the moment this is stored.
    pub(crate) length: AtomicU32,
    /// Place in the segment's table.
    pub(crate) credentials: AtomicU32,
    /// The run's chunks by place; `lives` has the life in which each was claimed.
    pub(crate) chunks: [AtomicU32; RUN_CHUNKS],
    pub(crate) lives: [AtomicU64; RUN_CHUNKS],
}

/// One chunk of a write.
#[repr(C, align(64))]
pub(crate) struct Record {
    /// Process of the writer (32 bits), turn (29), state (3).
    pub(crate) life: AtomicU64,
    /// Slot and generation of the file.
    pub(crate) file: AtomicU64,
    pub(crate) offset: AtomicU64,
    pub(crate) order: AtomicU64,
    /// A COMMIT that begins when the slot's `dirty` is at least this value covers the record.
    pub(crate) answer: AtomicU64,
    pub(crate) length: AtomicU32,
    /// Place in the segment's table.
    pub(crate) credentials: AtomicU32,
    /// Number of the endpoint that acknowledged the record to its writer.
    pub(crate) endpoint: AtomicU32,
    /// Checksum of file, offset, order and credentials.
    pub(crate) checksum: AtomicU32,
    /// Number + 1 of the endpoint to which another process resent the record; 0: no process did. A writer that was stopped and
    /// continues may still store `endpoint`, but not this.
    pub(crate) resent_to: AtomicU32,
    pub(crate) reserved: AtomicU32,
}

const _: () = assert!(size_of::<AreaHeader>() <= LOCKS_OFFSET);
const _: () = assert!(size_of::<Record>() == 64);
