//! Creates regular files.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use super::{Entry, FileRef, Mount, Object, OpenHow};
use crate::error::Error;
use crate::file::{CreateMode, CreateVerifier, Created, FileTime, FsError, SetAttributes, SetTime};
use crate::retry_outcome;
use crate::sys::random::random;

/// Whether the server keeps the access time of a new file to the nanosecond. By such a time a client recognises a file that it
/// created itself if the reply is lost. A GUARDED CREATE, which carries the mode, then replaces an EXCLUSIVE one and a SETATTR.
#[derive(Debug, Default)]
pub(super) struct KeepsAccessTimes(AtomicU8);

// 0: unknown.
const KEPT: u8 = 1;
const NOT_KEPT: u8 = 2;

impl KeepsAccessTimes {
    fn are_known(&self) -> bool {
        self.0.load(Relaxed) == KEPT
    }

    fn note(&self, given: FileTime, answered: Option<FileTime>) {
        if let Some(answered) = answered {
            self.0.store(if answered == given { KEPT } else { NOT_KEPT }, Relaxed);
        }
    }
}

impl Mount {
    /// Creates a regular file with the mode and times of open(2), and its slot. No other process removes the name before the
    /// slot exists.
    pub(super) fn create(&self, entry: &Entry, how: &OpenHow) -> Result<(FileRef, Object), Error> {
        self.again(|| self.create_once(entry, how))
    }

    fn create_once(&self, entry: &Entry, how: &OpenHow) -> Result<(FileRef, Object), Error> {
        let mode = Some(how.mode & 0o7777);
        let _lock = self.segment.lock_name(entry.parent.as_bytes(), &entry.name)?;
        if !entry.assumed && self.current(entry)?.is_some() {
            return Err(Error::Fs(if how.exclusive { FsError::Exists } else { FsError::Stale }));
        }
        let created = if how.exclusive {
            self.create_exclusively(entry, mode)?
        } else {
            let size = how.truncate.then_some(0);
            let set = SetAttributes { mode, size, ..SetAttributes::default() };
            self.client.create(&entry.parent, &entry.name, CreateMode::Unchecked(set))?
        };
        let object = match created {
            (Some(handle), Some(attr)) => Object { handle, attr },
            (Some(handle), None) => Object { handle, attr: self.client.getattr(&handle)? },
            (None, _) => self.look_up(&entry.parent, &entry.name)?,
        };
        let file = self.enter(&object, true)?;
        if how.exclusive {
            self.last_made.note(file);
        }
        Ok((file, object))
    }

    /// Creates a file that did not exist. That is certain even if a call was resent to a server that forgot its reply.
    fn create_exclusively(&self, entry: &Entry, mode: Option<u32>) -> Result<Created, Error> {
        let mark = retry_outcome::mark();
        let set = SetAttributes { mode, atime: SetTime::To(mark), ..SetAttributes::default() };
        let created = if self.keeps_access_times.are_known() {
            self.client.create(&entry.parent, &entry.name, CreateMode::Guarded(set))?
        } else {
            let verifier = CreateVerifier(random().to_be_bytes());
            let handle = match self.client.create(&entry.parent, &entry.name, CreateMode::Exclusive(verifier))? {
                (Some(handle), _) => handle,
                (None, _) => self.client.lookup(&entry.parent, &entry.name)?.0,
            };
            // The times contain the verifier; the mode could not be given (RFC 1813 3.3.8).
            (Some(handle), self.client.setattr(&handle, &SetAttributes { mtime: SetTime::Now, ..set }, None)?)
        };
        self.keeps_access_times.note(mark, created.1.map(|attr| attr.atime));
        Ok(created)
    }
}
