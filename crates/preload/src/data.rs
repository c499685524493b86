//! Data: read, write and their variants, and the offset of a descriptor.
//!
//! The offset is the placeholder's, and the kernel shares it over dup and fork. A read or write reserves its range by moving
//! the offset first, which the kernel does atomically, and returns what it did not use. If another process may share the open
//! file description, a read moves the offset afterwards: a process that is killed while it waits for the server does not move
//! it.

use crate::description_flags;
use crate::ffi::{self, ReadVector};
use crate::file_size_limit;
use crate::hook::hooks;
use crate::medium::{self, Ask};
use crate::open_file::Open;
use crate::outcome::Out;
use crate::raw;
use crate::read_ahead;
use crate::table;
use dnfs::{Attributes, LazyBuffer, Stability};
use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};
use std::io::{IoSlice, IoSliceMut};

/// Buffers of a vector are copied to the stack in groups of this size, because the program's own
/// array must not change.
const GROUP: usize = 64;

impl Open {
    fn readable(&self) -> Result<(), Out> {
        if self.flags & libc::O_ACCMODE == libc::O_WRONLY { Err(Out::Errno(libc::EBADF)) } else { Ok(()) }
    }

    fn writable(&self) -> Result<(), Out> {
        if self.flags & libc::O_ACCMODE == libc::O_RDONLY { Err(Out::Errno(libc::EBADF)) } else { Ok(()) }
    }

    /// What the description requires of each write: whether it appends, and how stable it is. This
    /// asks the kernel, because O_APPEND and O_DIRECT can change after the open.
    fn manner(&self) -> (bool, Stability) {
        let now = raw::status_flags(self.fd).map_or(self.flags, description_flags::for_program);
        // O_SYNC contains O_DSYNC's bit. O_DIRECT data is on storage when the call returns, as with a kernel NFS client:
        // InnoDB's O_DIRECT_NO_FSYNC relies on it.
        let how = if self.flags & libc::O_SYNC == libc::O_SYNC {
            Stability::FileSync
        } else if self.flags & libc::O_DSYNC != 0 || now & libc::O_DIRECT != 0 {
            Stability::DataSync
        } else {
            Stability::Unstable
        };
        (now & libc::O_APPEND != 0, how)
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Out> {
        match read_ahead::read(self, offset, buffers) {
            Some(read) => read,
            None => self.read_past_memory(offset, buffers),
        }
    }

    /// Reads from the server. If the server lost data, only a description that cannot write continues to read.
    fn read_past_memory(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Out> {
        Ok(match self.flags & libc::O_ACCMODE {
            libc::O_RDONLY => self.mount.read(self.file, offset, buffers)?,
            _ => self.mount.read_to_change(self.file, self.cursor, offset, buffers)?,
        })
    }

    /// The size. Fails like a read if the server lost data.
    pub(crate) fn size(&self) -> Result<u64, Out> {
        Ok(match self.flags & libc::O_ACCMODE {
            libc::O_RDONLY => self.mount.size(self.file),
            _ => self.mount.size_to_change(self.file, self.cursor)?,
        })
    }

    /// Attributes, including the size.
    pub(crate) fn attr(&self) -> Result<Attributes, Out> {
        Ok(match self.flags & libc::O_ACCMODE {
            libc::O_RDONLY => self.mount.attr(self.file)?,
            _ => self.mount.attr_to_change(self.file, self.cursor)?,
        })
    }
}

/// Reads at an offset.
pub(crate) fn read_at(file: &Open, offset: u64, buffer: &mut [u8]) -> Result<usize, Out> {
    file.readable()?;
    if buffer.is_empty() {
        return Ok(0);
    }
    file.read(offset, &mut [IoSliceMut::new(buffer)])
}

/// Writes at an offset, and ignores the description's O_APPEND.
pub(crate) fn write_at(file: &Open, offset: u64, bytes: &[u8]) -> Result<usize, Out> {
    file.writable()?;
    if bytes.is_empty() {
        return Ok(0);
    }
    let bytes = &bytes[..file_size_limit::room(offset, bytes.len())?];
    Ok(file.mount.write(file.file, offset, &[IoSlice::new(bytes)], file.manner().1)?)
}

/// read(2).
pub(crate) fn read_here(file: &Open, buffer: &mut [u8]) -> Result<usize, Out> {
    file.readable()?;
    read_moving(file, buffer.len(), |offset| read_at(file, offset, buffer))
}

/// Reads `wanted` bytes at the offset of a descriptor, and advances the offset by the bytes read.
fn read_moving(file: &Open, wanted: usize, mut read: impl FnMut(u64) -> Result<usize, Out>) -> Result<usize, Out> {
    let (offset, reserved) = if file.is_shared {
        let offset = raw::lseek(file.fd, 0, libc::SEEK_CUR)? as u64;
        let got = read(offset)?;
        let begin = reserve(file.fd, got)?;
        if begin == offset {
            return Ok(got);
        }
        (begin, got) // another process moved the offset: reads from there
    } else {
        (reserve(file.fd, wanted)?, wanted)
    };
    let outcome = read(offset).map(|got| got.min(reserved));
    give_back(file.fd, reserved, *outcome.as_ref().unwrap_or(&0));
    outcome
}

/// write(2).
pub(crate) fn write_here(file: &Open, bytes: &[u8]) -> Result<usize, Out> {
    write_vector_here(file, &[IoSlice::new(bytes)])
}

/// Writes the data of a buffer that is filled during the write, at `at` or at the descriptor's own
/// offset. Ignores the description's O_APPEND.
pub(crate) fn write_from(file: &Open, at: Option<off_t>, lazy: &mut LazyBuffer<'_>) -> Result<usize, Out> {
    file.writable()?;
    let how = file.manner().1;
    if let Some(at) = at {
        return Ok(file.mount.write_from(file.file, position(at)?, lazy, how)?);
    }
    if file.shares_offset() {
        return Ok(file.mount.write_from_at_shared_offset(file.file, file.description(), lazy, how)?);
    }
    let reserved = lazy.capacity();
    let offset = reserve(file.fd, reserved)?;
    let outcome = file.mount.write_from(file.file, offset, lazy, how).map_err(Out::from);
    give_back(file.fd, reserved, *outcome.as_ref().unwrap_or(&0));
    outcome
}

/// Moves the offset of a descriptor by this number of bytes, which then belong to the caller. Returns where they begin.
pub(crate) fn reserve(fd: c_int, bytes: usize) -> Result<u64, Out> {
    let end = raw::lseek(fd, bytes as off_t, libc::SEEK_CUR)?;
    Ok(end as u64 - bytes as u64)
}

/// Moves the offset back by the unused bytes.
pub(crate) fn give_back(fd: c_int, reserved: usize, used: usize) {
    if used < reserved {
        let _ = raw::lseek(fd, used as off_t - reserved as off_t, libc::SEEK_CUR);
    }
}

/// Reads into buffers at an offset, [`GROUP`] of them at a time.
pub(crate) fn read_vector_at<'a>(
    file: &Open,
    offset: u64,
    mut buffers: impl Iterator<Item = IoSliceMut<'a>>,
) -> Result<usize, Out> {
    file.readable()?;
    let mut done = 0;
    loop {
        let mut group: [IoSliceMut<'a>; GROUP] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let (mut count, mut wanted) = (0, 0);
        for (to, buffer) in group.iter_mut().zip(&mut buffers) {
            wanted += buffer.len();
            *to = buffer;
            count += 1;
        }
        if wanted > 0 {
            match file.read(offset + done as u64, &mut group[..count]) {
                Ok(got) if got < wanted => return Ok(done + got),
                Ok(got) => done += got,
                Err(out) if done == 0 => return Err(out),
                Err(_) => return Ok(done),
            }
        }
        if count < GROUP {
            return Ok(done);
        }
    }
}

/// Writes a vector at an offset, as stable as requested. Ignores the description's O_APPEND.
pub(crate) fn write_vector_at(file: &Open, offset: u64, vector: &[IoSlice<'_>], how: Stability) -> Result<usize, Out> {
    file.writable()?;
    let mut first = [IoSlice::new(&[])];
    let vector = match total(vector)? {
        0 => return Ok(0),
        bytes => match file_size_limit::room(offset, bytes)? {
            room if room < bytes => file_size_limit::within(vector, room, &mut first),
            _ => vector,
        },
    };
    Ok(file.mount.write(file.file, offset, vector, how)?)
}

fn append(file: &Open, vector: &[IoSlice<'_>], how: Stability) -> Result<(usize, u64), Out> {
    file.writable()?;
    let bytes = total(vector)?;
    if bytes == 0 {
        return Ok((0, file.mount.size(file.file)));
    }
    let mut first = [IoSlice::new(&[])];
    let mut vector = vector;
    if file_size_limit::is_set() {
        let room = file_size_limit::room(file.size()?, bytes)?;
        if room < bytes {
            vector = file_size_limit::within(vector, room, &mut first);
        }
    }
    Ok(file.mount.append(file.file, vector, how)?)
}

/// Writes at the current end of the file. The descriptor's offset does not change.
pub(crate) fn append_bytes(file: &Open, bytes: &[u8]) -> Result<usize, Out> {
    Ok(append(file, &[IoSlice::new(bytes)], file.manner().1)?.0)
}

fn total(vector: &[IoSlice<'_>]) -> Result<usize, Out> {
    vector
        .iter()
        .try_fold(0usize, |sum, slice| sum.checked_add(slice.len()))
        .filter(|sum| isize::try_from(*sum).is_ok())
        .ok_or(Out::Errno(libc::EINVAL))
}

fn write_vector_here(file: &Open, vector: &[IoSlice<'_>]) -> Result<usize, Out> {
    file.writable()?;
    let wanted = total(vector)?;
    if wanted == 0 {
        return Ok(0); // the offset of an appending descriptor does not change either
    }
    let (appends, how) = file.manner();
    if appends {
        let (written, offset) = append(file, vector, how)?;
        let _ = raw::lseek(file.fd, (offset + written as u64) as off_t, libc::SEEK_SET);
        return Ok(written);
    }
    write_vector_moving(file, vector, how)
}

/// Writes a vector at the offset of a descriptor, and advances the offset by the bytes written.
fn write_vector_moving(file: &Open, vector: &[IoSlice<'_>], how: Stability) -> Result<usize, Out> {
    let wanted = total(vector)?;
    if wanted > 0 && file.shares_offset() {
        return Ok(file.mount.write_at_shared_offset(file.file, file.description(), vector, how)?);
    }
    let offset = reserve(file.fd, wanted)?;
    let outcome = write_vector_at(file, offset, vector, how);
    give_back(file.fd, wanted, *outcome.as_ref().unwrap_or(&0));
    outcome
}

fn read_vector_here(file: &Open, mut vector: ReadVector<'_>) -> Result<usize, Out> {
    file.readable()?;
    read_moving(file, vector.bytes(), |offset| read_vector_at(file, offset, vector.again()))
}

fn position(offset: off_t) -> Result<u64, Out> {
    u64::try_from(offset).map_err(|_| Out::Errno(libc::EINVAL))
}

/// pwrite(2). With O_APPEND, Linux appends and ignores the offset.
fn positioned_write(file: &Open, vector: &[IoSlice<'_>], offset: off_t) -> Result<ssize_t, Out> {
    let offset = position(offset)?;
    let (appends, how) = file.manner();
    let written = if appends { append(file, vector, how)?.0 } else { write_vector_at(file, offset, vector, how)? };
    Ok(written as ssize_t)
}

/// The flags of pwritev2 that are supported.
const WRITE_FLAGS: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND;

/// pwritev2(2). An offset of −1 means the descriptor's own.
pub(crate) fn flagged_write(file: &Open, vector: &[IoSlice<'_>], offset: off_t, flags: c_int) -> Result<ssize_t, Out> {
    if flags & !WRITE_FLAGS != 0 {
        return Err(Out::Errno(libc::EOPNOTSUPP));
    }
    if flags & (WRITE_FLAGS & !libc::RWF_HIPRI) == 0 {
        return if offset == -1 {
            Ok(write_vector_here(file, vector)? as ssize_t)
        } else {
            positioned_write(file, vector, offset)
        };
    }
    let (appends, asked) = file.manner();
    let how = asked_stability(flags, asked);
    if flags & libc::RWF_APPEND != 0 || appends {
        return Ok(append(file, vector, how)?.0 as ssize_t);
    }
    if offset != -1 {
        return Ok(write_vector_at(file, position(offset)?, vector, how)? as ssize_t);
    }
    Ok(write_vector_moving(file, vector, how)? as ssize_t)
}

/// How stable a write with these flags of pwritev2 must be when it returns. `None` if it need not be stable, or appends.
pub(crate) fn stable_write(file: &Open, flags: c_int) -> Result<Option<Stability>, Out> {
    if flags & !WRITE_FLAGS != 0 {
        return Err(Out::Errno(libc::EOPNOTSUPP));
    }
    let (appends, asked) = file.manner();
    let how = asked_stability(flags, asked);
    Ok((!appends && flags & libc::RWF_APPEND == 0 && how != Stability::Unstable).then_some(how))
}

fn asked_stability(flags: c_int, asked: Stability) -> Stability {
    if flags & libc::RWF_SYNC != 0 {
        Stability::FileSync
    } else if flags & libc::RWF_DSYNC != 0 {
        Stability::DataSync.max(asked)
    } else {
        asked
    }
}

fn flagged_read(file: &Open, vector: ReadVector<'_>, offset: off_t, flags: c_int) -> Result<ssize_t, Out> {
    if flags & !libc::RWF_HIPRI != 0 {
        return Err(Out::Errno(libc::EOPNOTSUPP));
    }
    let got = if offset == -1 { read_vector_here(file, vector)? } else { read_vector_at(file, position(offset)?, vector)? };
    Ok(got as ssize_t)
}

/// The file of a mount to read from. If the file is on a modelled medium of this host, libc reads
/// it and then the hook waits. A call on a directory gets the kernel's answer for its placeholder.
fn source(fd: c_int, at: Option<off_t>) -> Result<Open, Out> {
    table::file(fd).map_err(|out| match out {
        Out::Errno(libc::EISDIR) => Out::Pass,
        other => medium::instead(other, fd, Ask::Read, at),
    })
}

/// As [`source`], for a file to write to.
fn target(fd: c_int, at: Option<off_t>) -> Result<Open, Out> {
    writable(fd).map_err(|out| medium::instead(out, fd, Ask::Write, at))
}

/// As [`table::file`], but a directory counts as not opened for writing.
fn writable(fd: c_int) -> Result<Open, Out> {
    table::file(fd).map_err(|out| if out == Out::Errno(libc::EISDIR) { Out::Errno(libc::EBADF) } else { out })
}

/// As [`source`] or [`target`], for preadv2 and pwritev2, where −1 means the descriptor's own offset.
fn flagged(fd: c_int, at: off_t, flags: c_int, ask: Ask) -> Result<Open, Out> {
    let stable = ask == Ask::Write && flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0;
    let ask = if stable { Ask::StableWrite } else { ask };
    // The offset of an append is unknown here; for the medium, the given offset serves as well.
    let at = (at != -1).then_some(at);
    if ask == Ask::Read { source(fd, at) } else { writable(fd).map_err(|out| medium::instead(out, fd, ask, at)) }
}

/// # Safety
/// `buffer` is NULL or `count` writable bytes that no other code uses.
unsafe fn pread_at(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> Result<ssize_t, Out> {
    // SAFETY: `buffer` is NULL or `count` writable bytes by the caller's promise.
    unsafe {
        let file = source(fd, Some(offset))?;
        Ok(read_at(&file, position(offset)?, ffi::bytes_mut_checked(buffer, count)?)? as ssize_t)
    }
}

/// # Safety
/// `buffer` is NULL or `count` readable bytes.
unsafe fn pwrite_at(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> Result<ssize_t, Out> {
    // SAFETY: `buffer` is NULL or `count` readable bytes by the caller's promise.
    unsafe {
        let file = target(fd, Some(offset))?;
        positioned_write(&file, &[IoSlice::new(ffi::bytes_checked(buffer, count)?)], offset)
    }
}

/// # Safety
/// `vector` is NULL or `count` vectors with writable buffers that no other code uses.
unsafe fn preadv_at(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> Result<ssize_t, Out> {
    // SAFETY: `vector` and its buffers are as `ffi::vector_mut` requires, by the caller's promise.
    unsafe {
        let file = source(fd, Some(offset))?;
        Ok(read_vector_at(&file, position(offset)?, ffi::vector_mut(vector, count)?)? as ssize_t)
    }
}

/// # Safety
/// `vector` is NULL or `count` vectors with readable buffers.
unsafe fn pwritev_at(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> Result<ssize_t, Out> {
    // SAFETY: `vector` and its buffers are as `ffi::vector` requires, by the caller's promise.
    unsafe {
        let file = target(fd, Some(offset))?;
        positioned_write(&file, ffi::vector(vector, count)?, offset)
    }
}

fn seek(fd: c_int, offset: off_t, whence: c_int) -> Result<off_t, Out> {
    let file = table::file(fd).map_err(|out| if out == Out::Errno(libc::EISDIR) { Out::Pass } else { out })?;
    let size = || file.size().map(|size| size as off_t);
    let to = match whence {
        libc::SEEK_END => size()?.checked_add(offset).ok_or(Out::Errno(libc::EOVERFLOW))?,
        libc::SEEK_DATA | libc::SEEK_HOLE if offset < 0 || offset >= size()? => return Err(Out::Errno(libc::ENXIO)),
        libc::SEEK_DATA => offset,
        libc::SEEK_HOLE => size()?,
        _ => return Err(Out::Pass),
    };
    Ok(raw::lseek(fd, to, libc::SEEK_SET)?)
}

hooks! {
    /// read(2).
    @cancellation_point fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t = SYS_read {
        Ok(read_here(&source(fd, None)?, ffi::bytes_mut_checked(buffer, count)?)? as ssize_t)
    }
    /// read(2), libc's other name.
    @cancellation_point fn __read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
        Ok(read_here(&source(fd, None)?, ffi::bytes_mut_checked(buffer, count)?)? as ssize_t)
    }
    /// read(2), fortified.
    @cancellation_point fn __read_chk(fd: c_int, buffer: *mut c_void, count: size_t, room: size_t) -> ssize_t {
        if count > room { return Err(Out::Pass) } // libc ends the process
        Ok(read_here(&source(fd, None)?, ffi::bytes_mut_checked(buffer, count)?)? as ssize_t)
    }
    /// write(2).
    @cancellation_point fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t = SYS_write {
        Ok(write_here(&target(fd, None)?, ffi::bytes_checked(buffer, count)?)? as ssize_t)
    }
    /// write(2), libc's other name.
    @cancellation_point fn __write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
        Ok(write_here(&target(fd, None)?, ffi::bytes_checked(buffer, count)?)? as ssize_t)
    }
    /// pread(2).
    @cancellation_point fn pread(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t = SYS_pread64 { pread_at(fd, buffer, count, offset) }
    /// pread(2).
    @cancellation_point fn pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t { pread_at(fd, buffer, count, offset) }
    /// pread(2), libc's other name.
    @cancellation_point fn __pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t { pread_at(fd, buffer, count, offset) }
    /// pread(2), fortified.
    @cancellation_point fn __pread_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t {
        if count > room { return Err(Out::Pass) }
        pread_at(fd, buffer, count, offset)
    }
    /// pread(2), fortified.
    @cancellation_point fn __pread64_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t {
        if count > room { return Err(Out::Pass) }
        pread_at(fd, buffer, count, offset)
    }
    /// pwrite(2).
    @cancellation_point fn pwrite(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t = SYS_pwrite64 { pwrite_at(fd, buffer, count, offset) }
    /// pwrite(2).
    @cancellation_point fn pwrite64(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t { pwrite_at(fd, buffer, count, offset) }
    /// pwrite(2), libc's other name.
    @cancellation_point fn __pwrite64(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t { pwrite_at(fd, buffer, count, offset) }
    /// readv(2).
    @cancellation_point fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t = SYS_readv {
        Ok(read_vector_here(&source(fd, None)?, ffi::vector_mut(vector, count)?)? as ssize_t)
    }
    /// writev(2).
    @cancellation_point fn writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t = SYS_writev {
        Ok(write_vector_here(&target(fd, None)?, ffi::vector(vector, count)?)? as ssize_t)
    }
    /// preadv(2).
    @cancellation_point fn preadv(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t = SYS_preadv { preadv_at(fd, vector, count, offset) }
    /// preadv(2).
    @cancellation_point fn preadv64(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t { preadv_at(fd, vector, count, offset) }
    /// pwritev(2).
    @cancellation_point fn pwritev(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t = SYS_pwritev { pwritev_at(fd, vector, count, offset) }
    /// pwritev(2).
    @cancellation_point fn pwritev64(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t { pwritev_at(fd, vector, count, offset) }
    /// preadv2(2).
    @cancellation_point fn preadv2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = SYS_preadv2 {
        flagged_read(&flagged(fd, offset, flags, Ask::Read)?, ffi::vector_mut(vector, count)?, offset, flags)
    }
    /// preadv2(2).
    @cancellation_point fn preadv64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        flagged_read(&flagged(fd, offset, flags, Ask::Read)?, ffi::vector_mut(vector, count)?, offset, flags)
    }
    /// pwritev2(2).
    @cancellation_point fn pwritev2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = SYS_pwritev2 {
        flagged_write(&flagged(fd, offset, flags, Ask::Write)?, ffi::vector(vector, count)?, offset, flags)
    }
    /// pwritev2(2).
    @cancellation_point fn pwritev64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        flagged_write(&flagged(fd, offset, flags, Ask::Write)?, ffi::vector(vector, count)?, offset, flags)
    }
    /// lseek(2).
    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t = SYS_lseek { seek(fd, offset, whence) }
    /// lseek(2).
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t { seek(fd, offset, whence) }
    /// lseek(2), libc's other name.
    fn __lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t { seek(fd, offset, whence) }
}
