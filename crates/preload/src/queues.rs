//! Queues into the kernel: io_uring and libaio can't see files of a mount and must not be believed to; POSIX aio of libc
//! would write into placeholders, so here it is done at once.

use crate::data;
use crate::ffi;
use crate::hook::hooks;
use crate::medium;
use crate::messages::warn;
use crate::mounts;
use crate::outcome::{Out, kept};
use crate::table::{self, Found};
use libc::{aiocb, c_int, c_long, c_uint, c_void, sigevent, size_t, ssize_t};
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

/// `struct aiocb` of glibc on 64-bit Linux: the public fields we read and the two it keeps its answer in.
#[repr(C)]
struct Request {
    fd: c_int,
    operation: c_int,
    priority: c_int,
    buffer: *mut c_void,
    count: size_t,
    event: sigevent,
    _next: *mut c_void,
    _absolute: c_int,
    _policy: c_int,
    error: c_int,
    answer: ssize_t,
    offset: libc::off_t,
}
const _: () = assert!(size_of::<Request>() <= size_of::<aiocb>() && std::mem::offset_of!(Request, offset) == 128);

/// Does a request at once, so that aio_error and aio_return of libc find it done.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn perform(request: *mut aiocb, run: impl FnOnce(&Request) -> ssize_t) -> Result<c_int, Out> {
    let at = request.cast::<Request>();
    // SAFETY: an aiocb by the caller's promise, laid out as asserted above.
    let Some(control) = (unsafe { at.as_mut() }) else { return Err(Out::Errno(libc::EINVAL)) };
    match table::find(control.fd)? {
        Found::File(_) => {}
        Found::Directory(..) => return Err(Out::Errno(libc::EBADF)),
        Found::Elsewhere => return Err(Out::Pass),
    }
    if control.event.sigev_notify != libc::SIGEV_NONE {
        return Err(Out::Errno(libc::EAGAIN)); // nobody would be told
    }
    control.answer = run(control);
    control.error = if control.answer < 0 { crate::outcome::errno() } else { 0 };
    Ok(0)
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn read_request(request: *mut aiocb) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe { perform(request, |control| data::pread::hook(control.fd, control.buffer, control.count, control.offset)) }
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn write_request(request: *mut aiocb) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe { perform(request, |control| data::pwrite::hook(control.fd, control.buffer, control.count, control.offset)) }
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn sync_request(request: *mut aiocb) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe { perform(request, |control| crate::durable::fsync::hook(control.fd) as ssize_t) }
}

/// lio_listio: refused if any request is for a file of ours and somebody waits to be told; else one by one.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn list(count: c_int, requests: *const *mut aiocb) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if !mounts::any() {
            return Err(Out::Pass);
        }
        let each = (0..usize::try_from(count).unwrap_or(0)).filter_map(|index| ffi::take(requests.wrapping_add(index)));
        let control = |request: *mut aiocb| ffi::take(request.cast::<[c_int; 2]>());
        let ours = |request| control(request).is_some_and(|[fd, _]| !matches!(table::find(fd), Ok(Found::Elsewhere)));
        if !each.clone().any(ours) {
            return Err(Out::Pass);
        }
        let mut failed = false;
        for request in each {
            failed |= match control(request) {
                Some([_, libc::LIO_READ]) => kept(aio_read::hook(request)).is_err(),
                Some([_, libc::LIO_WRITE]) => kept(aio_write::hook(request)).is_err(),
                _ => false,
            };
        }
        if failed { Err(Out::Errno(libc::EIO)) } else { Ok(0) }
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
    /// aio_read(3).
    fn aio_read(request: *mut aiocb) -> c_int { read_request(request) }
    /// aio_read(3).
    fn aio_read64(request: *mut aiocb) -> c_int { read_request(request) }
    /// aio_write(3).
    fn aio_write(request: *mut aiocb) -> c_int { write_request(request) }
    /// aio_write(3).
    fn aio_write64(request: *mut aiocb) -> c_int { write_request(request) }
    /// aio_fsync(3).
    fn aio_fsync(operation: c_int, request: *mut aiocb) -> c_int { sync_request(request) }
    /// aio_fsync(3).
    fn aio_fsync64(operation: c_int, request: *mut aiocb) -> c_int { sync_request(request) }
    /// lio_listio(3).
    fn lio_listio(mode: c_int, requests: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int { list(count, requests) }
    /// lio_listio(3).
    fn lio_listio64(mode: c_int, requests: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int { list(count, requests) }
}
