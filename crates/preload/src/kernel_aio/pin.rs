//! Descriptors that stay while a request is on its way.

use crate::open_file::Open;
use crate::outcome::Errno;
use crate::raw;
use crate::table;
use dnfs::mount::{FileRef, Mount};
use libc::c_int;

/// A second descriptor of a description, out of the program's reach.
pub(crate) struct Pin {
    fd: c_int,
    file: Option<(c_int, &'static Mount, FileRef)>,
}

impl Pin {
    /// Of a file of a mount.
    pub(super) fn of_file(open: &Open) -> Result<Self, Errno> {
        let mut pin = Self::of(open.fd)?;
        pin.file = Some((open.fd, open.mount, open.file));
        Ok(pin)
    }

    /// Of any descriptor.
    pub(super) fn of(fd: c_int) -> Result<Self, Errno> {
        let fd = raw::duplicate_from(fd, dnfs::lowest_internal_fd())?;
        dnfs::set_internal_fd(fd, true);
        Ok(Self { fd, file: None })
    }

    pub(super) const fn number(&self) -> c_int {
        self.fd
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        dnfs::set_internal_fd(self.fd, false);
        let _ = raw::close(self.fd);
        if let Some((original, mount, file)) = self.file
            && table::known(original).is_none_or(|open| open.file != file)
        {
            mount.closed(file); // perhaps the last descriptor there was
        }
    }
}
