//! Copies that the kernel makes between descriptors. Here they go through a buffer, because the
//! kernel sees only placeholders.

use crate::ffi;
use crate::hook::hooks;
use crate::outcome::Out;
use crate::raw;
use crate::table::{self, Found};
use libc::{c_int, c_uint, loff_t, off_t, size_t, ssize_t};
pub(crate) use steps::Buffer;
use steps::{Copy, End};

mod pipes;
mod rests;
mod steps;

fn end(fd: c_int) -> Result<End, Out> {
    match table::find(fd)? {
        Found::File(file) => Ok(End::File(file)),
        Found::Directory(..) => Err(Out::Errno(libc::EISDIR)),
        Found::Elsewhere => Ok(End::Elsewhere(fd)),
    }
}

/// Both ends of a copy. The error for a descriptor that is not open comes before the one for a directory.
fn ends(input: c_int, out: c_int) -> Result<(End, End), Out> {
    match (end(input), end(out)) {
        (Ok(from), Ok(to)) => Ok((from, to)),
        (Err(failed), _) | (_, Err(failed)) => {
            open_for(input, out)?;
            Err(failed)
        }
    }
}

/// Flags of the target descriptor, if both descriptors may be used for the copy. Checked before anything is copied.
///
/// # Errors
/// EBADF.
fn open_for(input: c_int, out: c_int) -> Result<c_int, Out> {
    let (from, to) = (flags_of(input)?, flags_of(out)?);
    if from & libc::O_ACCMODE == libc::O_WRONLY || to & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(Out::Errno(libc::EBADF));
    }
    Ok(to)
}

/// The flags of F_GETFL, as the program sees them.
fn flags_of(fd: c_int) -> Result<c_int, Out> {
    match table::find(fd) {
        Ok(Found::File(file)) => file.status_flags(),
        _ => Ok(raw::status_flags(fd)?),
    }
}

/// # Safety
/// `offset` is NULL or a readable and writable offset.
pub(crate) unsafe fn send(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> Result<ssize_t, Out> {
    // SAFETY: `offset` is NULL or an offset by the caller's promise.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        let both = ends(input, out);
        if let Ok((End::Elsewhere(_), End::Elsewhere(_))) = &both {
            return Err(Out::Pass);
        }
        let flags = open_for(input, out)?;
        if flags & libc::O_APPEND != 0 {
            return Err(Out::Errno(libc::EINVAL));
        }
        if count == 0 {
            return Ok(0);
        }
        let (from, to) =
            both.map_err(|failed| if failed == Out::Errno(libc::EISDIR) { Out::Errno(libc::EINVAL) } else { failed })?;
        let at = ffi::take_checked(offset)?;
        let copy = Copy::new(from, at, to, None);
        let copy = if flags & libc::O_NONBLOCK != 0 { copy.impatient() } else { copy };
        let done = copy.run(count.min(ffi::COUNT_MAX))?;
        if let Some(at) = at {
            ffi::put(offset, at + done as off_t)?;
        }
        Ok(done as ssize_t)
    }
}

/// # Safety
/// `from_at` and `to_at` are NULL or readable and writable offsets.
pub(crate) unsafe fn copy_range(
    input: c_int,
    from_at: *mut loff_t,
    out: c_int,
    to_at: *mut loff_t,
    count: size_t,
    flags: c_uint,
) -> Result<ssize_t, Out> {
    // SAFETY: `from_at` and `to_at` are NULL or offsets by the caller's promise.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        let (from, to) = ends(input, out)?;
        match (&from, &to) {
            (End::Elsewhere(_), End::Elsewhere(_)) => return Err(Out::Pass),
            _ if flags != 0 => return Err(Out::Errno(libc::EINVAL)),
            _ if open_for(input, out)? & libc::O_APPEND != 0 => return Err(Out::Errno(libc::EBADF)),
            _ => {}
        }
        let (begin, target) = (ffi::take_checked(from_at)?, ffi::take_checked(to_at)?);
        let done = Copy::new(from, begin, to, target).run(count.min(ffi::COUNT_MAX))?;
        if let Some(begin) = begin {
            ffi::put(from_at, begin + done as loff_t)?;
        }
        if let Some(target) = target {
            ffi::put(to_at, target + done as loff_t)?;
        }
        Ok(done as ssize_t)
    }
}

hooks! {
    /// sendfile(2).
    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t = SYS_sendfile { send(out, input, offset, count) }
    /// sendfile(2).
    fn sendfile64(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t { send(out, input, offset, count) }
    /// copy_file_range(2).
    fn copy_file_range(input: c_int, from_at: *mut loff_t, out: c_int, to_at: *mut loff_t, count: size_t, flags: c_uint) -> ssize_t = SYS_copy_file_range {
        copy_range(input, from_at, out, to_at, count, flags)
    }
    /// splice(2).
    fn splice(input: c_int, from_at: *mut loff_t, out: c_int, to_at: *mut loff_t, count: size_t, flags: c_uint) -> ssize_t = SYS_splice {
        pipes::splice(input, from_at, out, to_at, count, flags)
    }
}
