//! The table from file handle to slot: an open-addressed index, read without locks and changed under the structure lock.
//!
//! One change of its generation makes a slot valid for a file, or free; index and free list follow. If a process died or was
//! stopped in between, the next holder of the lock rebuilds both from the generations. A stopped process may continue at any
//! time with stores that it has begun. So a slot that it fills in carries its mark (`prober`) and is not reused, all other
//! words are changed by compare-and-swap, and entries of the free list are checked. A slot with a mark stays in the free list.
//! A reader that misses an entry meanwhile searches again under the lock before it inserts one.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::fence;

use super::layout::{
    FLAG_COMMITTED, FLAG_DESCRIPTION_LOCKS, FLAG_IN_DOUBT, FLAG_MAPPED, FLAG_PROBED, FLAG_SILLY, GROWTH_SLOTS, INDEX_COUNT,
    INDEX_EMPTY, INDEX_GONE, SLOT_COUNT, Slot, load_bytes, slots_end, store_bytes,
};
use super::placeholder::Prober;
use super::{AttrRecord, FileRef, Segment, SegmentError, Unopened};
use crate::file::{FILE_HANDLE_BYTES_MAX, FileKind};
use crate::slot_limiter::LeaseLock;
use crate::sys::local_file::{Errno, allocate, open};

/// Slots freed in one search, so that the next openers find some free.
const RECLAIM_COUNT: u32 = 32;
/// Times that one search rebuilds the free list because it was damaged.
const FREE_REBUILDS_MAX: u32 = 4;

/// Initial contents of a new slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFile<'a> {
    pub(crate) handle: &'a [u8],
    pub(crate) kind: FileKind,
    pub(crate) fsid: u64,
    pub(crate) fileid: u64,
    pub(crate) rdev: u64,
    pub(crate) size: u64,
    pub(crate) attr: AttrRecord,
    /// Now, in ms of the monotonic clock.
    pub(crate) checked_ms: u64,
    /// This client has just created the file, so that nothing of it can be unstable. Otherwise the first sync sends a COMMIT:
    /// the writes may be older than the segment (after a restart of the host), or older than the slot.
    pub(crate) created: bool,
}

impl Segment {
    /// The slot of this handle.
    pub(crate) fn find(&self, handle: &[u8]) -> Option<FileRef> {
        let mask = INDEX_COUNT - 1;
        let start = hash(handle);
        for step in 0..INDEX_COUNT {
            let entry = self.index()[(start.wrapping_add(step) & mask) as usize].load(Acquire);
            if entry == INDEX_EMPTY {
                return None;
            }
            let Some(slot) = self.slots().get((entry as usize).wrapping_sub(1)) else { continue };
            let generation = slot.generation.load(Acquire);
            if generation & 1 == 1 && slot.has_handle(handle) {
                fence(Acquire);
                if slot.generation.load(Relaxed) == generation {
                    return Some(FileRef { slot: entry - 1, generation });
                }
            }
        }
        None
    }

    /// The slot of this handle, inserted if it is missing, and whether it was inserted.
    pub(crate) fn find_or_insert(&self, file: &NewFile<'_>) -> Result<(FileRef, bool), SegmentError> {
        if let Some(found) = self.find(file.handle) {
            if let Some(slot) = self.slot(found) {
                slot.touched.store(1, Relaxed);
            }
            return Ok((found, false));
        }
        loop {
            let made = self.change_structure(|lock| {
                if let Some(found) = self.find(file.handle) {
                    return Ok(Some((found, false)));
                }
                let (number, mark) = self.take_free(lock)?;
                let begun = self.begin_slot(lock, number, file);
                drop(mark);
                if begun.is_err() && lock.is_held() {
                    self.push_free(number);
                }
                if begun.as_ref().is_err_and(SegmentError::is_full) && lock.is_held() && self.reclaim() > 0 {
                    return Ok(None); // again: there is room for a placeholder now
                }
                Ok(begun?.map(|file| (file, true)))
            })?;
            if let Some(made) = made {
                return Ok(made);
            }
        }
    }

    /// Makes a free slot valid for a file. `None` if another process took the lock over: it may have inserted a slot for the
    /// same file.
    fn begin_slot(&self, lock: &LeaseLock<'_>, number: u32, file: &NewFile<'_>) -> Result<Option<FileRef>, SegmentError> {
        let slot = &self.slots()[number as usize];
        slot.begin(file);
        let before = slot.generation.load(Relaxed);
        let begun = before.max(self.header().first_generation.load(Relaxed));
        let file_ref = FileRef { slot: number, generation: begun.wrapping_add(1) };
        // The placeholder is made before the slot is valid, so that a process that finds the slot
        // finds its placeholder.
        self.make_placeholder(file_ref)?;
        if !lock.is_held() || slot.generation.compare_exchange(before, file_ref.generation, AcqRel, Relaxed).is_err() {
            return Ok(None);
        }
        self.index_insert(file.handle, number);
        if lock.is_held() {
            return Ok(Some(file_ref));
        }
        let _ = slot.generation.compare_exchange(file_ref.generation, begun.wrapping_add(2), AcqRel, Relaxed);
        Ok(None)
    }

    /// Frees some slots and their placeholders. Returns false if no slot can be freed.
    pub(crate) fn free_some(&self) -> Result<bool, SegmentError> {
        self.change_structure(|_| Ok(self.reclaim() > 0))
    }

    /// Frees the slot of a file that no process has open.
    pub(crate) fn release(&self, file: FileRef, unopened: &Unopened<'_>) -> Result<(), SegmentError> {
        // The change is counted before the slot is freed: a process that looked up a name of the file and then inserts a new
        // slot asks the server.
        self.name_changed();
        self.change_structure(|_| if unopened.is_held() { self.free(file, unopened) } else { Ok(()) })
    }

    /// Numbers of slots in use, free slots, and inconsistent index entries. For tests and diagnosis.
    #[cfg(test)]
    pub(crate) fn audit(&self) -> (u32, u32, Vec<String>) {
        self.change_structure(|_| {
            let mut faults = Vec::new();
            let live: Vec<_> = self.live_files().collect();
            for (file, slot) in &live {
                let handle = slot.handle_bytes();
                if self.find(&handle) != Some(*file) {
                    faults.push(format!("slot {} is not found by its handle", file.slot));
                }
            }
            let mut free = 0;
            let mut next = self.header().free_head.load(Relaxed);
            while next != 0 && free <= SLOT_COUNT {
                let slot = &self.slots()[next as usize - 1];
                if slot.generation.load(Relaxed) & 1 == 1 {
                    faults.push(format!("slot {} is free and in use", next - 1));
                }
                next = slot.next_free.load(Relaxed);
                free += 1;
            }
            Ok((live.len() as u32, free, faults))
        })
        .unwrap()
    }

    /// Runs `change` under the structure lock, after it has repaired what the last holder left incomplete.
    fn change_structure<T>(&self, change: impl FnOnce(&LeaseLock<'_>) -> Result<T, SegmentError>) -> Result<T, SegmentError> {
        let structure = self.lock_structure()?;
        let busy = &self.header().structure_busy;
        let was_left = busy.swap(1, AcqRel) != 0 || structure.lock.was_left();
        if was_left || self.header().index_gone.load(Relaxed) > INDEX_COUNT / 4 {
            self.rebuild();
        }
        let done = change(&structure.lock);
        if structure.lock.is_held() {
            busy.store(0, Release);
        }
        done
    }

    /// Rebuilds index and free list from the slots' generations.
    fn rebuild(&self) {
        let header = self.header();
        for entry in self.index() {
            entry.store(INDEX_EMPTY, Release);
        }
        header.index_gone.store(0, Relaxed);
        header.free_head.store(0, Relaxed);
        let (mut free_head, mut silly) = (0, 0);
        for number in (0..header.high_water.load(Relaxed).min(SLOT_COUNT)).rev() {
            let slot = &self.slots()[number as usize];
            if slot.generation.load(Relaxed) & 1 == 1 {
                self.index_insert(&slot.handle_bytes(), number);
                silly += u32::from(slot.flags.load(Relaxed) & FLAG_SILLY != 0);
            } else {
                slot.next_free.store(free_head, Relaxed);
                free_head = number + 1;
            }
        }
        header.silly_count.store(silly, Release);
        header.free_head.store(free_head, Relaxed);
    }

    fn index_insert(&self, handle: &[u8], number: u32) {
        let mask = INDEX_COUNT - 1;
        let start = hash(handle);
        for step in 0..INDEX_COUNT {
            let place = &self.index()[(start.wrapping_add(step) & mask) as usize];
            let found = place.load(Relaxed);
            let is_free = matches!(found, INDEX_EMPTY | INDEX_GONE);
            if is_free && place.compare_exchange(found, number + 1, AcqRel, Relaxed).is_ok() {
                if found == INDEX_GONE {
                    self.header().index_gone.fetch_sub(1, Relaxed);
                }
                return;
            }
        }
    }

    /// A free slot, marked as this call's until the mark is dropped.
    fn take_free(&self, lock: &LeaseLock<'_>) -> Result<(u32, Prober<'_>), SegmentError> {
        let header = self.header();
        if let Some(taken) = self.pop_free()? {
            return Ok(taken);
        }
        let high_water = header.high_water.load(Relaxed);
        let grown = if high_water < SLOT_COUNT { self.grow(high_water) } else { Ok(()) };
        if high_water < SLOT_COUNT && grown.is_ok() && lock.is_held() {
            // The mark comes first: the slot is in no list yet.
            let mark = self.mark(high_water)?;
            if header.high_water.compare_exchange(high_water, high_water + 1, AcqRel, Relaxed).is_ok() {
                match mark {
                    Some(mark) => return Ok((high_water, mark)),
                    None => self.push_free(high_water), // of a process that was stopped here
                }
            }
        }
        self.reclaim();
        let full = || grown.map_or_else(|Errno(errno)| SegmentError::NoSlots { errno }, |()| SegmentError::Full);
        self.pop_free()?.ok_or_else(full)
    }

    fn mark(&self, number: u32) -> Result<Option<Prober<'_>>, SegmentError> {
        self.prober(FileRef { slot: number, generation: 0 }, false)
    }

    fn push_free(&self, number: u32) {
        let (header, slot) = (self.header(), &self.slots()[number as usize]);
        slot.next_free.store(header.free_head.load(Relaxed), Relaxed);
        header.free_head.store(number + 1, Relaxed);
    }

    /// Takes a slot out of the free list. A slot that carries the mark of a living process stays in
    /// the list.
    fn pop_free(&self) -> Result<Option<(u32, Prober<'_>)>, SegmentError> {
        let mut passed = 0;
        let popped = self.pop_unmarked(&mut passed);
        while let Some(number) = passed.checked_sub(1) {
            passed = self.slots()[number as usize].next_free.load(Relaxed);
            self.push_free(number);
        }
        popped
    }

    /// As [`Self::pop_free`], but moves slots with a mark into a list that begins at `passed`.
    fn pop_unmarked(&self, passed: &mut u32) -> Result<Option<(u32, Prober<'_>)>, SegmentError> {
        let header = self.header();
        let mut rebuilds = 0;
        while rebuilds < FREE_REBUILDS_MAX {
            let head = header.free_head.load(Relaxed);
            let Some(number) = head.checked_sub(1) else { return Ok(None) };
            let Some(slot) = self.slots().get(number as usize) else { break };
            let next = slot.next_free.load(Relaxed);
            let mark = self.mark(number)?;
            let is_ours = header.free_head.compare_exchange(head, next, AcqRel, Relaxed).is_ok();
            if !is_ours || slot.generation.load(Acquire) & 1 == 1 {
                drop(mark);
                self.rebuild(); // a process was stopped while it changed the list
                *passed = 0;
                rebuilds += 1;
            } else if let Some(mark) = mark {
                return Ok(Some((number, mark)));
            } else {
                slot.next_free.store(*passed, Relaxed);
                *passed = head;
            }
        }
        Ok(None)
    }

    /// Allocates memory for the slots from `high_water` on. Without it, a store would kill the process when the tmpfs is full.
    fn grow(&self, high_water: u32) -> Result<(), Errno> {
        if !high_water.is_multiple_of(GROWTH_SLOTS) {
            return Ok(());
        }
        let file = open(&self.directory.segment_path(), libc::O_RDWR, 0)?;
        let start = slots_end(high_water);
        allocate(&file, start, slots_end(high_water + GROWTH_SLOTS) - start)
    }

    /// Frees slots of files that are closed and stable. Slots that were opened since the hand last passed are spared, so that a
    /// slot is not reused between the lookup and the open of its placeholder.
    fn reclaim(&self) -> u32 {
        let header = self.header();
        // Slots from there on have no memory: a read of one would kill the process.
        let count = header.high_water.load(Relaxed).min(SLOT_COUNT);
        let mut freed = 0;
        for _ in 0..count.saturating_mul(2) {
            let number = header.clock_hand.fetch_add(1, Relaxed) % count;
            let slot = &self.slots()[number as usize];
            let generation = slot.generation.load(Acquire);
            if generation & 1 == 0 || slot.touched.swap(0, AcqRel) != 0 || !slot.may_go() {
                continue;
            }
            let file = FileRef { slot: number, generation };
            let Ok(Some(unopened)) = self.if_unopened(file) else { continue };
            if slot.may_go() && self.free(file, &unopened).is_ok() {
                freed += 1;
                if freed == RECLAIM_COUNT {
                    break;
                }
            }
        }
        freed
    }

    fn free(&self, file: FileRef, unopened: &Unopened<'_>) -> Result<(), SegmentError> {
        let Some(slot) = self.slot(file) else { return Ok(()) };
        let handle = slot.handle_bytes();
        let is_silly = slot.flags.load(Acquire) & FLAG_SILLY != 0;
        if slot.generation.compare_exchange(file.generation, file.generation.wrapping_add(1), AcqRel, Relaxed).is_err() {
            return Ok(());
        }
        if is_silly {
            self.header().silly_count.fetch_sub(1, AcqRel);
        }
        let mask = INDEX_COUNT - 1;
        let start = hash(&handle);
        for step in 0..INDEX_COUNT {
            let place = &self.index()[(start.wrapping_add(step) & mask) as usize];
            let entry = place.load(Relaxed);
            if entry == file.slot + 1 {
                let gone = place.compare_exchange(entry, INDEX_GONE, AcqRel, Relaxed).is_ok();
                self.header().index_gone.fetch_add(u32::from(gone), Relaxed);
            }
            if entry == file.slot + 1 || entry == INDEX_EMPTY {
                break;
            }
        }
        let is_mapped = slot.flags.load(Acquire) & FLAG_MAPPED != 0;
        unopened.end();
        self.push_free(file.slot);
        if is_mapped {
            self.directory.remove_mapped(file);
        }
        self.directory.remove_placeholder(file)
    }
}

impl Slot {
    /// The handle.
    pub(crate) fn handle_bytes(&self) -> Vec<u8> {
        let (bytes, length) = self.handle_array();
        bytes[..length].to_vec()
    }

    /// The handle without an allocation: an array, and the length in use.
    pub(crate) fn handle_array(&self) -> ([u8; FILE_HANDLE_BYTES_MAX], usize) {
        let length = (self.handle_length.load(Relaxed) as usize).min(FILE_HANDLE_BYTES_MAX);
        // Only the words in use are read: most handles fill a quarter of them.
        (load_bytes(&self.handle[..length.div_ceil(8)]), length)
    }

    fn has_handle(&self, handle: &[u8]) -> bool {
        if self.handle_length.load(Relaxed) as usize != handle.len() {
            return false;
        }
        let (bytes, length) = self.handle_array();
        bytes.get(..length) == Some(handle)
    }

    /// What the file is.
    pub(crate) fn kind(&self) -> FileKind {
        KINDS.get(self.kind.load(Relaxed) as usize).copied().unwrap_or(FileKind::Regular)
    }

    /// Whether the client can forget this file at the cost of a round trip only.
    pub(crate) fn may_go(&self) -> bool {
        let in_the_way = self.flags.load(Acquire) & !(FLAG_IN_DOUBT | FLAG_PROBED | FLAG_DESCRIPTION_LOCKS | FLAG_COMMITTED);
        !self.has_unsaved() && !self.has_unseen_error() && in_the_way == 0
    }

    fn begin(&self, file: &NewFile<'_>) {
        store_bytes(&self.handle, file.handle);
        self.handle_length.store(file.handle.len().min(FILE_HANDLE_BYTES_MAX) as u32, Relaxed);
        self.kind.store(kind_number(file.kind), Relaxed);
        self.touched.store(1, Relaxed);
        self.flags.store(if file.created { 0 } else { FLAG_IN_DOUBT }, Relaxed);
        for (place, value) in [
            (&self.fsid, file.fsid),
            (&self.fileid, file.fileid),
            (&self.rdev, file.rdev),
            (&self.size, file.size),
            (&self.checked_ms, file.checked_ms),
        ] {
            place.store(value, Relaxed);
        }
        for zeroed in [&self.size_events, &self.loss, &self.offset_reserved] {
            zeroed.store(0, Relaxed);
        }
        // These counters continue: a COMMIT of the slot's former file that is answered now must not cover writes of the new
        // one.
        let (dirty, answered) = (self.dirty.load(Relaxed), self.answered.load(Relaxed));
        self.committed.store(answered, Relaxed);
        self.clean.store(dirty, Relaxed);
        self.retained.store(dirty, Relaxed);
        for zeroed in [&self.refused, &self.endpoints] {
            zeroed.store(0, Relaxed);
        }
        for zeroed in [&self.run, &self.run_met_ms] {
            zeroed.store(0, Relaxed);
        }
        self.size_unsure.store(0, Relaxed);
        self.writer_credentials.store(0, Relaxed);
        self.remover_credentials.store(0, Relaxed);
        self.attr_begin(file.attr);
    }
}

/// Kinds by their number in a slot.
const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Block,
    FileKind::Character,
    FileKind::Symlink,
    FileKind::Socket,
    FileKind::Fifo,
];

fn kind_number(kind: FileKind) -> u32 {
    KINDS.iter().position(|known| *known == kind).unwrap_or(0) as u32
}

/// Hash of handles and names, the same in every build.
pub(super) fn hash(handle: &[u8]) -> u32 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64 ^ handle.len() as u64;
    for chunk in handle.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^= sum >> 32;
    }
    sum as u32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::fresh_segment;
    use super::*;

    pub(crate) fn file(handle: &[u8]) -> NewFile<'_> {
        let (attr, kind) = (AttrRecord::default(), FileKind::Regular);
        NewFile { handle, kind, fsid: 1, fileid: 7, rdev: 0, size: 0, attr, checked_ms: 0, created: true }
    }

    #[test]
    fn handle_finds_its_slot_until_the_slot_is_given_away() {
        let (_place, segment) = fresh_segment();
        let (found, made) = segment.find_or_insert(&file(b"one")).unwrap();
        assert!(made);
        assert_eq!(segment.find_or_insert(&file(b"one")).unwrap(), (found, false));
        assert_eq!(segment.find(b"two"), None);
        let unopened = segment.if_unopened(found).unwrap().unwrap();
        segment.release(found, &unopened).unwrap();
        assert_eq!(segment.find(b"one"), None);
        assert!(segment.slot(found).is_none());
        let (again, made) = segment.find_or_insert(&file(b"one")).unwrap();
        assert!(made && again.generation > found.generation);
        assert_eq!(segment.audit(), (1, 0, vec![]));
    }

    #[test]
    fn full_segment_gives_clean_closed_slots_away_and_keeps_open_and_dirty_ones() {
        let (_place, segment) = fresh_segment();
        let handle = |number: u32| number.to_le_bytes();
        let (open_file, _) = segment.find_or_insert(&file(&handle(0))).unwrap();
        let _held = segment.pin(open_file).unwrap().unwrap();
        let (dirty, _) = segment.find_or_insert(&file(&handle(1))).unwrap();
        segment.slot(dirty).unwrap().write_starts();
        for number in 2..SLOT_COUNT + 100 {
            segment.find_or_insert(&file(&handle(number))).unwrap();
        }
        assert_eq!(segment.find(&handle(0)), Some(open_file));
        assert_eq!(segment.find(&handle(1)), Some(dirty));
        let (live, free, faults) = segment.audit();
        assert_eq!(live + free, SLOT_COUNT);
        assert_eq!(faults, Vec::<String>::new());
    }

    #[test]
    fn full_segment_gives_away_files_that_were_there_before_it_and_not_written() {
        let (_place, segment) = fresh_segment();
        for number in 0..SLOT_COUNT + 100 {
            let handle = number.to_le_bytes();
            let (found, _) = segment.find_or_insert(&NewFile { created: false, ..file(&handle) }).unwrap();
            assert!(segment.slot(found).unwrap().is_dirty(), "its first sync sends a COMMIT");
        }
    }

    #[test]
    fn segment_full_of_dirty_files_says_so() {
        let (_place, segment) = fresh_segment();
        for number in 0..SLOT_COUNT {
            let (found, _) = segment.find_or_insert(&file(&number.to_le_bytes())).unwrap();
            segment.slot(found).unwrap().write_starts();
        }
        assert_eq!(segment.find_or_insert(&file(b"one more")).unwrap_err(), SegmentError::Full);
    }
}
