//! MAP_PRIVATE of files of a mount: the program maps a file in memory (memfd_create(2)) that has
//! the bytes of the mapped range. The mapping then behaves as a private mapping of any file: after
//! MADV_DONTNEED it has the file's bytes again, and an access beyond the end is SIGBUS.

use crate::data;
use crate::ffi;
use crate::mapping::Mapping;
use crate::messages::warn;
use crate::open_file::Open;
use crate::outcome::{Out, kept};
use crate::raw;
use crate::shared_maps::{self, Copied, PAGE_BYTES, pages};
use dnfs::mount::Mount;
use libc::{c_int, c_void, off_t, size_t};
use std::io::IoSliceMut;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that are read at once. The client splits them into several READs in flight.
const STEP_BYTES: usize = 4 << 20;
/// Size in bytes of the pieces that are compared with zeroes. A piece of zeroes stays a hole of the
/// file in memory.
const PIECE_BYTES: usize = 64 << 10;
/// Ranges with fewer bytes than this are read without a check for available memory.
const UNCHECKED_BYTES: u64 = 1 << 20;

/// mmap(2) of a file of a mount with MAP_PRIVATE. `real` maps a descriptor.
pub(crate) fn map(file: &Open, bytes: size_t, offset: off_t, real: impl FnOnce(c_int) -> Mapping) -> Result<Mapping, Out> {
    if file.flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(Out::Errno(libc::EACCES));
    }
    let offset = u64::try_from(offset).ok().filter(|offset| offset.is_multiple_of(PAGE_BYTES as u64) && bytes > 0);
    let offset = offset.ok_or(Out::Errno(libc::EINVAL))?;
    let wanted = bytes.next_multiple_of(PAGE_BYTES) as u64;
    let end = file.size()?.saturating_sub(offset).min(wanted);
    check_memory(file.mount, end)?;
    let memory = File::new()?;
    let mapping = kept(real(memory.0)).inspect_err(|out| {
        if *out == Out::Errno(libc::ENOMEM) {
            warn_refused(file.mount, end, None);
        }
    })?;
    shared_maps::forget(mapping.address(), bytes);
    let filled = memory.fill(0, end, |at, to| data::read_at(file, offset + at, to));
    // SAFETY: exactly the mapping that was just made, which the program does not know yet.
    let filled = filled.inspect_err(|_| unsafe { raw::unmap(mapping.address().cast(), wanted as usize) })?;
    if let Some(memory) = memory.keep() {
        let copied = Copied { mount: file.mount, file: file.file, memory, offset, bytes: filled };
        shared_maps::enter_copied(pages(mapping.address(), bytes), copied);
    }
    Ok(mapping)
}

/// Called before mremap(2) makes a mapping longer. Reads the bytes of the new part into the file in memory.
///
/// # Errors
/// The server's refusal; ENOMEM if there is not enough memory.
pub(crate) fn before_growth(old: *const c_void, new_bytes: size_t) -> Result<(), Out> {
    let Some((copied, at)) = shared_maps::copied_at(old as usize) else { return Ok(()) };
    let wanted = at - copied.offset + new_bytes.next_multiple_of(PAGE_BYTES) as u64;
    if wanted <= copied.bytes {
        return Ok(());
    }
    let end = copied.mount.size(copied.file).saturating_sub(copied.offset).min(wanted);
    if end > copied.bytes {
        check_memory(copied.mount, end - copied.bytes)?;
        let memory = std::mem::ManuallyDrop::new(File(copied.memory)); // the table owns it
        let filled = memory.fill(copied.bytes, end, |at, to| {
            Ok(copied.mount.read(copied.file, copied.offset + at, &mut [IoSliceMut::new(to)])?)
        })?;
        shared_maps::note_grown(old as usize, filled);
    }
    Ok(())
}

/// A file in memory.
struct File(c_int);

impl File {
    fn new() -> Result<Self, Out> {
        Ok(Self(raw::programs::memory_file(c"millrace-private")?))
    }

    /// Makes the file `end` bytes long, and calls `read` to fill it from `start` on. Returns the
    /// new length, which is less than `end` if `read` reaches the end of its file first.
    fn fill(&self, start: u64, end: u64, mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, Out>) -> Result<u64, Out> {
        static ZEROES: [u8; PIECE_BYTES] = [0; PIECE_BYTES];
        raw::programs::set_length(self.0, end as usize)?;
        if start == end {
            return Ok(end);
        }
        let mut buffer = Buffer::new(STEP_BYTES.min((end - start) as usize))?;
        let mut at = start;
        while at < end {
            let step = buffer.bytes((end - at).min(STEP_BYTES as u64) as usize);
            let got = read(at, step)?;
            if got == 0 {
                raw::programs::set_length(self.0, at as usize)?;
                return Ok(at);
            }
            for piece in step[..got].chunks(PIECE_BYTES) {
                if *piece != ZEROES[..piece.len()] {
                    write_whole(self.0, at, piece)?;
                }
                at += piece.len() as u64;
            }
        }
        Ok(end)
    }

    /// Duplicates the file's descriptor to a high number that stays open. `None` if there is no free number.
    fn keep(self) -> Option<c_int> {
        let kept = raw::duplicate_from(self.0, dnfs::lowest_internal_fd()).ok()?;
        dnfs::set_internal_fd(kept, true);
        Some(kept)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = raw::close(self.0);
    }
}

fn write_whole(fd: c_int, mut at: u64, mut bytes: &[u8]) -> Result<(), Out> {
    while !bytes.is_empty() {
        let written = raw::programs::write_at(fd, at as off_t, bytes)?;
        bytes = &bytes[written..];
        at += written as u64;
    }
    Ok(())
}

/// A buffer that lives for one call.
struct Buffer {
    at: *mut u8,
    size: usize,
}

impl Buffer {
    fn new(size: usize) -> Result<Self, Out> {
        raw::map(size).map(|at| Self { at, size }).ok_or(Out::Errno(libc::ENOMEM))
    }

    fn bytes(&mut self, count: usize) -> &mut [u8] {
        // SAFETY: the mapping has `size` bytes, and only this buffer refers to it.
        unsafe { ffi::bytes_mut(self.at.cast(), count.min(self.size)) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: exactly one mapping; slices of it borrow `self`, so there are no more.
        unsafe { raw::unmap(self.at, self.size) };
    }
}

/// Refuses a range with ENOMEM if this host or the process' control group has no memory for it,
/// because the kernel would kill the process.
fn check_memory(mount: &Mount, bytes: u64) -> Result<(), Out> {
    if bytes < UNCHECKED_BYTES {
        return Ok(());
    }
    match dnfs::available_memory() {
        Some(available) if bytes > available - available / 8 => {
            warn_refused(mount, bytes, Some(available));
            Err(Out::Errno(libc::ENOMEM))
        }
        _ => Ok(()),
    }
}

/// Prints why a file cannot be mapped, and what helps, once in a process.
fn warn_refused(mount: &Mount, bytes: u64, available: Option<u64>) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if WARNED.swap(true, Ordering::Relaxed) {
        return;
    }
    let path = String::from_utf8_lossy(mount.local_path());
    let needed = bytes >> 20;
    match available {
        Some(available) => warn(format_args!(
            "cannot map a file of {path} MAP_PRIVATE: its bytes are read into memory, {needed} MiB, and {} MiB are available to this process \
             (/proc/meminfo, memory control group); raise the limit, have the program read the file, or use `millrace mount`",
            available >> 20
        )),
        None => warn(format_args!(
            "cannot map a file of {path} MAP_PRIVATE: the kernel refuses a mapping for {needed} MiB; raise RLIMIT_AS (ulimit -v) or RLIMIT_DATA"
        )),
    }
}
