//! Operations on descriptors other than reading and writing: duplicates, locks and controls. The
//! kernel performs them; the table only notes them.

use crate::attributes;
use crate::close::{file_if_any, flush, protect};
use crate::credentials;
use crate::description_flags;
use crate::ffi;
use crate::hook::hooks;
use crate::lock_files;
use crate::messages::warn;
use crate::mounts;
use crate::open_file::Open;
use crate::outcome::{Out, kept};
use crate::queues;
use crate::raw;
use crate::record_locks;
use crate::standard;
use crate::table::{self, Found};
use libc::{c_int, c_ulong};
use std::sync::atomic::{AtomicBool, Ordering};

/// dup2(2) and dup3(2), which replace `to`.
fn onto(from: c_int, to: c_int, real: impl FnOnce() -> c_int) -> Result<c_int, Out> {
    if !mounts::any() || from == to {
        return Err(Out::Pass);
    }
    protect(from)?;
    if dnfs::is_internal_fd(to) && !dnfs::move_internal_fd(to) {
        return Err(Out::Errno(libc::EBADF));
    }
    let source = file_if_any(from);
    let replaced = file_if_any(to);
    if let Some(replaced) = &replaced {
        let _ = flush(replaced); // dup2(2) does not report it; the next fsync does
    }
    let answer = kept(real())?;
    note(source.as_ref(), to);
    if let Some(replaced) = replaced {
        replaced.ended();
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

/// As [`table::file`], but the kernel answers for a directory.
fn regular(fd: c_int) -> Result<Open, Out> {
    table::file(fd).map_err(|out| if out == Out::Errno(libc::EISDIR) { Out::Pass } else { out })
}

/// lockf(3), which libc also implements as a record lock from the offset on.
fn lock_from_here(fd: c_int, command: c_int, bytes: libc::off_t) -> Result<c_int, Out> {
    regular(fd)?;
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
    // SAFETY: the lock outlives the call.
    kept(unsafe { fcntl::hook(fd, how, std::ptr::from_mut(&mut lock) as usize) })?;
    if command == libc::F_TEST && lock.l_type != libc::F_UNLCK as libc::c_short {
        return Err(Out::Errno(libc::EACCES));
    }
    Ok(0)
}

/// fcntl(2) on a file of a mount. Commands that concern only the kernel pass.
///
/// # Safety
/// `argument` is as fcntl(2) requires for `command`: for locks, NULL or a `flock`.
unsafe fn control(fd: c_int, command: c_int, argument: usize, real: impl Fn(usize) -> c_int) -> Result<c_int, Out> {
    // SAFETY: `argument` is as fcntl(2) requires, by the caller's promise.
    unsafe {
        if !mounts::any() {
            return Err(Out::Pass);
        }
        protect(fd)?;
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(fd, || real(argument)),
            libc::F_GETFL => {
                regular(fd)?;
                kept(real(argument)).map(description_flags::for_program)
            }
            libc::F_SETFL => {
                regular(fd)?;
                let flags = description_flags::to_set(argument as c_int);
                match kept(real(flags as usize)) {
                    // The placeholder belongs to another user, so this process itself stores what
                    // O_DIRECT requires of writes.
                    Err(Out::Errno(libc::EPERM)) if flags & libc::O_NOATIME != 0 => {
                        table::add_flags(fd, libc::O_DSYNC);
                        kept(real((flags & !libc::O_NOATIME) as usize))
                    }
                    set => set,
                }
            }
            libc::F_SETFD => {
                let answer = kept(real(argument))?;
                if let Some(file) = file_if_any(fd) {
                    lock_files::exec_changed(&file);
                }
                Ok(answer)
            }
            libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK => {
                record_locks::control(&regular(fd)?, command, argument as *mut libc::flock)
            }
            credentials::F_SETSIG | credentials::F_GETSIG => {
                regular(fd)?;
                Ok(0) // a regular file sends no signal; the argument is accepted
            }
            libc::F_NOTIFY => queues::watch_directory(fd),
            _ => Err(Out::Pass),
        }
    }
}

fn refuse_directory_lock() -> Result<c_int, Out> {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !REPORTED.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "flock on a directory of a mount is refused (ENOLCK): lock a file in it, or use `millrace mount`, where it works"
        ));
    }
    Err(Out::Errno(libc::ENOLCK))
}

hooks! {
    /// dup(2).
    fn dup(from: c_int) -> c_int = SYS_dup { duplicated(from, || real(from)) }
    /// dup2(2).
    fn dup2(from: c_int, to: c_int) -> c_int = old SYS_dup2 { onto(from, to, || real(from, to)) }
    /// dup2(2), libc's other name.
    fn __dup2(from: c_int, to: c_int) -> c_int { onto(from, to, || real(from, to)) }
    /// dup3(2).
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int = SYS_dup3 { onto(from, to, || real(from, to, flags)) }
    /// fcntl(2).
    @waiting_lock fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = SYS_fcntl { control(fd, command, argument, |argument| real(fd, command, argument)) }
    /// fcntl(2).
    @waiting_lock fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int { control(fd, command, argument, |argument| real(fd, command, argument)) }
    /// fcntl(2), libc's other name.
    @waiting_lock fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int { control(fd, command, argument, |argument| real(fd, command, argument)) }
    /// lockf(3).
    @waiting_lockf fn lockf(fd: c_int, command: c_int, bytes: libc::off_t) -> c_int { lock_from_here(fd, command, bytes) }
    /// lockf(3).
    @waiting_lockf fn lockf64(fd: c_int, command: c_int, bytes: libc::off_t) -> c_int { lock_from_here(fd, command, bytes) }
    /// flock(2): for a file, the kernel locks the placeholder. Each open of a directory has a
    /// placeholder of its own, so a lock on it would exclude no other open.
    fn flock(fd: c_int, how: c_int) -> c_int = SYS_flock {
        if !mounts::any() || how & libc::LOCK_UN != 0 || !matches!(table::find(fd), Ok(Found::Directory(_))) { return Err(Out::Pass) }
        refuse_directory_lock()
    }
    /// ioctl(2).
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int = SYS_ioctl {
        const UNREAD: c_ulong = 0x541b; // FIONREAD
        const CLONE: c_ulong = 0x4004_9409; // FICLONE
        const CLONE_RANGE: c_ulong = 0x4020_940d; // FICLONERANGE
        match request {
            UNREAD => {
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
            request if OF_ANOTHER_FILE_SYSTEM.contains(&request) => {
                attributes::mounted_of_fd(fd)?;
                Err(Out::Errno(libc::ENOTTY))
            }
            FIEMAP => {
                attributes::mounted_of_fd(fd)?;
                Err(Out::Errno(libc::EOPNOTSUPP))
            }
            _ => Err(Out::Pass),
        }
    }
}

/// Requests for a file's flags (`chattr`), their extended form and its generation: each to read and
/// to set, the first also from 32-bit programs. NFS has no such flags. If passed on, the calls
/// would concern the placeholder.
const OF_ANOTHER_FILE_SYSTEM: [c_ulong; 8] = [
    0x8008_6601, // FS_IOC_GETFLAGS
    0x4008_6602, // FS_IOC_SETFLAGS
    0x8004_6601, // FS_IOC32_GETFLAGS
    0x4004_6602, // FS_IOC32_SETFLAGS
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x401c_5820, // FS_IOC_FSSETXATTR
    0x8008_7601, // FS_IOC_GETVERSION
    0x4008_7602, // FS_IOC_SETVERSION
];
/// FS_IOC_FIEMAP: the extents of a file on its disk.
const FIEMAP: c_ulong = 0xc020_660b;
