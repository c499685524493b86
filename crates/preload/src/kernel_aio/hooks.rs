//! libaio's names.

use super::request::{Event, Iocb};
use super::{cancel, destroy, drain, get_events, is_ours, negative, setup, submit};
use crate::close;
use crate::ffi;
use crate::hook::hooks;
use crate::outcome::Out;
use crate::{medium, queues, shared_maps};
use libc::{c_int, c_long, c_void, timespec};

/// What a request's `data` is for io_queue_run: context, request, result, second result.
type Callback = unsafe extern "C" fn(usize, *mut Iocb, c_long, c_long);

fn ours(answer: impl FnOnce() -> c_int) -> Result<c_int, Out> {
    if is_ours() { Ok(answer()) } else { Err(Out::Pass) }
}

/// Before the process ends.
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
        // SAFETY: room for one event, and a time.
        match unsafe { get_events(context, 0, 1, &raw mut event, &raw const now, None) } {
            Ok(0) => return 0,
            Ok(_) => {
                // SAFETY: who uses io_queue_run puts such a function into its requests; a NULL would be called by libaio too.
                let callback: Option<Callback> = unsafe { std::mem::transmute(event.data as usize) };
                if let Some(callback) = callback {
                    // SAFETY: as above.
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

/// io_pgetevents, with the set as the system call takes it.
///
/// # Safety
/// As io_pgetevents(2).
pub(crate) unsafe fn with_signals(
    context: usize,
    (least, most): (c_long, c_long),
    events: *mut Event,
    longest: *const timespec,
    signals: *const SignalSet,
) -> Result<c_long, crate::outcome::Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        let signals = match ffi::take(signals) {
            Some(signals) if !signals.set.is_null() && signals.bytes != size_of::<u64>() => return Err(libc::EINVAL),
            Some(signals) => ffi::take(signals.set),
            None => None,
        };
        get_events(context, least, most, events, longest, signals)
    }
}

/// io_submit without a mount: refused if any of the requests is for a file of a modelled medium.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
pub(crate) unsafe fn refuse_modelled(count: c_long, list: *const *const Iocb) -> Result<c_int, Out> {
    if !medium::any() {
        return Err(Out::Pass);
    }
    let modelled = (0..usize::try_from(count).unwrap_or(0)).any(|index| {
        // SAFETY: the pointers are those of the hook's caller.
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
    /// libaio: the set is one of libc's, of which the kernel's eight bytes come first.
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
    /// libaio: io_getevents of no event, which waits for none.
    fn io_queue_wait(context: usize, longest: *const timespec) -> c_int {
        if !is_ours() { return Err(Out::Pass) }
        Ok(negative(get_events(context, 0, 0, std::ptr::null_mut::<c_void>().cast(), longest, None)))
    }
    /// _exit(2): the kernel waits for what is in flight, too.
    fn _exit(status: c_int) -> () { drained() }
    /// _exit(2), C's name.
    fn _Exit(status: c_int) -> () { drained() }
}
