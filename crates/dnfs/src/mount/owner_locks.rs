//! Record locks of owners that are not processes of their own: a FUSE file system holds them for its callers. They are stored
//! with the POSIX locks of programs under the preload library, and respect the locks of open descriptions. So both sides
//! exclude each other.

use super::lock_range::{LockConflict, LockKind, LockRange};
use super::{FileRef, Locks, lock_holders};
use crate::error::Error;
use crate::segment::local;
use crate::segment::runtime_dir::FILE_MODE;
use crate::segment::{Segment, SegmentError};
use crate::sys::fd::Fd;
use crate::sys::local_file::{Errno, open_array};
use crate::sys::range_lock::{conflict, set_range};
use std::os::fd::BorrowedFd;

/// Offsets that a lock of an open description can have are below this.
pub const DESCRIPTION_LOCKS_LIMIT: i64 = 1 << 61;
/// Offset on the placeholder of the exclusive locks of open descriptions; the shared ones are at their own offsets. A byte
/// between the two ranges prevents the kernel from merging adjacent locks.
pub const DESCRIPTION_LOCKS_EXCLUSIVE: i64 = DESCRIPTION_LOCKS_LIMIT + 1;

/// The record locks of one owner on one file. Dropping this releases them all.
#[derive(Debug)]
pub struct OwnerLocks {
    fd: Fd,
    file: FileRef,
    pid: u32,
}

impl Locks {
    /// A new owner without locks on an open file. F_GETLK names the process `pid` as the holder of its locks; 0 names no
    /// process.
    ///
    /// # Errors
    /// The file of record locks cannot be opened.
    pub fn owner_locks(&self, file: FileRef, pid: u32) -> Result<OwnerLocks, Error> {
        let path = self.segment.directory().lock_file_array(file);
        let fd = open_array(&path, libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW, FILE_MODE);
        Ok(OwnerLocks { fd: fd.map_err(local("open a file of record locks"))?, file, pid })
    }

    /// Locks a range for an owner, or unlocks it if `kind` is `None`. False if another owner has a conflicting lock. Never
    /// waits.
    ///
    /// # Errors
    /// The kernel's refusal, except for a conflict.
    pub fn lock_range(&self, owner: &OwnerLocks, range: LockRange, kind: Option<LockKind>) -> Result<bool, Error> {
        let is_done = self.set_range_of(owner, range, kind)?;
        if is_done {
            lock_holders::note(&owner.fd, owner.pid, range, kind.is_some());
        }
        Ok(is_done)
    }

    fn set_range_of(&self, owner: &OwnerLocks, range: LockRange, kind: Option<LockKind>) -> Result<bool, Error> {
        let set = |kind| set_range(&owner.fd, kind, range.start, range.length).map_err(local("lock a range"));
        let Some(kind) = kind else { return Ok(set(libc::F_UNLCK)?) };
        if self.segment.has_description_locks(owner.file) {
            let _alone = self.record_locks()?;
            return match self.description_in_the_way(owner.file, range, kind)? {
                Some(_) => Ok(false),
                None => Ok(set(kind.number())?),
            };
        }
        if !set(kind.number())? {
            return Ok(false);
        }
        if self.segment.has_description_locks(owner.file) {
            // The first lock of a description may have been set at this moment, without seeing this one.
            let _alone = self.record_locks()?;
            if self.description_in_the_way(owner.file, range, kind)?.is_some() {
                set(libc::F_UNLCK)?;
                return Err(
                    SegmentError::Local { action: "lock a range beside one of a description", errno: libc::ENOLCK }.into()
                );
            }
        }
        Ok(true)
    }

    /// The lock that conflicts with a lock of this owner. `None` if the owner could lock the range now.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn lock_conflict(&self, owner: &OwnerLocks, range: LockRange, kind: LockKind) -> Result<Option<LockConflict>, Error> {
        let found = conflict(&owner.fd, kind.number(), range.start, range.length).map_err(local("ask for a lock"))?;
        match found {
            Some(found) => Ok(Some(with_holder(of_kernel(&found, 0), &owner.fd))),
            None if self.segment.has_description_locks(owner.file) => self.description_in_the_way(owner.file, range, kind),
            None => Ok(None),
        }
    }

    /// The conflicting lock of an open description.
    fn description_in_the_way(&self, file: FileRef, range: LockRange, kind: LockKind) -> Result<Option<LockConflict>, Error> {
        if range.start >= DESCRIPTION_LOCKS_LIMIT {
            return Ok(None);
        }
        let end = match range.length {
            0 => DESCRIPTION_LOCKS_LIMIT,
            length => range.start.saturating_add(length).min(DESCRIPTION_LOCKS_LIMIT),
        };
        let path = self.segment.directory().placeholder_array(file);
        let placeholder = match open_array(&path, libc::O_RDONLY | libc::O_DIRECTORY, 0) {
            Err(Errno(libc::ENOENT)) => return Ok(None),
            other => other.map_err(local("open a placeholder"))?,
        };
        let spaces: &[i64] = match kind {
            LockKind::Exclusive => &[DESCRIPTION_LOCKS_EXCLUSIVE, 0],
            LockKind::Shared => &[DESCRIPTION_LOCKS_EXCLUSIVE],
        };
        for space in spaces {
            let found = conflict(&placeholder, libc::F_WRLCK, space + range.start, end - range.start);
            if let Some(mut found) = found.map_err(local("ask for a lock"))? {
                let exclusive = *space == DESCRIPTION_LOCKS_EXCLUSIVE;
                found.l_type = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK } as i16;
                return Ok(Some(of_kernel(&found, *space)));
            }
        }
        Ok(None)
    }
}

impl Drop for OwnerLocks {
    fn drop(&mut self) {
        lock_holders::note(&self.fd, self.pid, LockRange { start: 0, length: 0 }, false);
    }
}

/// The process for which a lock of an open file description was set; 0 if it is not known. `lock_file` is the file of
/// [`Locks::lock_file_path`].
#[must_use]
pub fn holder_of_lock(lock_file: BorrowedFd<'_>, range: LockRange) -> u32 {
    lock_holders::holder_of(lock_file, range)
}

fn with_holder(mut conflict: LockConflict, fd: &Fd) -> LockConflict {
    if conflict.pid == 0 {
        conflict.pid = lock_holders::holder_of(fd, conflict.range);
    }
    conflict
}

/// Whether any program holds a record lock on a file of the segment: one of a process, or of an open file description.
pub(super) fn has_record_locks(segment: &Segment) -> bool {
    let directory = segment.directory();
    let is_held = |fd: &Fd, start, length| matches!(conflict(fd, libc::F_WRLCK, start, length), Ok(Some(_)));
    segment.live_files().any(|(file, _)| {
        let of_process = open_array(&directory.lock_file_array(file), libc::O_RDONLY | libc::O_NOFOLLOW, 0);
        if of_process.is_ok_and(|fd| is_held(&fd, 0, 0)) {
            return true;
        }
        let is_possible = segment.has_description_locks(file);
        let placeholder =
            is_possible.then(|| open_array(&directory.placeholder_array(file), libc::O_RDONLY | libc::O_DIRECTORY, 0));
        // The byte that shows that the file is open is outside both ranges.
        placeholder.is_some_and(|fd| fd.is_ok_and(|fd| is_held(&fd, 0, DESCRIPTION_LOCKS_EXCLUSIVE + DESCRIPTION_LOCKS_LIMIT)))
    })
}

impl LockKind {
    const fn number(self) -> i32 {
        match self {
            Self::Shared => libc::F_RDLCK,
            Self::Exclusive => libc::F_WRLCK,
        }
    }
}

fn of_kernel(found: &libc::flock, space: i64) -> LockConflict {
    let to_the_end = found.l_len == 0 || found.l_start + found.l_len == space + DESCRIPTION_LOCKS_LIMIT;
    LockConflict {
        kind: if i32::from(found.l_type) == libc::F_WRLCK { LockKind::Exclusive } else { LockKind::Shared },
        range: LockRange { start: found.l_start - space, length: if to_the_end { 0 } else { found.l_len } },
        pid: u32::try_from(found.l_pid).unwrap_or(0),
    }
}
