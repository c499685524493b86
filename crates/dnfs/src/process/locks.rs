//! The record locks of a process, which belong to it and not to a thread or a descriptor. Tables exclude its threads from each
//! other, and make sure that it opens a lock file once: closing any descriptor of a file releases the locks on it.

use crate::event_count::EventCount;
use crate::limits::{FILE_LOCKS_MAX, MEMBER_FILES_MAX};
use crate::sys::fork_lock::{ForkLock, Holder};

/// Lock files by a hash of their path, each with the thread that holds its lock. An entry of another fork generation is free.
pub(crate) type HeldLocks = [Option<(u64, Holder)>; FILE_LOCKS_MAX];

/// No lock is held.
pub(crate) const NO_LOCKS: HeldLocks = [None; FILE_LOCKS_MAX];

/// The locks of whole files that threads of this process hold ([`crate::sys::file_lock`]).
pub(crate) struct FileLocks {
    pub(crate) held: ForkLock<HeldLocks>,
    /// Notified when a lock is released.
    pub(crate) released: EventCount,
}

impl FileLocks {
    pub(super) const fn new() -> Self {
        Self { held: ForkLock::new(NO_LOCKS), released: EventCount::new() }
    }
}

/// The files of liveness locks that this process has open ([`crate::sys::liveness_lock`]).
pub(crate) type LivenessFiles = [OpenedFile; MEMBER_FILES_MAX];

/// A file of liveness locks that this process has open.
#[derive(Clone, Copy)]
pub(crate) struct OpenedFile {
    /// 0: the entry is free. Written last, so that an entry which a fork copied during a change is valid in the child.
    pub(crate) users: u32,
    /// A hash of its path.
    pub(crate) path: u64,
    pub(crate) fd: i32,
    /// Fork generation in the high half, what [`crate::sys::liveness_lock::LivenessFile::join`] returned in the low one; 0: not
    /// joined.
    pub(crate) joined: u64,
}

impl OpenedFile {
    pub(crate) const FREE: Self = Self { users: 0, path: 0, fd: -1, joined: 0 };
}
