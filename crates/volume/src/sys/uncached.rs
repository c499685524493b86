//! Reads and writes with flags for the page cache and for durability.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2, pwritev2, retry_on_intr};

use super::credentials::clear_set_id_on_write;
use super::io::checked_offset;
use super::open_path;

/// Converts RWF_* bits, some of which rustix does not name.
fn transfer_flags(flags: libc::c_int) -> ReadWriteFlags {
    ReadWriteFlags::from_bits_retain(flags.cast_unsigned())
}

/// One pwritev2 with these flags (`RWF_…`). Repeats an interrupted call.
pub(crate) fn pwrite_with(fd: impl AsFd, data: &[u8], offset: u64, flags: libc::c_int) -> io::Result<usize> {
    let (offset, flags) = (checked_offset(offset, libc::EFBIG)?, transfer_flags(flags));
    clear_set_id_on_write();
    Ok(retry_on_intr(|| pwritev2(&fd, &[IoSlice::new(data)], offset, flags))?)
}

/// One preadv2 with these flags (`RWF_…`). Repeats an interrupted call.
pub(crate) fn pread_with(fd: impl AsFd, buf: &mut [u8], offset: u64, flags: libc::c_int) -> io::Result<usize> {
    let (offset, flags) = (checked_offset(offset, libc::EINVAL)?, transfer_flags(flags));
    Ok(retry_on_intr(|| preadv2(&fd, &mut [IoSliceMut::new(buf)], offset, flags))?)
}

/// Turns off the host's read-ahead for reads by this descriptor.
pub(crate) fn read_nothing_ahead(fd: impl AsFd) -> io::Result<()> {
    // No length: the whole file.
    Ok(fadvise(fd, 0, None, Advice::Random)?)
}

/// Opens an open file again. The new descriptor also reports a failed writeback that no descriptor has reported yet.
pub(crate) fn reopen(fd: impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    open_path(path.as_ref(), libc::O_RDONLY | libc::O_NONBLOCK, 0)
}

/// Opens an open file again with O_DIRECT.
pub(crate) fn reopen_direct(fd: impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let flags = libc::O_RDWR | libc::O_DIRECT | libc::O_NONBLOCK;
    // Only the owner and root may use O_NOATIME.
    match open_path(path.as_ref(), flags | libc::O_NOATIME, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open_path(path.as_ref(), flags, 0),
        other => other,
    }
}
