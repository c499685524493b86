//! Locks. Record locks are on the file beside the placeholder, as those of programs under the preload library; flock(2) locks
//! the placeholder itself. So both kinds also exclude those programs. A waiting request has no thread of its own: a single
//! thread retries for all of them.

use crate::limits::LOCK_LOOK_MS;
use crate::open_file::{OpenFile, errno};
use crate::protocol::request::Lock;
use crate::protocol::{LOCK_FLOCK, Unique, reply};
use dnfs::mount::{FileRef, LockKind, LockRange, OwnerLocks};
use host::Unpoisoned;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Locks {
    owners: Mutex<HashMap<(FileRef, u64), Arc<OwnerLocks>>>,
    waits: Mutex<Vec<Wait>>,
    comes: Condvar,
}

/// A request that waits for a lock.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) unique: Unique,
    file: Arc<OpenFile>,
    lock: Lock,
}

/// The result of an attempt.
pub(crate) enum Look {
    /// The request has the lock.
    Granted,
    /// The request still waits.
    Waits,
    Failed(Errno),
}

impl Locks {
    /// SETLK. False if another owner has a conflicting lock.
    pub(crate) fn attempt(&self, file: &Arc<OpenFile>, lock: &Lock) -> Result<bool, Errno> {
        if lock.flags & LOCK_FLOCK != 0 { flock(file, lock.kind) } else { self.attempt_records(file, lock) }
    }

    /// GETLK: the conflicting lock.
    pub(crate) fn conflict(&self, file: &Arc<OpenFile>, lock: &Lock) -> Result<Vec<u8>, Errno> {
        let kind = kind(lock.kind)?.ok_or(Errno::INVAL)?;
        let owner = match self.owners.lock().unpoisoned().get(&(file.file(), lock.owner)) {
            Some(owner) => Arc::clone(owner),
            None => Arc::new(file.mount().locks().owner_locks(file.file(), 0).map_err(|error| errno(&error))?),
        };
        let found = file.mount().locks().lock_conflict(&owner, range(lock)?, kind).map_err(|error| errno(&error))?;
        Ok(reply::lock(found.as_ref()))
    }

    fn attempt_records(&self, file: &Arc<OpenFile>, lock: &Lock) -> Result<bool, Errno> {
        let (kind, range, key) = (kind(lock.kind)?, range(lock)?, (file.file(), lock.owner));
        let known = self.owners.lock().unpoisoned().get(&key).cloned();
        let owner = match (known, kind) {
            (Some(known), _) => known,
            (None, None) => return Ok(true), // there is nothing to unlock
            (None, Some(_)) => {
                let fresh = Arc::new(file.mount().locks().owner_locks(file.file(), lock.pid).map_err(|error| errno(&error))?);
                // Another thread of the same owner may have added it meanwhile.
                Arc::clone(self.owners.lock().unpoisoned().entry(key).or_insert(fresh))
            }
        };
        if kind.is_some() {
            let mut owners = file.lock_owners();
            if !owners.contains(&lock.owner) {
                owners.push(lock.owner);
            }
        }
        file.mount().locks().lock_range(&owner, range, kind).map_err(|error| errno(&error))
    }

    /// Releases all record locks of an owner on a file, after it closed a descriptor of the file (POSIX, close).
    pub(crate) fn give_up(&self, file: &OpenFile, owner: u64) {
        self.owners.lock().unpoisoned().remove(&(file.file(), owner));
    }

    /// Releases the locks of an open file description that has ended.
    pub(crate) fn released(&self, file: &OpenFile) {
        let owners = std::mem::take(&mut *file.lock_owners());
        owners.into_iter().for_each(|owner| self.give_up(file, owner));
    }

    /// Adds a waiting request.
    pub(crate) fn wait(&self, unique: Unique, file: Arc<OpenFile>, lock: Lock) {
        self.waits.lock().unpoisoned().push(Wait { unique, file, lock });
        self.comes.notify_all();
    }

    /// Makes the next attempt now, because a waiting request may succeed or end.
    pub(crate) fn look_now(&self) {
        self.comes.notify_all();
    }

    /// Waits until there are waiting requests, pauses for up to [`LOCK_LOOK_MS`] ms, and retries them. Returns those
    /// that wait no longer.
    pub(crate) fn look(&self, is_interrupted: impl Fn(Unique) -> bool) -> Vec<(Wait, Look)> {
        let mut waits = self.waits.lock().unpoisoned();
        while waits.is_empty() {
            waits = self.comes.wait(waits).unpoisoned();
        }
        let pause = Duration::from_millis(LOCK_LOOK_MS);
        let all = self.comes.wait_timeout(waits, pause).unpoisoned().0.clone();
        let mut ended = Vec::new();
        for wait in all {
            let look = match self.attempt(&wait.file, &wait.lock) {
                Ok(true) => Look::Granted,
                Ok(false) if is_interrupted(wait.unique) => Look::Failed(Errno::INTR),
                Ok(false) => Look::Waits,
                Err(error) => Look::Failed(error),
            };
            if !matches!(look, Look::Waits) {
                ended.push((wait, look));
            }
        }
        self.waits.lock().unpoisoned().retain(|wait| !ended.iter().any(|(other, _)| other.unique == wait.unique));
        ended
    }

    /// Releases a lock whose reply was not delivered.
    pub(crate) fn undo(&self, wait: &Wait) {
        let unlock = Lock { kind: libc::F_UNLCK as u32, ..wait.lock };
        let _ = self.attempt(&wait.file, &unlock);
    }
}

fn kind(kind: u32) -> Result<Option<LockKind>, Errno> {
    match kind.cast_signed() {
        libc::F_RDLCK => Ok(Some(LockKind::Shared)),
        libc::F_WRLCK => Ok(Some(LockKind::Exclusive)),
        libc::F_UNLCK => Ok(None),
        _ => Err(Errno::INVAL),
    }
}

/// Converts the kernel's range, which has a last byte: the largest offset if it has no end.
fn range(lock: &Lock) -> Result<LockRange, Errno> {
    let start = i64::try_from(lock.start).map_err(|_| Errno::OVERFLOW)?;
    let last = i64::try_from(lock.last).unwrap_or(i64::MAX);
    if last < start {
        return Err(Errno::INVAL);
    }
    Ok(LockRange { start, length: if last == i64::MAX { 0 } else { last - start + 1 } })
}

fn flock(file: &OpenFile, kind: u32) -> Result<bool, Errno> {
    let operation = match kind.cast_signed() {
        libc::F_RDLCK => FlockOperation::NonBlockingLockShared,
        libc::F_WRLCK => FlockOperation::NonBlockingLockExclusive,
        _ => FlockOperation::Unlock,
    };
    match rustix::fs::flock(file.placeholder().ok_or(Errno::BADF)?, operation) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_the_kernel_become_those_of_fcntl() {
        let lock = |start, last| Lock { handle: 1, owner: 2, start, last, kind: 0, pid: 0, flags: 0 };
        assert_eq!(range(&lock(10, 19)), Ok(LockRange { start: 10, length: 10 }));
        assert_eq!(range(&lock(0, i64::MAX as u64)), Ok(LockRange { start: 0, length: 0 }));
        assert_eq!(range(&lock(5, 4)), Err(Errno::INVAL));
        assert_eq!(range(&lock(u64::MAX, u64::MAX)), Err(Errno::OVERFLOW));
    }
}
