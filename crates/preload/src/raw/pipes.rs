//! Pipes, and transfers between them and memory.

use super::{call, call_with_numbers, call4, checked};
use crate::outcome::Errno;
use libc::{c_int, c_uint};

/// A pipe. `out` is for reading, `into` for writing. Dropping it closes both.
pub(crate) struct Pipe {
    pub(crate) out: c_int,
    pub(crate) into: c_int,
}

impl Pipe {
    pub(crate) fn new() -> Result<Self, Errno> {
        let mut ends = [-1 as c_int; 2];
        // SAFETY: `ends` has room for two descriptors.
        unsafe { call4(libc::SYS_pipe2, ends.as_mut_ptr() as usize, libc::O_CLOEXEC as usize, 0, 0) }?;
        Ok(Self { out: ends[0], into: ends[1] })
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = super::close(self.out);
        let _ = super::close(self.into);
    }
}

/// Capacity of a pipe in bytes.
pub(crate) fn capacity(fd: c_int) -> Result<usize, Errno> {
    call_with_numbers(libc::SYS_fcntl, fd as usize, libc::F_GETPIPE_SZ as usize, 0)
}

/// vmsplice(2): makes a pipe refer to these pages, as many as fit. Waits for room unless `flags` prevent it.
///
/// # Safety
/// No code writes to this memory again. It may be unmapped, because the pipe keeps the pages.
pub(crate) unsafe fn give_pages(pipe: c_int, at: *const u8, bytes: usize, flags: c_uint) -> Result<usize, Errno> {
    let vector = libc::iovec { iov_base: at.cast_mut().cast(), iov_len: bytes };
    // SAFETY: the vector outlives the call; its memory does not change by the caller's promise.
    unsafe { call4(libc::SYS_vmsplice, pipe as usize, std::ptr::from_ref(&vector) as usize, 1, flags as usize) }
}

/// tee(2): copies up to `bytes` bytes of one pipe to another without removing them from the first.
pub(crate) fn tee(from: c_int, to: c_int, bytes: usize, flags: c_uint) -> Result<usize, Errno> {
    let (from, to) = (from as usize, to as usize);
    // SAFETY: no argument is an address.
    unsafe { call4(libc::SYS_tee, from, to, bytes, flags as usize) }
}

/// splice(2) from one pipe to another.
pub(crate) fn move_between(from: c_int, to: c_int, bytes: usize, flags: c_uint) -> Result<usize, Errno> {
    // SAFETY: both addresses of offsets are NULL.
    checked(unsafe { call(libc::SYS_splice, from as usize, 0, to as usize, 0, bytes, flags as usize) })
}
