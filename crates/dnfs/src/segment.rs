//! The state that all processes of a host with one runtime directory share about one export: sizes, attributes, what is not yet
//! stable, which files were unlinked while open (docs/design/002-segment.md).
//!
//! It is a file in memory that every process maps and changes by atomic operations only. A process may be killed at any
//! instruction. So counters change in an order that errs on the safe side, records have a checksum, and locks are taken over
//! from a holder that died or was stopped (docs/design/028-stopped-processes.md).

mod attach;
mod attributes;
mod credentials;
mod durability;
mod error;
mod export_state;
mod file_ref;
pub(crate) mod layout;
mod names;
mod open_directories;
mod placeholder;
pub(crate) mod runtime_dir;
pub(crate) mod runtime_root;
mod size;
mod table;
pub(crate) mod trust;
mod untrusted;
pub(crate) mod url_notes;
mod verifiers;

#[cfg(test)]
mod fork_tests;

pub(crate) use attach::StoredParts;
pub(crate) use attributes::{AttrMoment, AttrRecord, packed_time, unpacked_time};
pub(crate) use durability::{Answer, CommitTicket, Committed};
pub(crate) use error::local;
pub use error::{OtherVersion, SegmentError};
pub(crate) use export_state::ExportState;
pub use file_ref::FileRef;
pub use open_directories::{DirectoryKept, DirectoryPlaceholder};
pub(crate) use placeholder::{Pinned, Unopened};
pub(crate) use runtime_dir::RuntimeDir;
pub(crate) use size::SizeMoment;
pub(crate) use table::NewFile;
pub use untrusted::{Distrust, Untrusted};
pub(crate) use verifiers::{EndpointSet, Epoch, Verifiers, VerifiersFull};

use crate::sys::atomic::{AtomicU32, AtomicU64};
use core::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};

use crate::limits::{ENDPOINTS_MAX, HOLDER_CHECK_MS};
use crate::slot_limiter::{LeaseLock, Locked, Members, Strength};
use crate::sys::local_file::Errno;
use crate::sys::shm::Mapping;
use crate::sys::signals_blocked::SignalsBlocked;
use layout::{
    ActivityCell, CALLS_OFFSET, CELL_COUNT, CELLS_OFFSET, CREDENTIAL_COUNT, CREDENTIALS_OFFSET, DIRECTORIES_OFFSET,
    DirectoryTable, GROWTH_SLOTS, Header, INDEX_COUNT, INDEX_OFFSET, SLOT_COUNT, SLOTS_OFFSET, Slot, SlotTable,
    StoredCredentials, VERIFIER_COUNT, VERIFIERS_OFFSET,
};
use std::sync::Arc;
use std::time::Duration;

/// An attached segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    mapping: Arc<Mapping>,
    directory: RuntimeDir,
    /// The processes that use it, and the locks that they hold.
    members: Arc<Members>,
}

impl Segment {
    /// The directory of placeholders and locks.
    pub(crate) fn directory(&self) -> &RuntimeDir {
        &self.directory
    }

    pub(crate) fn header(&self) -> &Header {
        // The slice always has one element.
        &self.mapping.values::<Header>(0, 1)[0]
    }

    /// The processes that use it, and the locks that they hold.
    pub(crate) const fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// The memory, for users that outlive a borrow.
    pub(crate) fn memory(&self) -> Arc<Mapping> {
        Arc::clone(&self.mapping)
    }

    /// How the processes of the mount reach the export.
    pub(crate) fn export_state(&self) -> ExportState {
        ExportState::new(self.memory(), self.directory.clone())
    }

    /// The counters of all processes.
    pub(crate) fn cells(&self) -> &[ActivityCell] {
        self.mapping.values(CELLS_OFFSET, CELL_COUNT)
    }

    /// The call slots and the members.
    pub(crate) fn call_table(&self) -> &SlotTable {
        &self.mapping.values::<SlotTable>(CALLS_OFFSET, 1)[0] // as above
    }

    fn directory_table(&self) -> &DirectoryTable {
        &self.mapping.values::<DirectoryTable>(DIRECTORIES_OFFSET, 1)[0] // as above
    }

    fn stored_credentials(&self) -> &[StoredCredentials] {
        self.mapping.values(CREDENTIALS_OFFSET, CREDENTIAL_COUNT)
    }

    pub(crate) fn verifiers(&self) -> Verifiers<'_> {
        let count = ENDPOINTS_MAX * VERIFIER_COUNT as usize;
        Verifiers { header: self.header(), log: self.mapping.values(VERIFIERS_OFFSET, count) }
    }

    /// How often retained data was resent. If it is the same before and after a READ, the READ did not miss what a server had lost
    /// meanwhile.
    #[inline]
    pub(crate) fn resends(&self) -> u32 {
        self.header().resends.load(SeqCst)
    }

    /// The slot of `file`. `None` if the slot now belongs to another file.
    pub(crate) fn slot(&self, file: FileRef) -> Option<&Slot> {
        let slot = self.slots().get(file.slot as usize)?;
        (slot.generation.load(Acquire) == file.generation && file.generation & 1 == 1).then_some(slot)
    }

    /// The files that have a slot, open or not.
    pub(crate) fn live_files(&self) -> impl Iterator<Item = (FileRef, &Slot)> {
        let high_water = self.header().high_water.load(Acquire).min(SLOT_COUNT);
        self.slots().iter().zip(0..high_water).filter_map(|(slot, number)| {
            let generation = slot.generation.load(Acquire);
            (generation & 1 == 1).then_some((FileRef { slot: number, generation }, slot))
        })
    }

    /// Simulates that a killed process used and freed all unused slots except `left`.
    pub(crate) fn leave_slots(&self, left: u32) {
        let up_to = SLOT_COUNT.saturating_sub(left) / GROWTH_SLOTS * GROWTH_SLOTS;
        self.header().high_water.fetch_max(up_to, AcqRel);
    }

    /// As [`Self::live_files`], beginning where the search for a reclaimable slot continues.
    pub(crate) fn live_files_from_hand(&self) -> impl Iterator<Item = (FileRef, &Slot)> {
        let hand = self.header().clock_hand.load(Acquire) % self.header().high_water.load(Acquire).clamp(1, SLOT_COUNT);
        let behind = self.live_files().filter(move |(file, _)| file.slot >= hand);
        behind.chain(self.live_files().filter(move |(file, _)| file.slot < hand))
    }

    fn slots(&self) -> &[Slot] {
        self.mapping.values(SLOTS_OFFSET, SLOT_COUNT as usize)
    }

    fn index(&self) -> &[AtomicU32] {
        self.mapping.values(INDEX_OFFSET, INDEX_COUNT as usize)
    }

    /// Waits for a lock of the header under which the caller sends no call to the server. No signal handler runs in this thread
    /// while the lock is held.
    ///
    /// # Errors
    /// ENOLCK if this process can hold no lock.
    pub(crate) fn lock_quietly<'a>(&'a self, word: &'a AtomicU64) -> Result<QuietLock<'a>, SegmentError> {
        let unlocked = &self.header().unlocked;
        loop {
            let signals = SignalsBlocked::new();
            match self.members.try_lock(word, unlocked, Strength::Weak) {
                Locked::Held(lock) => return Ok(QuietLock { lock, _signals: signals }),
                Locked::Taken => {}
                Locked::Already => return Err(local("take the lock")(Errno(libc::EDEADLK))),
                Locked::Refused => return Err(local("take the lock")(Errno(libc::ENOLCK))),
            }
            drop(signals); // the wait must not block signals
            self.members.renew_leases();
            unlocked.wait_at_most(Duration::from_millis(HOLDER_CHECK_MS), || (word.load(Acquire) == 0).then_some(()));
        }
    }

    fn lock_structure(&self) -> Result<QuietLock<'_>, SegmentError> {
        self.lock_quietly(&self.header().structure_lock)
    }
}

/// A lock that is held briefly. Its fields are dropped in this order.
pub(crate) struct QuietLock<'a> {
    lock: LeaseLock<'a>,
    _signals: SignalsBlocked,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::layout::{Header, Slot};
    use super::*;

    /// A private slot, in use as generation 1.
    pub(crate) fn blank_slot() -> Box<Slot> {
        let slot: Box<Slot> = zeroed();
        slot.generation.store(1, core::sync::atomic::Ordering::Relaxed);
        slot
    }

    /// A private header.
    pub(crate) fn blank_header() -> Box<Header> {
        zeroed()
    }

    /// A segment in a directory of its own.
    pub(crate) fn fresh_segment() -> (tempdir::TempDir, Segment) {
        fresh_segment_that_retains(0)
    }

    /// As [`fresh_segment`], for a mount that retains up to this much written data.
    pub(crate) fn fresh_segment_that_retains(bytes: u64) -> (tempdir::TempDir, Segment) {
        let place = tempdir::TempDir::new();
        let directory = RuntimeDir::make(place.path().as_bytes(), |_| 1).unwrap();
        let segment = Segment::create(&directory, 1, &attach::tests::parts(), bytes, None).unwrap().unwrap();
        (place, segment)
    }

    /// A new file of a segment.
    pub(crate) fn new_file(segment: &Segment, fileid: u64) -> FileRef {
        let attr = AttrRecord { mode: 0o600, nlink: 1, ..AttrRecord::default() };
        let handle = &fileid.to_le_bytes();
        let kind = FileKind::Regular;
        let file = NewFile { handle, kind, fsid: 1, fileid, rdev: 0, size: 0, attr, checked_ms: 0, created: true };
        segment.find_or_insert(&file).unwrap().0
    }

    use crate::file::FileKind;
    use crate::sys::shm::tests::zeroed;
    use std::os::unix::ffi::OsStrExt;

    pub(crate) mod tempdir {
        use std::path::{Path, PathBuf};

        /// A directory in memory that is removed with its last user.
        pub(crate) struct TempDir(PathBuf);

        impl TempDir {
            pub(crate) fn new() -> Self {
                // Not the random numbers of a simulation: the next one with the same seed has another directory.
                let unique = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
                use std::os::unix::fs::DirBuilderExt;
                let make = |parent: &Path| {
                    let path = parent.join(format!("millrace-segment-{unique:016x}"));
                    std::fs::DirBuilder::new().mode(0o700).create(&path).map(|()| Self(path))
                };
                // On tmpfs, as the segments of programs: 65,536 placeholders take minutes on a disk.
                make(Path::new("/dev/shm")).or_else(|_| make(&std::env::temp_dir())).unwrap()
            }

            pub(crate) fn path(&self) -> &std::ffi::OsStr {
                Path::as_os_str(&self.0)
            }
        }

        impl Drop for TempDir {
            fn drop(&mut self) {
                let _ = std::fs::remove_dir_all(&self.0);
            }
        }
    }
}
