//! Names the process for which another process holds a record lock, as a FUSE mount does. To the kernel such a lock belongs to an
//! open file description and to no process. The lock file lists the holders, for F_GETLK only: the kernel alone decides whether a
//! range is locked.

use std::os::fd::AsFd;

use host::Unpoisoned;

use super::lock_range::LockRange;
use crate::process::this_process;
use crate::sys::local_file::{read_at, write_at};
use crate::sys::process::pid_namespace;

/// Holders that a file lists. F_GETLK names no process for further ones.
const HOLDERS_MAX: usize = 128;
/// PID, PID namespace, first byte, byte after the last.
const WORDS: usize = 4;
const RECORD_BYTES: usize = WORDS * 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holder {
    /// 0: the entry is free.
    pid: i64,
    namespace: i64,
    start: i64,
    end: i64,
}

/// Notes that a process has locked a range, or with `holds` false that it has unlocked it.
pub(super) fn note(file: impl AsFd, pid: u32, range: LockRange, holds: bool) {
    if pid == 0 {
        return;
    }
    // Threads of this process write one after the other. If two processes write at the same moment, one entry may be lost.
    let _writing = this_process().lock_holders.lock().unpoisoned();
    let (start, end) = bounds(range);
    let holder = Holder { pid: pid.into(), namespace: own_namespace(), start, end };
    let mut holders = read(&file);
    for (place, known) in holders.iter_mut().enumerate().filter(|(_, known)| known.is_of(&holder)) {
        let before = *known;
        known.cut(start, end);
        if *known != before {
            write(&file, place, known);
        }
    }
    if holds {
        let place = holders.iter().position(|known| known.pid == 0).unwrap_or(holders.len());
        if place < HOLDERS_MAX {
            write(&file, place, &holder);
        }
    }
}

/// The holder of a lock that the kernel reported on this range. 0 if it is not known, or is in another PID namespace.
pub(super) fn holder_of(file: impl AsFd, range: LockRange) -> u32 {
    let ((start, end), namespace) = (bounds(range), own_namespace());
    let holders = read(&file);
    let mut covering = holders.iter().filter(|known| known.pid != 0 && known.start <= start && start < known.end);
    let exact = covering.clone().find(|known| (known.start, known.end) == (start, end));
    exact.or_else(|| covering.next()).filter(|known| known.namespace == namespace).map_or(0, |known| known.pid as u32)
}

/// First byte, and the byte after the last.
fn bounds(range: LockRange) -> (i64, i64) {
    (range.start, if range.length == 0 { i64::MAX } else { range.start.saturating_add(range.length) })
}

fn own_namespace() -> i64 {
    pid_namespace().unwrap_or(0).cast_signed()
}

impl Holder {
    fn is_of(&self, other: &Self) -> bool {
        (self.pid, self.namespace) == (other.pid, other.namespace)
    }

    /// Removes a range from the entry, but not one in its middle: the kernel is asked first whether a range is locked.
    fn cut(&mut self, start: i64, end: i64) {
        if end <= self.start || self.end <= start {
            return;
        }
        match (start <= self.start, self.end <= end) {
            (true, true) => *self = Self::default(),
            (true, false) => self.start = end,
            (false, true) => self.end = start,
            (false, false) => {}
        }
    }
}

fn read(file: &impl AsFd) -> Vec<Holder> {
    let mut bytes = [0; HOLDERS_MAX * RECORD_BYTES];
    let length = read_at(file, 0, &mut bytes).unwrap_or(0);
    let word =
        |record: &[u8], at: usize| record.get(at * 8..).and_then(<[u8]>::first_chunk).map_or(0, |word| i64::from_ne_bytes(*word));
    let records = bytes[..length].chunks_exact(RECORD_BYTES);
    let holder = |r: &[u8]| Holder { pid: word(r, 0), namespace: word(r, 1), start: word(r, 2), end: word(r, 3) };
    records.map(holder).collect()
}

fn write(file: &impl AsFd, place: usize, holder: &Holder) {
    let Holder { pid, namespace, start, end } = *holder;
    let bytes: Vec<u8> = [pid, namespace, start, end].into_iter().flat_map(i64::to_ne_bytes).collect();
    let _ = write_at(file, (place * RECORD_BYTES) as u64, &bytes); // if this fails, F_GETLK names no process for the lock
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn range(start: i64, length: i64) -> LockRange {
        LockRange { start, length }
    }

    #[test]
    fn the_holder_of_a_range_is_named_until_it_unlocks_it() {
        let place = crate::segment::tests::tempdir::TempDir::new();
        let path = std::path::Path::new(place.path()).join("locks");
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(path).unwrap();
        note(&file, 7, range(10, 10), true);
        note(&file, 8, range(100, 0), true);
        assert_eq!((holder_of(&file, range(10, 10)), holder_of(&file, range(150, 0)), holder_of(&file, range(50, 1))), (7, 8, 0));
        note(&file, 7, range(10, 5), false);
        assert_eq!((holder_of(&file, range(10, 5)), holder_of(&file, range(15, 5))), (0, 7));
        note(&file, 7, range(0, 0), false);
        note(&file, 9, range(12, 4), true);
        assert_eq!(holder_of(&file, range(12, 4)), 9);
        assert_eq!(file.metadata().unwrap().len(), 2 * RECORD_BYTES as u64, "a free place is taken again");
    }
}
