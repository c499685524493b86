//! Copies the kernel would make between descriptors: here through a buffer, because it only sees placeholders.

use crate::data;
use crate::ffi;
use crate::hook::hooks;
use crate::outcome::{Out, kept};
use crate::raw;
use crate::table::{self, Found, Open};
use dnfs::LazyBuffer;
use libc::{c_int, c_uint, loff_t, off_t, size_t, ssize_t};

/// Bytes copied at once: a whole transfer of most servers.
const BUFFER_BYTES: usize = 1024 * 1024;

/// Bytes read before the first are sent: what servers like to have in a WRITE.
const FIRST_BYTES: usize = 128 * 1024;

/// File systems whose reads wait for a disk of this host at most: ext4, XFS, btrfs, F2FS, tmpfs, overlayfs, ZFS.
const DISK_FILE_SYSTEMS: [i64; 7] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1];

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

/// A copy under way. A position that is none is the descriptor's own.
struct Copy {
    from: End,
    from_at: Option<off_t>,
    to: End,
    to_at: Option<off_t>,
}

/// What one step of a copy did.
struct Step {
    read: usize,
    written: usize,
    failed: Option<Out>,
}

impl Copy {
    /// Copies up to `count` bytes; what was copied before an error counts, the error is for the next call.
    fn run(mut self, count: usize) -> Result<usize, Out> {
        let mut buffer = Buffer::new()?;
        let mut done = 0;
        while done < count {
            let buffer = &mut buffer.bytes()[..BUFFER_BYTES.min(count - done)];
            let step = if self.is_worth_reading_lazily(buffer.len()) { self.step_lazily(buffer) } else { self.step(buffer) };
            let Step { read, written, failed } = match step {
                Err(out) if done == 0 => return Err(out),
                Err(_) => break,
                Ok(step) => step,
            };
            done += written;
            self.from_at = self.from_at.map(|at| at + written as off_t);
            self.to_at = self.to_at.map(|at| at + written as off_t);
            if written < read && self.from_at.is_none() {
                self.from.step_back(read - written);
            }
            match failed {
                Some(out) if done == 0 => return Err(out),
                None if written == read && read > 0 => {}
                _ => break,
            }
        }
        Ok(done)
    }

    /// Reads, then writes.
    fn step(&self, buffer: &mut [u8]) -> Result<Step, Out> {
        let read = self.from.read(self.from_at, buffer)?;
        let mut step = Step { read, written: 0, failed: None };
        while step.written < read {
            match self.to.write(self.to_at.map(|at| at + step.written as off_t), &buffer[step.written..read]) {
                Ok(0) => break,
                Ok(bytes) => step.written += bytes,
                Err(out) => {
                    step.failed = Some(out);
                    break;
                }
            }
        }
        Ok(step)
    }

    /// Writes to the mount while it reads: the server is at work on the first bytes before the last are read.
    fn step_lazily(&self, buffer: &mut [u8]) -> Result<Step, Out> {
        let End::File(to) = &self.to else { return self.step(buffer) };
        let (mut at, mut refused) = (self.from_at, None);
        let mut read = |bytes: &mut [u8]| match self.from.read(at, bytes) {
            Ok(got) => {
                at = at.map(|at| at + got as off_t);
                got
            }
            Err(out) => {
                refused = Some(out);
                0
            }
        };
        let mut lazy = LazyBuffer::new(buffer, &mut read);
        let written = match lazy.fill(FIRST_BYTES) {
            0 => Ok(0),
            _ => data::write_from(to, self.to_at, &mut lazy),
        };
        let read = lazy.filled();
        match (written, refused) {
            (Ok(0), Some(out)) if read == 0 => Err(out),
            (Ok(written), _) => Ok(Step { read, written, failed: None }),
            (Err(out), _) => Ok(Step { read, written: 0, failed: Some(out) }),
        }
    }

    /// Whether so much is copied from a disk of this host that reading and sending are better done side by side. The source is then
    /// read with locks of the target held: never one that somebody else has to answer for, such as a pipe or a FUSE file system.
    fn is_worth_reading_lazily(&self, bytes: usize) -> bool {
        let (End::Elsewhere(from), End::File(_)) = (&self.from, &self.to) else { return false };
        let Ok(stat) = raw::fstat(*from) else { return false };
        let is_of_a_disk = stat.st_mode & libc::S_IFMT == libc::S_IFREG
            && raw::file_system_type(*from).is_ok_and(|kind| DISK_FILE_SYSTEMS.contains(&kind));
        let at = self.from_at.or_else(|| raw::lseek(*from, 0, libc::SEEK_CUR).ok());
        let left = stat.st_size.saturating_sub(at.unwrap_or(stat.st_size));
        is_of_a_disk && bytes > 2 * FIRST_BYTES && left > 2 * FIRST_BYTES as off_t
    }
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
        let done = Copy { from, from_at: at, to, to_at: None }.run(count.min(ffi::COUNT_MAX))?;
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
        let done = Copy { from, from_at: begin, to, to_at: target }.run(count.min(ffi::COUNT_MAX))?;
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
