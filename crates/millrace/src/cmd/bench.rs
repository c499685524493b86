//! What the benchmarks of NFS and iSCSI share: where the calls go, how their times are counted, what is printed.

mod histogram;

pub(super) use histogram::Histogram;

use clap::ValueEnum;
use serde::Serialize;

/// The order in which blocks are accessed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Rw {
    Randread,
    Randwrite,
    Read,
    Write,
}

impl Rw {
    pub(super) const fn is_write(self) -> bool {
        matches!(self, Self::Randwrite | Self::Write)
    }
}

/// Rates and latencies of a run.
#[derive(Serialize)]
pub(super) struct Rates {
    rw: String,
    bs: u64,
    depth: u16,
    seconds: f64,
    ops: u64,
    iops: f64,
    mib_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    client_cpu_us_per_op: f64,
}

impl Rates {
    /// Of calls of `bs` bytes whose times are counted in nanoseconds; `cpu` is the processor time they took, in seconds.
    pub(super) fn new(rw: Rw, bs: u64, depth: u16, times: &Histogram, seconds: f64, cpu: f64) -> Self {
        let us = |quantile| times.quantile(quantile) as f64 / 1e3;
        let ops = times.count();
        Self {
            rw: lower_case(&rw),
            bs,
            depth,
            seconds,
            ops,
            iops: ops as f64 / seconds,
            mib_per_s: ops as f64 * bs as f64 / seconds / f64::from(1 << 20),
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: us(1.0),
            client_cpu_us_per_op: cpu * 1e6 / ops.max(1) as f64,
        }
    }
}

impl std::fmt::Display for Rates {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rw, bs, depth, iops, mib_per_s, p50_us, p99_us, client_cpu_us_per_op: cpu, .. } = self;
        write!(out, "{rw} {bs} bytes, depth {depth}: {iops:.0} IOPS, {mib_per_s:.1} MiB/s, ")?;
        write!(out, "p50 {p50_us:.1} us, p99 {p99_us:.1} us, client CPU {cpu:.2} us per call")
    }
}

/// The name of a value of an option.
pub(super) fn lower_case(value: &dyn std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// Data that is not zeros.
pub(super) fn pattern(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|byte| ((byte * 31) >> 3) as u8).collect()
}

/// Where the calls go: block after block, or any block.
pub(super) struct Offsets {
    random: bool,
    state: u64,
    blocks: u64,
    block_bytes: u64,
}

impl Offsets {
    pub(super) fn new(rw: Rw, blocks: u64, block_bytes: u64) -> Self {
        let random = matches!(rw, Rw::Randread | Rw::Randwrite);
        // The same blocks in every run, so that runs can be compared.
        Self { random, state: if random { 88_172_645_463_325_252 } else { 0 }, blocks, block_bytes }
    }

    pub(super) fn next(&mut self) -> u64 {
        if self.random {
            // xorshift64 (Marsaglia 2003).
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            return self.state % self.blocks * self.block_bytes;
        }
        self.state += 1;
        (self.state - 1) % self.blocks * self.block_bytes
    }
}

/// A size on the command line.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    results::sizes::parse_bytes(text).ok_or_else(|| format!("{text} is not a size such as 8k or 1GiB"))
}

/// Seconds on the command line.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text} is not a number of seconds"))?;
    if seconds > 0.0 && seconds <= 86_400.0 { Ok(seconds) } else { Err(format!("{text} is not between 0 and 86400 seconds")) }
}
