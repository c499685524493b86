//! Signals, process control, users and file system calls that the standard library lacks.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getppid, kill_process, set_child_subreaper, set_parent_process_death_signal, waitpid,
};

/// Number of the first caught signal; 0 until one is received.
static INTERRUPTED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note_interrupt(signal: libc::c_int) {
    // Only the first signal is stored.
    let _ = INTERRUPTED.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
}

/// Makes SIGINT, SIGTERM and SIGHUP set a flag instead of ending this process.
pub(crate) fn catch_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a zeroed sigaction is valid (no flags, empty mask, default handler); the
        // handler set in it only changes an atomic, which is async-signal-safe.
        unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = note_interrupt as extern "C" fn(libc::c_int) as usize;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, action, std::ptr::null_mut());
        }
    }
}

/// Whether one of the caught signals was received.
pub(crate) fn interrupted() -> bool {
    interrupt_signal() != 0
}

/// The first caught signal that was received; 0 before.
pub(crate) fn interrupt_signal() -> i32 {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Adopts orphaned descendants, so that the check at the end finds every process that this program started.
pub(crate) fn adopt_orphans() {
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
}

/// Reaps the child `pid` if it has ended. Returns whether it did.
pub(crate) fn reap(pid: u32) -> bool {
    Pid::from_raw(pid.cast_signed()).is_some_and(|pid| matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_))))
}

/// Makes the child run in its own process group and receive `signal` when the thread
/// that starts it (the main thread) ends, even by SIGKILL.
pub(crate) fn bind_to_parent(command: &mut Command, signal: i32) {
    let parent = rustix::process::getpid();
    let signal = Signal::from_named_raw(signal);
    command.process_group(0);
    // SAFETY: the closure runs between fork and exec and makes only the system calls prctl and getppid, which
    // are async-signal-safe; it allocates nothing.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(signal)?;
            if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
}

/// Sends `signal` to one process. An error means that it is gone.
pub(crate) fn signal(pid: u32, signal: i32) -> io::Result<()> {
    let (Some(pid), Some(signal)) = (Pid::from_raw(pid.cast_signed()), Signal::from_named_raw(signal)) else {
        return Err(Errno::INVAL.into());
    };
    Ok(kill_process(pid, signal)?)
}

/// Effective user id of this process.
pub(crate) fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Clock ticks per second of /proc/PID/stat.
pub(crate) fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
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

/// Name of a user of this host.
#[must_use]
pub fn user_name(uid: u32) -> Option<String> {
    user_by_uid(uid).map(|user| user.name)
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

/// Free bytes for an unprivileged user on the file system that contains `path`.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let facts = rustix::fs::statvfs(path)?;
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

/// Makes `to` share the extents of `from` (FICLONE). Fails if the file system does not support it.
pub(crate) fn reflink(from: &File, to: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(to, from)?)
}

/// Makes the kernel drop the clean cached pages of a file.
pub(crate) fn forget_pages(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// Disables read-ahead on this open file.
pub(crate) fn expect_random_reads(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random)?)
}

/// The next range of a file that contains data, at `from` or after it; `None` if only a hole is left.
pub(crate) fn data_from(file: &File, from: u64) -> io::Result<Option<(u64, u64)>> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(from)) {
        Ok(data) => Ok(Some((data, rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(data))?))),
        Err(Errno::NXIO) => Ok(None),
        // A file system without holes.
        Err(_) => Ok(Some((from, file.metadata()?.len())).filter(|(from, to)| from < to)),
    }
}

/// The cached pages of a file, mapped into this process, until it is dropped.
pub(crate) struct CachedPages {
    address: *mut libc::c_void,
    bytes: usize,
}

impl CachedPages {
    /// Address of the start of the file.
    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }
}

impl Drop for CachedPages {
    fn drop(&mut self) {
        // SAFETY: address and bytes are those of the mapping made in `map_cached`, and nothing refers to it any more.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}

/// Maps the first `bytes` of a file and touches those of its pages that are in the page cache. Other pages are not read.
pub(crate) fn map_cached(file: &File, bytes: u64) -> io::Result<CachedPages> {
    const PAGE_BYTES: usize = 4096;
    if rustix::param::page_size() != PAGE_BYTES {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(file);
    // SAFETY: a new mapping at an address of the kernel's choice; nothing is written through it.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, descriptor, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let map = CachedPages { address, bytes };
    let mut resident = vec![0_u8; bytes.div_ceil(PAGE_BYTES)];
    // SAFETY: the range is that of the mapping, and the vector has a byte for each of its pages.
    if unsafe { libc::mincore(map.address, bytes, resident.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for (page, _) in resident.iter().enumerate().filter(|(_, state)| **state & 1 != 0) {
        // The file may have become shorter since: a read of this process reports that, where a touch would be a signal.
        let mut byte = [0];
        if std::os::unix::fs::FileExt::read_at(file, &mut byte, (page * PAGE_BYTES) as u64)? == 0 {
            break;
        }
        let touched = map.address.cast::<u8>().wrapping_add(page * PAGE_BYTES);
        // SAFETY: the page lies within the mapping, and the file reached it a moment ago.
        let _ = unsafe { touched.read_volatile() };
    }
    Ok(map)
}

/// Writes all data of the file system that contains `directory` to its device.
///
/// Durability: all data and metadata written before are on the device when it returns.
pub(crate) fn sync_file_system(directory: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(directory)?)
}
