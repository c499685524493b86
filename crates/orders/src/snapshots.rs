//! Snapshots: what a run had measured at fixed moments of its interval, sent while it goes on.
//!
//! A snapshot at second `k` holds exactly what ended before that moment, so that snapshots of several drivers
//! at the same second cover the same interval.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

/// What one thread had measured at a moment of the interval.
#[derive(Debug)]
pub struct Snapshot<M> {
    /// Whole seconds from the start of the interval.
    pub second: u64,
    /// What ended before that moment, its interval ending there.
    pub measure: M,
}

/// Where and how often a thread sends its snapshots.
#[derive(Debug)]
pub struct SnapshotSender<M> {
    every_s: u64,
    next_s: u64,
    // Never more than the snapshots of one run times its threads are on their way.
    to: UnboundedSender<Snapshot<M>>,
}

impl<M> Clone for SnapshotSender<M> {
    fn clone(&self) -> Self {
        Self { every_s: self.every_s, next_s: self.next_s, to: self.to.clone() }
    }
}

impl<M> SnapshotSender<M> {
    /// Snapshots every `every_s` seconds of the interval, sent to `to`.
    #[must_use]
    pub fn new(every_s: u64, to: UnboundedSender<Snapshot<M>>) -> Self {
        let every_s = every_s.max(1);
        Self { every_s, next_s: 0, to }
    }

    /// Seconds between two snapshots.
    #[must_use]
    pub const fn every_s(&self) -> u64 {
        self.every_s
    }

    /// Sends the snapshots that are due at `now`; `taken` gives what ended before a moment.
    pub(crate) fn send_due(&mut self, from: Instant, upto: Instant, now: Instant, taken: impl Fn(Instant) -> M) {
        while let Some(due) = from.checked_add(Duration::from_secs(self.next_s)).filter(|due| *due <= now && *due <= upto) {
            // Nobody receives any more when the run is being given up.
            let _ = self.to.send(Snapshot { second: self.next_s, measure: taken(due) });
            self.next_s += self.every_s;
        }
    }
}
