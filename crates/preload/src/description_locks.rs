//! Record locks of an open description (F_OFD_SETLK). They must end with the last copy of a
//! descriptor, over dup, fork, exec and sockets. So they are locks of the placeholder, whose open
//! description is the program's.
//!
//! A placeholder is open for reading only, so it can have only shared locks. An exclusive lock of a
//! range is a shared lock of the same range at other offsets. A process that sets a lock of either
//! kind first checks the locks of others at both, under the mount's lock for record locks.

use crate::byte_range::{Range, granted, retry};
use crate::lock_files;
use crate::open_file::Open;
use crate::outcome::Out;
use crate::raw;
use dnfs::mount::{DESCRIPTION_LOCKS_EXCLUSIVE as EXCLUSIVE, DESCRIPTION_LOCKS_LIMIT as LIMIT, RecordLocks};
use libc::{c_int, off_t};
use std::ffi::CStr;

/// The range at one set of offsets. EOVERFLOW for a range beyond the limit.
fn in_space(range: &Range, space: off_t) -> Result<Range, Out> {
    let end = match range.length {
        0 => LIMIT,
        length => range.start.checked_add(length).filter(|end| *end <= LIMIT).ok_or(Out::Errno(libc::EOVERFLOW))?,
    };
    let length = end.checked_sub(range.start).filter(|length| *length > 0).ok_or(Out::Errno(libc::EOVERFLOW))?;
    Ok(Range { kind: range.kind, start: space + range.start, length })
}

/// Another description's lock at one set of offsets, in the program's offsets.
fn conflict_in(fd: c_int, range: &Range, space: off_t) -> Result<Option<libc::flock>, Out> {
    let mut lock = Range { kind: libc::F_WRLCK, ..in_space(range, space)? }.as_lock();
    raw::record_lock(fd, libc::F_OFD_GETLK, &mut lock)?;
    if c_int::from(lock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    let kind = if space == EXCLUSIVE { libc::F_WRLCK } else { libc::F_RDLCK };
    lock.l_type = kind as _;
    if lock.l_start + lock.l_len == space + LIMIT {
        lock.l_len = 0;
    }
    lock.l_start -= space;
    Ok(Some(lock))
}

/// A conflicting lock of a description other than that of `fd`.
fn conflict_of(fd: c_int, range: &Range) -> Result<Option<libc::flock>, Out> {
    match conflict_in(fd, range, EXCLUSIVE)? {
        None if range.kind == libc::F_WRLCK => conflict_in(fd, range, 0),
        found => Ok(found),
    }
}

/// Another lock that conflicts with a lock of the file's description.
pub(crate) fn conflict(file: &Open, range: &Range) -> Result<Option<libc::flock>, Out> {
    conflict_alone(file, range, &file.mount.locks().record_locks()?)
}

fn conflict_alone(file: &Open, range: &Range, alone: &RecordLocks) -> Result<Option<libc::flock>, Out> {
    match conflict_of(file.fd, range)? {
        None => lock_files::conflict(file, range, alone),
        found => Ok(found),
    }
}

/// The description's lock that conflicts with a lock of this process. The process' own descriptions
/// count too.
pub(crate) fn conflict_with_process(file: &Open, range: &Range) -> Result<Option<libc::flock>, Out> {
    if range.start >= LIMIT {
        return Ok(None);
    }
    let end = range.start.saturating_add(range.length);
    let range = if end > LIMIT { Range { length: 0, ..*range } } else { *range };
    let path = file.mount.placeholder_path(file.file);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| libc::EIO)?;
    let other = raw::open(path, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC, 0)?;
    let found = conflict_of(other, &range);
    let _ = raw::close(other);
    found
}

/// Sets or removes a lock of the file's description.
pub(crate) fn set(file: &Open, range: &Range, wait: bool) -> Result<(), Out> {
    let lock = |kind, space| {
        granted(raw::record_lock(file.fd, libc::F_OFD_SETLK, &mut in_space(&Range { kind, ..*range }, space)?.as_lock()))
    };
    if range.kind == libc::F_UNLCK {
        lock(libc::F_UNLCK, 0)?;
        lock(libc::F_UNLCK, EXCLUSIVE)?;
        return Ok(());
    }
    file.mount.locks().note_description_locks(file.file);
    retry(wait, || {
        let alone = file.mount.locks().record_locks()?;
        if conflict_alone(file, range, &alone)?.is_some() {
            return Ok(false);
        }
        let (to, from) = if range.kind == libc::F_WRLCK { (EXCLUSIVE, 0) } else { (0, EXCLUSIVE) };
        Ok(lock(libc::F_RDLCK, to)? && lock(libc::F_UNLCK, from)?)
    })
}
