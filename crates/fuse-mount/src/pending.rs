//! Requests under way: each is answered once, by whoever took it out of here, and its caller may have got a signal meanwhile.

use crate::protocol::Unique;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(crate) struct Pending {
    requests: Mutex<HashMap<Unique, Waiting>>,
    interrupted: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    thread: u32,
    /// When its caller got a signal.
    interrupted: Option<Instant>,
}

impl Pending {
    /// A request of a thread begins.
    pub(crate) fn begin(&self, unique: Unique, thread: u32) {
        self.requests().insert(unique, Waiting { thread, interrupted: None });
    }

    /// The right to answer; false when somebody else did.
    #[must_use]
    pub(crate) fn take(&self, unique: Unique) -> bool {
        self.requests().remove(&unique).is_some()
    }

    /// Whether a request still waits for its answer.
    pub(crate) fn waits(&self, unique: Unique) -> bool {
        self.requests().contains_key(&unique)
    }

    /// The caller got a signal. False when there is no such request: it is not read yet, or answered.
    #[must_use]
    pub(crate) fn interrupt(&self, unique: Unique) -> bool {
        let mut requests = self.requests();
        let Some(waiting) = requests.get_mut(&unique) else { return false };
        waiting.interrupted.get_or_insert_with(Instant::now);
        self.interrupted.notify_all();
        true
    }

    /// Whether the caller got a signal; so is one whose request is answered.
    pub(crate) fn is_interrupted(&self, unique: Unique) -> bool {
        self.requests().get(&unique).is_none_or(|waiting| waiting.interrupted.is_some())
    }

    /// Waits until a caller has got a signal and no answer yet: all those, with their threads, and how long ago they got it.
    pub(crate) fn await_interrupted(&self) -> Vec<(Unique, u32, Duration)> {
        let mut requests = self.requests();
        loop {
            let found: Vec<_> = requests
                .iter()
                .filter_map(|(unique, waiting)| Some((*unique, waiting.thread, waiting.interrupted?.elapsed())))
                .collect();
            if !found.is_empty() {
                return found;
            }
            requests = self.interrupted.wait(requests).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<Unique, Waiting>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
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
