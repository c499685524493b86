//! Descriptors of this crate.

use rustix::fd::{AsFd, BorrowedFd, IntoRawFd as _, OwnedFd};

/// An open descriptor of this crate, closed when dropped; always close-on-exec.
///
/// std's `OwnedFd` would be closed by libc's `close`, which is a hook of the preload library.
#[derive(Debug)]
pub(crate) struct Fd(i32);

impl Fd {
    /// Takes ownership of a descriptor.
    ///
    /// # Safety
    /// The descriptor is open, and no other code closes it.
    pub(crate) const unsafe fn from_raw(fd: i32) -> Self {
        Self(fd)
    }

    /// The descriptor, which now belongs to the caller.
    pub(crate) const fn into_raw(self) -> i32 {
        let fd = self.0;
        core::mem::forget(self);
        fd
    }

    /// Its number.
    pub(crate) const fn number(&self) -> i32 {
        self.0
    }
}

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Self {
        let fd = Self(fd.into_raw_fd());
        #[cfg(test)]
        super::simulated::opened(fd.0);
        fd
    }
}

impl AsFd for Fd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as self, which owns it.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        #[cfg(test)]
        super::simulated::closed(self.0);
        // SAFETY: the descriptor is open and owned by self, which ends here.
        unsafe { rustix::io::close(self.0) };
    }
}
