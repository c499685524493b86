//! POSIX aio on files of a mount. libc would write into placeholders from threads of its own; here a request is done before the
//! call returns, so that aio_error, aio_return, aio_suspend and aio_cancel of libc find it done, and then whoever asked is told.

use crate::data;
use crate::ffi;
use crate::hook::hooks;
use crate::mounts;
use crate::outcome::{Out, errno, kept};
use crate::raw;
use crate::table::{self, Found};
use libc::{aiocb, c_int, c_void, pthread_attr_t, sigevent, sigval, size_t, ssize_t};

/// `struct aiocb` of glibc on 64-bit Linux: the public fields we read and the two it keeps its answer in.
#[repr(C)]
struct Request {
    fd: c_int,
    operation: c_int,
    priority: c_int,
    buffer: *mut c_void,
    count: size_t,
    event: Event,
    _next: *mut c_void,
    _absolute: c_int,
    _policy: c_int,
    error: c_int,
    answer: ssize_t,
    offset: libc::off_t,
}
const _: () = assert!(size_of::<Request>() <= size_of::<aiocb>() && std::mem::offset_of!(Request, offset) == 128);

/// `struct sigevent` with what SIGEV_THREAD needs.
#[repr(C)]
#[derive(Clone, Copy)]
struct Event {
    value: sigval,
    signal: c_int,
    notify: c_int,
    function: Option<unsafe extern "C" fn(sigval)>,
    attributes: *const pthread_attr_t,
    _unused: [u64; 4],
}
const _: () = assert!(size_of::<Event>() == size_of::<sigevent>());

/// The highest aio_reqprio (AIO_PRIO_DELTA_MAX).
const PRIORITY_MAX: c_int = 20;

/// What a thread of SIGEV_THREAD runs.
struct Call {
    function: unsafe extern "C" fn(sigval),
    value: sigval,
}

extern "C" fn run_call(call: *mut c_void) -> *mut c_void {
    // SAFETY: made by Box in `notify`, for this thread alone.
    let Call { function, value } = *unsafe { Box::from_raw(call.cast::<Call>()) };
    // SAFETY: the program's function, called once as it asked.
    unsafe { function(value) };
    std::ptr::null_mut()
}

impl Event {
    /// Tells the program that a request is done. As in libc an event without a known kind, or signal 0, tells nobody.
    fn notify(&self) -> Result<(), c_int> {
        match (self.notify, self.function) {
            (libc::SIGEV_SIGNAL, _) if self.signal != 0 => raw::queue_signal(self.signal, self.value),
            (libc::SIGEV_THREAD, Some(function)) => self.call_in_a_thread(function),
            _ => Ok(()),
        }
    }

    fn call_in_a_thread(&self, function: unsafe extern "C" fn(sigval)) -> Result<(), c_int> {
        let call = Box::into_raw(Box::new(Call { function, value: self.value })).cast::<c_void>();
        // SAFETY: zeroes are initialized by pthread_attr_init and pthread_create before they are used; the thread takes over `call`.
        unsafe {
            let mut detached: pthread_attr_t = std::mem::zeroed();
            libc::pthread_attr_init(&raw mut detached);
            libc::pthread_attr_setdetachstate(&raw mut detached, libc::PTHREAD_CREATE_DETACHED);
            let attributes = if self.attributes.is_null() { &raw const detached } else { self.attributes };
            let mut thread: libc::pthread_t = std::mem::zeroed(); // a number or a pointer, as libc has it
            let failed = libc::pthread_create(&raw mut thread, attributes, run_call, call);
            libc::pthread_attr_destroy(&raw mut detached);
            if failed != 0 {
                drop(Box::from_raw(call.cast::<Call>())); // nobody runs it
                return Err(failed);
            }
        }
        Ok(())
    }
}

impl Request {
    fn done(&mut self, answer: ssize_t, error: c_int) {
        self.answer = answer;
        self.error = error;
    }
}

/// Does a request at once and tells whoever asked.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn perform(request: *mut aiocb, run: impl FnOnce(&Request) -> ssize_t) -> Result<c_int, Out> {
    let at = request.cast::<Request>();
    // SAFETY: an aiocb by the caller's promise, laid out as asserted above.
    let Some(control) = (unsafe { at.as_mut() }) else { return Err(Out::Errno(libc::EINVAL)) };
    if matches!(table::find(control.fd)?, Found::Elsewhere) {
        return Err(Out::Pass);
    }
    if !(0..=PRIORITY_MAX).contains(&control.priority) {
        control.done(-1, libc::EINVAL);
        return Err(Out::Errno(libc::EINVAL));
    }
    let answer = run(control);
    control.done(answer, if answer < 0 { errno() } else { 0 });
    // The program may use the request for the next one as soon as it is told.
    let event = control.event;
    if let Err(errno) = event.notify() {
        // SAFETY: nobody was told, so the request is still ours.
        if let Some(control) = unsafe { at.as_mut() } {
            control.done(-1, errno);
        }
    }
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
unsafe fn sync_request(operation: c_int, request: *mut aiocb) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if operation != libc::O_SYNC && operation != libc::O_DSYNC {
            return Err(Out::Pass); // EINVAL
        }
        perform(request, |control| crate::durable::fsync::hook(control.fd) as ssize_t)
    }
}

/// One request of a list; an operation that is none fails for itself.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn listed(request: *mut aiocb, operation: c_int) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        match operation {
            libc::LIO_READ => read_request(request),
            libc::LIO_WRITE => write_request(request),
            libc::LIO_NOP => Ok(0),
            _ => {
                if let Some(control) = request.cast::<Request>().as_mut() {
                    control.done(-1, libc::EINVAL);
                }
                Err(Out::Errno(libc::EINVAL))
            }
        }
    }
}

/// lio_listio: ours one by one, then libc has the rest, waits for it and tells when all is done.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn list(
    mode: c_int,
    requests: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
    real: impl FnOnce(*const *mut aiocb, c_int) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if !mounts::any() || !matches!(mode, libc::LIO_WAIT | libc::LIO_NOWAIT) {
            return Err(Out::Pass);
        }
        let each = (0..usize::try_from(count).unwrap_or(0)).filter_map(|index| ffi::take(requests.wrapping_add(index)));
        let is_ours = |request: &*mut aiocb| {
            ffi::take(request.cast::<c_int>()).is_some_and(|fd| !matches!(table::find(fd), Ok(Found::Elsewhere)))
        };
        let (ours, others): (Vec<_>, Vec<_>) = each.partition(is_ours);
        if ours.is_empty() {
            return Err(Out::Pass);
        }
        let mut failed = false;
        for request in ours {
            let Some([_, operation]) = ffi::take(request.cast::<[c_int; 2]>()) else { continue };
            let refused = listed(request, operation).is_err();
            let awaited = mode == libc::LIO_WAIT && operation != libc::LIO_NOP;
            failed |= refused || awaited && (*request.cast::<Request>()).error != 0;
        }
        if !others.is_empty() {
            kept(real(others.as_ptr(), others.len() as c_int))?;
        } else if mode == libc::LIO_NOWAIT
            && let Some(event) = ffi::take(event.cast::<Event>())
        {
            event.notify()?;
        }
        if failed { Err(Out::Errno(libc::EIO)) } else { Ok(0) }
    }
}

hooks! {
    /// aio_read(3).
    fn aio_read(request: *mut aiocb) -> c_int { read_request(request) }
    /// aio_read(3).
    fn aio_read64(request: *mut aiocb) -> c_int { read_request(request) }
    /// aio_write(3).
    fn aio_write(request: *mut aiocb) -> c_int { write_request(request) }
    /// aio_write(3).
    fn aio_write64(request: *mut aiocb) -> c_int { write_request(request) }
    /// aio_fsync(3).
    fn aio_fsync(operation: c_int, request: *mut aiocb) -> c_int { sync_request(operation, request) }
    /// aio_fsync(3).
    fn aio_fsync64(operation: c_int, request: *mut aiocb) -> c_int { sync_request(operation, request) }
    /// lio_listio(3).
    fn lio_listio(mode: c_int, requests: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int {
        list(mode, requests, count, event, |requests, count| real(mode, requests, count, event))
    }
    /// lio_listio(3).
    fn lio_listio64(mode: c_int, requests: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int {
        list(mode, requests, count, event, |requests, count| real(mode, requests, count, event))
    }
}
