//! Waiting for a word to change, in memory that other processes may map too.

use super::raw::call;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `expected`, at most so long. False when the time is over; true for every other reason to look
/// again: a wake-up, another value, a signal.
pub(crate) fn wait(word: &AtomicU32, expected: u32, longest: Duration) -> bool {
    let longest = libc::timespec { tv_sec: longest.as_secs() as _, tv_nsec: longest.subsec_nanos() as _ };
    let operation = libc::FUTEX_WAIT as usize; // shared: the word may lie in a segment
    let arguments = [word.as_ptr() as usize, operation, expected as usize, &raw const longest as usize, 0, 0];
    // SAFETY: word and time outlive the call, which only reads them.
    let result = unsafe { call(libc::SYS_futex, arguments) };
    result != -(libc::ETIMEDOUT as isize)
}

/// Wakes so many of those who sleep on `word`.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    let count = count.min(i32::MAX as u32) as usize;
    // SAFETY: the word outlives the call, which only takes its address.
    unsafe { call(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, count, 0, 0, 0]) };
}
