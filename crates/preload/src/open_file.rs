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
    /// Its mount.
    pub(crate) mounted: &'static Mounted,
    /// Its attached mount.
    pub(crate) mount: &'static Mount,
    /// The file.
    pub(crate) file: FileRef,
    /// O_ACCMODE, O_DSYNC, O_SYNC and O_DIRECT as given at open.
    pub(crate) flags: c_int,
    /// Which write errors this description has seen.
    pub(crate) cursor: &'static AtomicU32,
    /// Another process may have the same description, and so the same offset.
    pub(crate) is_shared: bool,
}

impl Open {
    /// F_GETFL, as the program sees it: the kernel's own are those of the placeholder.
    pub(crate) fn status_flags(&self) -> Result<c_int, Out> {
        Ok(description_flags::for_program(raw::status_flags(self.fd)?))
    }

    /// Whether a write at the description's offset takes turns with those of other processes. A limit of the length of files (RLIMIT_FSIZE) has
    /// to know the offset first.
    pub(crate) fn shares_offset(&self) -> bool {
        self.is_shared && !file_size_limit::is_set()
    }

    /// The open file description.
    pub(crate) fn description(&self) -> BorrowedFd<'_> {
        // SAFETY: the program's descriptor; if the program closes it during the call, calls on it fail.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}
