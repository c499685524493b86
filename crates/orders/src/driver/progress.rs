//! Progress reports during a run, including the warm-up.

use std::sync::Mutex;
use std::time::Duration;

use host::Unpoisoned;

/// The work since the previous report.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// Seconds since the start of the warm-up.
    pub elapsed_s: f64,
    /// Transactions that succeeded, per second.
    pub transactions_per_s: f64,
    /// Mean of their response times; 0 if there were none.
    pub latency_mean_ms: f64,
    /// Standard deviation of their response times.
    pub latency_stddev_ms: f64,
    /// Transactions that ended by an error.
    pub failed: u64,
    /// New orders committed since the start of the warm-up.
    pub orders: u64,
    /// Connections lost since the start of the warm-up.
    pub connection_losses: u64,
}

/// The work of one thread since the previous report.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    transactions: u64,
    failed: u64,
    sum_ms: f64,
    squares_ms: f64,
}

/// The work of each thread since the previous report. Each thread has its own entry, so that no thread waits for another.
#[derive(Debug)]
pub(super) struct Parts(Vec<Mutex<Part>>);

impl Parts {
    /// One entry for each of `threads` threads; 0 if no reports are requested.
    pub(super) fn new(threads: u32) -> Self {
        Self((0..threads).map(|_| Mutex::default()).collect())
    }

    /// Counts a successful transaction of thread `thread`.
    pub(super) fn succeeded(&self, thread: u32, latency: Duration) {
        let ms = latency.as_secs_f64() * 1e3;
        self.change(thread, |part| {
            part.transactions += 1;
            part.sum_ms += ms;
            part.squares_ms += ms * ms;
        });
    }

    /// Counts a failed transaction of thread `thread`.
    pub(super) fn failed(&self, thread: u32) {
        self.change(thread, |part| part.failed += 1);
    }

    fn change(&self, thread: u32, change: impl FnOnce(&mut Part)) {
        if let Some(part) = self.0.get(thread as usize) {
            change(&mut part.lock().unpoisoned());
        }
    }

    /// The report over the `seconds` since the previous one. The caller sets the counts since the start.
    pub(super) fn take(&self, seconds: f64) -> Progress {
        let mut all = Part::default();
        for part in &self.0 {
            let part = std::mem::take(&mut *part.lock().unpoisoned());
            all.transactions += part.transactions;
            all.failed += part.failed;
            all.sum_ms += part.sum_ms;
            all.squares_ms += part.squares_ms;
        }
        let count = all.transactions.max(1) as f64;
        let mean = all.sum_ms / count;
        Progress {
            transactions_per_s: if seconds > 0.0 { all.transactions as f64 / seconds } else { 0.0 },
            latency_mean_ms: mean,
            // Rounding may give a value slightly below 0.
            latency_stddev_ms: (all.squares_ms / count - mean * mean).max(0.0).sqrt(),
            failed: all.failed,
            ..Progress::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_covers_all_threads_since_the_one_before() {
        let parts = Parts::new(2);
        parts.succeeded(0, Duration::from_millis(2));
        parts.succeeded(1, Duration::from_millis(4));
        parts.failed(1);
        let report = parts.take(0.5);
        assert_eq!((report.transactions_per_s, report.failed), (4.0, 1));
        assert_eq!((report.latency_mean_ms, report.latency_stddev_ms), (3.0, 1.0));
        assert_eq!(parts.take(1.0), Progress::default());
    }
}
