//! How long calls took: counters on a logarithmic scale. Counting takes no lock and allocates nothing.
//!
//! The histogram of `results` has three digits, grows, and belongs to one thread. The buckets here are fixed: many threads
//! count in them, and another thread may read them at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use results::filer_stats::LatencySummary;

use crate::sharded::add;

/// End of the first bucket: 2^10 ns, about a microsecond, less than any call takes that reads a file.
const FIRST_BIT: u32 = 10;
/// Beyond 2^35 ns, 34 s, there is one bucket for all. A call that waits longer has met a broken disk.
const LAST_BIT: u32 = 35;
/// Buckets between two powers of two. With these, a quantile is known to about an eighth.
const PARTS: usize = 4;
const PARTS_BITS: u32 = PARTS.ilog2();
/// All buckets: the first one, those between powers of two, and the one for longer durations.
pub(crate) const BUCKETS: usize = (LAST_BIT - FIRST_BIT) as usize * PARTS + 2;

/// Counts by duration, and their sum.
#[derive(Debug)]
pub(crate) struct Latencies {
    sum_ns: AtomicU64, // overflows after 584 years of waiting
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Latencies {
    fn default() -> Self {
        Self { sum_ns: AtomicU64::new(0), buckets: [const { AtomicU64::new(0) }; BUCKETS] }
    }
}

impl Latencies {
    /// Counts one duration: two additions to memory.
    pub(crate) fn add(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(ns)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Adds the counters of another histogram.
    pub(crate) fn add_all(&self, others: &Self) {
        add(&self.sum_ns, &others.sum_ns);
        self.buckets.iter().zip(&others.buckets).for_each(|(sum, more)| add(sum, more));
    }

    /// Adds these counters to `sums`.
    pub(crate) fn add_to(&self, sums: &mut Counted) {
        sums.sum_ns = sums.sum_ns.wrapping_add(self.sum_ns.load(Ordering::Relaxed));
        for (sum, bucket) in sums.buckets.iter_mut().zip(&self.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
    }
}

/// Index of the bucket of a duration. A duration equal to a bucket's end belongs to it, as Prometheus counts.
const fn bucket_of(ns: u64) -> usize {
    let below = ns.saturating_sub(1);
    if below < 1 << FIRST_BIT {
        return 0;
    }
    let bit = below.ilog2();
    if bit >= LAST_BIT {
        return BUCKETS - 1;
    }
    let part = (below >> (bit - PARTS_BITS)) as usize % PARTS;
    1 + (bit - FIRST_BIT) as usize * PARTS + part
}

/// End of a bucket in nanoseconds. `None` for the bucket of the longest durations.
const fn end_ns(bucket: usize) -> Option<u64> {
    if bucket + 1 >= BUCKETS {
        return None;
    }
    let octave = 1 << (bucket / PARTS + FIRST_BIT as usize);
    Some(octave + octave / PARTS as u64 * (bucket % PARTS) as u64)
}

/// The counters at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    sum_ns: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Counted {
    fn default() -> Self {
        Self { sum_ns: 0, buckets: [0; BUCKETS] }
    }
}

impl Counted {
    /// Adds the counters of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, more)| *sum += more);
    }

    /// Number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of the durations, in seconds.
    pub(crate) fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// For each power of two, in seconds, the number of durations that were not longer.
    pub(crate) fn by_octave(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut so_far = 0;
        self.buckets.iter().enumerate().filter_map(move |(bucket, count)| {
            so_far += count;
            let end_ns = end_ns(bucket).filter(|end_ns| end_ns.is_power_of_two())?;
            Some((end_ns as f64 / 1e9, so_far))
        })
    }

    /// Mean and quantiles. `None` if nothing was counted.
    pub(crate) fn summary(&self) -> Option<LatencySummary> {
        let count = self.count();
        (count > 0).then(|| LatencySummary {
            mean_us: self.sum_ns as f64 / count as f64 / 1e3,
            p50_us: self.quantile_us(0.5, count),
            p90_us: self.quantile_us(0.9, count),
            p99_us: self.quantile_us(0.99, count),
            p999_us: self.quantile_us(0.999, count),
        })
    }

    /// A quantile, by linear interpolation within its bucket.
    fn quantile_us(&self, quantile: f64, count: u64) -> f64 {
        let rank = quantile * count as f64;
        let (mut so_far, mut begin_ns) = (0.0, 0);
        for (bucket, &here) in self.buckets.iter().enumerate() {
            let end_ns = end_ns(bucket).unwrap_or(begin_ns);
            let here = here as f64;
            if here > 0.0 && so_far + here >= rank {
                return (begin_ns as f64 + (end_ns - begin_ns) as f64 * ((rank - so_far) / here)) / 1e3;
            }
            so_far += here;
            begin_ns = end_ns;
        }
        begin_ns as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(durations_ns: impl IntoIterator<Item = u64>) -> Counted {
        let latencies = Latencies::default();
        durations_ns.into_iter().for_each(|ns| latencies.add(Duration::from_nanos(ns)));
        let mut counted = Counted::default();
        latencies.add_to(&mut counted);
        counted
    }

    #[test]
    fn each_bucket_ends_where_the_next_begins_and_takes_its_own_end() {
        for bucket in 0..BUCKETS - 1 {
            let end = end_ns(bucket).unwrap();
            assert_eq!((bucket_of(end), bucket_of(end + 1)), (bucket, bucket + 1), "{end} ns");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
        assert_eq!((end_ns(0), end_ns(BUCKETS - 2), end_ns(BUCKETS - 1)), (Some(1 << 10), Some(1 << 35), None));
    }

    #[test]
    fn what_took_no_longer_is_counted_at_each_power_of_two() {
        let counted = of([0, 1 << 10, (1 << 10) + 1, 1 << 20, u64::MAX]);
        let by_octave: Vec<(f64, u64)> = counted.by_octave().collect();
        assert_eq!(by_octave.len(), 26);
        assert_eq!(by_octave[0], (0.000_001_024, 2));
        assert_eq!((by_octave[1].1, by_octave[9].1, by_octave[10].1, by_octave[25].1), (3, 3, 4, 4));
        assert_eq!(counted.count(), 5, "the longest is beyond every bound");
    }

    #[test]
    fn quantiles_are_right_to_an_eighth_and_survive_merging() {
        let mut counted = of((1..=5_000).map(|n| n * 10_000));
        counted.merge(&of((5_001..=10_000).map(|n| n * 10_000)));
        let summary = counted.summary().unwrap();
        let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 0.125, "{got} for {want}");
        assert!((summary.mean_us - 50_005.0).abs() < 1e-6, "{}", summary.mean_us);
        near(summary.p50_us, 50_000.0);
        near(summary.p90_us, 90_000.0);
        near(summary.p99_us, 99_000.0);
        near(summary.p999_us, 99_900.0);
        assert_eq!(Counted::default().summary(), None);
        assert!(of([u64::MAX]).summary().unwrap().p50_us >= 34e6);
    }
}
