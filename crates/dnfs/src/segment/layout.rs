//! Byte layout of the segment file, version 11 (drawn in docs/design/002-segment.md).
//!
//! Everything is an atomic integer of the host's byte order: the file never leaves the host's memory. A change of any
//! field is a new [`LAYOUT_VERSION`]; what takes bytes that were always zero, and means nothing while they are, is none.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::event_count::EventCount;
use crate::file::FILE_HANDLE_BYTES_MAX;
use crate::limits::{ADDRESSES_MAX, CALL_SLOTS_MAX, LATENCY_COUNT, LEASES_MAX, MEMBERS_MAX, SIZE_COUNT};
use crate::slot_limiter::{KeptTable, LeaseRecord};

/// First eight bytes of a segment.
pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"MILLSEG\0");
/// Version of this layout; processes of different versions refuse each other's segment.
pub(crate) const LAYOUT_VERSION: u32 = 12;
/// Files known at once. PostgreSQL with 10,000 relations keeps about 30,000 files; one slot is 512 bytes, and a slot
/// never used takes no memory, but for those of the first step.
pub(crate) const SLOT_COUNT: u32 = 65_536;
/// Places of the index; half full at most, so that a probe ends soon.
pub(crate) const INDEX_COUNT: u32 = SLOT_COUNT * 2;
/// Write verifiers kept, the last ones met: each is one restart of the server that may have lost data. A reply is looked up
/// among those since its request was sent.
pub(crate) const VERIFIER_COUNT: u32 = 4096;
/// Cells the counters are spread over, so that processes do not fight for one cache line.
pub(crate) const CELL_COUNT: usize = 16;
/// Slots that get memory in one step.
pub(crate) const GROWTH_SLOTS: u32 = 256;
/// Credentials told apart.
pub(crate) const CREDENTIAL_COUNT: usize = 256;
/// Locks that names are spread over while they are taken from files.
pub(crate) const NAME_LOCK_COUNT: usize = 64;
/// Records of open and working directories, for processes that did not open them. Half of them are for directories that a child
/// inherits, so that opens do not overwrite those.
pub(crate) const DIRECTORY_COUNT: usize = 4096;
/// See [`DIRECTORY_COUNT`].
pub(crate) const INHERITED_DIRECTORY_COUNT: usize = DIRECTORY_COUNT / 2;
/// Bytes of handle and path in one record of a directory; a longer path takes several.
pub(crate) const DIRECTORY_RECORD_BYTES: usize = 224;
/// Directories that were removed through this mount last.
pub(crate) const REMOVED_DIRECTORY_COUNT: usize = 256;
/// Changes of directories and symbolic links that may be under way at once: bits of a word.
pub(crate) const NAMESPACE_CHANGE_COUNT: usize = 64;
/// Longest silly name in bytes.
pub(crate) const SILLY_NAME_BYTES_MAX: usize = 32;

/// Calls that can be noted at once: more than wait at a time are shown to nobody in full.
pub(crate) const CALL_NOTE_COUNT: usize = 64;

pub(crate) const CALL_NOTES_OFFSET: usize = 4096;
pub(crate) const VERIFIERS_OFFSET: usize = 8192;
pub(crate) const INDEX_OFFSET: usize = VERIFIERS_OFFSET + VERIFIER_COUNT as usize * 8;
pub(crate) const CALLS_OFFSET: usize = INDEX_OFFSET + INDEX_COUNT as usize * 4;
pub(crate) const CELLS_OFFSET: usize = CALLS_OFFSET + size_of::<SlotTable>();
pub(crate) const CREDENTIALS_OFFSET: usize = CELLS_OFFSET + CELL_COUNT * size_of::<ActivityCell>();
pub(crate) const DIRECTORIES_OFFSET: usize =
    (CREDENTIALS_OFFSET + CREDENTIAL_COUNT * size_of::<StoredCredentials>()).next_multiple_of(4096);
pub(crate) const SLOTS_OFFSET: usize = (DIRECTORIES_OFFSET + size_of::<DirectoryTable>()).next_multiple_of(4096);
pub(crate) const SEGMENT_BYTES: usize = SLOTS_OFFSET + SLOT_COUNT as usize * size_of::<Slot>();

/// Where the first `count` slots end.
pub(crate) const fn slots_end(count: u32) -> u64 {
    SLOTS_OFFSET as u64 + count as u64 * size_of::<Slot>() as u64
}

/// Index place never used since the last rebuild.
pub(crate) const INDEX_EMPTY: u32 = 0;
/// Index place whose slot was freed; a search goes on past it.
pub(crate) const INDEX_GONE: u32 = u32::MAX;

/// A name was or is about to be taken away while the file is open: `silly_*` say where it went.
pub(crate) const FLAG_SILLY: u32 = 1;
/// The last name is being removed by the holder of [`super::Unopened`].
pub(crate) const FLAG_REMOVING: u32 = 2;
/// One of the file's names is the silly one, which fstat does not count.
pub(crate) const FLAG_UNLINKED: u32 = 4;
/// Somebody asks whether the file is open; openers wait for its answer, or find that it died.
pub(crate) const FLAG_PROBED: u32 = 8;
/// A program has locked records of the file for an open description: locks of processes have to look at those, too.
pub(crate) const FLAG_DESCRIPTION_LOCKS: u32 = 16;
/// The file was there before the slot, and the segment may be younger than writes to it: the first sync sends a COMMIT. No
/// reason to keep the slot: met again, the file is in doubt again.
pub(crate) const FLAG_IN_DOUBT: u32 = 32;
/// A COMMIT of the file was answered.
pub(crate) const FLAG_COMMITTED: u32 = 64;
/// Programs have, or had, shared mappings of the file: a file in memory has its bytes (mount/mapped), and whoever writes to the file writes
/// there as well.
pub(crate) const FLAG_MAPPED: u32 = 128;
/// A program may store into such a mapping: the file in memory has bytes that the server has not yet.
pub(crate) const FLAG_STORED: u32 = 256;
/// Somebody changes the file at the server and has not done so in memory: found by the next one with the file's lock, that somebody died.
pub(crate) const FLAG_MAPPED_UNSURE: u32 = 512;

/// A file handle as words.
pub(crate) type HandleWords = [AtomicU64; FILE_HANDLE_BYTES_MAX / 8];

/// An address, without one when the family is 0.
#[repr(C)]
pub(crate) struct StoredAddress {
    /// 4 or 6.
    pub(crate) family: AtomicU32,
    pub(crate) port: AtomicU32,
    pub(crate) scope: AtomicU32,
    pub(crate) reserved: AtomicU32,
    /// An IPv4 address is IPv4-mapped.
    pub(crate) octets: [AtomicU64; 2],
}

/// Head of the file.
#[repr(C, align(64))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) layout_version: AtomicU32,
    /// 1 once everything below is filled in.
    pub(crate) ready: AtomicU32,
    /// Owner of the runtime directory.
    pub(crate) uid: AtomicU32,
    pub(crate) slot_count: AtomicU32,
    /// Hash of that uid, servers and export: what this segment is for.
    pub(crate) identity: AtomicU64,
    /// Set when the server exports another volume: attached processes answer ESTALE, new ones make a new segment.
    pub(crate) retired: AtomicU32,
    pub(crate) root_length: AtomicU32,
    pub(crate) reserved: AtomicU32,
    /// The address that the server had when the segment was made; `moved` has those after it.
    pub(crate) server: StoredAddress,
    /// Addresses of the server.
    pub(crate) servers: [StoredAddress; ADDRESSES_MAX],
    /// Addresses of this host, without a port.
    pub(crate) local: [StoredAddress; ADDRESSES_MAX],
    pub(crate) limits: [AtomicU32; 8],
    pub(crate) limits_wide: [AtomicU64; 4],
    pub(crate) root: HandleWords,

    /// Nonzero while the structure lock's holder changes index, free list or slots; found set, the next holder repairs.
    pub(crate) structure_busy: AtomicU32,
    /// First free slot + 1, 0 when none.
    pub(crate) free_head: AtomicU32,
    /// Slots ever used: those from here on have no memory yet.
    pub(crate) high_water: AtomicU32,
    /// Index places of freed slots.
    pub(crate) index_gone: AtomicU32,
    /// Where the search for a reclaimable slot goes on.
    pub(crate) clock_hand: AtomicU32,
    /// Slots that carry [`FLAG_SILLY`].
    pub(crate) silly_count: AtomicU32,
    /// Moves before and after each change that may invalidate a cached directory handle or symbolic link.
    pub(crate) namespace_generation: AtomicU64,
    pub(crate) reserved_namespace: AtomicU32,
    /// Verifiers met so far (durability.rs).
    pub(crate) epoch: AtomicU32,
    /// Epoch in which the server has everything retained; 0 before the first.
    pub(crate) resent: AtomicU32,
    /// Drawn when the segment was made: what is retained belongs to it alone.
    pub(crate) instance: AtomicU64,
    /// Most bytes retained; 0: nothing is.
    pub(crate) retain_bytes: AtomicU64,
    /// Moves after each change of a name that a lookup made before may not know.
    pub(crate) name_changes: AtomicU64,
    /// 1 once the server refused READDIRPLUS: READDIR is used (client_directory.rs).
    pub(crate) without_readdirplus: AtomicU32,

    /// When the server last answered any process, in ms of the monotonic clock, to a quarter of a second (rpc/answers.rs).
    pub(crate) answered_ms: AtomicU64,
    /// The network namespace of the process that made the segment, as `sys::network` numbers it; 0: unknown.
    pub(crate) network_namespace: AtomicU64,

    // How the export is reached (segment/export_state.rs).
    /// Since when the server refuses the handle of the root, in ms of the monotonic clock; 0 while it does not.
    pub(crate) gone_since_ms: AtomicU64,
    /// How often the server's address changed. The address of change n is `moved[n % 2]`.
    pub(crate) move_count: AtomicU32,
    /// Slots begin with a generation above this one: an even number above all generations of the segment that this one replaced.
    pub(crate) first_generation: AtomicU32,
    pub(crate) moved: [StoredAddress; 2],
    /// Locks whose words name their holders' leases: of names, of index and slot allocation, of record locks.
    pub(crate) name_locks: [AtomicU64; NAME_LOCK_COUNT],
    pub(crate) structure_lock: AtomicU64,
    pub(crate) record_lock: AtomicU64,
    /// Waiters for these, and for the probers of slots.
    pub(crate) unlocked: EventCount,
    /// Bit n: the n-th of the next words names who changes something that cached directory handles or symbolic links rest on.
    pub(crate) namespace_busy: AtomicU64,
    pub(crate) namespace_changers: [AtomicU64; NAMESPACE_CHANGE_COUNT],
}

/// A call that its process has waited for (call_notes.rs).
#[repr(C, align(64))]
pub(crate) struct CallNote {
    /// Who waits, 0 while free (slot_limiter/members.rs).
    pub(crate) owner: AtomicU64,
    /// Since when, in ns of the monotonic clock; 0 while the note is not whole.
    pub(crate) since_ns: AtomicU64,
    pub(crate) pid: AtomicU32,
    pub(crate) procedure: AtomicU32,
}

/// Calls outstanding of the whole mount, when the mount limits them; and how often each liveness lock was taken.
#[repr(C, align(64))]
pub(crate) struct SlotTable {
    pub(crate) slot_freed: EventCount,
    /// Limit of the process that took a slot last; 0 when none ever did.
    pub(crate) limit: AtomicU32,
    /// Most slots in use at once.
    pub(crate) most: AtomicU32,
    /// Calls that took a slot, ns they held it, calls that had to wait for one, and ns they waited.
    pub(crate) calls: AtomicU64,
    pub(crate) held_ns: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) wait_ns: AtomicU64,
    /// Calls that went beyond the limit: made by a signal handler inside a call, or without a liveness lock.
    pub(crate) beyond: AtomicU64,
    /// Slots taken back from processes that died.
    pub(crate) reclaimed: AtomicU64,
    /// Waits for the writer of a file to end, and ns of them.
    pub(crate) writer_waits: AtomicU64,
    pub(crate) writer_wait_ns: AtomicU64,
    /// Who has each slot, 0 when free (slot_limiter/members.rs).
    pub(crate) slots: [AtomicU64; CALL_SLOTS_MAX],
    /// Connections that stay open between calls (slot_limiter/kept.rs).
    pub(crate) kept: KeptTable,
    /// How often each liveness lock was taken: the words of earlier holders are void.
    pub(crate) incarnations: [AtomicU32; MEMBERS_MAX],
    /// The number under which each member's connections can be fenced at our filer; 0: not known (rpc/attach.rs).
    pub(crate) fence_numbers: [AtomicU64; MEMBERS_MAX],
    /// Who makes or extends the file of retained data, and the waiters.
    pub(crate) area_lock: AtomicU64,
    pub(crate) area_unlocked: EventCount,
    /// What holders of locks renew while they run (slot_limiter/leases.rs).
    pub(crate) leases: [LeaseRecord; LEASES_MAX],
}

/// Calls of one kind: how many, how large, how long.
#[repr(C)]
pub(crate) struct OperationCell {
    pub(crate) calls: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) ns: AtomicU64,
    /// Calls on the wire by payload: place n counts those of at most 512 << n bytes.
    pub(crate) sizes: [AtomicU64; SIZE_COUNT],
    /// Operations by time (activity.rs).
    pub(crate) latency: [AtomicU64; LATENCY_COUNT],
}

/// One share of the counters; no two share a cache line.
#[repr(C, align(64))]
pub(crate) struct ActivityCell {
    pub(crate) reads: OperationCell,
    pub(crate) writes: OperationCell,
    pub(crate) commits: OperationCell,
    /// Calls of fsync and the like for which another's COMMIT was enough.
    pub(crate) shared_commits: AtomicU64,
    /// Bytes read early and not given to a program; wraps.
    pub(crate) unused_read_bytes: AtomicU64,
}

/// Which directory each open or working directory of a program is (open_directories.rs).
#[repr(C, align(64))]
pub(crate) struct DirectoryTable {
    /// Records written so far: by opens, and for children.
    pub(crate) written: [AtomicU64; 2],
    /// Directories removed so far, and hashes of the last handles.
    pub(crate) removed_count: AtomicU64,
    pub(crate) removed: [AtomicU64; REMOVED_DIRECTORY_COUNT],
    /// Hash by which each record is found; 0: the record is empty or being written.
    pub(crate) keys: [AtomicU64; DIRECTORY_COUNT],
    pub(crate) records: [DirectoryRecord; DIRECTORY_COUNT],
}

/// A part of the entry of one directory.
#[repr(C)]
pub(crate) struct DirectoryRecord {
    /// Inode number and time of the placeholder.
    pub(crate) inode: AtomicU64,
    pub(crate) made: AtomicU64,
    /// Which part this is (high half), and the bytes of all parts (low half).
    pub(crate) shape: AtomicU64,
    /// Checksum of the record. A record that two processes wrote at once fails it.
    pub(crate) sum: AtomicU64,
    pub(crate) bytes: [AtomicU64; DIRECTORY_RECORD_BYTES / 8],
}

/// Who wrote something, and may send it again.
#[repr(C)]
pub(crate) struct StoredCredentials {
    /// 0 free, 1 being written, 2 complete.
    pub(crate) state: AtomicU32,
    pub(crate) uid: AtomicU32,
    pub(crate) gid: AtomicU32,
    pub(crate) group_count: AtomicU32,
    pub(crate) groups: [AtomicU32; 16],
}

/// One file.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// Odd while the slot stands for a file; each use of the slot has its own number.
    pub(crate) generation: AtomicU32,
    pub(crate) handle_length: AtomicU32,
    pub(crate) kind: AtomicU32,
    /// Next free slot + 1 while this one is free.
    pub(crate) next_free: AtomicU32,
    /// Set at each open, cleared by the clock hand.
    pub(crate) touched: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) fsid: AtomicU64,
    pub(crate) fileid: AtomicU64,
    pub(crate) rdev: AtomicU64,
    /// Calls in flight that set the size; those of killed processes stay until the next one that has the file's lock.
    pub(crate) size_unsure: AtomicU32,
    /// Moves after the server made the file shorter (or longer by SETATTR), before `size` follows.
    pub(crate) size_sets: AtomicU32,

    pub(crate) handle: HandleWords,

    /// Bytes acknowledged by the server.
    pub(crate) size: AtomicU64,
    pub(crate) reserved_end: AtomicU64,
    /// Moves after each write was acknowledged, before `size` follows.
    pub(crate) size_events: AtomicU64,
    /// Moves when an unstable write starts and when it is answered.
    pub(crate) dirty: AtomicU64,
    /// `dirty` as it was before the last successful COMMIT was sent.
    pub(crate) clean: AtomicU64,
    /// Unstable writes answered.
    pub(crate) answered: AtomicU64,
    /// `answered` as it was before the last COMMIT that covered them (stable, or reported lost).
    pub(crate) committed: AtomicU64,
    /// High half: number of the verifier the uncommitted writes carry; low half: error sequence. One word, so that a
    /// process killed here has either reported the loss or not seen it.
    pub(crate) loss: AtomicU64,

    /// Sequence lock of the record below: odd while written.
    pub(crate) attr_sequence: AtomicU64,
    pub(crate) attr: [AtomicU64; 6],
    /// Checksum of the record: a record torn by a killed writer does not pass.
    pub(crate) attr_sum: AtomicU64,

    /// Moves when the record is known to be out of date.
    pub(crate) attr_doubts: AtomicU32,
    /// `attr_doubts` as it was before the record was last fetched.
    pub(crate) attr_resolved: AtomicU32,
    pub(crate) silly_parent_length: AtomicU32,
    pub(crate) silly_name_length: AtomicU32,
    pub(crate) silly_name: [AtomicU64; SILLY_NAME_BYTES_MAX / 8],
    pub(crate) silly_parent: HandleWords,
    /// When the silly name was noted, in ms of the monotonic clock.
    pub(crate) silly_since_ms: AtomicU64,
    /// Who appends, sets the size, changes a mapped file, or writes where only one may; 0 when nobody does.
    pub(crate) writer: AtomicU64,
    pub(crate) writer_unlocked: EventCount,
    /// `dirty` as it was when the last retained write was sent or answered.
    pub(crate) retained: AtomicU64,
    /// When the server last told size and attributes, in ms of the monotonic clock.
    pub(crate) checked_ms: AtomicU64,
    /// Who asks whether the file is open, or fills the slot in; 0 when nobody does.
    pub(crate) prober: AtomicU64,
    /// Place + 1 of the credentials that last wrote to it unstably; 0 while unknown.
    pub(crate) writer_credentials: AtomicU32,
    /// The same of those that took its last name away.
    pub(crate) remover_credentials: AtomicU32,
    /// Who sends a COMMIT of the file; 0 when nobody does (slot_limiter/commit_turn.rs).
    pub(crate) commit_sender: AtomicU64,
    pub(crate) commit_ended: EventCount,
    /// Moves when a COMMIT had no answer, or a refusal.
    pub(crate) commit_failures: AtomicU32,
    /// Number and turn of the run of gathered writes that is not sent yet; 0 without one (retention/runs.rs).
    pub(crate) run: AtomicU32,
    /// Why the server refused gathered writes, as [`Slot::note_refused`] says; 0: it never did. From then on none are gathered.
    pub(crate) refused: AtomicU32,
    /// When another write last met a run, in ms of the monotonic clock: none begins for a while. 0: never.
    pub(crate) run_met_ms: AtomicU32,
}

const _: () = assert!(size_of::<Header>() <= CALL_NOTES_OFFSET);
const _: () = assert!(CALL_NOTES_OFFSET + CALL_NOTE_COUNT * size_of::<CallNote>() <= VERIFIERS_OFFSET);
const _: () = assert!(size_of::<DirectoryRecord>() == 256);
const _: () = assert!(size_of::<Slot>() == 576 && SLOTS_OFFSET.is_multiple_of(4096));
const _: () = assert!(INDEX_COUNT.is_power_of_two() && SLOT_COUNT.is_multiple_of(GROWTH_SLOTS));

/// Stores bytes as words, zero-padded.
pub(crate) fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    use core::sync::atomic::Ordering::Relaxed;
    let mut chunks = bytes.chunks(8);
    for word in words {
        let mut value = [0u8; 8];
        if let Some(chunk) = chunks.next() {
            value[..chunk.len()].copy_from_slice(chunk);
        }
        word.store(u64::from_ne_bytes(value), Relaxed);
    }
}

/// The first `N` bytes held in words.
pub(crate) fn load_bytes<const N: usize>(words: &[AtomicU64]) -> [u8; N] {
    use core::sync::atomic::Ordering::Relaxed;
    let mut bytes = [0u8; N];
    for (chunk, word) in bytes.chunks_mut(8).zip(words) {
        let value = word.load(Relaxed).to_ne_bytes();
        chunk.copy_from_slice(&value[..chunk.len()]);
    }
    bytes
}
