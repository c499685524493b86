//! An event count: waiting until something is free, without a lock of its own. May lie in memory that processes share.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, fence};
use std::time::Duration;

use crate::limits::HOLDER_CHECK_MS;
use crate::sys::clock::monotonic_ns;
use crate::sys::futex;

/// A word that moves at each event, and whether anybody may be asleep on it.
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

    /// Waits until `attempt` brings something. It is told whether the last sleep lasted so long that a holder may be dead.
    ///
    /// A waiter that dies costs nothing: whoever it should have woken next wakes up by itself a little later.
    pub(crate) fn wait_until<T>(&self, mut attempt: impl FnMut(bool) -> Option<T>) -> T {
        let mut overdue = false;
        loop {
            let event = self.event.load(SeqCst);
            // Before the attempt: what is freed after it finds the flag. It stays for others who may still be asleep.
            self.waiting.store(1, SeqCst);
            if let Some(found) = attempt(overdue) {
                return found;
            }
            overdue = !futex::wait(&self.event, event, Duration::from_millis(HOLDER_CHECK_MS));
        }
    }

    /// Waits until `attempt` brings something, so long at most.
    pub(crate) fn wait_at_most<T>(&self, longest: Duration, attempt: impl Fn() -> Option<T>) -> Option<T> {
        let end = monotonic_ns() + longest.as_nanos() as u64;
        loop {
            let event = self.event.load(SeqCst);
            self.waiting.store(1, SeqCst);
            let found = attempt();
            let now = monotonic_ns();
            if found.is_some() || now >= end {
                return found;
            }
            futex::wait(&self.event, event, Duration::from_nanos(end - now));
        }
    }

    /// After something was freed: lets so many of those who wait try again.
    pub(crate) fn notify(&self, count: u32) {
        fence(SeqCst);
        if self.waiting.load(SeqCst) != 0 && self.waiting.swap(0, SeqCst) != 0 {
            self.event.fetch_add(1, SeqCst);
            futex::wake(&self.event, count);
        }
    }
}
