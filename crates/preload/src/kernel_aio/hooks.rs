//! libaio's names.

use super::request::{Event, Iocb};
use super::{cancel, destroy, drain, get_events, is_ours, negative, setup, submit};
use crate::close;
use crate::ffi;
use crate::hook::hooks;
use crate::outcome::Out;
use crate::{medium, queues, shared_maps};
use libc::{c_int, c_long, c_void, timespec};

/// The `data` of a request for io_queue_run is such a function. Its arguments: context, request,
/// result, second result.
type Callback = unsafe extern "C" fn(usize, *mut Iocb, c_long, c_long);

fn ours(answer: impl FnOnce() -> c_int) -> Result<c_int, Out> {
    if is_ours() { Ok(answer()) } else { Err(Out::Pass) }
}

/// Finishes requests and sends written data. Called before the process ends.
fn drained<T>() -> Result<T, Out> {
    drain();
    shared_maps::write_all();
    close::send_gathered();
    Err(Out::Pass)
}

/// Calls the callback of every request that is done.
fn run_queue(context: usize) -> c_int {
    let now = timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        let mut event = Event::default();
        // SAFETY: `event` has room for one event, and `now` is a time.
        match unsafe { get_events(context, 0, 1, &raw mut event, &raw const now, None) } {
            Ok(0) => return 0,
            Ok(_) => {
                // SAFETY: a program that uses io_queue_run puts such a function into its requests.
                // libaio would call it without a check, even NULL.
                let callback: Option<Callback> = unsafe { std::mem::transmute(event.data as usize) };
                if let Some(callback) = callback {
                    // SAFETY: a function that takes these arguments, as above.
                    unsafe { callback(context, event.request as *mut Iocb, event.result as c_long, event.result2 as c_long) };
                }
            }
            Err(errno) => return -errno,
        }
    }
}

/// `struct io_sig_set` of io_pgetevents: a set and its size.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SignalSet {
    set: *const u64,
    bytes: usize,
}

/// io_pgetevents(2), with the signal set in the form of the system call.
///
/// # Safety
/// The pointers are as io_pgetevents(2) requires.
pub(crate) unsafe fn with_signals(
    context: usize,
    (least, most): (c_long, c_long),
    events: *mut Event,
    longest: *const timespec,
    signals: *const SignalSet,
) -> Result<c_long, crate::outcome::Errno> {
    // SAFETY: the pointers are as io_pgetevents(2) requires, by the caller's promise.
    unsafe {
        let signals = match ffi::take(signals) {
            Some(signals) if !signals.set.is_null() && signals.bytes != size_of::<u64>() => return Err(libc::EINVAL),
            Some(signals) => ffi::take(signals.set),
            None => None,
        };
        get_events(context, least, most, events, longest, signals)
    }
}

/// io_submit(2) without a mount. Refuses if any of the requests is for a file of a modelled medium.
///
/// # Safety
/// `list` has `count` pointers, each NULL or a valid request.
pub(crate) unsafe fn refuse_modelled(count: c_long, list: *const *const Iocb) -> Result<c_int, Out> {
    if !medium::any() {
        return Err(Out::Pass);
    }
    let modelled = (0..usize::try_from(count).unwrap_or(0)).any(|index| {
        // SAFETY: the array has this element, which is NULL or a request, by the caller's promise.
        let request = unsafe { ffi::take(list.wrapping_add(index)).and_then(|request| ffi::take(request)) };
        request.is_some_and(|request| medium::has(request.descriptor()))
    });
    if modelled { Ok(-queues::cannot_reach()) } else { Err(Out::Pass) }
}

hooks! {
    /// libaio.
    fn io_setup(events: c_int, into: *mut usize) -> c_int { ours(|| negative(setup(events as u32, into))) }
    /// libaio.
    fn io_destroy(context: usize) -> c_int { ours(|| negative(destroy(context))) }
    /// libaio.
    fn io_submit(context: usize, count: c_long, list: *const *const Iocb) -> c_int {
        if !is_ours() { return refuse_modelled(count, list) }
        Ok(negative(submit(context, count, list)))
    }
    /// libaio.
    fn io_cancel(context: usize, request: *mut Iocb, event: *mut Event) -> c_int { ours(|| negative(cancel(context))) }
    /// libaio.
    fn io_getevents(context: usize, least: c_long, most: c_long, events: *mut Event, longest: *const timespec) -> c_int {
        ours(|| negative(get_events(context, least, most, events, longest, None)))
    }
    /// libaio. The set is one of libc's, which begins with the kernel's eight bytes.
    fn io_pgetevents(context: usize, least: c_long, most: c_long, events: *mut Event, longest: *const timespec, signals: *const u64) -> c_int {
        ours(|| negative(get_events(context, least, most, events, longest, ffi::take(signals))))
    }
    /// libaio.
    fn io_queue_init(events: c_int, into: *mut usize) -> c_int {
        if !is_ours() { return Err(Out::Pass) }
        if events <= 0 || into.is_null() { return Ok(-libc::EINVAL) }
        into.write_unaligned(0);
        Ok(negative(setup(events as u32, into)))
    }
    /// libaio.
    fn io_queue_release(context: usize) -> c_int { ours(|| negative(destroy(context))) }
    /// libaio.
    fn io_queue_run(context: usize) -> c_int { ours(|| run_queue(context)) }
    /// libaio: io_getevents of no events, which does not wait.
    fn io_queue_wait(context: usize, longest: *const timespec) -> c_int {
        if !is_ours() { return Err(Out::Pass) }
        Ok(negative(get_events(context, 0, 0, std::ptr::null_mut::<c_void>().cast(), longest, None)))
    }
    /// _exit(2). The kernel also waits for requests in flight.
    fn _exit(status: c_int) -> () { drained() }
    /// _exit(2), C's name.
    fn _Exit(status: c_int) -> () { drained() }
}
