//! System calls for exec: files of programs, and their rights.

use super::{call, call_with_numbers, call4, checked};
use crate::outcome::Errno;
use libc::{c_char, c_int, off_t};
use std::ffi::CStr;

/// A NULL-terminated array of strings.
pub(crate) type Strings = *const *const c_char;

/// Flag of statfs(2) for a file system on which set-user-ID bits and capabilities have no effect.
const ST_NOSUID: u64 = 2;
/// Words of `struct statfs` on 64-bit hosts, and the index of the flags, which the libc crate does not show.
const STATFS_WORDS: usize = 15;
const STATFS_FLAGS: usize = 10;
/// Maximum number of attempts to take a lock that another process holds, and the nanoseconds
/// between them. The lock is held for a few system calls.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE_NS: u64 = 1_000_000;

/// pread(2), once.
pub(crate) fn read_at(fd: c_int, at: off_t, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes to `buffer`, within its length.
    unsafe { call4(libc::SYS_pread64, fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), at as usize) }
}

/// pwrite(2), once.
pub(crate) fn write_at(fd: c_int, at: off_t, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads `bytes`, within its length.
    unsafe { call4(libc::SYS_pwrite64, fd as usize, bytes.as_ptr() as usize, bytes.len(), at as usize) }
}

/// ftruncate(2).
pub(crate) fn set_length(fd: c_int, bytes: usize) -> Result<(), Errno> {
    call_with_numbers(libc::SYS_ftruncate, fd as usize, bytes, 0).map(drop)
}

/// flock(2), exclusive. Waits for 20 ms at most.
pub(crate) fn lock_whole(fd: c_int) -> Result<(), Errno> {
    let mut tried = 0;
    loop {
        match call_with_numbers(libc::SYS_flock, fd as usize, (libc::LOCK_EX | libc::LOCK_NB) as usize, 0) {
            Err(libc::EWOULDBLOCK) if tried < LOCK_TRIES => super::sleep_until(super::monotonic_ns() + LOCK_PAUSE_NS),
            other => return other.map(drop),
        }
        tried += 1;
    }
}

/// Whether a file has this extended attribute.
pub(crate) fn has_attribute(fd: c_int, name: &CStr) -> bool {
    // SAFETY: the name ends with a NUL. The room is 0, so the kernel returns the length and writes nothing.
    unsafe { call4(libc::SYS_fgetxattr, fd as usize, name.as_ptr() as usize, 0, 0) }.is_ok_and(|bytes| bytes > 0)
}

/// Whether set-user-ID bits and capabilities have no effect in this process and its children (prctl(2), PR_SET_NO_NEW_PRIVS).
pub(crate) fn has_no_new_privileges() -> bool {
    // SAFETY: no argument is an address.
    checked(unsafe { call(libc::SYS_prctl, libc::PR_GET_NO_NEW_PRIVS as usize, 0, 0, 0, 0, 0) }) == Ok(1)
}

/// Whether set-user-ID bits and capabilities have no effect on the file's file system.
pub(crate) fn is_on_nosuid(fd: c_int) -> bool {
    let mut found = [0u64; STATFS_WORDS];
    // SAFETY: the kernel writes to `found`, which has the size of its `struct statfs` and lives in
    // this frame.
    let asked = unsafe { call4(libc::SYS_fstatfs, fd as usize, found.as_mut_ptr() as usize, 0, 0) };
    asked.is_ok() && found[STATFS_FLAGS] & ST_NOSUID != 0
}

/// Makes a file in memory that is closed on exec and may be executed (memfd_create(2)).
pub(crate) fn memory_file(name: &CStr) -> Result<c_int, Errno> {
    // SAFETY: the name ends with a NUL.
    let make = |flags: u32| unsafe { call4(libc::SYS_memfd_create, name.as_ptr() as usize, flags as usize, 0, 0) };
    // Linux before 6.3 does not know the second flag.
    make(libc::MFD_CLOEXEC | libc::MFD_EXEC).or_else(|_| make(libc::MFD_CLOEXEC)).map(|fd| fd as c_int)
}

/// Whether the process' effective user may execute a regular file.
///
/// # Errors
/// EACCES if not; the errors of stat(2).
pub(crate) fn may_execute(path: &CStr) -> Result<(), Errno> {
    if super::stat(path, true)?.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(libc::EACCES);
    }
    let (directory, flags) = (libc::AT_FDCWD as usize, libc::AT_EACCESS as usize);
    // SAFETY: the path ends with a NUL.
    unsafe { call4(libc::SYS_faccessat2, directory, path.as_ptr() as usize, libc::X_OK as usize, flags) }.map(drop)
}

/// execve(2). Returns only on failure.
///
/// # Safety
/// `arguments` and `environment` are NULL, or NULL-terminated arrays of C strings.
pub(crate) unsafe fn execute(path: &CStr, arguments: Strings, environment: Strings) -> Errno {
    // SAFETY: the path ends with a NUL, and the arrays are valid by the caller's promise.
    let failed = unsafe { call4(libc::SYS_execve, path.as_ptr() as usize, arguments as usize, environment as usize, 0) };
    failed.err().unwrap_or(libc::EIO)
}

/// execveat(2) of a descriptor. Returns only on failure.
///
/// # Safety
/// As [`execute`].
pub(crate) unsafe fn execute_descriptor(fd: c_int, arguments: Strings, environment: Strings) -> Errno {
    let (empty, flags) = (c"".as_ptr() as usize, libc::AT_EMPTY_PATH as usize);
    // SAFETY: the path is empty, and the arrays are valid by the caller's promise.
    let failed =
        checked(unsafe { call(libc::SYS_execveat, fd as usize, empty, arguments as usize, environment as usize, flags, 0) });
    failed.err().unwrap_or(libc::EIO)
}

/// Sets the name of this thread, of which 15 bytes are used (prctl(2), PR_SET_NAME).
pub(crate) fn name_thread(name: &[u8]) {
    let mut short = [0u8; 16];
    let count = name.len().min(15);
    short[..count].copy_from_slice(&name[..count]);
    // SAFETY: `short` has 16 bytes and ends with a NUL.
    let _ = checked(unsafe { call(libc::SYS_prctl, libc::PR_SET_NAME as usize, short.as_ptr() as usize, 0, 0, 0, 0) });
}

/// The session ID of this process.
pub(crate) fn session() -> u32 {
    call_with_numbers(libc::SYS_getsid, 0, 0, 0).unwrap_or(0) as u32
}
