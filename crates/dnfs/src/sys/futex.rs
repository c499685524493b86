//! Waits for a word to change, in memory that other processes may map too.

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `expected`, `longest` at most. False after that time; true for every other reason to check again: a
/// wake-up, another value, a signal.
pub(crate) fn wait(word: &AtomicU32, expected: u32, longest: Duration) -> bool {
    let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
    // The futex is not private to the process, because the word may lie in a segment.
    futex::wait(word, Flags::empty(), expected, Some(&longest)) != Err(Errno::TIMEDOUT)
}

/// Wakes up to `count` sleepers on `word`.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, Flags::empty(), count.min(i32::MAX as u32));
}
