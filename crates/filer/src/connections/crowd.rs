//! Whether the threads of connections are short.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::limits::{CROWDED_TURN, MANY_RUNNING, MANY_RUNNING_IDLE};

/// Whether threads are short, as the connections see it.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    is_waited_for: AtomicBool,
    are_many: AtomicBool,
}

impl Crowd {
    /// Whether a connection waits for a thread.
    pub(super) fn is_waited_for(&self) -> bool {
        self.is_waited_for.load(Ordering::Relaxed)
    }

    /// How long a thread waits for the next request of its connection before it parks the connection. `None` while there are few threads.
    pub(super) fn idle_limit(&self) -> Option<Duration> {
        match self.is_waited_for() {
            true => Some(CROWDED_TURN),
            false => self.are_many.load(Ordering::Relaxed).then_some(MANY_RUNNING_IDLE),
        }
    }

    /// Notes whether a connection waits for a thread, and the number of threads.
    pub(super) fn note(&self, is_waited_for: bool, running: usize) {
        self.is_waited_for.store(is_waited_for, Ordering::Relaxed);
        self.are_many.store(running > MANY_RUNNING, Ordering::Relaxed);
    }
}
