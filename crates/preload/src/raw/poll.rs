//! Waits for descriptors, and wakes waiters.

use super::{call, call_with_numbers, call4, checked};
use crate::outcome::Errno;
use libc::c_int;

/// eventfd2(2), non-blocking and closed on exec.
pub(crate) fn event_descriptor() -> Result<c_int, Errno> {
    call_with_numbers(libc::SYS_eventfd2, 0, (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as usize, 0).map(|fd| fd as c_int)
}

/// ppoll(2). Without `longest_ms`, there is no time limit. `signals` is the mask of blocked signals
/// during the wait.
///
/// # Errors
/// EINTR after a signal handler ran.
pub(crate) fn poll(descriptors: &mut [libc::pollfd], longest_ms: Option<u64>, signals: Option<u64>) -> Result<usize, Errno> {
    let limit = longest_ms.map(|ms| libc::timespec { tv_sec: (ms / 1000) as _, tv_nsec: (ms % 1000 * 1_000_000) as _ });
    let limit = limit.as_ref().map_or(0, |limit| std::ptr::from_ref(limit) as usize);
    let mask = signals.as_ref().map_or(0, |mask| std::ptr::from_ref(mask) as usize);
    let (at, count) = (descriptors.as_mut_ptr() as usize, descriptors.len());
    // SAFETY: the descriptors, the time and the mask outlive the call.
    checked(unsafe { call(libc::SYS_ppoll, at, count, limit, mask, size_of::<u64>(), 0) })
}

/// Adds one to the counter of an eventfd.
pub(crate) fn signal(fd: c_int) {
    let one = 1u64;
    // SAFETY: the kernel reads eight bytes of `one`, which lives in this frame.
    let _ = unsafe { call4(libc::SYS_write, fd as usize, std::ptr::from_ref(&one) as usize, size_of::<u64>(), 0) };
}

/// Sets the counter of an eventfd to zero.
pub(crate) fn reset(fd: c_int) {
    let mut count = 0u64;
    // SAFETY: the kernel writes eight bytes to `count`, which lives in this frame.
    let _ = unsafe { call4(libc::SYS_read, fd as usize, std::ptr::from_mut(&mut count) as usize, size_of::<u64>(), 0) };
}
