//! Kernel AIO, for descriptors that are not on a mount.

use super::{call_with_numbers, call4, checked};
use crate::kernel_aio::{Event, Iocb};
use crate::outcome::Errno;

/// io_setup(2). Returns the number of the context.
pub(crate) fn setup(events: u32) -> Result<usize, Errno> {
    let mut context = 0usize;
    // SAFETY: the kernel reads and writes `context`, which lives in this frame.
    unsafe { call4(libc::SYS_io_setup, events as usize, std::ptr::from_mut(&mut context) as usize, 0, 0) }?;
    Ok(context)
}

/// io_destroy(2). Waits for requests in flight.
pub(crate) fn destroy(context: usize) -> Result<(), Errno> {
    call_with_numbers(libc::SYS_io_destroy, context, 0, 0).map(drop)
}

/// io_submit(2) of one request.
///
/// # Safety
/// The buffers of the request stay valid until its event is taken.
pub(crate) unsafe fn submit(context: usize, request: &Iocb) -> Result<(), Errno> {
    let list = [std::ptr::from_ref(request)];
    // SAFETY: the kernel copies the request before the call returns; its buffers stay valid by the
    // caller's promise.
    unsafe { call4(libc::SYS_io_submit, context, 1, list.as_ptr() as usize, 0) }.map(drop)
}

/// io_getevents(2) without waiting. Returns the number of filled `events`.
pub(crate) fn take_events(context: usize, events: &mut [Event]) -> Result<usize, Errno> {
    let (count, at) = (events.len(), events.as_mut_ptr() as usize);
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `events` has room for `count` events, and the time outlives the call.
    checked(unsafe { super::call(libc::SYS_io_getevents, context, 0, count, at, std::ptr::from_ref(&none) as usize, 0) })
}
