//! Allocates space for a file. NFSv3 cannot reserve space, so posix_fallocate writes zeros.

use crate::copy::Buffer;
use crate::data;
use crate::hook::hooks;
use crate::open_file::Open;
use crate::outcome::Out;
use crate::table::{self, Found};
use libc::{c_int, off_t};

/// A server is assumed to allocate at least this many bytes for one written byte.
const BLOCK_BYTES: u64 = 4096;

/// The file and the range of an allocation, checked as the kernel checks them. [`Out::Pass`] if
/// `fd` is not on a mount.
///
/// # Errors
/// Those of fallocate(2).
fn range(fd: c_int, offset: off_t, bytes: off_t) -> Result<(Open, u64, u64), Out> {
    let file = match table::find(fd)? {
        Found::Elsewhere => return Err(Out::Pass),
        _ if offset < 0 || bytes <= 0 => return Err(Out::Errno(libc::EINVAL)),
        Found::Directory(..) => return Err(Out::Errno(libc::EBADF)), // no directory is open for writing
        Found::File(file) => file,
    };
    if file.flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(Out::Errno(libc::EBADF));
    }
    let end = offset.checked_add(bytes).ok_or(Out::Errno(libc::EFBIG))?;
    Ok((file, offset as u64, end as u64))
}

/// fallocate(2): fails with EOPNOTSUPP, as on an NFSv3 mount of the kernel.
fn refuse(fd: c_int, offset: off_t, bytes: off_t) -> Result<c_int, Out> {
    range(fd, offset, bytes)?;
    Err(Out::Errno(libc::EOPNOTSUPP))
}

/// posix_fallocate(3): returns the errno. libc's own emulation must not run, because it would write
/// to the placeholder and fail.
fn allocate(fd: c_int, offset: off_t, bytes: off_t) -> Result<c_int, Out> {
    let done = range(fd, offset, bytes).and_then(|(file, begin, end)| {
        let size = file.size()?;
        if begin < size.min(end) {
            fill_holes(&file, begin, size.min(end))?;
        }
        grow(&file, begin, end)
    });
    match done {
        Ok(()) => Ok(0),
        Err(Out::Errno(errno)) => Ok(errno),
        Err(out) => Err(out),
    }
}

/// Writes zeros from the end of the file, or from `begin` if that is later, to `end`. It appends
/// them, so that they do not overwrite what other programs append at the same time.
fn grow(file: &Open, begin: u64, end: u64) -> Result<(), Out> {
    let mut zeros = None;
    loop {
        let size = file.size()?;
        if size >= end {
            return Ok(());
        }
        let zeros: &mut Buffer = match &mut zeros {
            Some(zeros) => zeros,
            none => none.insert(Buffer::new()?),
        };
        let bytes = zeros.bytes();
        let count = bytes.len().min(usize::try_from(end - size.max(begin)).unwrap_or(usize::MAX));
        let bytes = &bytes[..count];
        let written = if size < begin { data::write_at(file, begin, bytes)? } else { data::append_bytes(file, bytes)? };
        if written == 0 {
            return Err(Out::Errno(libc::ENOSPC));
        }
    }
}

/// Writes a zero into each block of a range that has only zeros, if the file has holes. libc does
/// the same on a kernel's mount.
fn fill_holes(file: &Open, begin: u64, end: u64) -> Result<(), Out> {
    let attributes = file.attr()?;
    if attributes.used >= attributes.size {
        return Ok(());
    }
    let mut buffer = Buffer::new()?;
    let mut at = begin;
    while at < end {
        let bytes = buffer.bytes();
        // Each round reads whole blocks, except at the two ends of the range.
        let to = end.min((at + bytes.len() as u64) / BLOCK_BYTES * BLOCK_BYTES);
        let bytes = &mut bytes[..(to - at) as usize];
        let read = file.mount.read(file.file, at, &mut [std::io::IoSliceMut::new(bytes)])?;
        if read == 0 {
            return Ok(()); // the file became shorter
        }
        let mut block = at;
        while block < at + read as u64 {
            let next = (at + read as u64).min((block / BLOCK_BYTES + 1) * BLOCK_BYTES);
            if buffer.bytes()[(block - at) as usize..(next - at) as usize].iter().all(|byte| *byte == 0) {
                data::write_at(file, next - 1, &[0])?;
            }
            block = next;
        }
        at += read as u64;
    }
    Ok(())
}

hooks! {
    /// posix_fallocate(3).
    fn posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int { allocate(fd, offset, bytes) }
    /// posix_fallocate(3).
    fn posix_fallocate64(fd: c_int, offset: off_t, bytes: off_t) -> c_int { allocate(fd, offset, bytes) }
    /// fallocate(2): NFSv3 cannot reserve space.
    fn fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int = SYS_fallocate { refuse(fd, offset, bytes) }
    /// fallocate(2).
    fn fallocate64(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int { refuse(fd, offset, bytes) }
}
