//! Response times: an HDR histogram of microseconds without an upper limit, and its stored form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// Significant decimal digits of every value.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Longest accepted base64 text: a three-digit histogram of 64-bit values has fewer than 60,000
/// buckets of at most nine bytes each.
const ENCODED_BYTES_MAX: usize = 1 << 20;

/// A histogram could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// The text is longer than any histogram this program writes.
    #[error("encoded histogram of {0} bytes is over the limit of {ENCODED_BYTES_MAX}")]
    TooLong(usize),
    /// The text is not base64.
    #[error("encoded histogram is not base64")]
    Base64(#[source] base64::DecodeError),
    /// The bytes are not a V2 histogram.
    #[error("bytes are not a V2 histogram: {0}")]
    V2(String),
}

/// Response times in microseconds.
///
/// Three significant digits. The range grows with the values, so that a stall of minutes is recorded
/// with its full length. Percentiles are computed from merged histograms, never by averaging percentiles.
#[derive(Debug, Clone)]
pub struct ResponseTimes {
    values_us: Histogram<u64>,
}

impl Default for ResponseTimes {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseTimes {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        let values_us = match Histogram::new(SIGNIFICANT_DIGITS) {
            Ok(histogram) => histogram,
            Err(error) => unreachable!("3 digits are within 0 to 5: {error}"),
        };
        Self { values_us }
    }

    /// Adds one response time in microseconds.
    pub fn record(&mut self, value_us: u64) {
        // `record` extends the range; `saturating_record` would clip the value to the current range.
        if let Err(error) = self.values_us.record(value_us) {
            unreachable!("an auto-resizing histogram takes every u64: {error}");
        }
    }

    /// Removes all values and keeps the memory.
    pub fn clear(&mut self) {
        self.values_us.reset();
    }

    /// Number of values that are at least `value_us`, with the histogram's three-digit resolution.
    #[must_use]
    pub fn count_from(&self, value_us: u64) -> u64 {
        let least = self.values_us.lowest_equivalent(value_us);
        self.values_us
            .iter_recorded()
            .filter(|value| value.value_iterated_to() >= least)
            .map(|value| value.count_at_value())
            .sum()
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if let Err(error) = self.values_us.add(&other.values_us) {
            unreachable!("an auto-resizing histogram takes every other: {error}");
        }
    }

    /// Number of recorded values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.values_us.len()
    }

    /// The summary for a record, in microseconds; all zero if the histogram is empty.
    #[must_use]
    pub fn summary(&self) -> ResponseSummary {
        if self.values_us.is_empty() {
            return ResponseSummary::default();
        }
        ResponseSummary {
            mean: self.values_us.mean(),
            p50: self.values_us.value_at_quantile(0.50),
            p90: self.values_us.value_at_quantile(0.90),
            p95: self.values_us.value_at_quantile(0.95),
            p99: self.values_us.value_at_quantile(0.99),
            p999: self.values_us.value_at_quantile(0.999),
            max: self.values_us.max(),
        }
    }

    /// The histogram in the HDR V2 format, as base64.
    #[must_use]
    pub fn to_v2_base64(&self) -> String {
        let mut bytes = Vec::new();
        if let Err(error) = V2Serializer::new().serialize(&self.values_us, &mut bytes) {
            unreachable!("a histogram always fits a vector: {error}");
        }
        STANDARD.encode(bytes)
    }

    /// Decodes the output of [`Self::to_v2_base64`].
    ///
    /// # Errors
    /// [`HistogramError`] if the text is too long, not base64 or not a V2 histogram.
    pub fn from_v2_base64(text: &str) -> Result<Self, HistogramError> {
        if text.len() > ENCODED_BYTES_MAX {
            return Err(HistogramError::TooLong(text.len()));
        }
        let bytes = STANDARD.decode(text).map_err(HistogramError::Base64)?;
        let mut values_us: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| HistogramError::V2(error.to_string()))?;
        values_us.auto(true);
        Ok(Self { values_us })
    }
}

/// Mean, percentiles and maximum of response times, all in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseSummary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest value; it is never clipped.
    pub max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_of_an_hour_is_not_clipped() {
        let mut times = ResponseTimes::new();
        times.record(100);
        times.record(3_600_000_000);
        let summary = times.summary();
        assert!(summary.max >= 3_600_000_000, "{}", summary.max);
        assert!(summary.max < 3_610_000_000, "{}", summary.max);
    }

    #[test]
    fn encoded_form_reads_back_with_the_same_summary_and_still_grows() {
        let mut times = ResponseTimes::new();
        for value_us in 1..=10_000 {
            times.record(value_us);
        }
        let mut again = ResponseTimes::from_v2_base64(&times.to_v2_base64()).unwrap();
        assert_eq!(again.summary(), times.summary());
        again.record(900_000_000);
        assert_eq!(again.count(), 10_001);
        assert!(again.summary().max >= 900_000_000);
    }

    #[test]
    fn merged_percentiles_are_those_of_all_values() {
        let (mut fast, mut slow) = (ResponseTimes::new(), ResponseTimes::new());
        for _ in 0..90 {
            fast.record(1_000);
        }
        for _ in 0..10 {
            slow.record(50_000);
        }
        fast.merge(&slow);
        assert_eq!(fast.count(), 100);
        assert!(fast.summary().p90 < 1_010);
        assert!(fast.summary().p95 > 49_900);
    }

    #[test]
    fn values_from_a_bound_on_are_counted_and_clearing_forgets_all() {
        let mut times = ResponseTimes::new();
        [10, 999, 400_000, 2_000_000, 2_000_000].iter().for_each(|us| times.record(*us));
        assert_eq!((times.count_from(0), times.count_from(999), times.count_from(400_000)), (5, 4, 3));
        assert_eq!((times.count_from(2_000_000), times.count_from(2_100_000)), (2, 0));
        times.clear();
        assert_eq!((times.count(), times.summary().max), (0, 0));
    }

    #[test]
    fn rubbish_is_an_error_not_a_panic() {
        assert!(ResponseTimes::from_v2_base64("***").is_err());
        assert!(ResponseTimes::from_v2_base64("AAAA").is_err());
        assert!(ResponseTimes::from_v2_base64(&"A".repeat(ENCODED_BYTES_MAX + 1)).is_err());
    }
}
