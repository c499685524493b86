//! The table from addresses of this process to mapped files. Its functions allocate nothing.
//! Signals are blocked while it is used.

use crate::raw;
use dnfs::mount::{FileRef, Mount};
use libc::c_int;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maximum number of mappings of one process. The kernel's limit for all kinds is 65,530 (vm.max_map_count).
const REGIONS_MAX: usize = 8192;
/// Maximum number of mapped files.
const FILES_MAX: usize = 1024;
/// Maximum number of private mappings that can be made longer. Each has a descriptor from 900 on,
/// like the client's sockets.
const COPIED_MAX: usize = 64;

/// One mapping, or a remaining part of it.
#[derive(Clone)]
struct Region {
    /// The addresses.
    range: Range<usize>,
    /// Offset of the first address in the file.
    offset: u64,
    of: Of,
    /// Whether the descriptor by which the program made the mapping may write.
    may_write: bool,
}

/// The file that is mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// A shared mapping, with the index of the file.
    File(usize),
    /// A private mapping, with the index of the file in memory.
    Copied(usize),
}

/// A file in memory with bytes of a file of a mount, for a private mapping.
#[derive(Clone, Copy)]
pub(crate) struct Copied {
    pub(crate) mount: &'static Mount,
    pub(crate) file: FileRef,
    /// Descriptor of the file in memory, marked as this library's.
    pub(crate) memory: c_int,
    /// Offset of the first byte in the file of the mount.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy)]
struct Mapped {
    mount: Option<&'static Mount>,
    file: FileRef,
    pin: c_int,
    stores: bool,
    /// Number of mappings that threads are making.
    coming: u32,
    /// The process that made the first mapping. A child has copies of its parent's mappings, and
    /// the parent writes what the child stored there.
    process: u32,
    /// Position among the file's write errors up to which msync has reported them.
    cursor: u32,
}

/// A mapped part of a file.
pub(super) struct Part {
    pub(super) mount: &'static Mount,
    pub(super) file: FileRef,
    pub(super) bytes: Range<u64>,
}

/// A file that this process no longer maps.
pub(super) struct Unused {
    pub(super) mount: &'static Mount,
    pub(super) file: FileRef,
    pub(super) pin: c_int,
    /// Whether the program may have stored bytes.
    pub(super) stores: bool,
}

pub(super) struct Table {
    regions: [Region; REGIONS_MAX],
    used: usize, // number of regions in use
    /// Places for regions that calls in progress will add.
    reserved: usize,
    files: [Mapped; FILES_MAX],
    copied: [Option<Copied>; COPIED_MAX],
}

struct Locked {
    held: AtomicBool,
    table: UnsafeCell<Table>,
}

// SAFETY: only the thread that set `held` accesses the table.
unsafe impl Sync for Locked {}

const NO_REGION: Region = Region { range: 0..0, offset: 0, of: Of::File(0), may_write: false };
const NO_FILE: Mapped =
    Mapped { mount: None, file: FileRef { slot: 0, generation: 0 }, pin: 0, stores: false, coming: 0, process: 0, cursor: 0 };

static TABLE: Locked = Locked {
    held: AtomicBool::new(false),
    table: UnsafeCell::new(Table {
        regions: [NO_REGION; REGIONS_MAX],
        used: 0,
        reserved: 0,
        files: [NO_FILE; FILES_MAX],
        copied: [None; COPIED_MAX],
    }),
};

/// Number of regions in use, for checks without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether the table has a mapping of a file of a mount.
pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Proof that this thread is the only one that uses the table. Releases it when dropped, also after
/// a panic, which a hook catches.
struct Holder;

impl Holder {
    fn wait() -> Self {
        while TABLE.held.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        Self
    }

    fn table(&mut self) -> &mut Table {
        // SAFETY: this is the only holder.
        unsafe { &mut *TABLE.table.get() }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        COUNT.store(self.table().used, Ordering::Relaxed);
        TABLE.held.store(false, Ordering::Release);
    }
}

/// Uses the table, under its lock.
pub(super) fn with<T>(act: impl FnOnce(&mut Table) -> T) -> T {
    let _signals = raw::SignalsHeld::new();
    let mut holder = Holder::wait();
    act(holder.table())
}

/// Called in the child of a fork, where the thread that used the table does not exist.
pub(crate) fn after_fork_child() {
    TABLE.held.store(false, Ordering::Release);
}

impl Table {
    fn number_of(&self, mount: &Mount, file: FileRef) -> Option<usize> {
        self.files.iter().position(|known| known.file == file && known.mount.is_some_and(|other| std::ptr::eq(other, mount)))
    }

    /// Reserves places for a call that makes `more` mappings, and removes these ranges, of which each may split a mapping.
    /// Returns their number, which the caller passes to [`Self::release`] after the call. `None` if the table is full.
    pub(super) fn reserve(&mut self, gone: &[Range<usize>], more: usize) -> Option<usize> {
        let splits = |gone: &&Range<usize>| {
            let is_inside = |region: &Region| region.range.start < gone.start && gone.end < region.range.end;
            self.regions[..self.used].iter().any(is_inside)
        };
        let needed = more + gone.iter().filter(splits).count();
        if needed > 0 && self.used + self.reserved + needed > REGIONS_MAX {
            return None;
        }
        self.reserved += needed;
        Some(needed)
    }

    /// Releases places that were reserved. The call has added its mappings.
    pub(super) fn release(&mut self, places: usize) {
        self.reserved -= places;
    }

    /// Whether a mapping in the table contains this address.
    pub(super) fn has(&self, address: usize) -> bool {
        self.regions[..self.used].iter().any(|region| region.range.contains(&address))
    }

    /// Begins a mapping of a file, for which the caller has reserved a place. Returns whether the file is pinned already, or
    /// `None` if the table of files is full. The caller then calls [`Self::pin`], or [`Self::give_up`] on failure.
    pub(super) fn begin(&mut self, mount: &'static Mount, file: FileRef) -> Option<bool> {
        match self.number_of(mount, file) {
            Some(number) => {
                self.files[number].coming += 1;
                Some(true)
            }
            None => self.files.iter().any(|known| known.mount.is_none()).then_some(false),
        }
    }

    /// Ends a mapping that failed.
    pub(super) fn give_up(&mut self, mount: &'static Mount, file: FileRef) {
        if let Some(number) = self.number_of(mount, file) {
            self.files[number].coming -= 1;
        }
    }

    /// Returns the index of the file. If the file was not pinned, `pin` keeps it open. If another
    /// thread has pinned it meanwhile, `pin` is returned as the error.
    pub(super) fn pin(&mut self, mount: &'static Mount, file: FileRef, pin: Option<c_int>) -> Result<usize, Option<c_int>> {
        let Some(pin) = pin else { return self.number_of(mount, file).ok_or(None) };
        if let Some(number) = self.number_of(mount, file) {
            self.files[number].coming += 1;
            return Err(Some(pin));
        }
        let number = self.files.iter().position(|known| known.mount.is_none()).ok_or(Some(pin))?;
        let (process, cursor) = (raw::process_id(), mount.error_cursor(file));
        self.files[number] = Mapped { mount: Some(mount), file, pin, stores: false, coming: 1, process, cursor };
        Ok(number)
    }

    /// Adds the mapping that was begun, if it was made. False if the table is full.
    pub(super) fn end(
        &mut self,
        mount: &'static Mount,
        file: FileRef,
        made: Option<(Range<usize>, u64, bool)>,
        stores: bool,
    ) -> bool {
        let Some(place) = self.number_of(mount, file) else { return false };
        self.files[place].coming -= 1;
        self.files[place].stores |= stores;
        let Some((range, offset, may_write)) = made else { return true };
        self.cut(&range);
        self.insert(Region { range, offset, of: Of::File(place), may_write })
    }

    /// Adds a private mapping. False if the table is full.
    pub(super) fn enter_copied(&mut self, range: Range<usize>, copied: Copied) -> bool {
        if self.used + self.reserved >= REGIONS_MAX {
            return false;
        }
        let Some(number) = self.copied.iter().position(Option::is_none) else { return false };
        let is_entered = self.insert(Region { range, offset: copied.offset, of: Of::Copied(number), may_write: false });
        if is_entered {
            self.copied[number] = Some(copied);
        }
        is_entered
    }

    /// The file in memory that is mapped at this address, and the offset of the address in the file
    /// of the mount.
    pub(super) fn copied_at(&mut self, address: usize) -> Option<(&mut Copied, u64)> {
        let found = self.regions[..self.used].iter().find(|region| region.range.contains(&address))?;
        let Of::Copied(number) = found.of else { return None };
        let at = found.offset + (address - found.range.start) as u64;
        self.copied.get_mut(number)?.as_mut().map(|copied| (copied, at))
    }

    /// The descriptor of a file in memory that is no longer mapped.
    pub(super) fn take_unused_copied(&mut self) -> Option<c_int> {
        let regions = &self.regions[..self.used];
        let is_unused = |number: usize| !regions.iter().any(|region| region.of == Of::Copied(number));
        let number = (0..COPIED_MAX).find(|number| self.copied[*number].is_some() && is_unused(*number))?;
        self.copied[number].take().map(|copied| copied.memory)
    }

    /// The file of a shared mapping.
    fn file_of(&self, region: &Region) -> Option<&Mapped> {
        match region.of {
            Of::File(number) => self.files.get(number),
            Of::Copied(_) => None,
        }
    }

    /// Notes that the program may store into mappings of this file from now on.
    pub(super) fn note_stores(&mut self, mount: &'static Mount, file: FileRef) {
        if let Some(number) = self.number_of(mount, file) {
            self.files[number].stores = true;
        }
    }

    /// Position among a file's write errors up to which msync has reported them.
    pub(super) fn cursor(&mut self, mount: &'static Mount, file: FileRef) -> Option<&mut u32> {
        let number = self.number_of(mount, file)?;
        Some(&mut self.files[number].cursor)
    }

    /// Adds a mapping. False if the table is full.
    fn insert(&mut self, region: Region) -> bool {
        if self.used == REGIONS_MAX {
            return false;
        }
        self.regions[self.used] = region;
        self.used += 1;
        true
    }

    /// Removes a range of addresses. The caller has reserved a place for the rest of a mapping that is split.
    pub(super) fn cut(&mut self, gone: &Range<usize>) {
        let mut at = 0;
        while at < self.used {
            let Region { range, offset, .. } = self.regions[at].clone();
            let (start, end) = (range.start.max(gone.start), range.end.min(gone.end));
            if start >= end {
                at += 1;
                continue;
            }
            let rest = Region { range: end..range.end, offset: offset + (end - range.start) as u64, ..self.regions[at].clone() };
            self.regions[at].range.end = start;
            if range.start == start {
                self.used -= 1;
                self.regions.swap(at, self.used);
            } else {
                at += 1;
            }
            if end < range.end {
                let _ = self.insert(rest);
            }
        }
    }

    /// Notes the new addresses or length of a mapping. If `old` is empty, the program has made a
    /// second mapping.
    pub(super) fn relocate(&mut self, old: &Range<usize>, new: Range<usize>) {
        let Some(found) = self.regions[..self.used].iter().find(|region| region.range.contains(&old.start)).cloned() else {
            return self.cut(&new);
        };
        let offset = found.offset + (old.start - found.range.start) as u64;
        self.cut(old);
        self.cut(&new);
        let _ = self.insert(Region { range: new, offset, ..found });
    }

    /// Takes a file that this process no longer maps.
    pub(super) fn take_unused(&mut self) -> Option<Unused> {
        let (regions, used) = (&self.regions, self.used);
        let is_unused = |number: usize, known: &Mapped| {
            known.mount.is_some() && known.coming == 0 && !regions[..used].iter().any(|region| region.of == Of::File(number))
        };
        let number = (0..FILES_MAX).find(|number| is_unused(*number, &self.files[*number]))?;
        let known = std::mem::replace(&mut self.files[number], NO_FILE);
        Some(Unused { mount: known.mount?, file: known.file, pin: known.pin, stores: known.stores })
    }

    /// The first file from this number on into which this process may have stored bytes, and its number.
    pub(super) fn stored_from(&self, number: usize) -> Option<(usize, &'static Mount, FileRef)> {
        let process = raw::process_id();
        let mut rest = self.files.iter().enumerate().skip(number);
        let (number, known) = rest.find(|(_, known)| known.mount.is_some() && known.stores && known.process == process)?;
        Some((number, known.mount?, known.file))
    }

    /// A file that is mapped at these addresses by a descriptor that may write, and for which
    /// stores are not noted yet.
    pub(super) fn not_stored(&self, range: &Range<usize>) -> Option<(&'static Mount, FileRef)> {
        let found = self.regions[..self.used].iter().find(|region| {
            let overlaps = region.range.start.max(range.start) < region.range.end.min(range.end);
            overlaps && region.may_write && self.file_of(region).is_some_and(|known| !known.stores)
        })?;
        let known = self.file_of(found)?;
        Some((known.mount?, known.file))
    }

    /// The first mapped part of a file at these addresses, and the address after it.
    pub(super) fn part(&self, range: Range<usize>) -> Option<(usize, Part)> {
        let overlaps = |region: &&Region| {
            matches!(region.of, Of::File(_)) && region.range.start.max(range.start) < region.range.end.min(range.end)
        };
        let found = self.regions[..self.used].iter().filter(overlaps).min_by_key(|region| region.range.start)?;
        let (start, end) = (found.range.start.max(range.start), found.range.end.min(range.end));
        let known = self.file_of(found)?;
        let offset = |at: usize| found.offset + (at - found.range.start) as u64;
        Some((end, Part { mount: known.mount?, file: known.file, bytes: offset(start)..offset(end) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// A table with this many mappings of three pages each, with a page between two of them.
    fn table(count: usize) -> Box<Table> {
        let mut table = Box::new(Table {
            regions: [NO_REGION; REGIONS_MAX],
            used: 0,
            reserved: 0,
            files: [NO_FILE; FILES_MAX],
            copied: [None; COPIED_MAX],
        });
        for number in 1..=count {
            let start = number * 4 * PAGE;
            assert!(table.insert(Region { range: start..start + 3 * PAGE, ..NO_REGION }));
        }
        table
    }

    #[test]
    fn a_full_table_refuses_to_split_a_mapping_and_lets_one_go() {
        let mut full = table(REGIONS_MAX);
        let (whole, middle, end, next) = (4 * PAGE..7 * PAGE, 5 * PAGE..6 * PAGE, 5 * PAGE..7 * PAGE, 9 * PAGE..10 * PAGE);
        assert_eq!(full.reserve(&[middle], 0), None);
        assert_eq!(full.reserve(&[], 1), None);
        assert_eq!((full.reserve(std::slice::from_ref(&whole), 0), full.reserve(&[end], 0)), (Some(0), Some(0)));
        full.cut(&whole);
        let places = full.reserve(std::slice::from_ref(&next), 0).unwrap();
        assert_eq!((places, full.reserve(&[], 1)), (1, None), "the place belongs to one call");
        full.cut(&next);
        full.release(places);
        assert_eq!((full.used, full.reserved), (REGIONS_MAX, 0));
        let rest = full.regions.iter().find(|region| region.range == (10 * PAGE..11 * PAGE)).unwrap();
        assert_eq!(rest.offset, 2 * PAGE as u64);
        assert!(full.has(8 * PAGE) && !full.has(9 * PAGE) && full.has(10 * PAGE));
    }
}
