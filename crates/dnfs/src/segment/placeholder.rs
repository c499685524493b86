//! Placeholders: an empty directory for each file. A program's descriptor is an open of it.
//!
//! A directory can be neither read nor written. So a program that uses such a descriptor without this library gets an error and
//! changes nothing for other programs. Each open description has a shared lock on one byte of the placeholder; after the last
//! close no process has such a lock. Only one process at a time checks for that (the slot's `prober`). It first notes the check
//! in the slot, and openers wait until it is done.

use core::sync::atomic::Ordering::{AcqRel, SeqCst};
use core::sync::atomic::fence;
use std::os::fd::BorrowedFd;

use super::layout::{FLAG_DESCRIPTION_LOCKS, FLAG_PROBED, Slot};
use super::{FileRef, RuntimeDir, Segment, SegmentError, local};
use crate::process::this_process;
use crate::slot_limiter::{LeaseLock, Locked, Strength};
use crate::sys::fd::Fd;
use crate::sys::internal_fd::InternalFd;
use crate::sys::local_file::{Errno, mkdir, open, open_array, rmdir, unlink, unlink_array};
use crate::sys::range_lock;

/// Byte that open descriptions lock. The locks of programs lie below it (preload's `record_locks`).
const OPEN_BYTE: i64 = 3 << 61;

/// Byte that processes with a shared mapping of the file lock, through a description of their own.
const MAPPED_BYTE: i64 = OPEN_BYTE + 1;

/// Kinds of files for a mapped file (mount/mapped): its bytes, the bytes that the server has, its attributes, and the first two
/// while they are created.
const MAPPED_KINDS: [char; 5] = ['d', 'k', 'a', 'n', 'o'];

/// Mode of a placeholder. It has no search permission, so that only root can enter it or create
/// anything in it.
const MODE: u32 = 0o660;

/// The right to check whether one slot's file is open. Other processes that want it wait, or treat the file as open.
pub(crate) struct Prober<'s> {
    lock: LeaseLock<'s>,
    slot: &'s Slot,
}

/// No process has the file open, and openers wait until this is dropped.
pub(crate) struct Unopened<'s> {
    prober: Prober<'s>,
}

impl Unopened<'_> {
    /// Whether no other process has taken over the right, so that the file is still closed.
    pub(crate) fn is_held(&self) -> bool {
        self.prober.lock.is_held()
    }

    /// Lets openers continue.
    pub(super) fn end(&self) {
        if self.prober.lock.is_of_this_process() && self.prober.lock.is_held() && self.prober.lock.is_locked() {
            self.prober.slot.flags.fetch_and(!FLAG_PROBED, AcqRel);
            self.prober.lock.release();
        }
    }
}

/// An open description of this library. While it exists, no process treats the file as closed.
#[derive(Debug)]
pub(crate) struct Pinned {
    fd: Fd,
    fork_generation: u32,
}

impl Segment {
    /// Creates the placeholder of a slot's next use.
    pub(super) fn make_placeholder(&self, file: FileRef) -> Result<(), SegmentError> {
        match mkdir(&self.directory().placeholder(file), MODE) {
            Ok(()) | Err(Errno(libc::EEXIST)) => Ok(()),
            Err(errno) => Err(local("make a placeholder")(errno)),
        }
    }

    /// Takes the right to remove a file. `None` if the file is open.
    pub(crate) fn if_unopened(&self, file: FileRef) -> Result<Option<Unopened<'_>>, SegmentError> {
        let Some(prober) = self.prober(file, false)? else { return Ok(None) };
        let Some(slot) = self.slot(file) else { return Ok(None) };
        let unopened = Unopened { prober };
        // The flag is set before the check; an opener locks its byte before it reads the flag. So at least one of the two sees
        // the other.
        slot.flags.fetch_or(FLAG_PROBED, SeqCst);
        fence(SeqCst);
        if self.slot(file).is_none() {
            return Ok(None);
        }
        let path = self.directory().placeholder(file);
        let placeholder = match open(&path, libc::O_RDONLY | libc::O_DIRECTORY, 0) {
            // A user removed the placeholder. Programs that have it open are no longer seen, but the slot must not be lost.
            Err(Errno(libc::ENOENT)) => {
                self.make_placeholder(file)?;
                open(&path, libc::O_RDONLY | libc::O_DIRECTORY, 0)
            }
            other => other,
        };
        let placeholder = placeholder.map_err(local("open a placeholder"))?;
        match range_lock::is_locked_elsewhere(&placeholder, OPEN_BYTE) {
            Ok(open) => Ok((!open).then_some(unopened)),
            Err(errno) => Err(local("ask for the lock of a placeholder")(errno)),
        }
    }

    /// Keeps a file as if it were open. `None` if its slot now belongs to another file.
    pub(crate) fn pin(&self, file: FileRef) -> Result<Option<Pinned>, SegmentError> {
        let fd = match open_array(&self.directory().placeholder_array(file), libc::O_RDONLY | libc::O_DIRECTORY, 0) {
            Ok(fd) => fd,
            Err(Errno(libc::ENOENT)) => return Ok(None),
            Err(errno) => return Err(local("open a placeholder")(errno)),
        };
        let pinned = Pinned { fd, fork_generation: this_process().identity.generation() };
        self.mark_open(file, std::os::fd::AsFd::as_fd(&pinned.fd))?;
        Ok(self.slot(file).map(|_| pinned))
    }

    /// Keeps a file open for shared mappings of this process and of the children that it forks, until the descriptor is closed in
    /// all of them.
    pub(crate) fn pin_mapped(&self, file: FileRef) -> Result<InternalFd, SegmentError> {
        let fd = open_array(&self.directory().placeholder_array(file), libc::O_RDONLY | libc::O_DIRECTORY, 0);
        let fd = InternalFd::moved_up(fd.map_err(local("open a placeholder"))?);
        range_lock::attempt_shared(&fd, MAPPED_BYTE).map_err(local("lock a placeholder"))?;
        self.mark_open(file, std::os::fd::AsFd::as_fd(&fd))?;
        Ok(fd)
    }

    /// Whether a process has a shared mapping of the file.
    pub(crate) fn is_mapped(&self, file: FileRef) -> Result<bool, SegmentError> {
        match open_array(&self.directory().placeholder_array(file), libc::O_RDONLY | libc::O_DIRECTORY, 0) {
            Err(Errno(libc::ENOENT)) => Ok(false),
            Err(errno) => Err(local("open a placeholder")(errno)),
            Ok(fd) => range_lock::is_locked_elsewhere(&fd, MAPPED_BYTE).map_err(local("ask for the lock of a placeholder")),
        }
    }

    /// Makes a new open of a placeholder count as an open description, after any running check has ended.
    pub(crate) fn mark_open(&self, file: FileRef, placeholder: BorrowedFd<'_>) -> Result<(), SegmentError> {
        range_lock::attempt_shared(placeholder, OPEN_BYTE).map_err(local("lock a placeholder"))?;
        fence(SeqCst);
        let Some(slot) = self.slots().get(file.slot as usize) else { return Ok(()) };
        if slot.flags.load(SeqCst) & FLAG_PROBED == 0 {
            return Ok(());
        }
        let prober = self.prober(file, true)?;
        slot.flags.fetch_and(!FLAG_PROBED, AcqRel); // left by a killed process: only the holder of the right checks
        drop(prober);
        Ok(())
    }

    /// Waits until a process that may be removing this file is done or dead. `None` if the slot now belongs to another file.
    pub(crate) fn wait_for_prober(&self, file: FileRef) -> Result<Option<Prober<'_>>, SegmentError> {
        let prober = self.prober(file, true)?;
        Ok(prober.filter(|_| self.slot(file).is_some()))
    }

    pub(super) fn prober(&self, file: FileRef, wait: bool) -> Result<Option<Prober<'_>>, SegmentError> {
        let Some(slot) = self.slots().get(file.slot as usize) else { return Ok(None) };
        let (word, unlocked) = (&slot.prober, &self.header().unlocked);
        let locked = if wait {
            self.members.lock(word, unlocked, Strength::Strong)
        } else {
            self.members.try_lock(word, unlocked, Strength::Strong)
        };
        match locked {
            Locked::Held(lock) => Ok(Some(Prober { lock, slot })),
            Locked::Taken => Ok(None),
            Locked::Already if wait => Err(local("take the lock")(Errno(libc::EDEADLK))),
            Locked::Already => Ok(None),
            Locked::Refused => Err(local("take the lock")(Errno(libc::ENOLCK))),
        }
    }

    /// Whether a program ever locked records of this file for an open description.
    pub(crate) fn has_description_locks(&self, file: FileRef) -> bool {
        self.slot(file).is_some_and(|slot| slot.flags.load(SeqCst) & FLAG_DESCRIPTION_LOCKS != 0)
    }

    /// Notes that a program is about to lock records of this file for an open description.
    pub(crate) fn note_description_locks(&self, file: FileRef) {
        if let Some(slot) = self.slot(file) {
            slot.flags.fetch_or(FLAG_DESCRIPTION_LOCKS, SeqCst);
        }
    }
}

impl RuntimeDir {
    /// Creates the folder of the files for mapped files, in a directory that an older version created.
    pub(crate) fn make_mapped_folder(&self) {
        let _ = mkdir(&self.mapped_folder(), 0o770); // a later open there reports the error
    }

    /// Removes the files for a mapped file.
    pub(crate) fn remove_mapped(&self, file: FileRef) {
        for kind in MAPPED_KINDS {
            let _ = unlink_array(&self.mapped_array(file, kind)); // most of them do not exist
        }
    }

    /// Removes the placeholder and the lock file of a file.
    pub(crate) fn remove_placeholder(&self, file: FileRef) -> Result<(), SegmentError> {
        let _ = unlink(&self.lock_file(file)); // most files never had one
        match rmdir(&self.placeholder(file)) {
            // If it is not empty, root created something in it through an inherited descriptor. The name is never
            // reused.
            Ok(()) | Err(Errno(libc::ENOENT | libc::ENOTEMPTY)) => Ok(()),
            Err(errno) => Err(local("remove a placeholder")(errno)),
        }
    }
}

impl Drop for Unopened<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // An explicit unlock, because a child that was forked meanwhile shares the open file and would keep the lock. Such a
        // child does not unlock.
        if self.fork_generation == this_process().identity.generation() {
            let _ = range_lock::unlock(&self.fd, OPEN_BYTE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::FLAG_REMOVING;
    use super::super::table::tests::file;
    use super::super::tests::fresh_segment;
    use core::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;

    #[test]
    fn killed_remover_keeps_no_opener_waiting_while_somebody_has_the_file_open() {
        let (_place, segment) = fresh_segment();
        let (found, _) = segment.find_or_insert(&file(b"one")).unwrap();
        // The remover died with its flag set; one opener passed before the others saw the flag.
        segment.slot(found).unwrap().flags.fetch_or(FLAG_REMOVING, SeqCst);
        let _open = segment.pin(found).unwrap().unwrap();
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| done.send(segment.wait_for_prober(found).unwrap().is_some()));
            assert_eq!(ended.recv_timeout(Duration::from_secs(10)), Ok(true), "it waits for the last close");
        });
    }
}
