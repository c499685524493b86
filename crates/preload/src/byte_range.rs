//! Locked ranges of bytes, and the wait for such a lock.

use crate::open_file::Open;
use crate::outcome::{Errno, Out};
use crate::raw;
use libc::{c_int, off_t};

/// Nanoseconds between two attempts to take a lock for which no kernel call waits.
const RETRY_NS: u64 = 5_000_000;

/// A range of bytes and the kind of its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// F_RDLCK, F_WRLCK or F_UNLCK.
    pub(crate) kind: c_int,
    /// First byte.
    pub(crate) start: off_t,
    /// Length in bytes. 0 means to the end of the file, also when the file grows.
    pub(crate) length: off_t,
}

impl Range {
    /// The range in fcntl(2)'s form.
    pub(crate) fn as_lock(&self) -> libc::flock {
        // SAFETY: struct flock is plain integers; zero is valid.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        (lock.l_type, lock.l_whence) = (self.kind as _, libc::SEEK_SET as _);
        (lock.l_start, lock.l_len) = (self.start, self.length);
        lock
    }

    /// Converts a program's lock to a range that begins at an offset from the start of the file and
    /// has no negative length.
    pub(crate) fn of(file: &Open, lock: &libc::flock) -> Result<Self, Out> {
        let base = match c_int::from(lock.l_whence) {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => raw::lseek(file.fd, 0, libc::SEEK_CUR)?,
            libc::SEEK_END => file.mount.size(file.file) as off_t,
            _ => return Err(Out::Errno(libc::EINVAL)),
        };
        let mut start = base.checked_add(lock.l_start).ok_or(Out::Errno(libc::EOVERFLOW))?;
        let mut length = lock.l_len;
        if length < 0 {
            start = start.checked_add(length).ok_or(Out::Errno(libc::EINVAL))?;
            length = length.checked_neg().ok_or(Out::Errno(libc::EINVAL))?;
        }
        let kind = c_int::from(lock.l_type);
        match kind {
            libc::F_RDLCK | libc::F_WRLCK | libc::F_UNLCK if start >= 0 => Ok(Self { kind, start, length }),
            _ => Err(Out::Errno(libc::EINVAL)),
        }
    }
}

/// Whether the kernel granted a lock; false if there is a conflicting one.
pub(crate) fn granted(answer: Result<(), Errno>) -> Result<bool, Out> {
    match answer {
        Ok(()) => Ok(true),
        Err(libc::EAGAIN | libc::EACCES) => Ok(false),
        Err(errno) => Err(Out::Errno(errno)),
    }
}

/// Tries once, or with `wait` until the attempt succeeds.
///
/// # Errors
/// EAGAIN without `wait`; EINTR after a signal with `wait`; the error of the attempt.
pub(crate) fn retry(wait: bool, mut attempt: impl FnMut() -> Result<bool, Out>) -> Result<(), Out> {
    if !wait {
        return if attempt()? { Ok(()) } else { Err(Out::Errno(libc::EAGAIN)) };
    }
    // A signal between two attempts must end the wait as well.
    let mut signals = raw::SignalsHeld::new();
    while !attempt()? {
        raw::sleep_until(raw::monotonic_ns() + RETRY_NS);
        if signals.let_in() {
            return Err(Out::Errno(libc::EINTR));
        }
    }
    Ok(())
}
