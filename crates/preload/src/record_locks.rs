//! Record locks (fcntl) of files of a mount. They exclude each other between all processes of this
//! user on this host.
//!
//! POSIX locks belong to a process. They are on a file beside the placeholder (`lock_files`), which
//! is closed when the program closes any descriptor of the file. Closing it drops all of them, as
//! POSIX requires. The locks of an open description are on the placeholder itself
//! (`description_locks`).

use crate::byte_range::{Range, granted, retry};
use crate::description_locks as descriptions;
use crate::ffi;
use crate::lock_files::{self, known, lock_file};
use crate::open_file::Open;
use crate::outcome::Out;
use crate::raw;
use libc::c_int;

/// fcntl(2) with a record lock.
///
/// # Safety
/// `at` is NULL or a readable and writable `flock`.
pub(crate) unsafe fn control(file: &Open, command: c_int, at: *mut libc::flock) -> Result<c_int, Out> {
    // SAFETY: `at` is NULL or a `flock` by the caller's promise.
    let lock = unsafe { ffi::take_checked(at) }?.ok_or(Out::Errno(libc::EFAULT))?;
    let range = Range::of(file, &lock)?;
    let of_description = matches!(command, libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK);
    if of_description && lock.l_pid != 0 {
        return Err(Out::Errno(libc::EINVAL));
    }
    if matches!(command, libc::F_GETLK | libc::F_OFD_GETLK) {
        if range.kind == libc::F_UNLCK {
            return Err(Out::Errno(libc::EINVAL));
        }
        let mut answer = lock;
        match if of_description { descriptions::conflict(file, &range)? } else { process_conflict(file, &range)? } {
            Some(found) => answer = found,
            None => answer.l_type = libc::F_UNLCK as _,
        }
        // SAFETY: `at` is a `flock` by the caller's promise.
        return unsafe { ffi::put(at, answer) }.map(|()| 0);
    }
    let mode = file.flags & libc::O_ACCMODE;
    let may = match range.kind {
        libc::F_RDLCK => matches!(mode, libc::O_RDONLY | libc::O_RDWR),
        libc::F_WRLCK => matches!(mode, libc::O_WRONLY | libc::O_RDWR),
        _ => true,
    };
    if !may {
        return Err(Out::Errno(libc::EBADF));
    }
    let wait = matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW);
    let unlocks = range.kind == libc::F_UNLCK;
    if unlocks {
        // The next holder must see data stored into mappings under the lock, as with a kernel client.
        file.mount.write_back(file.file, 0..u64::MAX)?;
        file.mount.send_written(file.file)?;
    }
    if of_description {
        descriptions::set(file, &range, wait)?
    } else {
        set(file, &range, wait)?
    }
    if !unlocks {
        file.mount.revalidate_mapped(file.file)?;
    }
    Ok(0)
}

/// Sets a lock of the process.
fn set(file: &Open, range: &Range, wait: bool) -> Result<(), Out> {
    let command = if wait { libc::F_SETLKW } else { libc::F_SETLK };
    if range.kind == libc::F_UNLCK {
        return match known(file) {
            Some(fd) => Ok(raw::record_lock(fd, command, &mut range.as_lock())?),
            None => Ok(()),
        };
    }
    let fd = lock_file(file)?;
    if file.mount.locks().has_description_locks(file.file) {
        return set_beside_descriptions(file, fd, range, wait);
    }
    raw::record_lock(fd, command, &mut range.as_lock())?;
    if file.mount.locks().has_description_locks(file.file) {
        // At the same time, a description may have set its first lock without checking this one.
        let _alone = file.mount.locks().record_locks()?;
        if descriptions::conflict_with_process(file, range)?.is_some() {
            let unlock = Range { kind: libc::F_UNLCK, ..*range };
            raw::record_lock(fd, libc::F_SETLK, &mut unlock.as_lock())?;
            return Err(Out::Errno(libc::ENOLCK)); // not EAGAIN: the process has lost its former lock there
        }
    }
    Ok(())
}

/// As [`set`], for a file with locks of descriptions.
fn set_beside_descriptions(file: &Open, fd: c_int, range: &Range, wait: bool) -> Result<(), Out> {
    retry(wait, || {
        let _alone = file.mount.locks().record_locks()?;
        if descriptions::conflict_with_process(file, range)?.is_some() {
            return Ok(false);
        }
        granted(raw::record_lock(fd, libc::F_SETLK, &mut range.as_lock()))
    })
}

/// A lock that conflicts with a lock of this process.
fn process_conflict(file: &Open, range: &Range) -> Result<Option<libc::flock>, Out> {
    let mut lock = range.as_lock();
    let fd = lock_file(file)?;
    raw::record_lock(fd, libc::F_GETLK, &mut lock)?;
    if c_int::from(lock.l_type) != libc::F_UNLCK {
        return Ok(Some(lock_files::with_holder(fd, lock)));
    }
    if file.mount.locks().has_description_locks(file.file) { descriptions::conflict_with_process(file, range) } else { Ok(None) }
}
