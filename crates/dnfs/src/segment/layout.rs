//! Byte layout of the segment file, version 13 (drawn in docs/design/002-segment.md).
//!
//! Everything is an atomic integer in the host's byte order, because the file never leaves the host's memory. A change of any
//! field needs a new [`LAYOUT_VERSION`]. A new field needs no new version if its bytes were always zero and zero means that
//! it is not used.

use crate::sys::atomic::{AtomicU16, AtomicU32, AtomicU64};

use crate::event_count::EventCount;
use crate::file::FILE_HANDLE_BYTES_MAX;
use crate::limits::{ADDRESSES_MAX, CALL_SLOTS_MAX, ENDPOINTS_MAX, LATENCY_COUNT, LEASES_MAX, MEMBERS_MAX, SIZE_COUNT};
use crate::slot_limiter::records::{KeptTable, LeaseRecord};

/// First eight bytes of a segment.
pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"MILLSEG\0");
/// Version of this layout; processes of different versions refuse each other's segment.
pub(crate) const LAYOUT_VERSION: u32 = 13;
/// Files known at once. PostgreSQL with 10,000 relations keeps about 30,000 files. A slot has 576 bytes; an unused slot takes
/// no memory, except for those of the first step.
pub(crate) const SLOT_COUNT: u32 = 65_536;
/// Entries of the index. It is half full at most, so that a search ends soon.
pub(crate) const INDEX_COUNT: u32 = SLOT_COUNT * 2;
/// Number of write verifiers kept of each endpoint. Each new one is a restart of the server that may have lost data. A reply's
/// verifier is searched among those of its endpoint that were current since its request was sent.
pub(crate) const VERIFIER_COUNT: u32 = 256;
/// Cells over which the counters are spread, so that processes do not contend for one cache line.
pub(crate) const CELL_COUNT: usize = 16;
/// Slots that get memory in one step.
pub(crate) const GROWTH_SLOTS: u32 = 256;
/// Number of different credentials.
pub(crate) const CREDENTIAL_COUNT: usize = 256;
/// Locks over which names are spread while a call removes them from files.
pub(crate) const NAME_LOCK_COUNT: usize = 64;
/// Records of open and working directories, for processes that inherited them. Half of the records are reserved for directories
/// that a child inherits, so that opens do not overwrite those.
pub(crate) const DIRECTORY_COUNT: usize = 4096;
/// See [`DIRECTORY_COUNT`].
pub(crate) const INHERITED_DIRECTORY_COUNT: usize = DIRECTORY_COUNT / 2;
/// Bytes of handle and path in one record of a directory; a longer path takes several.
pub(crate) const DIRECTORY_RECORD_BYTES: usize = 224;
/// How many of the directories last removed through this mount are remembered.
pub(crate) const REMOVED_DIRECTORY_COUNT: usize = 256;
/// Changes of directories and symbolic links that may be in progress at once: the bits of a word.
pub(crate) const NAMESPACE_CHANGE_COUNT: usize = 64;
/// Longest silly name in bytes.
pub(crate) const SILLY_NAME_BYTES_MAX: usize = 32;

/// Calls that can be noted at once. If more calls wait, the report shows only these.
pub(crate) const CALL_NOTE_COUNT: usize = 64;

pub(crate) const CALL_NOTES_OFFSET: usize = 4096;
pub(crate) const VERIFIERS_OFFSET: usize = 8192;
pub(crate) const INDEX_OFFSET: usize = VERIFIERS_OFFSET + ENDPOINTS_MAX * VERIFIER_COUNT as usize * 8;
pub(crate) const CALLS_OFFSET: usize = INDEX_OFFSET + INDEX_COUNT as usize * 4;
pub(crate) const CELLS_OFFSET: usize = CALLS_OFFSET + size_of::<SlotTable>();
pub(crate) const CREDENTIALS_OFFSET: usize = CELLS_OFFSET + CELL_COUNT * size_of::<ActivityCell>();
pub(crate) const DIRECTORIES_OFFSET: usize =
    (CREDENTIALS_OFFSET + CREDENTIAL_COUNT * size_of::<StoredCredentials>()).next_multiple_of(4096);
pub(crate) const SLOTS_OFFSET: usize = (DIRECTORIES_OFFSET + size_of::<DirectoryTable>()).next_multiple_of(4096);
pub(crate) const SEGMENT_BYTES: usize = SLOTS_OFFSET + SLOT_COUNT as usize * size_of::<Slot>();

/// Offset of the end of the first `count` slots.
pub(crate) const fn slots_end(count: u32) -> u64 {
    SLOTS_OFFSET as u64 + count as u64 * size_of::<Slot>() as u64
}

/// Index entry not used since the last rebuild.
pub(crate) const INDEX_EMPTY: u32 = 0;
/// Index entry whose slot was freed. A search continues after it.
pub(crate) const INDEX_GONE: u32 = u32::MAX;

/// A name was removed, or is being removed, while the file is open: `silly_*` contain the name it was renamed to.
pub(crate) const FLAG_SILLY: u32 = 1;
/// The last name is being removed by the holder of [`super::Unopened`].
pub(crate) const FLAG_REMOVING: u32 = 2;
/// One of the file's names is the silly one, which fstat does not count.
pub(crate) const FLAG_UNLINKED: u32 = 4;
/// A process checks whether the file is open. Openers wait for the result, or find that the process died.
pub(crate) const FLAG_PROBED: u32 = 8;
/// A program has locked records of the file for an open description. Requests for locks of processes must check those too.
pub(crate) const FLAG_DESCRIPTION_LOCKS: u32 = 16;
/// The file existed before the slot, and writes to it may be older than the segment: the first sync sends a COMMIT. The flag is
/// no reason to keep the slot, because a new slot of the file gets it again.
pub(crate) const FLAG_IN_DOUBT: u32 = 32;
/// The server has answered a COMMIT of the file.
pub(crate) const FLAG_COMMITTED: u32 = 64;
/// Programs have, or had, shared mappings of the file. A file in memory has its bytes (mount/mapped), and a write to the file
/// also goes there.
pub(crate) const FLAG_MAPPED: u32 = 128;
/// A program may store into such a mapping: the file in memory has bytes that the server does not have yet.
pub(crate) const FLAG_STORED: u32 = 256;
/// A process has changed the file at the server but not yet in memory. If the next holder of the file's lock finds this set,
/// that process died.
pub(crate) const FLAG_MAPPED_UNSURE: u32 = 512;

/// A file handle as words.
pub(crate) type HandleWords = [AtomicU64; FILE_HANDLE_BYTES_MAX / 8];

/// An address; empty if the family is 0.
#[repr(C)]
pub(crate) struct StoredAddress {
    /// 4 or 6.
    pub(crate) family: AtomicU32,
    pub(crate) port: AtomicU32,
    pub(crate) scope: AtomicU32,
    pub(crate) reserved: AtomicU32,
    /// An IPv6 address; an IPv4 address is mapped to IPv6.
    pub(crate) octets: [AtomicU64; 2],
}

/// Head of the file. Versions with other layouts read `magic`, `layout_version` and `settled`, so these keep their places.
#[repr(C, align(64))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) layout_version: AtomicU32,
    /// 1 once all fields below are valid.
    pub(crate) ready: AtomicU32,
    /// Owner of the runtime directory.
    pub(crate) uid: AtomicU32,
    pub(crate) slot_count: AtomicU32,
    /// Identifies the segment and names its directory: a number made from that uid, the server's
    /// address and the number of its file system.
    pub(crate) identity: AtomicU64,
    /// Set when the server exports another volume or the segment is removed. Attached processes return ESTALE, new ones
    /// create a new segment.
    pub(crate) retired: AtomicU32,
    pub(crate) root_length: AtomicU32,
    /// 1 if the last keeper saved everything before it ended, and no program has attached since. Then nothing is lost with the segment.
    pub(crate) settled: AtomicU32,
    /// The server's address when the segment was created; `moved` contains later ones.
    pub(crate) server: StoredAddress,
    /// Addresses of the server.
    pub(crate) servers: [StoredAddress; ADDRESSES_MAX],
    /// Addresses of this host, without a port.
    pub(crate) local: [StoredAddress; ADDRESSES_MAX],
    pub(crate) limits: [AtomicU32; 8],
    pub(crate) limits_wide: [AtomicU64; 4],
    pub(crate) root: HandleWords,

    /// Nonzero while the structure lock's holder changes index, free list or slots. If the next holder finds it set, it repairs
    /// them.
    pub(crate) structure_busy: AtomicU32,
    /// First free slot + 1; 0 if no slot is free.
    pub(crate) free_head: AtomicU32,
    /// Number of slots ever used. Those from here on have no memory yet.
    pub(crate) high_water: AtomicU32,
    /// Number of index entries of freed slots.
    pub(crate) index_gone: AtomicU32,
    /// Where the search for a reclaimable slot continues.
    pub(crate) clock_hand: AtomicU32,
    /// Slots that carry [`FLAG_SILLY`].
    pub(crate) silly_count: AtomicU32,
    /// Incremented before and after each change that may invalidate a cached directory handle or symbolic link.
    pub(crate) namespace_generation: AtomicU64,
    pub(crate) reserved_namespace: AtomicU32,
    /// Endpoints that have sent a verifier: all of them have numbers below this.
    pub(crate) endpoint_count: AtomicU32,
    /// Number of write verifiers that each endpoint has sent so far (verifiers.rs).
    pub(crate) epochs: [AtomicU32; ENDPOINTS_MAX],
    /// For each endpoint, the epoch in which it has all retained data that it acknowledged; 0 before the first.
    pub(crate) resent: [AtomicU32; ENDPOINTS_MAX],
    /// Incremented after retained data was resent, before `resent` moves. A READ that was sent before may have older data.
    pub(crate) resends: AtomicU32,
    /// Random number of this segment. Retained data belong to one segment only.
    pub(crate) instance: AtomicU64,
    /// Maximum bytes retained; 0: nothing is retained.
    pub(crate) retain_bytes: AtomicU64,
    /// Incremented after each change of a name. A lookup made before may be outdated.
    pub(crate) name_changes: AtomicU64,
    /// 1 once the server refused READDIRPLUS: READDIR is used (client_directory.rs).
    pub(crate) without_readdirplus: AtomicU32,

    /// When the server last answered any process, in ms of the monotonic clock, to a quarter of a second (rpc/answers.rs).
    pub(crate) answered_ms: AtomicU64,
    /// The network namespace of the process that created the segment, as `sys::network` numbers it; 0: unknown.
    pub(crate) network_namespace: AtomicU64,

    // How the export is reached (segment/export_state.rs).
    /// Since when the server refuses the handle of the root, in ms of the monotonic clock; 0 while it does not.
    pub(crate) gone_since_ms: AtomicU64,
    /// How often the server's address changed. The address of change n is `moved[n % 2]`.
    pub(crate) move_count: AtomicU32,
    /// The generations of slots are above this even number. It is above all generations of the segment that this one
    /// replaced, or random.
    pub(crate) first_generation: AtomicU32,
    pub(crate) moved: [StoredAddress; 2],
    /// Locks whose words name their holders' leases: of names, of index and slot allocation, of record locks.
    pub(crate) name_locks: [AtomicU64; NAME_LOCK_COUNT],
    pub(crate) structure_lock: AtomicU64,
    pub(crate) record_lock: AtomicU64,
    /// Waiters for these, and for the probers of slots.
    pub(crate) unlocked: EventCount,
    /// Bit n: the n-th of the next words names a process that is changing something on which cached directory handles or
    /// symbolic links depend.
    pub(crate) namespace_busy: AtomicU64,
    pub(crate) namespace_changers: [AtomicU64; NAMESPACE_CHANGE_COUNT],
}

const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(Header, magic) == 0 && offset_of!(Header, layout_version) == 8 && offset_of!(Header, settled) == 40);
};

/// A call that its process has waited for (call_notes.rs).
#[repr(C, align(64))]
pub(crate) struct CallNote {
    /// Owner word of the waiting thread; 0 while free (slot_limiter/members.rs).
    pub(crate) owner: AtomicU64,
    /// Since when, in ns of the monotonic clock; 0 while the note is incomplete.
    pub(crate) since_ns: AtomicU64,
    pub(crate) pid: AtomicU32,
    pub(crate) procedure: AtomicU32,
}

/// Calls in flight of the whole mount, if the mount limits them, and how often each liveness lock was taken.
#[repr(C, align(64))]
pub(crate) struct SlotTable {
    pub(crate) slot_freed: EventCount,
    /// Limit of the process that last took a slot; 0 if no process did.
    pub(crate) limit: AtomicU32,
    /// Most slots in use at once.
    pub(crate) most: AtomicU32,
    /// Calls that took a slot, ns that they held it, calls that waited for one, and ns that they waited.
    pub(crate) calls: AtomicU64,
    pub(crate) held_ns: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) wait_ns: AtomicU64,
    /// Calls above the limit: made by a signal handler inside a call, or without a liveness lock.
    pub(crate) beyond: AtomicU64,
    /// Slots taken back from processes that died.
    pub(crate) reclaimed: AtomicU64,
    /// Number of waits for the writer of a file, and ns waited.
    pub(crate) writer_waits: AtomicU64,
    pub(crate) writer_wait_ns: AtomicU64,
    /// Owner word of each slot's holder; 0 if free (slot_limiter/members.rs).
    pub(crate) slots: [AtomicU64; CALL_SLOTS_MAX],
    /// Connections that stay open between calls (slot_limiter/kept.rs).
    pub(crate) kept: KeptTable,
    /// How often each liveness lock was taken. Owner words of earlier holders are invalid.
    pub(crate) incarnations: [AtomicU32; MEMBERS_MAX],
    /// The number under which Millrace's filer can fence each member's connections; 0: unknown (rpc/attach.rs).
    pub(crate) fence_numbers: [AtomicU64; MEMBERS_MAX],
    /// Owner word of the thread that creates or extends the file of retained data, and its waiters.
    pub(crate) area_lock: AtomicU64,
    pub(crate) area_unlocked: EventCount,
    /// The leases that holders of locks renew while they run (slot_limiter/leases.rs).
    pub(crate) leases: [LeaseRecord; LEASES_MAX],
}

/// Number, sizes and times of the calls of one kind.
#[repr(C)]
pub(crate) struct OperationCell {
    pub(crate) calls: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) ns: AtomicU64,
    /// Calls on the wire by payload: entry n counts those of at most 512 << n bytes.
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
    /// Calls such as fsync for which another caller's COMMIT sufficed.
    pub(crate) shared_commits: AtomicU64,
    /// Bytes that were read ahead and that no program read; wraps.
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

/// A part of one directory's entry.
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

/// Credentials of a user that wrote data and may resend it.
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
    /// Odd while the slot belongs to a file. Each use of the slot has its own number.
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
    /// Calls in flight that set the size. Those of killed processes count until the next holder of the file's lock corrects
    /// this.
    pub(crate) size_unsure: AtomicU32,
    /// Incremented after the server made the file shorter (or longer by SETATTR), before `size` changes.
    pub(crate) size_sets: AtomicU32,

    pub(crate) handle: HandleWords,

    /// Bytes acknowledged by the server.
    pub(crate) size: AtomicU64,
    /// End of the range that a writer of a shared file offset has reserved; 0: none (mount/shared_offset.rs).
    pub(crate) offset_reserved: AtomicU64,
    /// Incremented after each write was acknowledged, before `size` changes.
    pub(crate) size_events: AtomicU64,
    /// Incremented when an unstable write starts and when it is answered.
    pub(crate) dirty: AtomicU64,
    /// `dirty` as it was before the last successful COMMIT was sent.
    pub(crate) clean: AtomicU64,
    /// Unstable writes answered.
    pub(crate) answered: AtomicU64,
    /// `answered` as it was before the last COMMIT that covered them (stable, or reported lost).
    pub(crate) committed: AtomicU64,
    /// High half: endpoint (4 bits) and number of the verifier of the uncommitted writes; low half: error sequence. They are one
    /// word, so that a process killed here has either reported the loss or not seen it.
    pub(crate) loss: AtomicU64,

    /// Sequence lock of the record below: odd while written.
    pub(crate) attr_sequence: AtomicU64,
    pub(crate) attr: [AtomicU64; 6],
    /// Checksum of the record. A record that a killed writer left incomplete fails it.
    pub(crate) attr_sum: AtomicU64,

    /// Incremented when the record becomes outdated.
    pub(crate) attr_doubts: AtomicU32,
    /// `attr_doubts` as it was before the record was last fetched.
    pub(crate) attr_resolved: AtomicU32,
    pub(crate) silly_parent_length: AtomicU32,
    pub(crate) silly_name_length: AtomicU32,
    pub(crate) silly_name: [AtomicU64; SILLY_NAME_BYTES_MAX / 8],
    pub(crate) silly_parent: HandleWords,
    /// When the silly name was noted, in ms of the monotonic clock.
    pub(crate) silly_since_ms: AtomicU64,
    /// Owner word of the holder of the file's lock, which appends, sets the size, changes a mapped file, or writes under
    /// `writers=one`; 0: free.
    pub(crate) writer: AtomicU64,
    pub(crate) writer_unlocked: EventCount,
    /// `dirty` as it was when the last retained write was sent or answered.
    pub(crate) retained: AtomicU64,
    /// When the server last returned size and attributes, in ms of the monotonic clock.
    pub(crate) checked_ms: AtomicU64,
    /// Owner word of the process that checks whether the file is open, or that fills the slot in; 0: free.
    pub(crate) prober: AtomicU64,
    /// Index + 1 of the credentials that last wrote to it unstably; 0: unknown.
    pub(crate) writer_credentials: AtomicU32,
    /// Index + 1 of the credentials that removed its last name; 0: unknown.
    pub(crate) remover_credentials: AtomicU32,
    /// Owner word of the sender of a COMMIT of the file; 0: no COMMIT is in flight (slot_limiter/commit_turn.rs).
    pub(crate) commit_sender: AtomicU64,
    pub(crate) commit_ended: EventCount,
    /// Incremented when a COMMIT got no reply or an error.
    pub(crate) commit_failures: AtomicU32,
    /// Number and turn of the file's run of coalesced writes; 0: the file has no run (retention/runs.rs).
    pub(crate) run: AtomicU32,
    /// Why the server refused coalesced writes, encoded by [`Slot::note_refused`]; 0: it has not. Afterwards no writes of the
    /// file are coalesced.
    pub(crate) refused: AtomicU16,
    /// Bit n: endpoint n may have acknowledged retained writes of the file that are not stable yet.
    pub(crate) endpoints: AtomicU16,
    /// When another write last met a run, in ms of the monotonic clock; 0: never. No run begins for a while afterwards.
    pub(crate) run_met_ms: AtomicU32,
}

const _: () = assert!(size_of::<Header>() <= CALL_NOTES_OFFSET);
const _: () = assert!(CALL_NOTES_OFFSET + CALL_NOTE_COUNT * size_of::<CallNote>() <= VERIFIERS_OFFSET);
const _: () = assert!(size_of::<DirectoryRecord>() == 256);
const _: () = assert!(ENDPOINTS_MAX <= u16::BITS as usize);
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
