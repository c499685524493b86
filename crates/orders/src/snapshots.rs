//! Snapshots: the measurements of a run up to fixed moments of its interval, sent during the run.
//!
//! A snapshot at second `k` contains exactly the transactions that ended before that moment, so snapshots of several drivers
//! at the same second cover the same interval.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

/// The measurements of one thread up to a moment of the interval.
#[derive(Debug)]
pub struct Snapshot<M> {
    /// Whole seconds from the start of the interval.
    pub second: u64,
    /// The measurements up to that moment.
    pub measure: M,
}

/// Sends a thread's snapshots at a fixed interval.
#[derive(Debug)]
pub struct SnapshotSender<M> {
    every_s: u64,
    next_s: u64,
    // Holds at most the number of snapshots of one run times the number of threads.
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

    /// Sends the snapshots that are due at `now`; `taken` returns the measurements up to a moment.
    pub(crate) fn send_due(&mut self, from: Instant, upto: Instant, now: Instant, taken: impl Fn(Instant) -> M) {
        while let Some(due) = from.checked_add(Duration::from_secs(self.next_s)).filter(|due| *due <= now && *due <= upto) {
            // The receiver is gone if the run is being abandoned.
            let _ = self.to.send(Snapshot { second: self.next_s, measure: taken(due) });
            self.next_s += self.every_s;
        }
    }
}
