//! An open regular file of a mount.

use crate::description_flags;
use crate::mounts::Mounted;
use crate::outcome::Out;
use crate::raw;
use dnfs::mount::{FileRef, Mount};
use libc::c_int;
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
}
