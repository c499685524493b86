//! Queues into the kernel: io_uring and libaio can't see files of a mount and must not be believed to.

use crate::ffi;
use crate::hook::hooks;
use crate::medium;
use crate::messages::warn;
use crate::mounts;
use crate::outcome::Out;
use crate::table::{self, Found};
use libc::{c_int, c_long, c_uint, c_void, size_t};
use std::sync::atomic::{AtomicBool, Ordering};

/// liburing's functions give the negative errno and leave errno alone.
fn no_ring() -> Result<c_int, Out> {
    if !mounts::any() && !medium::any() {
        return Err(Out::Pass);
    }
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "io_uring cannot reach files of a Direct NFS mount or of a modelled medium; set io_method=worker (PostgreSQL), \
             innodb_use_native_aio=OFF (MariaDB, MySQL)"
        ));
    }
    Ok(-libc::ENOSYS)
}

/// libaio's submit: refused if any of the requests is for a file of ours.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn submit(count: c_long, list: *mut *mut c_void) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if !mounts::any() && !medium::any() {
            return Err(Out::Pass);
        }
        let ours = (0..usize::try_from(count).unwrap_or(0)).any(|index| {
            let request = ffi::take(list.wrapping_add(index)).and_then(|request| ffi::take(request.cast::<[u64; 3]>()));
            // `struct iocb`, third word: operation, priority, descriptor.
            request.is_some_and(|words| {
                let fd = (words[2] >> 32) as c_int;
                !matches!(table::find(fd), Ok(Found::Elsewhere)) || medium::has(fd)
            })
        });
        if !ours {
            return Err(Out::Pass);
        }
        static WARNED: AtomicBool = AtomicBool::new(false);
        if !WARNED.swap(true, Ordering::Relaxed) {
            warn(format_args!(
                "libaio cannot reach files of a Direct NFS mount or of a modelled medium; set innodb_use_native_aio=OFF (MariaDB, MySQL), \
             ioengine=psync (fio)"
            ));
        }
        Ok(-libc::EINVAL)
    }
}

hooks! {
    /// liburing.
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int { no_ring() }
    /// liburing.
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int { no_ring() }
    /// liburing.
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: size_t) -> c_int { no_ring() }
    /// liburing.
    fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int { no_ring() }
    /// libaio.
    fn io_submit(context: *mut c_void, count: c_long, requests: *mut *mut c_void) -> c_int { submit(count, requests) }
}
