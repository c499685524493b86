//! POSIX AIO on files of a mount. libc would do the I/O on the placeholders, in its own threads.
//! Here the thread of kernel AIO executes reads, stable writes and flushes, many of them at the
//! same time. Other requests are finished before the call returns. aio_error and aio_return are
//! libc's: they read the result from the request.

use crate::data;
use crate::durable;
use crate::ffi;
use crate::hook::hooks;
use crate::kernel_aio::{Context, Submitted, Work};
use crate::mounts;
use crate::open_file::Open;
use crate::outcome::{Out, errno, kept};
use crate::raw;
use crate::table::{self, Found};
use libc::{aiocb, c_int, c_void, pthread_attr_t, sigevent, sigval, size_t, ssize_t, timespec};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// `struct aiocb` of libc on 64-bit Linux: the public fields that are used here, and the two in
/// which libc stores the result.
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

/// `struct sigevent` with the fields that SIGEV_THREAD needs.
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

/// The call that a thread of SIGEV_THREAD makes.
struct Call {
    function: unsafe extern "C" fn(sigval),
    value: sigval,
}

extern "C" fn run_call(call: *mut c_void) -> *mut c_void {
    // SAFETY: `call_in_a_thread` made it with `Box::into_raw`, for this thread alone.
    let Call { function, value } = *unsafe { Box::from_raw(call.cast::<Call>()) };
    // SAFETY: the program asked for this call of its function with this value, once.
    unsafe { function(value) };
    std::ptr::null_mut()
}

impl Event {
    /// Notifies the program that a request is done. As in libc, an event of an unknown kind, or
    /// signal 0, causes no notification.
    fn notify(&self) -> Result<(), c_int> {
        match (self.notify, self.function) {
            (libc::SIGEV_SIGNAL, _) if self.signal != 0 => raw::queue_signal(self.signal, self.value),
            (libc::SIGEV_THREAD, Some(function)) => self.call_in_a_thread(function),
            _ => Ok(()),
        }
    }

    fn call_in_a_thread(&self, function: unsafe extern "C" fn(sigval)) -> Result<(), c_int> {
        let call = Box::into_raw(Box::new(Call { function, value: self.value })).cast::<c_void>();
        // SAFETY: pthread_attr_init and pthread_create initialize the zeroed values before any use;
        // the new thread takes over `call`.
        unsafe {
            let mut detached: pthread_attr_t = std::mem::zeroed();
            libc::pthread_attr_init(&raw mut detached);
            libc::pthread_attr_setdetachstate(&raw mut detached, libc::PTHREAD_CREATE_DETACHED);
            let attributes = if self.attributes.is_null() { &raw const detached } else { self.attributes };
            let mut thread: libc::pthread_t = std::mem::zeroed(); // a number or a pointer, depending on libc
            let failed = libc::pthread_create(&raw mut thread, attributes, run_call, call);
            libc::pthread_attr_destroy(&raw mut detached);
            if failed != 0 {
                drop(Box::from_raw(call.cast::<Call>())); // no thread will free it
                return Err(failed);
            }
        }
        Ok(())
    }
}

impl Request {
    /// Stores the result before the error, because the program may read both at any time.
    fn done(&mut self, answer: ssize_t, error: c_int) {
        self.answer = answer;
        // SAFETY: the field is aligned and lives as long as `self`; other threads only read it meanwhile.
        unsafe { AtomicI32::from_ptr(&raw mut self.error) }.store(error, Ordering::Release);
    }
}

/// Whether a request is not done yet.
///
/// # Safety
/// `request` is a valid `aiocb`.
unsafe fn is_pending(request: *const aiocb) -> bool {
    // SAFETY: the request is valid by the caller's promise; the field is an aligned int.
    let error = unsafe { AtomicI32::from_ptr((&raw const (*request.cast::<Request>()).error).cast_mut()) };
    error.load(Ordering::Acquire) == libc::EINPROGRESS
}

/// A request in flight: its address, and the notification for its end.
pub(crate) struct Asked {
    request: usize,
    event: Event,
    list: Option<Arc<List>>,
}
// SAFETY: the pointers in the event are the program's, which lets any thread use them until the notification.
unsafe impl Send for Asked {}

/// The requests of one call of lio_listio. The last one to finish notifies the program.
struct List {
    left: AtomicUsize,
    event: Option<Event>,
}
// SAFETY: as for `Asked`.
unsafe impl Send for List {}
// SAFETY: threads that share it change nothing but the atomic counter.
unsafe impl Sync for List {}

impl List {
    fn one_is_done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(event) = &self.event
        {
            let _ = event.notify(); // lio_listio has returned, so there is no caller for the error
        }
    }
}

impl Asked {
    /// Address of the program's `aiocb`.
    pub(crate) const fn request(&self) -> usize {
        self.request
    }

    /// Ends the request with a number of bytes or a negative errno.
    pub(crate) fn answer(self, result: i64) {
        // SAFETY: POSIX requires that the program keeps a request valid and unchanged until it is done.
        if let Some(control) = unsafe { (self.request as *mut Request).as_mut() } {
            let (answer, error) = if result < 0 { (-1, -result as c_int) } else { (result as ssize_t, 0) };
            control.done(answer, error);
        }
        let _ = self.event.notify();
        if let Some(list) = &self.list {
            list.one_is_done();
        }
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Read,
    Write,
    Sync,
}

/// Begins a request. It goes to the thread of kernel AIO if [`later`] has work for that thread.
/// Otherwise this call executes it.
///
/// # Safety
/// `request` is NULL or a valid `aiocb`, which stays valid, with its buffer, until it is done.
unsafe fn begin(request: *mut aiocb, operation: Operation, list: Option<&Arc<List>>) -> Result<c_int, Out> {
    // SAFETY: NULL or an aiocb by the caller's promise; the assertions above prove the layout.
    let Some(control) = (unsafe { request.cast::<Request>().as_mut() }) else { return Err(Out::Errno(libc::EINVAL)) };
    let found = table::find(control.fd)?;
    if matches!(found, Found::Elsewhere) {
        return Err(Out::Pass);
    }
    if !(0..=PRIORITY_MAX).contains(&control.priority) {
        control.done(-1, libc::EINVAL);
        return Err(Out::Errno(libc::EINVAL));
    }
    let asked = Asked { request: request as usize, event: control.event, list: list.cloned() };
    if let Found::File(open) = found
        // SAFETY: the buffer stays valid until the request is done, by the caller's promise.
        && let Some(work) = unsafe { later(control, operation, &open) }
        && let Ok(context) = Context::for_posix()
    {
        let fd = open.fd;
        control.done(0, libc::EINPROGRESS);
        match Submitted::posix(context, asked, open, work) {
            Ok(submitted) => context.take_posix(request as usize, fd, submitted),
            Err(errno) => {
                control.done(-1, errno);
                return Err(Out::Errno(errno));
            }
        }
        return Ok(0);
    }
    // SAFETY: the buffer has `count` bytes and belongs to the request, by the caller's promise.
    let answer = unsafe {
        match operation {
            Operation::Read => data::pread::hook(control.fd, control.buffer, control.count, control.offset),
            Operation::Write => data::pwrite::hook(control.fd, control.buffer, control.count, control.offset),
            Operation::Sync => durable::fsync::hook(control.fd) as ssize_t,
        }
    };
    asked.answer(if answer < 0 { -i64::from(errno()) } else { answer as i64 });
    Ok(0)
}

/// The work for the thread. `None` for a request that is done at once: an error, an append, or a
/// write that is neither O_DIRECT nor stable.
///
/// # Safety
/// The buffer of `control` is valid until the request is done.
unsafe fn later(control: &Request, operation: Operation, open: &Open) -> Option<Work> {
    let offset = u64::try_from(control.offset).ok()?;
    let access = open.flags & libc::O_ACCMODE;
    // SAFETY: the buffer has `count` bytes and stays valid until the request is done, by the
    // caller's promise.
    unsafe {
        match operation {
            Operation::Sync => Some(Work::Sync),
            _ if control.count == 0 || control.buffer.is_null() => None,
            Operation::Read if access == libc::O_WRONLY => None,
            Operation::Read => Some(Work::Read(offset, vec![IoSliceMut::new(ffi::bytes_mut(control.buffer, control.count))])),
            Operation::Write if access == libc::O_RDONLY => None,
            Operation::Write => {
                let how = data::stable_write(open, 0).ok()??;
                Some(Work::Write(offset, vec![IoSlice::new(ffi::bytes(control.buffer, control.count))], how))
            }
        }
    }
}

/// Waits until `over` returns true. Calls it after each finished request and, if given, every
/// `look_again_ns`.
///
/// # Errors
/// EINTR after a signal handler ran; ETIMEDOUT after `end_ns`.
fn wait_until(end_ns: Option<u64>, look_again_ns: Option<u64>, mut over: impl FnMut() -> bool) -> Result<(), c_int> {
    let Some(context) = Context::posix() else { return Ok(()) };
    loop {
        let seen = context.completions.load(Ordering::SeqCst);
        if over() {
            return Ok(());
        }
        let look_ns = look_again_ns.map(|ns| raw::monotonic_ns() + ns);
        let until = [end_ns, look_ns].into_iter().flatten().min();
        match context.wait(seen, until) {
            Err(libc::ETIMEDOUT) if end_ns.is_none_or(|end| raw::monotonic_ns() < end) => {}
            outcome => outcome?,
        }
    }
}

/// Nanoseconds between two checks of a list that also has requests that libc executes.
const LOOK_AGAIN_NS: u64 = 2_000_000;

/// aio_suspend(3): waits until one of the requests is done.
///
/// # Safety
/// `list` has `count` pointers, each NULL or a valid `aiocb`; `longest` is NULL or a valid time.
unsafe fn suspend(list: *const *const aiocb, count: c_int, longest: *const timespec) -> Result<c_int, Out> {
    // SAFETY: `list`, its requests and `longest` are valid by the caller's promise.
    unsafe {
        let all = || (0..usize::try_from(count).unwrap_or(0)).filter_map(|index| ffi::take(list.wrapping_add(index)));
        let each: Vec<*const aiocb> = all().filter(|request| !request.is_null()).collect();
        if !mounts::any() || each.is_empty() {
            return Err(Out::Pass);
        }
        let Some(context) = Context::posix() else { return Err(Out::Pass) };
        let ours = each.iter().filter(|request| context.has_posix(|known, _| known == **request as usize)).count();
        let over = || each.iter().any(|request| !is_pending(*request));
        if ours == 0 && !over() {
            return Err(Out::Pass);
        }
        let time_ns = |time: timespec| (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64);
        let end = ffi::take(longest).map(|time| raw::monotonic_ns().saturating_add(time_ns(time)));
        let look = (ours < each.len()).then_some(LOOK_AGAIN_NS);
        match wait_until(end, look, over) {
            Ok(()) => Ok(0),
            Err(libc::ETIMEDOUT) => Err(Out::Errno(libc::EAGAIN)),
            Err(errno) => Err(Out::Errno(errno)),
        }
    }
}

/// aio_cancel(3). A request in flight cannot be cancelled.
fn cancel(fd: c_int, request: *const aiocb) -> Result<c_int, Out> {
    if matches!(table::find(fd)?, Found::Elsewhere) {
        return Err(Out::Pass);
    }
    let is_it = |known: usize, of: c_int| if request.is_null() { of == fd } else { known == request as usize };
    let pending = Context::posix().is_some_and(|context| context.has_posix(is_it));
    Ok(if pending { libc::AIO_NOTCANCELED } else { libc::AIO_ALLDONE })
}

/// Begins one request of a list. An unknown operation fails only this request.
///
/// # Safety
/// As [`begin`].
unsafe fn listed(request: *mut aiocb, operation: c_int, list: Option<&Arc<List>>) -> Result<c_int, Out> {
    // SAFETY: the caller promises for `request` what `begin` requires.
    let begun = unsafe {
        match operation {
            libc::LIO_READ => begin(request, Operation::Read, list),
            libc::LIO_WRITE => begin(request, Operation::Write, list),
            libc::LIO_NOP => {
                list.inspect(|list| list.one_is_done());
                return Ok(0);
            }
            _ => {
                if let Some(control) = request.cast::<Request>().as_mut() {
                    control.done(-1, libc::EINVAL);
                }
                Err(Out::Errno(libc::EINVAL))
            }
        }
    };
    if begun.is_err() {
        list.inspect(|list| list.one_is_done());
    }
    begun
}

/// lio_listio(3). If some requests of the list are not on mounts, those on mounts are finished
/// first. Then libc executes the others, and waits or notifies as `mode` says.
///
/// # Safety
/// `requests` has `count` pointers, each as [`begin`] requires; `event` is NULL or a valid event.
unsafe fn list(
    mode: c_int,
    requests: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
    real: impl FnOnce(*const *mut aiocb, c_int) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: `requests`, its elements and `event` are valid by the caller's promise.
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
        let waits = mode == libc::LIO_WAIT || !others.is_empty();
        // The count is one more than the requests, so that no notification is sent before all have begun.
        let completion =
            (!waits).then(|| Arc::new(List { left: AtomicUsize::new(ours.len() + 1), event: ffi::take(event.cast::<Event>()) }));
        let mut failed = false;
        for request in &ours {
            let Some([_, operation]) = ffi::take(request.cast::<[c_int; 2]>()) else { continue };
            failed |= listed(*request, operation, completion.as_ref()).is_err();
        }
        if waits {
            wait_until(None, None, || ours.iter().all(|request| !is_pending(*request)))?;
            let awaited = |request: &&*mut aiocb| (*request.cast::<Request>()).error != 0;
            let moves =
                |request: &&*mut aiocb| ffi::take(request.cast::<[c_int; 2]>()).is_some_and(|[_, what]| what != libc::LIO_NOP);
            failed |= mode == libc::LIO_WAIT && ours.iter().filter(moves).any(|request| awaited(&request));
        }
        if let Some(completion) = completion {
            completion.one_is_done();
        }
        if !others.is_empty() {
            kept(real(others.as_ptr(), others.len() as c_int))?;
        }
        if failed { Err(Out::Errno(libc::EIO)) } else { Ok(0) }
    }
}

/// # Safety
/// As [`begin`].
unsafe fn sync_request(operation: c_int, request: *mut aiocb) -> Result<c_int, Out> {
    if operation != libc::O_SYNC && operation != libc::O_DSYNC {
        return Err(Out::Pass); // libc answers EINVAL
    }
    // SAFETY: the caller promises for `request` what `begin` requires.
    unsafe { begin(request, Operation::Sync, None) }
}

hooks! {
    /// aio_read(3).
    fn aio_read(request: *mut aiocb) -> c_int { begin(request, Operation::Read, None) }
    /// aio_read(3).
    fn aio_read64(request: *mut aiocb) -> c_int { begin(request, Operation::Read, None) }
    /// aio_write(3).
    fn aio_write(request: *mut aiocb) -> c_int { begin(request, Operation::Write, None) }
    /// aio_write(3).
    fn aio_write64(request: *mut aiocb) -> c_int { begin(request, Operation::Write, None) }
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
    /// aio_suspend(3).
    @cancellation_point fn aio_suspend(list: *const *const aiocb, count: c_int, longest: *const timespec) -> c_int { suspend(list, count, longest) }
    /// aio_suspend(3).
    @cancellation_point fn aio_suspend64(list: *const *const aiocb, count: c_int, longest: *const timespec) -> c_int { suspend(list, count, longest) }
    /// aio_cancel(3).
    fn aio_cancel(fd: c_int, request: *mut aiocb) -> c_int { cancel(fd, request) }
    /// aio_cancel(3).
    fn aio_cancel64(fd: c_int, request: *mut aiocb) -> c_int { cancel(fd, request) }
}
