//! Reports of a run while it goes on, warm-up included.

use std::sync::Mutex;
use std::time::Duration;

use host::Unpoisoned;

/// What ended in the time since the report before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// Seconds since the start of the warm-up.
    pub elapsed_s: f64,
    /// Transactions that succeeded, per second.
    pub transactions_per_s: f64,
    /// Mean of their response times; 0 when there were none.
    pub latency_mean_ms: f64,
    /// Standard deviation of their response times.
    pub latency_stddev_ms: f64,
    /// Transactions that ended by an error.
    pub failed: u64,
    /// New orders committed since the start of the warm-up.
    pub orders: u64,
    /// Connections lost since then.
    pub connection_losses: u64,
}

/// What one thread did since the report before.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    transactions: u64,
    failed: u64,
    sum_ms: f64,
    squares_ms: f64,
}

/// What the threads did since the report before; each has a place of its own, so that none waits for another.
#[derive(Debug)]
pub(super) struct Parts(Vec<Mutex<Part>>);

impl Parts {
    /// For so many threads; for none when nobody asks for reports.
    pub(super) fn new(threads: u32) -> Self {
        Self((0..threads).map(|_| Mutex::default()).collect())
    }

    /// A transaction of thread `thread` succeeded.
    pub(super) fn succeeded(&self, thread: u32, latency: Duration) {
        let ms = latency.as_secs_f64() * 1e3;
        self.change(thread, |part| {
            part.transactions += 1;
            part.sum_ms += ms;
            part.squares_ms += ms * ms;
        });
    }

    /// A transaction of thread `thread` ended by an error.
    pub(super) fn failed(&self, thread: u32) {
        self.change(thread, |part| part.failed += 1);
    }

    fn change(&self, thread: u32, change: impl FnOnce(&mut Part)) {
        if let Some(part) = self.0.get(thread as usize) {
            change(&mut part.lock().unpoisoned());
        }
    }

    /// The report over `seconds` since the one before; counts since the start are left to the caller.
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
            // Rounding may leave a little less than nothing.
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
