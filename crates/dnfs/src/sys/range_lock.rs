//! Record locks of an open file description (`F_OFD_SETLK`): they last as long as it does, over dup, fork and exec.

use super::local_file::Errno;
use super::raw::call;
use rustix::fd::{AsFd, AsRawFd as _};

/// Checks that the kernel has such locks (Linux 3.15).
///
/// # Errors
/// EINVAL or ENOSYS if the kernel or a sandbox has no such locks.
pub(crate) fn check(fd: impl AsFd) -> Result<(), Errno> {
    is_locked_elsewhere(&fd, 0).map(drop)?;
    unlock(&fd, 0)
}

/// Takes a shared lock of one byte. False if another description has an exclusive lock.
pub(crate) fn attempt_shared(fd: impl AsFd, byte: i64) -> Result<bool, Errno> {
    match lock_call(&fd, libc::F_OFD_SETLK, libc::F_RDLCK, byte) {
        Ok(_) => Ok(true),
        Err(Errno(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Unlocks one byte.
pub(crate) fn unlock(fd: impl AsFd, byte: i64) -> Result<(), Errno> {
    lock_call(&fd, libc::F_OFD_SETLK, libc::F_UNLCK, byte).map(drop)
}

/// Whether another description has a lock of this byte, of either kind. `fd` need not be open for writing.
pub(crate) fn is_locked_elsewhere(fd: impl AsFd, byte: i64) -> Result<bool, Errno> {
    lock_call(&fd, libc::F_OFD_GETLK, libc::F_WRLCK, byte).map(|found| i32::from(found.l_type) != libc::F_UNLCK)
}

/// Sets a lock of this kind (F_RDLCK, F_WRLCK, F_UNLCK) of a range; `length` 0 reaches to the end. False if there is a
/// conflicting lock.
pub(crate) fn set_range(fd: impl AsFd, kind: i32, start: i64, length: i64) -> Result<bool, Errno> {
    match range_call(&fd, libc::F_OFD_SETLK, kind, start, length) {
        Ok(_) => Ok(true),
        Err(Errno(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The lock of another description, or of a process, that conflicts with one of this kind.
pub(crate) fn conflict(fd: impl AsFd, kind: i32, start: i64, length: i64) -> Result<Option<libc::flock>, Errno> {
    let found = range_call(&fd, libc::F_OFD_GETLK, kind, start, length)?;
    Ok((i32::from(found.l_type) != libc::F_UNLCK).then_some(found))
}

fn lock_call(fd: &impl AsFd, operation: i32, kind: i32, byte: i64) -> Result<libc::flock, Errno> {
    range_call(fd, operation, kind, byte, 1)
}

/// `fcntl(2)` with a lock of a range, as a raw system call: rustix has only the locks that belong
/// to a process.
fn range_call(fd: &impl AsFd, operation: i32, kind: i32, start: i64, length: i64) -> Result<libc::flock, Errno> {
    let mut range = libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: start, l_len: length, l_pid: 0 };
    let fd = fd.as_fd().as_raw_fd() as usize;
    // SAFETY: the kernel reads and writes only `range`, which belongs to this frame.
    let result = unsafe { call(libc::SYS_fcntl, [fd, operation as usize, &raw mut range as usize, 0, 0, 0]) };
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(range) }
}
