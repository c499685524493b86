//! An open regular file of a mount.

use crate::description_flags;
use crate::file_size_limit;
use crate::mounts::Mounted;
use crate::outcome::Out;
use crate::raw;
use dnfs::mount::{FileRef, Mount};
use libc::c_int;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU32;

/// An open regular file of a mount.
pub(crate) struct Open {
    /// The descriptor.
    pub(crate) fd: c_int,
    /// The mount, with its local path and its attached mounts.
    pub(crate) mounted: &'static Mounted,
    /// The attached mount for the credentials of the open.
    pub(crate) mount: &'static Mount,
    /// The file.
    pub(crate) file: FileRef,
    /// O_ACCMODE, O_DSYNC, O_SYNC and O_DIRECT as given at open.
    pub(crate) flags: c_int,
    /// Position of this description among the file's write errors.
    pub(crate) cursor: &'static AtomicU32,
    /// Whether another process may have the same description, and so the same offset.
    pub(crate) is_shared: bool,
}

impl Open {
    /// The flags of F_GETFL, as the program sees them. The kernel's own are those of the placeholder.
    pub(crate) fn status_flags(&self) -> Result<c_int, Out> {
        Ok(description_flags::for_program(raw::status_flags(self.fd)?))
    }

    /// Whether writes at the description's offset must be serialized with those of other processes.
    /// Not under a limit of the length of files (RLIMIT_FSIZE), which requires the offset before
    /// the write.
    pub(crate) fn shares_offset(&self) -> bool {
        self.is_shared && !file_size_limit::is_set()
    }

    /// The open file description.
    pub(crate) fn description(&self) -> BorrowedFd<'_> {
        // SAFETY: the program's descriptor. If the program closes it during the call, system calls
        // on it fail.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}
