//! A liveness lock: the lock of one byte of a file, held through a descriptor of its own, which the kernel releases when the
//! process dies.

use super::raw::call;
use super::shm::{CPath, Errno, check, open};
use super::socket;

/// An open of the members' file, and perhaps the lock of one byte of it.
///
/// The lock belongs to the open file (`F_OFD_SETLK`), not to the process: it goes when the process dies, unless a forked
/// child kept the descriptor, which is why children close it.
#[derive(Debug)]
pub(crate) struct LivenessLock {
    fd: i32,
}

impl LivenessLock {
    /// Opens the file, makes it when missing.
    pub(crate) fn open(path: &CPath) -> Result<Self, Errno> {
        let fd = open(path, libc::O_RDWR | libc::O_CREAT, 0o600)?.into_raw();
        Ok(Self { fd: socket::moved_up(fd) })
    }

    /// The lock behind a descriptor that [`Self::into_raw`] gave.
    pub(crate) const fn from_raw(fd: i32) -> Option<Self> {
        if fd >= 0 { Some(Self { fd }) } else { None }
    }

    /// The descriptor, now the caller's.
    pub(crate) fn into_raw(self) -> i32 {
        let fd = self.fd;
        core::mem::forget(self);
        fd
    }

    /// Takes the lock of this byte; false when another open file has it.
    pub(crate) fn take(&self, byte: u32) -> bool {
        fcntl(self.fd, libc::F_OFD_SETLK, byte).is_ok()
    }
}

/// Whether somebody else holds the lock of this byte, as seen through descriptor `fd`. When that cannot be found out, yes.
pub(crate) fn is_taken(fd: i32, byte: u32) -> bool {
    !fcntl(fd, libc::F_OFD_GETLK, byte).is_ok_and(|found| found.l_type == libc::F_UNLCK as i16)
}

impl Drop for LivenessLock {
    fn drop(&mut self) {
        socket::close_internal(self.fd);
    }
}

fn fcntl(fd: i32, operation: i32, byte: u32) -> Result<libc::flock, Errno> {
    let (kind, whence) = (libc::F_WRLCK as i16, libc::SEEK_SET as i16);
    let mut range = libc::flock { l_type: kind, l_whence: whence, l_start: i64::from(byte), l_len: 1, l_pid: 0 };
    // SAFETY: `range` is ours to be read and written.
    check(unsafe { call(libc::SYS_fcntl, [fd as usize, operation as usize, &raw mut range as usize, 0, 0, 0]) })?;
    Ok(range)
}
