//! Clocks and sleeping.

use core::sync::atomic::Ordering::Relaxed;
use rustix::thread::{NanosleepRelativeResult, Timespec, nanosleep};
use std::time::Duration;

use super::raw::clock_ns;
use super::whole_file;
use crate::process::this_process;

/// The monotonic clock in nanoseconds, the same for all processes of the host once [`learn_time_namespace`] was called.
pub(crate) fn monotonic_ns() -> u64 {
    hosts_ns(libc::CLOCK_MONOTONIC)
}

/// Determines the offset of the clock of this process' time namespace: times in shared memory are those of the host.
pub(crate) fn learn_time_namespace() {
    let offsets = whole_file::read("/proc/self/timens_offsets", 4096).ok().and_then(|(bytes, _)| String::from_utf8(bytes).ok());
    let ahead_ns = offsets.and_then(|offsets| monotonic_offset(&offsets)).unwrap_or(0);
    this_process().clock_ahead_ns.store(ahead_ns, Relaxed);
}

/// The offset of the monotonic clock, in ns, in the kernel's list: a line for each clock with seconds and nanoseconds.
fn monotonic_offset(offsets: &str) -> Option<i64> {
    let mut words = offsets.lines().find_map(|line| line.strip_prefix("monotonic"))?.split_ascii_whitespace();
    let (seconds, ns) = (words.next()?.parse::<i64>().ok()?, words.next()?.parse::<i64>().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

fn hosts_ns(clock: libc::clockid_t) -> u64 {
    clock_ns(clock).saturating_add_signed(this_process().clock_ahead_ns.load(Relaxed).saturating_neg())
}

/// The monotonic clock in milliseconds.
pub(crate) fn monotonic_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// The monotonic clock in milliseconds at its last tick, at most 4 ms ago. Takes a fifth of the
/// time.
pub(crate) fn coarse_ms() -> u64 {
    hosts_ns(libc::CLOCK_MONOTONIC_COARSE) / 1_000_000
}

/// User and system time that this process has used so far.
#[must_use]
pub fn cpu_time() -> Duration {
    Duration::from_nanos(clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID))
}

/// Sleeps for this time, also if signals arrive.
pub(crate) fn sleep(time: Duration) {
    #[cfg(test)]
    if super::simulated::sleep(time) {
        return;
    }
    let mut left = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    while let NanosleepRelativeResult::Interrupted(rest) = nanosleep(&left) {
        left = rest;
    }
}

/// Lets another thread run.
pub(crate) fn give_way() {
    #[cfg(test)]
    if super::simulated::give_way() {
        return;
    }
    rustix::thread::sched_yield();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_the_monotonic_clock_is_read_from_the_kernels_list() {
        assert_eq!(monotonic_offset("monotonic           0         0\nboottime            0         0\n"), Some(0));
        assert_eq!(monotonic_offset("monotonic         -60 500000000\nboottime           7         0\n"), Some(-59_500_000_000));
        assert_eq!(monotonic_offset(""), None);
    }
}
