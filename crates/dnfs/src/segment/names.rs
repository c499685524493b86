//! Files whose name was removed while they are open, and the counters that guard cached names.

use crate::sys::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::time::Duration;

use super::layout::{FLAG_SILLY, FLAG_UNLINKED, NAME_LOCK_COUNT, SILLY_NAME_BYTES_MAX, load_bytes, store_bytes};
use super::table::hash;
use super::{FileRef, Segment, SegmentError, local};
use crate::file::FILE_HANDLE_BYTES_MAX;
use crate::limits::SILLY_IN_FLIGHT_MS;
use crate::slot_limiter::{LeaseLock, Locked, Owner, Strength};
use crate::sys::clock::{monotonic_ms, sleep};
use crate::sys::local_file::Errno;

/// The name of an unlinked file that is still open, in the same directory. Programs do not see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SillyName {
    parent: [u8; FILE_HANDLE_BYTES_MAX],
    parent_length: usize,
    name: [u8; SILLY_NAME_BYTES_MAX],
    name_length: usize,
    since_ms: u64,
    given: bool,
}

/// Prevents other processes from removing or giving a name. Increments the count of name changes when dropped.
pub(crate) struct NameLock<'a> {
    segment: &'a Segment,
    _lock: LeaseLock<'a>,
}

impl Drop for NameLock<'_> {
    fn drop(&mut self) {
        self.segment.name_changed();
    }
}

impl SillyName {
    /// Handle of the directory.
    pub(crate) fn parent(&self) -> &[u8] {
        &self.parent[..self.parent_length]
    }

    /// The name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }

    /// Whether the server has renamed the file to it.
    pub(crate) fn is_given(&self) -> bool {
        self.given
    }

    /// Whether the RENAME of a killed process may still arrive at the server.
    pub(crate) fn may_still_come(&self) -> bool {
        !self.given && monotonic_ms().saturating_sub(self.since_ms) < SILLY_IN_FLIGHT_MS
    }
}

impl Segment {
    /// Records that `file` is about to get this name, before the call is sent. If the process dies in between, the note leads
    /// to the removal of a name that may not exist.
    pub(crate) fn silly_begin(&self, file: FileRef, parent: &[u8], name: &[u8]) -> Result<(), SegmentError> {
        assert!(parent.len() <= FILE_HANDLE_BYTES_MAX && name.len() <= SILLY_NAME_BYTES_MAX, "silly name too long");
        let _lock = self.lock_structure()?;
        let Some(slot) = self.slot(file) else { return Ok(()) };
        store_bytes(&slot.silly_parent, parent);
        store_bytes(&slot.silly_name, name);
        slot.silly_parent_length.store(parent.len() as u32, Relaxed);
        slot.silly_name_length.store(name.len() as u32, Relaxed);
        slot.silly_since_ms.store(monotonic_ms(), Relaxed);
        let before = slot.flags.fetch_or(FLAG_SILLY, AcqRel);
        if before & FLAG_SILLY == 0 {
            self.header().silly_count.fetch_add(1, AcqRel);
        }
        Ok(())
    }

    /// Notes that the silly name has replaced a name that programs know.
    pub(crate) fn silly_done(&self, file: FileRef) {
        if let Some(slot) = self.slot(file) {
            slot.flags.fetch_or(FLAG_UNLINKED, AcqRel);
            slot.attr_doubt();
        }
    }

    /// Notes that the silly name was removed, or never created.
    pub(crate) fn silly_end(&self, file: FileRef) -> Result<(), SegmentError> {
        let _lock = self.lock_structure()?;
        if let Some(slot) = self.slot(file)
            && slot.flags.fetch_and(!(FLAG_SILLY | FLAG_UNLINKED), AcqRel) & FLAG_SILLY != 0
        {
            self.header().silly_count.fetch_sub(1, AcqRel);
        }
        Ok(())
    }

    /// The silly name of `file`, if it has one.
    pub(crate) fn silly_name(&self, file: FileRef) -> Option<SillyName> {
        let slot = self.slot(file)?;
        let flags = slot.flags.load(Acquire);
        if flags & FLAG_SILLY == 0 {
            return None;
        }
        let parent_length = slot.silly_parent_length.load(Relaxed) as usize;
        let name_length = slot.silly_name_length.load(Relaxed) as usize;
        let found = SillyName {
            parent: load_bytes(&slot.silly_parent),
            parent_length: parent_length.min(FILE_HANDLE_BYTES_MAX),
            name: load_bytes(&slot.silly_name),
            name_length: name_length.min(SILLY_NAME_BYTES_MAX),
            since_ms: slot.silly_since_ms.load(Relaxed),
            given: flags & FLAG_UNLINKED != 0,
        };
        self.slot(file).map(|_| found)
    }

    /// Whether there may be files with a silly name.
    pub(crate) fn has_silly_files(&self) -> bool {
        self.header().silly_count.load(Acquire) != 0
    }

    /// Files with a silly name.
    pub(crate) fn silly_files(&self) -> Vec<FileRef> {
        if !self.has_silly_files() {
            return Vec::new();
        }
        let silly = self.live_files().filter(|(_, slot)| slot.flags.load(Acquire) & FLAG_SILLY != 0);
        silly.map(|(file, _)| file).collect()
    }

    /// A number that does not change while the result of a lookup is valid, as far as this host changes names.
    pub(crate) fn name_changes(&self) -> u64 {
        self.header().name_changes.load(Acquire)
    }

    /// Called after a name was created, and before the slot of a file is freed.
    pub(crate) fn name_changed(&self) {
        self.header().name_changes.fetch_add(1, AcqRel);
    }

    /// Locks a name before the caller gives or removes it. Other callers with the same name wait.
    pub(crate) fn lock_name(&self, directory: &[u8], name: &[u8]) -> Result<NameLock<'_>, SegmentError> {
        self.lock_name_number(name_number(directory, name))
    }

    /// As [`Self::lock_name`], for the two names of a rename, in a fixed order.
    pub(crate) fn lock_names(
        &self,
        one: (&[u8], &[u8]),
        two: (&[u8], &[u8]),
    ) -> Result<(NameLock<'_>, Option<NameLock<'_>>), SegmentError> {
        let (one, two) = (name_number(one.0, one.1), name_number(two.0, two.1));
        let first = self.lock_name_number(one.min(two))?;
        let second = if one == two { None } else { Some(self.lock_name_number(one.max(two))?) };
        Ok((first, second))
    }

    fn lock_name_number(&self, number: usize) -> Result<NameLock<'_>, SegmentError> {
        let header = self.header();
        let lock = self.lock(&header.name_locks[number], Strength::Strong).map_err(local("take a name's lock"))?;
        if lock.was_left() {
            self.name_changed(); // it is unknown what the server did
        }
        Ok(NameLock { segment: self, _lock: lock })
    }

    /// Waits for a lock of the header.
    ///
    /// # Errors
    /// EDEADLK if the current call holds it; ENOLCK if this process can hold no lock.
    pub(super) fn lock<'a>(&'a self, word: &'a AtomicU64, strength: Strength) -> Result<LeaseLock<'a>, Errno> {
        match self.members.lock(word, &self.header().unlocked, strength) {
            Locked::Held(lock) => Ok(lock),
            Locked::Already => Err(Errno(libc::EDEADLK)),
            Locked::Taken | Locked::Refused => Err(Errno(libc::ENOLCK)),
        }
    }

    /// A number that does not change while cached directory handles and symbolic links are valid. `None` while one may change.
    pub(crate) fn namespace_generation(&self) -> Option<u64> {
        let header = self.header();
        let generation = header.namespace_generation.load(Acquire);
        (header.namespace_busy.load(Acquire) == 0).then_some(generation)
    }

    /// Repairs the guard after a process died or was stopped inside [`Segment::change_namespace`].
    pub(crate) fn repair_namespace(&self) {
        let header = self.header();
        let busy = header.namespace_busy.load(Acquire);
        for (place, word) in header.namespace_changers.iter().enumerate().filter(|(place, _)| busy >> place & 1 == 1) {
            let changer = word.load(Acquire);
            if changer != 0 && self.members.is_gone(changer) {
                self.end_change(place, changer);
            }
        }
    }

    /// Runs a change that may invalidate cached directory handles or symbolic links.
    pub(crate) fn change_namespace<T>(&self, change: impl FnOnce() -> T) -> Result<T, SegmentError> {
        let lease = self.members.lease(Strength::Weak).ok_or(Errno(libc::ENOLCK)).map_err(local("note a change of names"))?;
        let header = self.header();
        let words = &header.namespace_changers;
        let place = loop {
            let is_taken = |word: &AtomicU64| word.compare_exchange(0, lease.owner(), AcqRel, Acquire).is_ok();
            if let Some(place) = words.iter().position(is_taken) {
                break place;
            }
            self.repair_namespace();
            sleep(Duration::from_millis(1)); // all places are in use
        };
        header.namespace_busy.fetch_or(1 << place, AcqRel);
        header.namespace_generation.fetch_add(1, AcqRel);
        let done = change();
        if lease.is_of_this_process() {
            self.end_change(place, lease.owner());
        }
        Ok(done)
    }

    fn end_change(&self, place: usize, changer: Owner) {
        let header = self.header();
        header.namespace_generation.fetch_add(1, AcqRel);
        let word = &header.namespace_changers[place];
        if word.load(Acquire) == changer {
            header.namespace_busy.fetch_and(!(1 << place), AcqRel);
            let _ = word.compare_exchange(changer, 0, AcqRel, Acquire);
        }
    }
}

fn name_number(directory: &[u8], name: &[u8]) -> usize {
    (hash(directory).rotate_left(7) ^ hash(name)) as usize % NAME_LOCK_COUNT
}
