//! Reads of a file at an offset that do not wait for a disk.

use super::call;
use super::checked;
use crate::outcome::Errno;
use libc::{c_int, iovec, off_t};

/// preadv2(2) with RWF_NOWAIT: EAGAIN if the bytes are not in memory, EOPNOTSUPP for files without support for it.
pub(crate) fn read_cached(fd: c_int, at: off_t, buffer: &mut [u8]) -> Result<usize, Errno> {
    let vector = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let (list, flags) = (std::ptr::from_ref(&vector) as usize, libc::RWF_NOWAIT as usize);
    // SAFETY: the kernel writes to `buffer`, within its length. 64-bit kernels ignore the second
    // half of the offset, the fifth argument.
    checked(unsafe { call(libc::SYS_preadv2, fd as usize, list, 1, at as usize, 0, flags) })
}

/// readahead(2): makes the kernel read these bytes into memory, without waiting. The result does not matter.
pub(crate) fn read_ahead(fd: c_int, at: off_t, bytes: usize) {
    let _ = super::call_with_numbers(libc::SYS_readahead, fd as usize, at as usize, bytes);
}
