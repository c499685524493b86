//! Copies the kernel would make between descriptors: here through a buffer, because it only sees placeholders.

use crate::data;
use crate::ffi;
use crate::hook::hooks;
use crate::outcome::{Out, kept};
use crate::raw;
use crate::table::{self, Found, Open};
use libc::{c_int, c_uint, loff_t, off_t, size_t, ssize_t};

/// Bytes copied at once: a whole transfer of most servers.
const BUFFER_BYTES: usize = 1024 * 1024;

/// One end of a copy.
enum End {
    File(Open),
    Elsewhere(c_int),
}

fn end(fd: c_int) -> Result<End, Out> {
    match table::find(fd)? {
        Found::File(file) => Ok(End::File(file)),
        Found::Directory(..) => Err(Out::Errno(libc::EISDIR)),
        Found::Elsewhere => Ok(End::Elsewhere(fd)),
    }
}

/// Both ends. A descriptor that is not open counts before one of a directory.
fn ends(input: c_int, out: c_int) -> Result<(End, End), Out> {
    match (end(input), end(out)) {
        (Ok(from), Ok(to)) => Ok((from, to)),
        (Err(failed), _) | (_, Err(failed)) => {
            open_for(input, out)?;
            Err(failed)
        }
    }
}

impl End {
    fn read(&self, at: Option<off_t>, buffer: &mut [u8]) -> Result<usize, Out> {
        match (self, at) {
            (Self::File(file), Some(at)) => data::read_at(file, position(at)?, buffer),
            (Self::File(file), None) => data::read_here(file, buffer),
            (Self::Elsewhere(fd), Some(at)) => {
                // SAFETY: a buffer of that length.
                Ok(kept(unsafe { data::pread::real(*fd, buffer.as_mut_ptr().cast(), buffer.len(), at) })? as usize)
            }
            (Self::Elsewhere(fd), None) => {
                // SAFETY: a buffer of that length.
                Ok(kept(unsafe { data::read::real(*fd, buffer.as_mut_ptr().cast(), buffer.len()) })? as usize)
            }
        }
    }

    fn write(&self, at: Option<off_t>, bytes: &[u8]) -> Result<usize, Out> {
        match (self, at) {
            (Self::File(file), Some(at)) => data::write_at(file, position(at)?, bytes),
            (Self::File(file), None) => data::write_here(file, bytes),
            (Self::Elsewhere(fd), Some(at)) => {
                // SAFETY: bytes of that length.
                Ok(kept(unsafe { data::pwrite::real(*fd, bytes.as_ptr().cast(), bytes.len(), at) })? as usize)
            }
            (Self::Elsewhere(fd), None) => {
                // SAFETY: bytes of that length.
                Ok(kept(unsafe { data::write::real(*fd, bytes.as_ptr().cast(), bytes.len()) })? as usize)
            }
        }
    }

    /// Takes back what was read and not written.
    fn step_back(&self, bytes: usize) {
        let (Self::Elsewhere(fd) | Self::File(Open { fd, .. })) = self;
        let _ = raw::lseek(*fd, -(bytes as off_t), libc::SEEK_CUR);
    }
}

fn position(at: off_t) -> Result<u64, Out> {
    u64::try_from(at).map_err(|_| Out::Errno(libc::EINVAL))
}

/// Memory of our own for the time of a copy.
struct Buffer(*mut u8);

impl Buffer {
    fn new() -> Result<Self, Out> {
        raw::map(BUFFER_BYTES).map(Self).ok_or(Out::Errno(libc::ENOMEM))
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is of that size and ours alone.
        unsafe { ffi::bytes_mut(self.0.cast(), BUFFER_BYTES) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; the slices into it borrow from self and are gone.
        unsafe { raw::unmap(self.0, BUFFER_BYTES) };
    }
}

/// Copies up to `count` bytes; what was copied before an error counts, the error is for the next call.
fn copy(from: &End, mut from_at: Option<off_t>, to: &End, mut to_at: Option<off_t>, count: usize) -> Result<usize, Out> {
    let mut buffer = Buffer::new()?;
    let mut done = 0;
    while done < count {
        let room = BUFFER_BYTES.min(count - done);
        let got = match from.read(from_at, &mut buffer.bytes()[..room]) {
            Ok(0) => break,
            Ok(got) => got,
            Err(out) if done == 0 => return Err(out),
            Err(_) => break,
        };
        let mut written = 0;
        let mut failed = None;
        while written < got {
            match to.write(to_at.map(|at| at + written as off_t), &buffer.bytes()[written..got]) {
                Ok(0) => break,
                Ok(bytes) => written += bytes,
                Err(out) => {
                    failed = Some(out);
                    break;
                }
            }
        }
        done += written;
        from_at = from_at.map(|at| at + written as off_t);
        to_at = to_at.map(|at| at + written as off_t);
        if written < got {
            if from_at.is_none() {
                from.step_back(got - written);
            }
            match failed {
                Some(out) if done == 0 => return Err(out),
                _ => break,
            }
        }
    }
    Ok(done)
}

/// Flags of the descriptor to write to, when both may be used for it; asked before there is anything to copy.
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

/// F_GETFL, as the program sees it.
fn flags_of(fd: c_int) -> Result<c_int, Out> {
    match table::find(fd) {
        Ok(Found::File(file)) => file.status_flags(),
        _ => Ok(raw::status_flags(fd)?),
    }
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn send(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> Result<ssize_t, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        let both = ends(input, out);
        if let Ok((End::Elsewhere(_), End::Elsewhere(_))) = &both {
            return Err(Out::Pass);
        }
        if open_for(input, out)? & libc::O_APPEND != 0 {
            return Err(Out::Errno(libc::EINVAL));
        }
        if count == 0 {
            return Ok(0);
        }
        let (from, to) =
            both.map_err(|failed| if failed == Out::Errno(libc::EISDIR) { Out::Errno(libc::EINVAL) } else { failed })?;
        let at = ffi::take(offset);
        let done = copy(&from, at, &to, None, count.min(ffi::COUNT_MAX))?;
        if let Some(at) = at {
            ffi::put(offset, at + done as off_t)?;
        }
        Ok(done as ssize_t)
    }
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
pub(crate) unsafe fn copy_range(
    input: c_int,
    from_at: *mut loff_t,
    out: c_int,
    to_at: *mut loff_t,
    count: size_t,
    flags: c_uint,
) -> Result<ssize_t, Out> {
    // SAFETY: the pointers are those of the hook's caller.
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
        let (begin, target) = (ffi::take(from_at), ffi::take(to_at));
        let done = copy(&from, begin, &to, target, count.min(ffi::COUNT_MAX))?;
        if let Some(begin) = begin {
            ffi::put(from_at, begin + done as loff_t)?;
        }
        if let Some(target) = target {
            ffi::put(to_at, target + done as loff_t)?;
        }
        Ok(done as ssize_t)
    }
}

/// splice, vmsplice and tee move pages; of a file on a mount there are none. Callers fall back to read and write.
fn no_pages(one: c_int, other: c_int) -> Result<ssize_t, Out> {
    match (end(one)?, end(other)?) {
        (End::Elsewhere(_), End::Elsewhere(_)) => Err(Out::Pass),
        _ => Err(Out::Errno(libc::EINVAL)),
    }
}

hooks! {
    /// sendfile(2).
    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t { send(out, input, offset, count) }
    /// sendfile(2).
    fn sendfile64(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t { send(out, input, offset, count) }
    /// copy_file_range(2).
    fn copy_file_range(input: c_int, from_at: *mut loff_t, out: c_int, to_at: *mut loff_t, count: size_t, flags: c_uint) -> ssize_t {
        copy_range(input, from_at, out, to_at, count, flags)
    }
    /// splice(2).
    fn splice(input: c_int, from_at: *mut loff_t, out: c_int, to_at: *mut loff_t, count: size_t, flags: c_uint) -> ssize_t {
        no_pages(input, out)
    }
}
