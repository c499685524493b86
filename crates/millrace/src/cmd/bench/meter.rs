//! Measures the calls of a benchmark: records latencies, prints progress, and computes the rates at
//! the end.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::histogram::Histogram;
use super::{Load, PROGRESS_S, Rw};

/// Times of the calls of one combination of block size and depth.
pub(in crate::cmd) struct Meter {
    rw: Rw,
    bs: u64,
    depth: u16,
    times: Histogram,
    reads: u64,
    /// When the measured seconds begin and end.
    from: Instant,
    end: Instant,
    /// Processor time of this process at the first measured call; `None` before it.
    cpu: Option<Duration>,
    progress: Progress,
}

/// Prints progress on stderr while calls are made.
struct Progress {
    begun: Instant,
    last: Instant,
    /// Calls since the last line.
    calls: u64,
    /// Number of threads whose calls the lines include; 0 if another thread prints them.
    threads: u64,
}

impl Meter {
    /// Starts the warm-up now.
    pub(in crate::cmd) fn new(load: &Load, bs: u64, depth: u16) -> Self {
        let begun = Instant::now();
        let from = begun + Duration::from_secs_f64(load.warmup);
        Self {
            rw: load.rw,
            bs,
            depth,
            times: Histogram::new(),
            reads: 0,
            from,
            end: from + Duration::from_secs_f64(load.seconds),
            cpu: None,
            progress: Progress { begun, last: begun, calls: 0, threads: 1 },
        }
    }

    /// Prints progress for this many threads with the same load; 0 prints nothing.
    pub(in crate::cmd) fn stand_for(&mut self, threads: u16) {
        self.progress.threads = u64::from(threads);
    }

    /// Whether the measured time is over.
    pub(in crate::cmd) fn is_over(&self, now: Instant) -> bool {
        now >= self.end
    }

    /// Counts a call that was answered.
    pub(in crate::cmd) fn record(&mut self, now: Instant, took: Duration, is_read: bool) {
        self.progress.calls += 1;
        self.progress.show(now, self.bs);
        if now < self.from {
            return;
        }
        self.cpu.get_or_insert_with(dnfs::cpu_time);
        self.times.record(took.as_nanos() as u64);
        self.reads += u64::from(is_read);
    }

    /// Adds the counts of another thread.
    pub(in crate::cmd) fn add(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.reads += other.reads;
        self.cpu = self.cpu.into_iter().chain(other.cpu).min();
    }

    /// The rates; call it when the last call was answered. `size` is the number of bytes that were used.
    pub(in crate::cmd) fn rates(&self, size: u64) -> Rates {
        let seconds = self.from.elapsed().as_secs_f64();
        let cpu = self.cpu.map_or(0.0, |before| (dnfs::cpu_time() - before).as_secs_f64());
        let us = |quantile| self.times.quantile(quantile) as f64 / 1e3;
        let ops = self.times.count();
        Rates {
            rw: self.rw.name(),
            bs: self.bs,
            depth: self.depth,
            seconds,
            ops,
            reads: self.reads,
            writes: ops - self.reads,
            iops: ops as f64 / seconds,
            mib_per_s: ops as f64 * self.bs as f64 / seconds / f64::from(1 << 20),
            mean_us: self.times.mean() / 1e3,
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: us(1.0),
            client_cpu_us_per_op: cpu * 1e6 / ops.max(1) as f64,
            passes: self.reads as f64 * self.bs as f64 / size.max(1) as f64,
        }
    }
}

impl Progress {
    fn show(&mut self, now: Instant, bs: u64) {
        let passed = now.saturating_duration_since(self.last).as_secs_f64();
        if passed < PROGRESS_S || self.threads == 0 {
            return;
        }
        let (iops, at) = ((self.calls * self.threads) as f64 / passed, now.saturating_duration_since(self.begun).as_secs_f64());
        eprintln!("{at:.0} s: {iops:.0} IOPS, {:.1} MiB/s", iops * bs as f64 / f64::from(1 << 20));
        (self.last, self.calls) = (now, 0);
    }
}

/// Rates and latencies of a run.
#[derive(Serialize)]
pub(in crate::cmd) struct Rates {
    rw: String,
    bs: u64,
    depth: u16,
    seconds: f64,
    ops: u64,
    reads: u64,
    writes: u64,
    iops: f64,
    mib_per_s: f64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    client_cpu_us_per_op: f64,
    /// Number of times that the used part was read. Above 1, caches may have answered.
    pub(in crate::cmd) passes: f64,
}

impl std::fmt::Display for Rates {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rw, bs, depth, iops, mib_per_s, mean_us, p50_us, p99_us, p999_us, client_cpu_us_per_op: cpu, .. } = self;
        write!(out, "{rw} {bs} bytes, depth {depth}: {iops:.0} IOPS, {mib_per_s:.1} MiB/s, ")?;
        if self.reads > 0 && self.writes > 0 {
            write!(out, "{:.0} % reads, ", self.reads as f64 * 100.0 / self.ops as f64)?;
        }
        write!(out, "mean {mean_us:.1} us, p50 {p50_us:.1} us, p99 {p99_us:.1} us, p99.9 {p999_us:.1} us, ")?;
        write!(out, "client CPU {cpu:.2} us per call")
    }
}
