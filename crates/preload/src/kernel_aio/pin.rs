//! Descriptors that stay open while a request is in flight.

use crate::open_file::Open;
use crate::outcome::Errno;
use crate::raw;
use crate::table;
use dnfs::mount::{FileRef, Mount};
use libc::c_int;
use std::sync::{Arc, Weak};

/// A second descriptor of a description, which the program does not see.
pub(crate) struct Pin {
    fd: c_int,
    file: Option<(c_int, &'static Mount, FileRef)>,
}

/// The descriptors of the files with requests of one context in flight. All requests of a
/// description share one descriptor, because a program may have hundreds in flight, for which the
/// kernel's AIO needs no descriptors.
#[derive(Default)]
pub(super) struct Pins(Vec<(Key, Weak<Pin>)>);

/// The properties of a description that matter for its requests.
#[derive(PartialEq)]
struct Key {
    fd: c_int,
    mount: usize,
    file: FileRef,
    flags: c_int,
    status: c_int,
}

impl Pins {
    /// The descriptor for a file of a mount. Creates it if necessary.
    ///
    /// # Errors
    /// EAGAIN if the program has no descriptor left.
    pub(super) fn of_file(&mut self, open: &Open) -> Result<Arc<Pin>, Errno> {
        let status = raw::status_flags(open.fd)?;
        let key = Key { fd: open.fd, mount: std::ptr::from_ref(open.mount).addr(), file: open.file, flags: open.flags, status };
        let known = self.0.iter().find(|(known, _)| *known == key).and_then(|(_, pin)| pin.upgrade());
        if let Some(pin) = known {
            return Ok(pin);
        }
        let pin = Arc::new(Pin::of_file(open)?);
        self.0.retain(|(other, pin)| *other != key && pin.strong_count() > 0);
        self.0.push((key, Arc::downgrade(&pin)));
        Ok(pin)
    }
}

impl Pin {
    /// Makes a second descriptor for a file of a mount.
    fn of_file(open: &Open) -> Result<Self, Errno> {
        let mut pin = Self::of(open.fd)?;
        pin.file = Some((open.fd, open.mount, open.file));
        Ok(pin)
    }

    /// Makes a second descriptor for any descriptor.
    pub(super) fn of(fd: c_int) -> Result<Self, Errno> {
        let high = raw::duplicate_from(fd, dnfs::lowest_internal_fd());
        let fd = match high.or_else(|_| raw::duplicate_from(fd, 3)) {
            Err(libc::EMFILE | libc::EINVAL) => return Err(libc::EAGAIN), // the error of io_submit(2) if it accepts no more
            other => other?,
        };
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
            mount.closed(file); // this may have been the last descriptor
        }
    }
}
