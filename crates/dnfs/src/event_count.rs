//! An event count: waits for an event without a lock of its own. It may be in memory that processes share.

use crate::sys::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;
use std::time::Duration;

use crate::limits::HOLDER_CHECK_MS;
use crate::sys::futex;
use crate::sys::raw::clock_ns;

/// A word that changes at each event, and whether there may be sleeping waiters.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    event: AtomicU32,
    waiting: AtomicU32,
}

impl EventCount {
    /// A count without waiters.
    pub(crate) const fn new() -> Self {
        Self { event: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Waits until `attempt` returns a value. Its argument is whether the last sleep was so long that a holder may be dead.
    ///
    /// A waiter that dies delays no other one for long: the one that it should have woken wakes by itself a little later.
    pub(crate) fn wait_until<T>(&self, mut attempt: impl FnMut(bool) -> Option<T>) -> T {
        let mut overdue = false;
        loop {
            let event = self.event.load(SeqCst);
            // Set before the attempt, so that a later event finds the flag. It stays set for other waiters that may still
            // sleep.
            self.waiting.store(1, SeqCst);
            if let Some(found) = attempt(overdue) {
                return found;
            }
            overdue = !futex::wait(&self.event, event, Duration::from_millis(HOLDER_CHECK_MS));
        }
    }

    /// Waits until `attempt` returns a value, `longest` at most.
    pub(crate) fn wait_at_most<T>(&self, longest: Duration, attempt: impl Fn() -> Option<T>) -> Option<T> {
        let end = clock_ns(libc::CLOCK_MONOTONIC) + longest.as_nanos() as u64;
        loop {
            let event = self.event.load(SeqCst);
            self.waiting.store(1, SeqCst);
            let found = attempt();
            let now = clock_ns(libc::CLOCK_MONOTONIC);
            if found.is_some() || now >= end {
                return found;
            }
            futex::wait(&self.event, event, Duration::from_nanos(end - now));
        }
    }

    /// Called after an event: wakes up to `count` waiters. Returns whether there may have been any.
    pub(crate) fn notify(&self, count: u32) -> bool {
        fence(SeqCst);
        let has_waiters = self.waiting.load(SeqCst) != 0 && self.waiting.swap(0, SeqCst) != 0;
        if has_waiters {
            self.event.fetch_add(1, SeqCst);
            futex::wake(&self.event, count);
        }
        has_waiters
    }
}
