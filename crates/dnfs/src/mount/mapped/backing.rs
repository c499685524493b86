//! The files in memory for a mapped file: its bytes as the mappings of all programs show them (`d`); once a program may store
//! into them, also the bytes that the server is known to have (`k`), and the attributes that the server had with these (`a`).
//!
//! Everything but the stores of programs happens under the file's lock. Nothing here allocates, except the check for available
//! memory.

use crate::file::Attributes;
use crate::segment::runtime_dir::{FILE_MODE, RuntimeDir};
use crate::segment::{FileRef, packed_time};
use crate::sys::fd::Fd;
use crate::sys::local_file::{
    Errno, allocate, free_bytes, next_data, open_array, read_at, rename_array, reserve, stat, truncate, unlink_array, write_at,
};
use crate::sys::memory::available_bytes;
use crate::sys::region::Region;
use core::ops::Range;

/// Bytes that are compared at once.
pub(super) const STEP_BYTES: usize = 1 << 20;
/// Unit of comparison and of memory allocation.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes of the runtime directory's file system that mappings leave free for descriptors, sizes and retained data.
const SPARE_BYTES: u64 = 8 << 20;

const BYTES: char = 'd';
const KNOWN: char = 'k';
const SEEN: char = 'a';
/// The kinds of the first two files until these are complete.
const BYTES_FRESH: char = 'n';
const KNOWN_FRESH: char = 'o';

/// Why the file cannot be created.
pub(super) enum NoBacking {
    /// Bytes needed, and bytes available.
    NoRoom(u64, u64),
    Failed(Errno),
}

impl From<Errno> for NoBacking {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// Modification time and size, by which the client notices changes of other hosts.
pub(super) type Seen = (u64, u64);

pub(super) fn seen_of(attr: &Attributes) -> Seen {
    (packed_time(attr.mtime), attr.size)
}

/// The open files of a mapped file.
pub(super) struct Backing<'d> {
    directory: &'d RuntimeDir,
    file: FileRef,
    bytes: Fd,
    known: Option<Fd>,
}

impl<'d> Backing<'d> {
    /// Opens the files of a mapped file, if they exist.
    pub(super) fn open(directory: &'d RuntimeDir, file: FileRef) -> Result<Option<Self>, Errno> {
        let at = |kind| match open_array(&directory.mapped_array(file, kind), libc::O_RDWR, 0) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno(libc::ENOENT)) => Ok(None),
            Err(errno) => Err(errno),
        };
        let Some(bytes) = at(BYTES)? else { return Ok(None) };
        Ok(Some(Self { directory, file, bytes, known: at(KNOWN)? }))
    }

    /// Opens the file with the bytes for mapping, and for writing if `may_write`.
    pub(super) fn open_to_map(directory: &RuntimeDir, file: FileRef, may_write: bool) -> Result<Fd, Errno> {
        open_array(&directory.mapped_array(file, BYTES), if may_write { libc::O_RDWR } else { libc::O_RDONLY }, 0)
    }

    /// Opens the file with the bytes for reading.
    pub(super) fn open_bytes(directory: &RuntimeDir, file: FileRef) -> Result<Fd, Errno> {
        Self::open_to_map(directory, file, false)
    }

    /// Creates the file with the bytes, of `size` bytes. `fill` reads bytes from an offset on and returns how many it
    /// read.
    pub(super) fn make<E: From<NoBacking>>(
        directory: &'d RuntimeDir,
        file: FileRef,
        size: u64,
        mut fill: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<Self, E> {
        let fresh = directory.mapped_array(file, BYTES_FRESH);
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
        let bytes = match open_array(&fresh, flags, FILE_MODE) {
            Err(Errno(libc::ENOENT)) => {
                directory.make_mapped_folder();
                open_array(&fresh, flags, FILE_MODE)
            }
            other => other,
        };
        let bytes = bytes.map_err(NoBacking::from)?;
        let mut made = || -> Result<(), E> {
            check_room(&bytes, size)?;
            if size > 0 {
                allocate(&bytes, 0, size).map_err(|errno| no_room(errno, &bytes, size))?;
            }
            let mut buffer = Region::map(4 * STEP_BYTES).map_err(|_| NoBacking::Failed(Errno(libc::ENOMEM)))?;
            let mut at = 0;
            while at < size {
                let wanted = (4 * STEP_BYTES as u64).min(size - at) as usize;
                let Some(to) = buffer.get_mut(..wanted) else { break };
                match fill(at, to)? {
                    0 => break,
                    got => {
                        write_at(&bytes, at, to.get(..got).unwrap_or_default()).map_err(NoBacking::from)?;
                        at += got as u64;
                    }
                }
            }
            Ok(rename_array(&fresh, &directory.mapped_array(file, BYTES)).map_err(NoBacking::from)?)
        };
        made().inspect_err(|_| forget(&fresh))?;
        forget(&directory.mapped_array(file, KNOWN)); // left by a process that was killed while it created them
        Ok(Self { directory, file, bytes, known: None })
    }

    /// Stores that the server has exactly these bytes, before a program may store into them. Calls `step` now and then.
    pub(super) fn make_known(&mut self, step: &dyn Fn()) -> Result<(), NoBacking> {
        if self.known.is_some() {
            return Ok(());
        }
        let size = self.size()?;
        let fresh = self.directory.mapped_array(self.file, KNOWN_FRESH);
        let known = open_array(&fresh, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC, FILE_MODE)?;
        let made = || -> Result<(), NoBacking> {
            check_room(&known, size)?;
            truncate(&known, size)?;
            let mut buffer = Region::map(STEP_BYTES).map_err(|_| Errno(libc::ENOMEM))?;
            let mut at = 0;
            while let Some(data) = next_data(&self.bytes, at)? {
                step();
                let got = read_at(&self.bytes, data, &mut buffer)?;
                if got == 0 {
                    break;
                }
                let read = buffer.get(..got).unwrap_or_default();
                if read.iter().any(|byte| *byte != 0) {
                    write_at(&known, data, read).map_err(|errno| no_room(errno, &known, size))?;
                }
                at = data + got as u64;
            }
            Ok(rename_array(&fresh, &self.directory.mapped_array(self.file, KNOWN))?)
        };
        made().inspect_err(|_| forget(&fresh))?;
        self.known = Some(known);
        Ok(())
    }

    pub(super) fn size(&self) -> Result<u64, Errno> {
        Ok(stat(&self.bytes)?.size)
    }

    /// Allocates the memory of a file of this size. Without memory a store into a mapping would kill the program.
    pub(super) fn reserve(&self, size: u64) -> Result<(), Errno> {
        let before = self.size()?;
        if size > before { reserve(&self.bytes, before, size - before) } else { Ok(()) }
    }

    /// Sets the size of the files. Bytes that programs stored after the end stay invisible.
    pub(super) fn set_size(&self, size: u64) -> Result<(), Errno> {
        for fd in [Some(&self.bytes), self.known.as_ref()].into_iter().flatten() {
            let before = stat(fd)?.size;
            if before < size {
                truncate(fd, before)?;
            }
            if before != size {
                truncate(fd, size)?;
            }
        }
        Ok(())
    }

    /// Stores bytes that were written to the server.
    pub(super) fn apply(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let end = offset + bytes.len() as u64;
        if end > self.size()? {
            self.set_size(end)?;
        }
        write_at(&self.bytes, offset, bytes)?;
        self.known.as_ref().map_or(Ok(()), |known| write_at(known, offset, bytes))
    }

    /// Stores the server's bytes, except where programs have stored bytes that the server does not have. `buffer` is twice as
    /// long as `server`.
    pub(super) fn merge(&self, offset: u64, server: &[u8], buffer: &mut [u8]) -> Result<(), Errno> {
        let (stored, known) = buffer.split_at_mut(server.len().min(buffer.len() / 2));
        fill(&self.bytes, offset, stored)?;
        let Some(known_fd) = &self.known else {
            return each_run(
                server.len(),
                |at| server.get(at) != stored.get(at),
                |run| write_run(&self.bytes, offset, server, run),
            );
        };
        fill(known_fd, offset, known)?;
        let is_new = |at: usize| server.get(at) != known.get(at);
        each_run(
            server.len(),
            |at| is_new(at) && stored.get(at) == known.get(at),
            |run| write_run(&self.bytes, offset, server, run),
        )?;
        each_run(server.len(), is_new, |run| write_run(known_fd, offset, server, run))
    }

    /// Reads bytes of the file from an offset on. Returns how many it read.
    pub(super) fn read(fd: &Fd, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        read_at(fd, offset, buffer)
    }

    /// Calls `send` for each run of pages that programs stored between these offsets. The bytes that `send` accepts count
    /// as known to the server. Calls `step` now and then.
    pub(super) fn each_difference<E: From<Errno>>(
        &self,
        range: Range<u64>,
        step: &dyn Fn(),
        mut send: impl FnMut(u64, &[u8]) -> Result<usize, E>,
    ) -> Result<bool, E> {
        let Some(known) = &self.known else { return Ok(false) };
        let end = range.end.min(self.size()?);
        let mut buffer = Region::map(2 * STEP_BYTES).map_err(|_| Errno(libc::ENOMEM))?;
        let (stored, other) = buffer.split_at_mut(STEP_BYTES);
        let mut at = range.start;
        let mut sent = false;
        while at < end {
            step();
            let next = [next_data(&self.bytes, at)?, next_data(known, at)?].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next < end) else { break };
            at = next.max(at) / PAGE_BYTES as u64 * PAGE_BYTES as u64;
            let count = (STEP_BYTES as u64).min(end - at) as usize;
            let (Some(stored), Some(other)) = (stored.get_mut(..count), other.get_mut(..count)) else { break };
            fill(&self.bytes, at, stored)?;
            fill(known, at, other)?;
            let (stored, other) = (&*stored, &*other);
            let page = |number: usize| number * PAGE_BYTES..count.min((number + 1) * PAGE_BYTES);
            let differs = |number: usize| stored.get(page(number)) != other.get(page(number));
            each_run(count.div_ceil(PAGE_BYTES), differs, |pages| -> Result<(), E> {
                let run = trimmed(stored, other, page(pages.start).start..page(pages.end - 1).end);
                let mut done = run.start;
                while done < run.end {
                    let bytes = stored.get(done..run.end).unwrap_or_default();
                    let got = send(at + done as u64, bytes)?;
                    if got == 0 {
                        return Err(Errno(libc::EIO).into());
                    }
                    write_at(known, at + done as u64, bytes.get(..got).unwrap_or_default())?;
                    done += got;
                }
                sent = true;
                Ok(())
            })?;
            at += count as u64;
        }
        Ok(sent)
    }

    /// The server's attributes that belong to the bytes. `None` if they are unknown.
    pub(super) fn seen(directory: &RuntimeDir, file: FileRef) -> Option<Seen> {
        let fd = open_array(&directory.mapped_array(file, SEEN), libc::O_RDONLY, 0).ok()?;
        let mut record = [0; 16];
        let got = read_at(&fd, 0, &mut record).ok()?;
        let word = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
        (got == record.len()).then_some((word(0)?, word(8)?))
    }

    /// Stores the server's attributes that belong to the bytes. `None` removes them.
    pub(super) fn note_seen(&self, seen: Option<Seen>) {
        let path = self.directory.mapped_array(self.file, SEEN);
        let Some((time, size)) = seen else { return forget(&path) };
        let mut record = [0; 16];
        record[..8].copy_from_slice(&time.to_ne_bytes());
        record[8..].copy_from_slice(&size.to_ne_bytes());
        let Ok(fd) = open_array(&path, libc::O_WRONLY | libc::O_CREAT, FILE_MODE) else { return };
        if write_at(&fd, 0, &record).is_err() {
            forget(&path);
        }
    }
}

/// Removes a backing file. A missing file is no error.
fn forget(path: &[u8]) {
    let _ = unlink_array(path);
}

fn check_room(fd: &Fd, bytes: u64) -> Result<(), NoBacking> {
    let free = free_bytes(fd)?.saturating_sub(SPARE_BYTES);
    // A tmpfs is often larger than the available memory; using all of it would make the kernel kill processes.
    let free = available_bytes().map_or(free, |available| free.min(available / 2));
    if bytes > free { Err(NoBacking::NoRoom(bytes, free)) } else { Ok(()) }
}

fn no_room(errno: Errno, fd: &Fd, bytes: u64) -> NoBacking {
    match errno {
        Errno(libc::ENOSPC | libc::EDQUOT | libc::ENOMEM) => NoBacking::NoRoom(bytes, free_bytes(fd).unwrap_or(0)),
        other => NoBacking::Failed(other),
    }
}

/// Fills a buffer from an offset on, with zeroes after the end of the file.
fn fill(fd: &Fd, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let mut done = 0;
    while let Some(to) = buffer.get_mut(done..).filter(|to| !to.is_empty()) {
        match read_at(fd, offset + done as u64, to)? {
            0 => {
                to.fill(0);
                break;
            }
            got => done += got,
        }
    }
    Ok(())
}

fn write_run(fd: &Fd, offset: u64, from: &[u8], run: Range<usize>) -> Result<(), Errno> {
    write_at(fd, offset + run.start as u64, from.get(run).unwrap_or_default())
}

/// Calls `take` with each longest run of numbers below `count` for which `is_in` holds.
fn each_run<E>(
    count: usize,
    is_in: impl Fn(usize) -> bool,
    mut take: impl FnMut(Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let mut at = 0;
    while at < count {
        let start = (at..count).find(|number| is_in(*number)).unwrap_or(count);
        at = (start..count).find(|number| !is_in(*number)).unwrap_or(count);
        if start < at {
            take(start..at)?;
        }
    }
    Ok(())
}

/// The differing part of a run, without equal bytes at its ends.
fn trimmed(stored: &[u8], known: &[u8], run: Range<usize>) -> Range<usize> {
    let differs = |at: &usize| stored.get(*at) != known.get(*at);
    let start = run.clone().find(differs).unwrap_or(run.end);
    let end = run.rev().find(differs).map_or(start, |last| last + 1);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::segment::tests::tempdir::TempDir;

    const FILE: FileRef = FileRef { slot: 3, generation: 5 };

    fn made(place: &TempDir, bytes: &[u8]) -> RuntimeDir {
        let directory = RuntimeDir::make(place.path().as_encoded_bytes(), |_| 5).unwrap();
        let size = bytes.len() as u64;
        let fill = |offset: u64, to: &mut [u8]| -> Result<usize, NoBacking> {
            to.copy_from_slice(&bytes[offset as usize..][..to.len()]);
            Ok(to.len())
        };
        assert!(Backing::make(&directory, FILE, size, fill).is_ok_and(|mut made| made.make_known(&|| ()).is_ok()));
        directory
    }

    fn sent(backing: &Backing<'_>) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        let done = backing.each_difference(0..u64::MAX, &|| (), |offset, bytes| -> Result<usize, Errno> {
            all.push((offset, bytes.to_vec()));
            Ok(bytes.len())
        });
        assert_eq!(done, Ok(!all.is_empty()));
        all
    }

    fn bytes_of(backing: &Backing<'_>) -> Vec<u8> {
        let mut bytes = vec![0; backing.size().unwrap() as usize];
        fill(&backing.bytes, 0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_was_stored_is_sent_once_and_no_more_of_it_than_differs() {
        let place = TempDir::new();
        let directory = made(&place, &[b'.'; 3 * PAGE_BYTES + 10]);
        let backing = Backing::open(&directory, FILE).unwrap().unwrap();
        assert_eq!(sent(&backing), []);
        for (at, bytes) in [(100, &b"ab"[..]), (PAGE_BYTES as u64 + 7, b"c"), (3 * PAGE_BYTES as u64 + 9, b"d")] {
            write_at(&backing.bytes, at, bytes).unwrap();
        }
        let found = sent(&backing);
        assert_eq!(found.len(), 2, "neighbouring pages by one WRITE");
        assert_eq!((found[0].0, found[0].1.len()), (100, PAGE_BYTES + 8 - 100));
        assert_eq!(found[1], (3 * PAGE_BYTES as u64 + 9, b"d".to_vec()));
        assert_eq!(sent(&backing), []);
    }

    #[test]
    fn what_the_server_has_is_taken_over_beside_stores_that_it_has_not() {
        let place = TempDir::new();
        let directory = made(&place, b"....................");
        let backing = Backing::open(&directory, FILE).unwrap().unwrap();
        write_at(&backing.bytes, 4, b"own").unwrap();
        backing.merge(0, b"NEW.NEW.NEW", &mut [0; 22]).unwrap();
        assert_eq!(bytes_of(&backing), b"NEW.own.NEW.........");
        assert_eq!(sent(&backing), [(4, b"own".to_vec())]);
    }

    #[test]
    fn a_write_replaces_a_store_and_is_not_sent_again() {
        let place = TempDir::new();
        let directory = made(&place, b"..........");
        let backing = Backing::open(&directory, FILE).unwrap().unwrap();
        write_at(&backing.bytes, 2, b"stored").unwrap();
        backing.apply(3, b"WRI").unwrap();
        assert_eq!(bytes_of(&backing), b"..sWRIed..");
        assert_eq!(sent(&backing), [(2, b"sWRIed".to_vec())]);
    }

    #[test]
    fn bytes_behind_an_earlier_end_are_zeroes_when_the_file_grows() {
        let place = TempDir::new();
        let directory = made(&place, b"..........");
        let backing = Backing::open(&directory, FILE).unwrap().unwrap();
        backing.set_size(4).unwrap();
        backing.apply(6, b"x").unwrap();
        assert_eq!(bytes_of(&backing), b"....\0\0x");
        assert_eq!(sent(&backing), []);
    }

    #[test]
    fn runs_are_the_longest_and_end_with_the_numbers() {
        let mut found = Vec::new();
        each_run(
            9,
            |at| [0, 1, 4, 7, 8].contains(&at),
            |run| -> Result<(), ()> {
                found.push(run);
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(found, [0..2, 4..5, 7..9]);
    }

    #[test]
    fn a_run_is_sent_from_its_first_difference_to_its_last() {
        assert_eq!(trimmed(b"abXdYf", b"abcdef", 0..6), 2..5);
        assert_eq!(trimmed(b"abc", b"abc", 0..3), 3..3);
    }
}
