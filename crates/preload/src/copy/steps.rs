//! A copy, step by step.

use super::rests::{self, Moment};
use crate::data;
use crate::ffi;
use crate::file_size_limit;
use crate::open_file::Open;
use crate::outcome::{Out, kept};
use crate::raw;
use dnfs::LazyBuffer;
use libc::{c_int, off_t};

/// Bytes copied at once: the maximum transfer of most servers.
pub(super) const BUFFER_BYTES: usize = 1024 * 1024;

/// Bytes of the first step to a non-blocking target. Each following step is twice as long.
const STEP_BYTES_MIN: usize = 64 * 1024;

/// Bytes of a step to a non-blocking target if the bytes that the target does not take cannot be kept.
const UNKEPT_BYTES: usize = 8 * 1024;

/// Bytes read before the first are sent: a size for which servers execute a WRITE efficiently.
const FIRST_BYTES: usize = 128 * 1024;

/// Bytes that the kernel is asked to read ahead of a copy whose source is not in memory.
const AHEAD_BYTES: usize = 4 * BUFFER_BYTES;

/// One end of a copy.
pub(super) enum End {
    File(Open),
    Elsewhere(c_int),
}

impl End {
    fn read(&self, at: Option<off_t>, buffer: &mut [u8]) -> Result<usize, Out> {
        match (self, at) {
            (Self::File(file), Some(at)) => data::read_at(file, position(at)?, buffer),
            (Self::File(file), None) => data::read_here(file, buffer),
            (Self::Elsewhere(fd), Some(at)) => {
                // SAFETY: the buffer is writable for its length.
                Ok(kept(unsafe { data::pread::real(*fd, buffer.as_mut_ptr().cast(), buffer.len(), at) })? as usize)
            }
            (Self::Elsewhere(fd), None) => {
                // SAFETY: the buffer is writable for its length.
                Ok(kept(unsafe { data::read::real(*fd, buffer.as_mut_ptr().cast(), buffer.len()) })? as usize)
            }
        }
    }

    fn write(&self, at: Option<off_t>, bytes: &[u8]) -> Result<usize, Out> {
        match (self, at) {
            (Self::File(file), Some(at)) => data::write_at(file, position(at)?, bytes),
            (Self::File(file), None) => data::write_here(file, bytes),
            (Self::Elsewhere(fd), Some(at)) => {
                // SAFETY: the bytes are readable for their length.
                Ok(kept(unsafe { data::pwrite::real(*fd, bytes.as_ptr().cast(), bytes.len(), at) })? as usize)
            }
            (Self::Elsewhere(fd), None) => {
                // SAFETY: the bytes are readable for their length.
                Ok(kept(unsafe { data::write::real(*fd, bytes.as_ptr().cast(), bytes.len()) })? as usize)
            }
        }
    }

    /// Moves the source back by the bytes that were read and not written.
    fn step_back(&self, bytes: usize) {
        let (Self::Elsewhere(fd) | Self::File(Open { fd, .. })) = self;
        let _ = raw::lseek(*fd, -(bytes as off_t), libc::SEEK_CUR);
    }
}

fn position(at: off_t) -> Result<u64, Out> {
    u64::try_from(at).map_err(|_| Out::Errno(libc::EINVAL))
}

/// A zeroed buffer that lives for one call.
pub(crate) struct Buffer(*mut u8);

impl Buffer {
    pub(crate) fn new() -> Result<Self, Out> {
        raw::map(BUFFER_BYTES).map(Self).ok_or(Out::Errno(libc::ENOMEM))
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has that size, and only this buffer refers to it.
        unsafe { ffi::bytes_mut(self.0.cast(), BUFFER_BYTES) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: exactly one mapping; slices of it borrow `self`, so there are no more.
        unsafe { raw::unmap(self.0, BUFFER_BYTES) };
    }
}

/// A copy in progress. The position `None` means the descriptor's own offset.
pub(super) struct Copy {
    from: End,
    from_at: Option<off_t>,
    to: End,
    to_at: Option<off_t>,
    /// Number of next steps that read everything before they write, because the source would block.
    eager_steps: usize,
    /// The target is non-blocking.
    is_impatient: bool,
}

/// What one step of a copy did.
struct Step {
    read: usize,
    written: usize,
    failed: Option<Out>,
}

impl Copy {
    pub(super) fn new(from: End, from_at: Option<off_t>, to: End, to_at: Option<off_t>) -> Self {
        Self { from, from_at, to, to_at, eager_steps: 0, is_impatient: false }
    }

    /// Marks a copy from a mount to another place as one to a non-blocking descriptor (O_NONBLOCK).
    pub(super) fn impatient(self) -> Self {
        Self { is_impatient: matches!((&self.from, &self.to), (End::File(_), End::Elsewhere(_))), ..self }
    }

    /// Copies up to `count` bytes. After an error, returns what was copied before; the next call returns the error.
    pub(super) fn run(mut self, count: usize) -> Result<usize, Out> {
        let mut buffer = Buffer::new()?;
        let mut done = 0;
        let mut most = if self.is_impatient { STEP_BYTES_MIN } else { BUFFER_BYTES };
        while done < count {
            let buffer = &mut buffer.bytes()[..most.min(count - done)];
            most = (2 * most).min(BUFFER_BYTES);
            // A lazy step does not know how many bytes it will write, so it cannot obey the limit.
            let lazy = if file_size_limit::is_set() { None } else { self.lazy_source(buffer.len()) };
            let step = match lazy {
                Some((source, bytes)) => self.step_lazily(source, &mut buffer[..bytes]),
                None => self.step(buffer),
            };
            let Step { read, written, failed } = match step {
                Err(out) if done == 0 => return Err(out),
                Err(_) => break,
                Ok(step) => step,
            };
            done += written;
            self.from_at = self.from_at.map(|at| at + written as off_t);
            self.to_at = self.to_at.map(|at| at + written as off_t);
            match failed {
                Some(out) if done == 0 => return Err(out),
                None if written == read && read > 0 => {}
                _ => break,
            }
        }
        Ok(done)
    }

    /// Reads, then writes.
    fn step(&mut self, buffer: &mut [u8]) -> Result<Step, Out> {
        self.eager_steps = self.eager_steps.saturating_sub(1);
        if let (true, End::File(from)) = (self.is_impatient, &self.from)
            && let Some(moment) = Moment::of(from)
        {
            return self.step_keeping(from, moment, buffer);
        }
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
        if step.written < read && self.from_at.is_none() {
            self.from.step_back(read - step.written);
        }
        Ok(step)
    }

    /// Reads, then writes to a non-blocking target. Keeps the bytes that the target did not take
    /// for the next call.
    fn step_keeping(&self, from: &Open, now: Moment, buffer: &mut [u8]) -> Result<Step, Out> {
        let at = match self.from_at {
            Some(at) => position(at)?,
            None => position(raw::lseek(from.fd, 0, libc::SEEK_CUR)?)?,
        };
        let (read, moment) = match rests::take(&now, at, buffer) {
            Some(kept) => kept,
            None => {
                let bytes = if rests::has_room(&now) { buffer.len() } else { buffer.len().min(UNKEPT_BYTES) };
                (data::read_at(from, at, &mut buffer[..bytes])?, now)
            }
        };
        let (written, failed) = match self.to.write(None, &buffer[..read]) {
            Ok(bytes) => (bytes, None),
            Err(out) => (0, Some(out)),
        };
        if written < read {
            rests::keep(moment, at + written as u64, &buffer[written..read]);
        }
        if self.from_at.is_none() {
            raw::lseek(from.fd, written as off_t, libc::SEEK_CUR)?;
        }
        Ok(Step { read, written, failed })
    }

    /// Writes to the mount while it reads `source`: the server works on the first bytes before the last are read. The copy
    /// waits for the first bytes only. It reads the others with locks of the target held, and therefore only if they are in
    /// memory.
    fn step_lazily(&mut self, source: c_int, buffer: &mut [u8]) -> Result<Step, Out> {
        let End::File(to) = &self.to else { return self.step(buffer) };
        let (from_at, reserved) = (self.from_at, buffer.len());
        let begin = match from_at {
            Some(at) => at,
            None => data::reserve(source, reserved)? as off_t,
        };
        let (mut at, mut refused) = (begin, None);
        let mut read = |bytes: &mut [u8]| {
            let is_first = ((at - begin) as usize) < FIRST_BYTES;
            let got = if is_first {
                End::Elsewhere(source).read(Some(at), bytes)
            } else {
                raw::read_cached(source, at, bytes).map_err(Out::from)
            };
            let got = got.unwrap_or_else(|out| {
                refused = Some(out);
                0
            });
            at += got as off_t;
            got
        };
        let mut lazy = LazyBuffer::new(buffer, &mut read);
        let written = match lazy.fill(FIRST_BYTES) {
            0 => Ok(0),
            _ => data::write_from(to, self.to_at, &mut lazy),
        };
        let read = lazy.filled();
        if from_at.is_none() {
            data::give_back(source, reserved, *written.as_ref().unwrap_or(&0));
        }
        match (written, refused) {
            (Ok(0), Some(out)) if read == 0 => return Err(out),
            (Err(out), _) => return Ok(Step { read, written: 0, failed: Some(out) }),
            (_, Some(Out::Errno(libc::EAGAIN))) => {
                raw::read_ahead(source, begin + read as off_t, AHEAD_BYTES);
                self.eager_steps = 1;
            }
            (_, Some(_)) => self.eager_steps = usize::MAX,
            _ => {}
        }
        Ok(Step { read, written: written.unwrap_or(0), failed: None })
    }

    /// The file of this host that is copied to a mount, and how many of the next `bytes` it has, if that is enough for reading
    /// and sending in parallel.
    fn lazy_source(&self, bytes: usize) -> Option<(c_int, usize)> {
        let (End::Elsewhere(source), End::File(_), 0) = (&self.from, &self.to, self.eager_steps) else { return None };
        let stat = raw::fstat(*source).ok().filter(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG)?;
        let at = self.from_at.or_else(|| raw::lseek(*source, 0, libc::SEEK_CUR).ok())?;
        let left = bytes.min(usize::try_from(stat.st_size - at).unwrap_or(0));
        (left > 2 * FIRST_BYTES).then_some((*source, left))
    }
}
