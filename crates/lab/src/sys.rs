//! Every call of the laboratory that Rust's standard library does not offer safely.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// Makes SIGINT, SIGTERM and SIGHUP set a flag instead of ending this process.
pub(crate) fn catch_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a zeroed sigaction is valid (no flags, empty mask, default handler); the
        // handler set in it only stores to an atomic, which is async-signal-safe.
        unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = note_interrupt as extern "C" fn(libc::c_int) as usize;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, action, std::ptr::null_mut());
        }
    }
}

/// Whether one of the caught signals has come.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Adopts orphans of our children, so that the last look finds every process we caused.
pub(crate) fn adopt_orphans() {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// Collects one ended child that nobody waits for; the pid, or `None`.
pub(crate) fn reap(pid: u32) -> bool {
    let mut status = 0;
    // SAFETY: waitpid writes one int; WNOHANG never blocks.
    unsafe { libc::waitpid(pid.cast_signed(), &raw mut status, libc::WNOHANG) == pid.cast_signed() }
}

/// Has the child run in a process group of its own and die with `signal` when the thread
/// that starts it (the main thread) ends, even by SIGKILL.
pub(crate) fn bind_to_parent(command: &mut Command, signal: i32) {
    let parent = std::process::id().cast_signed();
    command.process_group(0);
    // SAFETY: the closure runs between fork and exec and calls only prctl and getppid, which
    // are async-signal-safe; it allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::getppid() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Sends `signal` to one process. An error says that it is gone.
pub(crate) fn signal(pid: u32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes two integers.
    check(unsafe { libc::kill(pid.cast_signed(), signal) })
}

/// Effective user id of this process.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Clock ticks per second of /proc/PID/stat.
pub(crate) fn ticks_per_second() -> f64 {
    // SAFETY: sysconf takes one integer.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// A user of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Looks a user up by name.
pub(crate) fn user_by_name(name: &str) -> Option<User> {
    let c_name = CString::new(name).ok()?;
    // SAFETY: c_name ends with NUL; record, buffer and result outlive the call.
    look_up(|record, buffer, result| unsafe {
        libc::getpwnam_r(c_name.as_ptr(), record, buffer.as_mut_ptr(), buffer.len(), result)
    })
}

/// Looks a user up by number.
pub(crate) fn user_by_uid(uid: u32) -> Option<User> {
    // SAFETY: record, buffer and result outlive the call.
    look_up(|record, buffer, result| unsafe { libc::getpwuid_r(uid, record, buffer.as_mut_ptr(), buffer.len(), result) })
}

fn look_up(ask: impl FnOnce(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> libc::c_int) -> Option<User> {
    // 16 KiB: what sysconf(_SC_GETPW_R_SIZE_MAX) suggests at most on Linux.
    let mut buffer = vec![0; 16 << 10];
    let mut record = MaybeUninit::<libc::passwd>::zeroed();
    let mut result = std::ptr::null_mut();
    if ask(record.as_mut_ptr(), &mut buffer, &raw mut result) != 0 || result.is_null() {
        return None;
    }
    // SAFETY: the call succeeded, so record is filled and pw_name is a string in buffer.
    let (name, uid, gid) = unsafe {
        let record = record.assume_init_ref();
        (CStr::from_ptr(record.pw_name), record.pw_uid, record.pw_gid)
    };
    Some(User { name: name.to_str().ok()?.to_owned(), uid, gid })
}

/// Free bytes for an unprivileged user on the file system that holds `path`.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let c_path = CString::new(path.as_os_str().as_bytes())?;
    let mut record = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: c_path ends with NUL and record is large enough; a zeroed statvfs is valid.
    let record = unsafe {
        check(libc::statvfs(c_path.as_ptr(), record.as_mut_ptr()))?;
        record.assume_init()
    };
    Ok(record.f_bavail.saturating_mul(record.f_frsize))
}

/// Has `to` share the extents of `from` (FICLONE). Fails where the file system can't.
pub(crate) fn reflink(from: &File, to: &File) -> io::Result<()> {
    // SAFETY: both descriptors are open; FICLONE takes the source descriptor by value.
    check(unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE, from.as_raw_fd()) })
}

/// Has the kernel drop the cached pages of a file, as far as they are clean.
pub(crate) fn forget_pages(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; an offset and a length of 0 mean the whole file.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Writes everything of the file system that holds `directory` to its device.
///
/// Durability: when it returns, all data and metadata written before are on the device.
pub(crate) fn sync_file_system(directory: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::syncfs(directory.as_raw_fd()) })
}

fn check(outcome: libc::c_int) -> io::Result<()> {
    if outcome == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
