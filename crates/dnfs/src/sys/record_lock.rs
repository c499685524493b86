//! Record locks of the kernel: they belong to the process, end with it, and are not inherited by any child.

use super::local_file::Errno;
use super::raw::call;

/// A lock of one byte for writing; `length` 0 reaches to the end of the file.
fn range(byte: u32, length: i64, kind: i32) -> libc::flock {
    let whence = libc::SEEK_SET as i16;
    libc::flock { l_type: kind as i16, l_whence: whence, l_start: i64::from(byte), l_len: length, l_pid: 0 }
}

/// `fcntl(2)` with a lock, as a raw system call: rustix has no locks of single bytes.
fn lock_call(fd: i32, operation: i32, mut range: libc::flock) -> Result<libc::flock, Errno> {
    // The locks of a simulated process are those of its open files: all simulated processes are one for the kernel.
    #[cfg(test)]
    let operation = match operation {
        libc::F_SETLK if super::simulated::is_active() => libc::F_OFD_SETLK,
        libc::F_GETLK if super::simulated::is_active() => libc::F_OFD_GETLK,
        other => other,
    };
    // SAFETY: the kernel reads and writes only `range`, which belongs to this frame.
    let result = unsafe { call(libc::SYS_fcntl, [fd as usize, operation as usize, &raw mut range as usize, 0, 0, 0]) };
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(range) }
}

/// Takes the lock of this byte. Returns false if another process has it.
pub(super) fn take_byte(fd: i32, byte: u32) -> bool {
    lock_call(fd, libc::F_SETLK, range(byte, 1, libc::F_WRLCK)).is_ok()
}

/// Whether another process has the lock of this byte.
pub(super) fn is_byte_taken(fd: i32, byte: u32) -> Result<bool, Errno> {
    Ok(lock_call(fd, libc::F_GETLK, range(byte, 1, libc::F_WRLCK))?.l_type != libc::F_UNLCK as i16)
}

/// Takes the lock of the complete file. Waits for it if `wait`.
pub(super) fn take_file(fd: i32, wait: bool) -> Result<(), Errno> {
    let operation = if wait { libc::F_SETLKW } else { libc::F_SETLK };
    lock_call(fd, operation, range(0, 0, libc::F_WRLCK)).map(|_| ())
}
