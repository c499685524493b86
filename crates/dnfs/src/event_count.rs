//! Waiting until something is free, without a lock of its own.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;
use std::time::Duration;

use crate::limits::GATE_LOOK_MS;
use crate::segment::layout::Turnstile;
use crate::sys::futex;

impl Turnstile {
    /// Waits until `attempt` brings something. It is told whether the last sleep lasted so long that a holder may be dead.
    ///
    /// A waiter that dies costs nothing: whoever it should have woken next wakes up by himself a little later.
    pub(crate) fn pass<T>(&self, mut attempt: impl FnMut(bool) -> Option<T>) -> T {
        let mut overdue = false;
        loop {
            let event = self.event.load(SeqCst);
            // Before the attempt: what is freed after it finds the mark. It stays for others who may still be asleep.
            self.waiting.store(1, SeqCst);
            if let Some(found) = attempt(overdue) {
                return found;
            }
            overdue = !futex::wait(&self.event, event, Duration::from_millis(GATE_LOOK_MS));
        }
    }

    /// After something was freed: lets so many of those who wait try again.
    pub(crate) fn open(&self, count: u32) {
        fence(SeqCst);
        if self.waiting.load(SeqCst) != 0 && self.waiting.swap(0, SeqCst) != 0 {
            self.event.fetch_add(1, SeqCst);
            futex::wake(&self.event, count);
        }
    }
}
