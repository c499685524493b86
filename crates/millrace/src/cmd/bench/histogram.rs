//! Latencies in ns with three significant digits: each power of two has 1024 steps, and no value is
//! clipped.

/// Steps in each power of two: a value is known to 0.1 %.
const STEPS_BITS: u32 = 10;
#[cfg(test)]
const STEPS: u64 = 1 << STEPS_BITS;

/// Counts of values.
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
}

impl Histogram {
    pub(super) fn new() -> Self {
        // Values below 2 * STEPS are counted exactly; each larger power of two has STEPS counters.
        Self { counts: vec![0; ((64 - STEPS_BITS as usize) + 1) << STEPS_BITS], total: 0, sum: 0 }
    }

    pub(super) fn record(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(index(value)) {
            *count += 1;
        }
        self.total += 1;
        self.sum += u128::from(value);
    }

    /// Adds the values of another histogram.
    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.total += other.total;
        self.sum += other.sum;
    }

    /// Mean of all values; 0 when empty.
    pub(super) fn mean(&self) -> f64 {
        self.sum as f64 / self.total.max(1) as f64
    }

    pub(super) const fn count(&self) -> u64 {
        self.total
    }

    /// The value below or at which this share of all values lies; 0 when empty.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return lowest(index);
            }
        }
        0
    }
}

fn index(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEPS_BITS + 1);
    ((u64::from(shift) << STEPS_BITS) + (value >> shift)) as usize
}

/// The lowest value that is counted at this index.
fn lowest(index: usize) -> u64 {
    let index = index as u64;
    let shift = (index >> STEPS_BITS).saturating_sub(1);
    (index - (shift << STEPS_BITS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_again_to_a_thousandth() {
        let mut value = 1u64;
        while value < u64::MAX / 3 {
            for value in [value - 1, value, value + 1] {
                let found = lowest(index(value));
                assert!(found <= value && value - found <= value / STEPS, "{value} as {found}");
            }
            value = value * 3 / 2 + 1;
        }
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        assert!(histogram.quantile(1.0) > u64::MAX / 1025 * 1024);
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.record(value));
        assert_eq!((histogram.quantile(0.5), histogram.quantile(0.99), histogram.quantile(1.0)), (500, 990, 1000));
        assert_eq!((histogram.mean(), histogram.count()), (500.5, 1000));
        histogram.merge(&Histogram::new());
        let mut twice = Histogram::new();
        twice.merge(&histogram);
        twice.merge(&histogram);
        assert_eq!((twice.mean(), twice.count(), twice.quantile(0.5)), (500.5, 2000, 500));
        assert_eq!(Histogram::new().quantile(0.5), 0);
    }
}
