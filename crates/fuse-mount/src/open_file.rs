//! An open file of one open(2) of a program. It contains an open of the file's placeholder, so that all processes of the mount
//! on this host, including those under the preload library, know that the file is open.

use crate::wal_indexes::Claim;
use dnfs::file::{Attributes, FsError, Stability};
use dnfs::mount::{Entry, FileRef, Mount, OpenHow};
use host::Unpoisoned;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard};

/// A regular file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// The mount with the credentials of the user that opened it: all calls on it use them.
    mount: Arc<Mount>,
    file: FileRef,
    /// `None` while it is being closed.
    placeholder: Option<OwnedFd>,
    /// The flags of open(2).
    flags: i32,
    /// Position in the error sequence: which write errors this open file description has reported.
    cursor: AtomicU32,
    /// Owners that locked records through it.
    lock_owners: Mutex<Vec<u64>>,
    /// The claim on a WAL index of SQLite.
    _claim: Option<Arc<Claim>>,
}

/// The errno of an error.
pub(crate) fn errno(error: &dnfs::Error) -> Errno {
    Errno::from_raw_os_error(error.errno())
}

impl OpenFile {
    /// Opens the file of an entry, and creates it if requested. `claim`: the claim of a WAL index.
    ///
    /// # Errors
    /// As open(2). ESTALE if the file was removed meanwhile; the name must then be looked up again.
    pub(crate) fn open(
        mount: &Arc<Mount>,
        entry: &Entry,
        how: &OpenHow,
        flags: i32,
        claim: Option<Arc<Claim>>,
    ) -> Result<Self, Errno> {
        let file = mount.open(entry, how).map_err(|error| errno(&error))?;
        // Closed when dropped, also after an error.
        let mut open = Self {
            mount: Arc::clone(mount),
            file,
            placeholder: None,
            flags,
            cursor: AtomicU32::new(mount.error_cursor(file)),
            lock_owners: Mutex::default(),
            _claim: claim,
        };
        let path = mount.placeholder_path(file);
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::IO)?;
        let placeholder = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let placeholder = open.placeholder.insert(placeholder.map_err(|error| match error {
            Errno::NOENT => Errno::STALE,
            other => other,
        })?);
        mount.opened(file, placeholder.as_fd()).map_err(|error| match error {
            dnfs::Error::Fs(FsError::Stale | FsError::NotFound) => Errno::STALE,
            error => errno(&error),
        })?;
        Ok(open)
    }

    pub(crate) const fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    pub(crate) const fn file(&self) -> FileRef {
        self.file
    }

    /// The placeholder, on which flock(2) locks are set.
    pub(crate) fn placeholder(&self) -> Option<BorrowedFd<'_>> {
        self.placeholder.as_ref().map(AsFd::as_fd)
    }

    /// Owners whose record locks are released at the latest when this is closed.
    pub(crate) fn lock_owners(&self) -> MutexGuard<'_, Vec<u64>> {
        self.lock_owners.lock().unpoisoned()
    }

    fn may_write(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// Attributes. For a description that may write, also reports writes that were lost and not reported yet.
    pub(crate) fn attributes(&self) -> Result<Attributes, Errno> {
        let attributes =
            if self.may_write() { self.mount.attr_to_change(self.file, &self.cursor) } else { self.mount.attr(self.file) };
        attributes.map_err(|error| errno(&error))
    }

    /// Reads. Returns the bytes read, fewer than requested only at the end of the file.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut buffers = [IoSliceMut::new(buffer)];
        let read = if self.may_write() {
            self.mount.read_to_change(self.file, &self.cursor, offset, &mut buffers)
        } else {
            self.mount.read(self.file, offset, &mut buffers)
        };
        read.map_err(|error| errno(&error))
    }

    /// Writes, as stable as the flags of the write require, and returns the bytes written. With O_APPEND at the current end of
    /// the file, unless the bytes come from mapped pages.
    pub(crate) fn write(&self, offset: u64, data: &[u8], flags: i32, is_mapped: bool) -> Result<usize, Errno> {
        // O_SYNC contains O_DSYNC's bit. O_DIRECT data is on storage when the call returns, as with a kernel NFS client.
        let how = if flags & libc::O_SYNC == libc::O_SYNC {
            Stability::FileSync
        } else if flags & (libc::O_DSYNC | libc::O_DIRECT) != 0 {
            Stability::DataSync
        } else {
            Stability::Unstable
        };
        let buffers = [IoSlice::new(data)];
        let written = if flags & libc::O_APPEND != 0 && !is_mapped {
            self.mount.append(self.file, &buffers, how).map(|(bytes, _)| bytes)
        } else {
            self.mount.write(self.file, offset, &buffers, how)
        };
        written.map_err(|error| errno(&error))
    }

    /// fsync(2): everything written to the file so far, by any process, is on storage when it returns.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        self.mount.sync(self.file, &self.cursor).map_err(|error| errno(&error))
    }

    /// close(2) of a descriptor that may write: makes the written data stable, as a kernel NFS client does.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        if !self.may_write() {
            return Ok(());
        }
        self.mount.flush(self.file, std::iter::empty()).map_err(|error| errno(&error))
    }

    pub(crate) fn truncate(&self, length: u64) -> Result<(), Errno> {
        self.mount.truncate(self.file, length).map_err(|error| errno(&error))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        drop(self.placeholder.take());
        self.mount.closed(self.file);
    }
}
