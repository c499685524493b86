//! Clocks and waiting.

use rustix::thread::{NanosleepRelativeResult, Timespec, nanosleep};
use std::time::Duration;

/// Nanoseconds of a clock that only goes forward, the same for all processes.
pub(crate) fn monotonic_ns() -> u64 {
    let now = read(libc::CLOCK_MONOTONIC);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Milliseconds of the same clock.
pub(crate) fn monotonic_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// Milliseconds of the same clock at its last tick, at most 4 ms ago. Takes a fifth of the time.
pub(crate) fn coarse_ms() -> u64 {
    let now = read(libc::CLOCK_MONOTONIC_COARSE);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// User and system time this process has used so far.
#[must_use]
pub fn cpu_time() -> Duration {
    let used = read(libc::CLOCK_PROCESS_CPUTIME_ID);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is ours to be written. By libc's name, which no hook has: it reads the kernel's clock page without a
    // system call, and rustix, without libc, may allocate when it looks for that page.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now
}

/// Sleeps, through signals.
pub(crate) fn sleep(time: Duration) {
    let mut left = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    while let NanosleepRelativeResult::Interrupted(rest) = nanosleep(&left) {
        left = rest;
    }
}

/// Lets another thread run.
pub(crate) fn give_way() {
    rustix::thread::sched_yield();
}
