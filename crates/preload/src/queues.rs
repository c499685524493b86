//! Queues of the kernel that would return wrong results, because the kernel does not see files of a
//! mount: io_uring, inotify and fanotify. Also kernel AIO on a modelled medium.

use crate::hook::hooks;
use crate::medium;
use crate::messages::warn;
use crate::mounts;
use crate::outcome::{Errno, Out};
use crate::paths;
use crate::reach;
use crate::table::{self, Found};
use dnfs::mount::Entry;
use libc::{c_char, c_int, c_uint, c_void, size_t};
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of liburing's functions, which return the negative errno and do not set errno.
fn no_ring() -> Result<c_int, Out> {
    refused_ring().map_or(Err(Out::Pass), |errno| Ok(-errno))
}

/// The errno with which a ring is refused. `None` if the program may create one.
pub(crate) fn refused_ring() -> Option<Errno> {
    if !mounts::any() && !medium::any() {
        return None;
    }
    // Prints this once in a tree of processes: QEMU's tools request a ring at each start, and work
    // without one.
    if reach::is_first_line(b"io_uring") {
        warn(format_args!(
            "io_uring cannot reach files of a Direct NFS mount or of a modelled medium and is refused (ENOSYS): MariaDB goes on with libaio; \
             for others set io_method=worker (PostgreSQL), ioengine=libaio (fio)"
        ));
    }
    Some(libc::ENOSYS)
}

/// Prints once that kernel AIO does not work on a modelled medium. Returns the errno for io_submit.
pub(crate) fn cannot_reach() -> Errno {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "libaio cannot reach files of a modelled medium; set innodb_use_native_aio=OFF (MariaDB, MySQL), ioengine=psync (fio)"
        ));
    }
    libc::EINVAL
}

/// Prints once that a watch is refused.
fn warn_unwatched() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "the kernel does not see changes of files on a Direct NFS mount: inotify and fanotify (ENOSYS) and F_NOTIFY (EINVAL) are refused; \
             have the program poll, or use `millrace mount`"
        ));
    }
}

/// fcntl(2) with F_NOTIFY.
///
/// # Errors
/// EINVAL for a directory of a mount.
pub(crate) fn watch_directory(fd: c_int) -> Result<c_int, Out> {
    if matches!(table::find(fd)?, Found::Elsewhere) {
        return Err(Out::Pass);
    }
    warn_unwatched();
    Err(Out::Errno(libc::EINVAL))
}

/// Watches a path for changes. Refuses on a mount, because the kernel does not see its changes and
/// the program would wait forever.
///
/// # Safety
/// `path` is NULL or a C string.
unsafe fn watch(
    directory: c_int,
    path: *const c_char,
    follow: bool,
    local: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Result<c_int, Out> {
    let refuse = |entry: &Entry| {
        if entry.object.is_none() {
            return Err(Out::Errno(libc::ENOENT));
        }
        warn_unwatched();
        Err(Out::Errno(libc::ENOSYS))
    };
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe { paths::at(directory, path, follow, |_, _, entry| refuse(entry), local) }
}

hooks! {
    /// inotify_add_watch(2).
    fn inotify_add_watch(fd: c_int, path: *const c_char, mask: u32) -> c_int = SYS_inotify_add_watch {
        watch(libc::AT_FDCWD, path, mask & libc::IN_DONT_FOLLOW == 0, |_, path| real(fd, path, mask))
    }
    /// fanotify_mark(2).
    fn fanotify_mark(fd: c_int, flags: c_uint, mask: u64, directory: c_int, path: *const c_char) -> c_int = SYS_fanotify_mark {
        if path.is_null() { return Err(Out::Pass) }
        let follow = flags & libc::FAN_MARK_DONT_FOLLOW == 0;
        watch(directory, path, follow, |directory, path| real(fd, flags, mask, directory, path))
    }
    /// liburing.
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int { no_ring() }
    /// liburing.
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int { no_ring() }
    /// liburing.
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: size_t) -> c_int { no_ring() }
    /// liburing.
    fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int { no_ring() }
}
