//! Descriptors beyond reading and writing: copies, locks and controls. They are the kernel's; the table only takes note.

use crate::close::{file_if_any, flush, protect};
use crate::ffi;
use crate::hook::hooks;
use crate::mounts;
use crate::outcome::{Out, kept};
use crate::raw;
use crate::standard;
use crate::table::{self, Found, Open};
use libc::{c_int, c_ulong};

/// Where flock's lock lies among the placeholder's record locks: one byte nobody else has a use for.
const FLOCK_BYTE: i64 = i64::MAX - 1;

/// dup2 and dup3: `to` stops being what it was.
fn onto(from: c_int, to: c_int, real: impl FnOnce() -> c_int) -> Result<c_int, Out> {
    if !mounts::any() || from == to {
        return Err(Out::Pass);
    }
    protect(from)?;
    protect(to)?;
    let source = file_if_any(from);
    let replaced = file_if_any(to);
    if let Some(replaced) = &replaced {
        let _ = flush(replaced); // dup2(2) does not report it; the next fsync does
    }
    let answer = kept(real())?;
    note(source.as_ref(), to);
    if let Some(replaced) = replaced {
        replaced.mount.closed(replaced.file);
    }
    standard::rebound(to);
    Ok(answer)
}

fn duplicated(from: c_int, real: impl FnOnce() -> c_int) -> Result<c_int, Out> {
    if !mounts::any() {
        return Err(Out::Pass);
    }
    protect(from)?;
    let source = file_if_any(from);
    let to = kept(real())?;
    note(source.as_ref(), to);
    standard::rebound(to);
    Ok(to)
}

fn note(source: Option<&Open>, to: c_int) {
    match source {
        Some(source) => table::duplicate(source, to),
        None => table::forget(to),
    }
}

/// flock: the placeholder's own flock says that the file is open, so the program's is an open-file-description lock
/// on one byte, which has the same life.
fn flock_file(file: &Open, how: c_int) -> Result<c_int, Out> {
    let kind = match how & !libc::LOCK_NB {
        libc::LOCK_SH => libc::F_RDLCK,
        libc::LOCK_EX => libc::F_WRLCK,
        libc::LOCK_UN => libc::F_UNLCK,
        _ => return Err(Out::Errno(libc::EINVAL)),
    };
    // SAFETY: struct flock is plain integers; zero is valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    lock.l_start = FLOCK_BYTE;
    lock.l_len = 1;
    match raw::description_lock(file.fd, how & libc::LOCK_NB == 0, &lock) {
        Ok(()) => Ok(0),
        Err(libc::EAGAIN | libc::EACCES) => Err(Out::Errno(libc::EWOULDBLOCK)),
        Err(errno) => Err(Out::Errno(errno)),
    }
}

/// A record lock as the placeholder can hold it: its end is not the file's, and "to the end of the file and beyond" must
/// stop short of the byte that stands for flock, or a process that uses both would wait for itself.
fn plain_lock(file: &Open, mut lock: libc::flock) -> Result<libc::flock, Out> {
    let base = match c_int::from(lock.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => raw::lseek(file.fd, 0, libc::SEEK_CUR)?,
        libc::SEEK_END => file.mount.size(file.file) as i64,
        _ => return Err(Out::Errno(libc::EINVAL)),
    };
    lock.l_start = base.checked_add(lock.l_start).ok_or(Out::Errno(libc::EOVERFLOW))?;
    lock.l_whence = libc::SEEK_SET as _;
    if lock.l_len == 0 && (0..FLOCK_BYTE).contains(&lock.l_start) {
        lock.l_len = FLOCK_BYTE - lock.l_start;
    }
    Ok(lock)
}

/// [`table::file`], but what is asked of a directory the kernel does on its mirror.
fn regular(fd: c_int) -> Result<Open, Out> {
    table::file(fd).map_err(|out| if out == Out::Errno(libc::EISDIR) { Out::Pass } else { out })
}

/// lockf as libc does it, by a record lock from the offset on.
fn lock_from_here(fd: c_int, command: c_int, bytes: libc::off_t) -> Result<c_int, Out> {
    table::file(fd)?;
    // SAFETY: struct flock is plain integers; zero is valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_whence = libc::SEEK_CUR as _;
    lock.l_len = bytes;
    lock.l_type = if command == libc::F_ULOCK { libc::F_UNLCK as _ } else { libc::F_WRLCK as _ };
    let how = match command {
        libc::F_LOCK => libc::F_SETLKW,
        libc::F_TLOCK | libc::F_ULOCK => libc::F_SETLK,
        libc::F_TEST => libc::F_GETLK,
        _ => return Err(Out::Errno(libc::EINVAL)),
    };
    // SAFETY: a lock that outlives the call.
    kept(unsafe { fcntl::hook(fd, how, std::ptr::from_mut(&mut lock) as usize) })?;
    if command == libc::F_TEST && lock.l_type != libc::F_UNLCK as libc::c_short {
        return Err(Out::Errno(libc::EACCES));
    }
    Ok(0)
}

/// fcntl on a file of ours; all that is the kernel's own business passes.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn control(fd: c_int, command: c_int, argument: usize, real: impl FnOnce(usize) -> c_int) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if !mounts::any() {
            return Err(Out::Pass);
        }
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(fd, || real(argument)),
            libc::F_SETFL => {
                regular(fd)?;
                kept(real(argument & !(libc::O_DIRECT as usize | libc::O_ASYNC as usize)))
            }
            libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK => {
                let file = regular(fd)?;
                let at = argument as *mut libc::flock;
                let asks = matches!(command, libc::F_GETLK | libc::F_OFD_GETLK);
                let mut lock = plain_lock(&file, ffi::take(at).ok_or(Out::Errno(libc::EFAULT))?)?;
                let answer = kept(real(std::ptr::from_mut(&mut lock) as usize))?;
                if asks {
                    if lock.l_len > 0 && lock.l_start + lock.l_len == FLOCK_BYTE {
                        lock.l_len = 0;
                    }
                    ffi::put(at, lock)?;
                }
                Ok(answer)
            }
            _ => Err(Out::Pass),
        }
    }
}

hooks! {
    /// dup(2).
    fn dup(from: c_int) -> c_int { duplicated(from, || real(from)) }
    /// dup2(2).
    fn dup2(from: c_int, to: c_int) -> c_int { onto(from, to, || real(from, to)) }
    /// dup2(2), libc's other name.
    fn __dup2(from: c_int, to: c_int) -> c_int { onto(from, to, || real(from, to)) }
    /// dup3(2).
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int { onto(from, to, || real(from, to, flags)) }
    /// fcntl(2).
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int { control(fd, command, argument, |argument| real(fd, command, argument)) }
    /// fcntl(2).
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int { control(fd, command, argument, |argument| real(fd, command, argument)) }
    /// fcntl(2), libc's other name.
    fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int { control(fd, command, argument, |argument| real(fd, command, argument)) }
    /// flock(2).
    fn flock(fd: c_int, how: c_int) -> c_int {
        match table::find(fd)? {
            Found::File(file) => flock_file(&file, how),
            Found::Directory(..) | Found::Elsewhere => Err(Out::Pass), // a mirror directory has locks of its own
        }
    }
    /// lockf(3).
    fn lockf(fd: c_int, command: c_int, bytes: libc::off_t) -> c_int { lock_from_here(fd, command, bytes) }
    /// lockf(3).
    fn lockf64(fd: c_int, command: c_int, bytes: libc::off_t) -> c_int { lock_from_here(fd, command, bytes) }
    /// ioctl(2).
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        const CLONE: c_ulong = 0x4004_9409; // FICLONE
        const CLONE_RANGE: c_ulong = 0x4020_940d; // FICLONERANGE
        match request {
            libc::FIONREAD => {
                let file = table::file(fd)?;
                let at = raw::lseek(fd, 0, libc::SEEK_CUR)?;
                let left = file.mount.size(file.file) as i64 - at;
                ffi::put(argument as *mut c_int, left.clamp(0, c_int::MAX.into()) as c_int)?;
                Ok(0)
            }
            CLONE | CLONE_RANGE => {
                table::file(fd)?;
                Err(Out::Errno(libc::EOPNOTSUPP))
            }
            _ => Err(Out::Pass),
        }
    }
}
