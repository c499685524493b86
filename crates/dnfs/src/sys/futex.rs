//! Waits for a word to change, in memory that other processes may map too.

use super::atomic::AtomicU32;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use std::time::Duration;

/// Sleeps while `word` is `expected`, `longest` at most. False after that time; true for every other reason to check again: a
/// wake-up, another value, a signal.
pub(crate) fn wait(word: &AtomicU32, expected: u32, longest: Duration) -> bool {
    let word = super::atomic::word(word);
    #[cfg(test)]
    if word.load(core::sync::atomic::Ordering::SeqCst) != expected {
        return true;
    } else if let Some(is_woken) = super::simulated::wait(word, longest) {
        return is_woken;
    }
    let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
    // The futex is not private to the process, because the word may lie in a segment.
    futex::wait(word, Flags::empty(), expected, Some(&longest)) != Err(Errno::TIMEDOUT)
}

/// Wakes up to `count` sleepers on `word`.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    let word = super::atomic::word(word);
    #[cfg(test)]
    if super::simulated::wake(word, count) {
        return;
    }
    let _ = futex::wake(word, Flags::empty(), count.min(i32::MAX as u32));
}
