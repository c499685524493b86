//! Requests in progress. The thread that takes a request out of this table replies to it, so each has one reply. The
//! table also has the signals that callers got meanwhile.

use crate::protocol::Unique;
use host::Unpoisoned;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(crate) struct Pending {
    requests: Mutex<HashMap<Unique, Waiting>>,
    interrupted: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    thread: u32,
    /// When its caller got the first signal.
    interrupted: Option<Instant>,
}

impl Pending {
    /// Adds a request of a thread.
    pub(crate) fn begin(&self, unique: Unique, thread: u32) {
        self.requests.lock().unpoisoned().insert(unique, Waiting { thread, interrupted: None });
    }

    /// Takes the request out. Returns false if another thread has done so; only the one that took it may reply.
    #[must_use]
    pub(crate) fn take(&self, unique: Unique) -> bool {
        self.requests.lock().unpoisoned().remove(&unique).is_some()
    }

    /// Whether a request still waits for its reply.
    pub(crate) fn waits(&self, unique: Unique) -> bool {
        self.requests.lock().unpoisoned().contains_key(&unique)
    }

    /// Notes that the caller got a signal. Returns false if there is no such request: it was not read yet, or has its reply.
    #[must_use]
    pub(crate) fn interrupt(&self, unique: Unique) -> bool {
        let mut requests = self.requests.lock().unpoisoned();
        let Some(waiting) = requests.get_mut(&unique) else { return false };
        waiting.interrupted.get_or_insert_with(Instant::now);
        self.interrupted.notify_all();
        true
    }

    /// Whether the caller got a signal. Also true if the request has its reply.
    pub(crate) fn is_interrupted(&self, unique: Unique) -> bool {
        self.requests.lock().unpoisoned().get(&unique).is_none_or(|waiting| waiting.interrupted.is_some())
    }

    /// Waits until a caller that waits for its reply has got a signal. Returns all such requests, with their threads
    /// and the time since the signal.
    pub(crate) fn await_interrupted(&self) -> Vec<(Unique, u32, Duration)> {
        let mut requests = self.requests.lock().unpoisoned();
        loop {
            let found: Vec<_> = requests
                .iter()
                .filter_map(|(unique, waiting)| Some((*unique, waiting.thread, waiting.interrupted?.elapsed())))
                .collect();
            if !found.is_empty() {
                return found;
            }
            requests = self.interrupted.wait(requests).unpoisoned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_once_and_a_signal_finds_it_until_then() {
        let pending = Pending::default();
        assert!(!pending.interrupt(Unique(1)), "not read yet");
        pending.begin(Unique(1), 7);
        assert!(!pending.is_interrupted(Unique(1)));
        assert!(pending.interrupt(Unique(1)));
        assert!(matches!(pending.await_interrupted()[..], [(Unique(1), 7, _)]));
        assert!(pending.waits(Unique(1)) && pending.take(Unique(1)));
        assert!(!pending.waits(Unique(1)));
        assert!(!pending.take(Unique(1)) && !pending.interrupt(Unique(1)));
    }
}
