//! Conclusions of the laboratory from its runs: steady state, Little's law, fixed load, predictions.
//!
//! Each conclusion contains the figures that it is based on, so that a reader can check it.

use serde::{Deserialize, Serialize};

use crate::compare::BottleneckKind;
use crate::names::names;
use crate::statistics::Difference;

/// Whether the runs of a path were in steady state while they were measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Every run passed both tests and was long enough to be tested.
    pub passed: bool,
    /// Largest change along the fitted straight line over one run, in percent of its mean (limit: 10).
    pub drift_percent: f64,
    /// Largest difference between the highest and the lowest fifth of one run, in percent of its mean (limit: 20).
    pub range_percent: f64,
    /// Whether the runs are too short for the test; then it neither passed nor failed.
    #[serde(default)]
    pub not_tested: bool,
    /// Seconds inside the measured intervals that MSER-5 classifies as warm-up, summed over all runs.
    pub dropped_s: f64,
    /// Checkpoints that ended inside the measured intervals.
    pub checkpoints: u64,
    /// One entry for each run, in the order of the runs.
    #[serde(default)]
    pub runs: Vec<SteadyRun>,
    /// The verdict in words.
    #[serde(default)]
    pub text: String,
}

/// Steady-state test of one run's orders per second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyRun {
    /// Position of the run in the sequence of all runs.
    pub sequence: u32,
    /// Whether it passed.
    pub passed: bool,
    /// Seconds at the start that MSER-5 would cut.
    pub dropped_s: f64,
    /// Change along the fitted line, percent of the mean, signed.
    pub drift_percent: f64,
    /// Highest fifth minus lowest fifth, percent of the mean.
    pub range_percent: f64,
    /// Mean orders per second after the cut.
    pub orders_per_second: f64,
    /// Half-width of the 95 % interval of that mean from batch means inside the run; absent if the run is too short.
    pub ci95: Option<f64>,
    /// Correlation of one second with the next, -1 to 1.
    pub autocorrelation: f64,
}

names! {
    /// The units to which Little's law is applied.
    pub enum InFlight {
        /// Transactions of the load.
        Transactions = "transactions",
        /// Block reads of the database.
        BlockReads = "block_reads",
    }
}

names! {
    /// Method for the interval of a difference.
    pub enum IntervalMethod {
        /// From the ratios of runs of the same round.
        Paired = "paired",
        /// From all runs of both sides (Welch).
        TwoSample = "two_sample",
    }
}

/// Little's law (in flight = rate x time) compared with an independent count.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Little {
    /// The units in flight.
    #[serde(default)]
    pub subject: InFlight,
    /// Rate x mean time.
    pub in_flight_predicted: f64,
    /// Determined independently: users of a closed loop, or sessions sampled.
    pub in_flight_found: f64,
    /// Difference in percent of `in_flight_found`, signed.
    pub difference_percent: f64,
    /// Largest allowed difference, percent.
    #[serde(default)]
    pub tolerance_percent: f64,
    /// Whether the difference is within the tolerance.
    pub passed: bool,
    /// How both values were determined.
    #[serde(default)]
    pub explanation: String,
}

/// Whether processor costs may be compared as at equal load (TR-3322 section 3).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FixedLoad {
    /// Both did the same work, and their I/O latencies agree within 5 %.
    pub valid: bool,
    /// Difference of the orders per minute, percent of the first path's.
    pub orders_difference_percent: f64,
    /// Difference of the mean block read latency, percent of the first path's; absent if there were no reads.
    pub latency_difference_percent: Option<f64>,
    /// Why it is valid or not, in one sentence.
    pub reason: String,
}

/// A relative difference with its 95 % interval, all in percent of the first path's mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelativeDifference {
    /// Difference of the means.
    pub percent: f64,
    /// Lower end; absent below two rounds.
    pub low_percent: Option<f64>,
    /// Upper end; absent below two rounds.
    pub high_percent: Option<f64>,
    /// Estimated half-width of the interval with twice as many rounds, in percent; absent below two rounds, and in
    /// records of versions that did not store it.
    #[serde(default)]
    pub with_twice_the_rounds_percent: Option<f64>,
    /// The difference is shown if its factor is above this value or below the inverse of this
    /// value, which is derived from the 99 % interval. Absent below two runs on a side, and in
    /// records of versions that did not store it.
    #[serde(default)]
    pub claim_factor: Option<f64>,
    /// The claim that the 99 % interval, which is wider, allows.
    pub shown: Difference,
    /// How the interval was found.
    pub method: IntervalMethod,
    /// Degrees of freedom of the t-interval.
    pub degrees: f64,
}

/// A held-out point: predicted from another run, then measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Configuration and load whose measurements the model was fitted to.
    pub fitted_on: String,
    /// Configuration and load that were excluded from the fit.
    pub held_out: String,
    /// The predicted quantity: `oets_per_minute`.
    pub quantity: String,
    /// The model's value.
    pub predicted: f64,
    /// The measured value, which the fit did not use.
    pub measured: f64,
    /// Predicted minus measured value, in percent of the measured one.
    pub error_percent: f64,
    /// Smallest and largest value if each fitted demand is wrong by its own interval; absent if not known.
    #[serde(default)]
    pub range: Option<(f64, f64)>,
    /// The bottleneck of the held-out point according to the model.
    #[serde(default)]
    pub bottleneck: BottleneckKind,
    /// Why the measured figure must not be used. Such a point is shown, but not counted in the errors.
    #[serde(default)]
    pub doubt: Option<String>,
}

/// Times of single block reads, measured by Millrace's NFS client, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadLatency {
    /// Reads counted.
    pub count: u64,
    /// Sum of all times.
    pub sum_us: f64,
    /// Upper bounds of the buckets in microseconds, in ascending order.
    pub bounds_us: Vec<f64>,
    /// Reads in each bucket. There is one more bucket than bounds; the last one is open.
    pub counts: Vec<u64>,
}

impl ReadLatency {
    /// Mean in microseconds; `None` without reads.
    #[must_use]
    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_us / self.count as f64)
    }

    /// Quantile in microseconds, interpolated inside its bucket; in the open bucket, its lower
    /// bound. `None` without reads, and if a bound of the bucket is missing.
    #[must_use]
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let all: u64 = self.counts.iter().sum();
        if all == 0 {
            return None;
        }
        let wanted = share.clamp(0.0, 1.0) * all as f64;
        let mut seen = 0.0;
        for (place, count) in self.counts.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && seen + count >= wanted {
                let low = if place == 0 { 0.0 } else { *self.bounds_us.get(place - 1)? };
                let Some(high) = self.bounds_us.get(place) else { return Some(low) };
                return Some(low + (high - low) * ((wanted - seen) / count));
            }
            seen += count;
        }
        self.bounds_us.last().copied()
    }

    /// Adds another histogram with the same bounds. Ignores one with other bounds.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.is_empty() {
            *self = other.clone();
        } else if self.bounds_us == other.bounds_us && self.counts.len() == other.counts.len() {
            self.count += other.count;
            self.sum_us += other.sum_us;
            for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
                *mine += theirs;
            }
        }
    }
}

/// Slots of the NFS client that calls in flight occupied over an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SlotUse {
    /// Number of slots; 0 if unlimited.
    pub slots: u32,
    /// Mean number of occupied slots.
    pub mean: f64,
    /// Largest number of slots occupied at the same time since the mount began.
    pub max: u32,
    /// Calls that had to wait for a slot; 0 for a client in the kernel, which does not count them.
    pub waits: u64,
    /// Seconds that they waited, summed over all calls.
    #[serde(default)]
    pub wait_s: f64,
    /// Calls sent.
    pub calls: u64,
}

/// Latency that the storage itself reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrayLatency {
    /// Source of the figure.
    pub source: String,
    /// Mean latency in microseconds over the interval.
    pub mean_us: f64,
}

/// Bytes on the wire between client and storage, both directions counted once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wire {
    /// Where they were counted: `loopback interface` or `client`.
    pub source: String,
    /// Bytes with all headers, both directions.
    pub bytes: u64,
    /// Packets, both directions.
    pub packets: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: &[u64]) -> ReadLatency {
        ReadLatency { count: counts.iter().sum(), sum_us: 0.0, bounds_us: vec![100.0, 200.0, 400.0], counts: counts.to_vec() }
    }

    #[test]
    fn quantiles_are_interpolated_in_their_bucket() {
        let half = histogram(&[10, 80, 10, 0]);
        assert!((half.quantile_us(0.5).unwrap() - 150.0).abs() < 1e-9);
        assert!((half.quantile_us(0.05).unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(histogram(&[0, 0, 0, 5]).quantile_us(0.5), Some(400.0));
        assert_eq!(histogram(&[0, 0, 0, 0]).quantile_us(0.5), None);
        assert_eq!(ReadLatency::default().quantile_us(0.5), None);
    }

    #[test]
    fn merging_adds_only_equal_bounds() {
        let mut whole = ReadLatency::default();
        whole.merge(&histogram(&[1, 2, 3, 4]));
        whole.merge(&histogram(&[1, 0, 0, 0]));
        whole.merge(&ReadLatency { bounds_us: vec![1.0], counts: vec![9, 9], count: 18, sum_us: 1.0 });
        assert_eq!((whole.count, whole.counts.clone()), (11, vec![2, 2, 3, 4]));
    }
}
