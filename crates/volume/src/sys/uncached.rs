//! Reads and writes that say how they are to pass the page cache.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::io::again;
use super::open_path;

/// One pwritev2 with these flags (`RWF_…`); interrupted calls are made again.
pub(crate) fn pwrite_with(fd: impl AsFd, data: &[u8], offset: u64, flags: libc::c_int) -> io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let piece = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    again(|| {
        // SAFETY: one iovec over a buffer readable for its length (the call only reads it).
        unsafe { libc::pwritev2(fd.as_fd().as_raw_fd(), &raw const piece, 1, offset, flags) }
    })
}

/// One preadv2 with these flags; interrupted calls are made again.
pub(crate) fn pread_with(fd: impl AsFd, buf: &mut [u8], offset: u64, flags: libc::c_int) -> io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let piece = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    again(|| {
        // SAFETY: one iovec over a buffer writable for its length.
        unsafe { libc::preadv2(fd.as_fd().as_raw_fd(), &raw const piece, 1, offset, flags) }
    })
}

/// Has reads by this descriptor bring what they ask for, and nothing beside.
pub(crate) fn read_nothing_ahead(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: integers only; an offset and a length of 0 mean the whole file.
    match unsafe { libc::posix_fadvise(fd.as_fd().as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A further descriptor of an open file that passes the page cache by.
pub(crate) fn reopen_direct(fd: impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let flags = libc::O_RDWR | libc::O_DIRECT | libc::O_NONBLOCK;
    // O_NOATIME is the owner's and root's.
    match open_path(path.as_ref(), flags | libc::O_NOATIME, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open_path(path.as_ref(), flags, 0),
        other => other,
    }
}
