//! One log line for many events of a kind, because a peer can cause such events without limit.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::limits::REFUSALS_LOGGED_S;
use crate::sys;

/// The events of one kind. One of them is logged each [`REFUSALS_LOGGED_S`] seconds.
#[derive(Debug, Default)]
pub(crate) struct Paced {
    /// Second of the last log line. 0 before the first one.
    logged_s: AtomicU32,
    /// Events since that line.
    unlogged: AtomicU64,
}

impl Paced {
    /// Counts an event. If a log line is due, returns the number of events since the last line, else `None`.
    pub(crate) fn count(&self) -> Option<u64> {
        let (now, last) = (sys::coarse_seconds(), self.logged_s.load(Ordering::Relaxed));
        let is_due = last == 0 || now.saturating_sub(last) >= REFUSALS_LOGGED_S;
        if is_due && self.logged_s.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Some(self.unlogged.swap(0, Ordering::Relaxed) + 1);
        }
        self.unlogged.fetch_add(1, Ordering::Relaxed);
        None
    }
}
