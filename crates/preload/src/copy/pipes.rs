//! splice(2) between a file of a mount and a pipe.
//!
//! Into a pipe: the pipe refers to pages of this library, so the kernel handles waits for room,
//! short counts and SIGPIPE. From a pipe: the bytes are duplicated and written, and only then
//! removed from the pipe, so that no byte is lost if the write is refused.

use super::flags_of;
use super::steps::Buffer;
use crate::data;
use crate::ffi;
use crate::open_file::Open;
use crate::outcome::Out;
use crate::raw::{self, pipes};
use crate::table::{self, Found};
use libc::{c_int, c_uint, loff_t, size_t, ssize_t};

const KNOWN_FLAGS: c_uint = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// # Safety
/// `from_at` and `to_at` are NULL or readable and writable offsets.
pub(super) unsafe fn splice(
    input: c_int,
    from_at: *mut loff_t,
    out: c_int,
    to_at: *mut loff_t,
    count: size_t,
    flags: c_uint,
) -> Result<ssize_t, Out> {
    let (from, to) = (table::find(input)?, table::find(out)?);
    if !matches!(from, Found::File(_)) && !matches!(to, Found::File(_)) {
        return Err(Out::Pass);
    }
    if count == 0 {
        return Ok(0);
    }
    if flags & !KNOWN_FLAGS != 0 {
        return Err(Out::Errno(libc::EINVAL));
    }
    let (from_flags, to_flags) = (flags_of(input)?, flags_of(out)?);
    let (from_pipe, to_pipe) = (is_pipe(input), is_pipe(out));
    if from_pipe && !from_at.is_null() || to_pipe && !to_at.is_null() {
        return Err(Out::Errno(libc::ESPIPE));
    }
    if from_flags & libc::O_ACCMODE == libc::O_WRONLY || to_flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(Out::Errno(libc::EBADF));
    }
    let waits = (from_flags | to_flags) & libc::O_NONBLOCK == 0 && flags & libc::SPLICE_F_NONBLOCK == 0;
    let flags = if waits { 0 } else { libc::SPLICE_F_NONBLOCK };
    let count = count.min(ffi::COUNT_MAX);
    // SAFETY: `from_at` and `to_at` are NULL or offsets by the caller's promise.
    unsafe {
        match (&from, &to) {
            (Found::File(file), Found::Elsewhere) if to_pipe => {
                at_place(file, from_at, |begin| file_to_pipe(file, begin, out, count, flags))
            }
            (Found::Elsewhere, Found::File(file)) if from_pipe => {
                if to_flags & libc::O_APPEND != 0 {
                    return Err(Out::Errno(libc::EINVAL));
                }
                at_place(file, to_at, |begin| pipe_to_file(input, file, begin, count, flags))
            }
            _ => Err(Out::Errno(libc::EINVAL)),
        }
    }
}

fn is_pipe(fd: c_int) -> bool {
    raw::fstat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

/// Calls `copy` with the given place or the descriptor's own offset, and advances that by the
/// number of copied bytes.
///
/// # Safety
/// `place` is NULL or a readable and writable offset.
unsafe fn at_place(file: &Open, place: *mut loff_t, copy: impl FnOnce(u64) -> Result<usize, Out>) -> Result<ssize_t, Out> {
    // SAFETY: `place` is NULL or an offset by the caller's promise.
    let given = unsafe { ffi::take_checked(place) }?;
    let begin = match given {
        Some(given) => given,
        None => raw::lseek(file.fd, 0, libc::SEEK_CUR)?,
    };
    let done = copy(u64::try_from(begin).map_err(|_| Out::Errno(libc::EINVAL))?)?;
    let end = begin + done as loff_t;
    match given {
        // SAFETY: `place` is an offset by the caller's promise.
        Some(_) => unsafe { ffi::put(place, end) }?,
        None => drop(raw::lseek(file.fd, end, libc::SEEK_SET)?),
    }
    Ok(done as ssize_t)
}

fn file_to_pipe(file: &Open, begin: u64, pipe: c_int, count: usize, flags: c_uint) -> Result<usize, Out> {
    let mut buffer = Buffer::new()?;
    let bytes = buffer.bytes();
    let wanted = count.min(pipes::capacity(pipe)?).min(bytes.len());
    let read = data::read_at(file, begin, &mut bytes[..wanted])?;
    if read == 0 {
        return Ok(0);
    }
    // SAFETY: `buffer` is mapped for this call alone and unmapped at its end, so no code writes to
    // pages to which the pipe refers.
    Ok(unsafe { pipes::give_pages(pipe, bytes.as_ptr(), read, flags) }?)
}

fn pipe_to_file(pipe: c_int, file: &Open, begin: u64, count: usize, flags: c_uint) -> Result<usize, Out> {
    let copy = pipes::Pipe::new()?;
    let mut buffer = Buffer::new()?;
    let mut done = 0;
    while done < count {
        // Only the first bytes are waited for.
        let flags = if done == 0 { flags } else { libc::SPLICE_F_NONBLOCK };
        let read = match read_and_leave(pipe, &copy, buffer.bytes(), count - done, flags) {
            Ok(0) => break,
            Ok(read) => read,
            Err(_) if done > 0 => break,
            Err(out) => return Err(out),
        };
        let written = match data::write_at(file, begin + done as u64, &buffer.bytes()[..read]) {
            Ok(written) => written,
            Err(_) if done > 0 => break,
            Err(out) => return Err(out),
        };
        done += written;
        if !take(pipe, &copy, buffer.bytes(), written) || written < read {
            break;
        }
    }
    Ok(done)
}

/// Reads bytes of a pipe and leaves them there: tee(2) duplicates them into the empty pipe `copy`.
fn read_and_leave(pipe: c_int, copy: &pipes::Pipe, into: &mut [u8], count: usize, flags: c_uint) -> Result<usize, Out> {
    let there = pipes::tee(pipe, copy.into, count.min(into.len()), flags)?;
    read_all(copy, &mut into[..there])?;
    Ok(there)
}

/// Removes bytes from a pipe that were read before. Returns whether all were still there.
fn take(pipe: c_int, copy: &pipes::Pipe, scratch: &mut [u8], count: usize) -> bool {
    let mut taken = 0;
    while taken < count {
        match pipes::move_between(pipe, copy.into, count - taken, libc::SPLICE_F_NONBLOCK) {
            Ok(moved @ 1..) if read_all(copy, &mut scratch[..moved]).is_ok() => taken += moved,
            _ => return false, // another reader also has them
        }
    }
    true
}

/// Fills the buffer with bytes that are already in the pipe.
fn read_all(from: &pipes::Pipe, into: &mut [u8]) -> Result<(), Out> {
    let mut done = 0;
    while done < into.len() {
        match raw::read(from.out, &mut into[done..])? {
            0 => return Err(Out::Errno(libc::EIO)),
            read => done += read,
        }
    }
    Ok(())
}
