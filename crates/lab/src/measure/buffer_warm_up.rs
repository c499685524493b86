//! Reads over orders while the buffers fill: the path's counter, sampled each time the orders have grown by a quarter.

use results::compare::Filling;

use crate::error::LabError;
use crate::run::driver::Second;

/// A sample is due when the orders have grown by this part since the last one.
const SAMPLE_AFTER: u64 = 4;

/// Observations of a warm-up.
#[derive(Debug, Default)]
pub(crate) struct BufferWarmUp {
    /// Orders in each second until now.
    pub(crate) per_second: Vec<u64>,
    orders: u64,
    sampled_at: u64,
    samples: Vec<Filling>,
}

impl BufferWarmUp {
    /// Adds completed seconds. If a sample is due, calls for the bytes read on the path until now.
    pub(crate) fn take(
        &mut self,
        seconds: &[Second],
        read: impl FnOnce() -> Result<Option<u64>, LabError>,
    ) -> Result<(), LabError> {
        self.per_second.extend(seconds.iter().map(|(_, orders)| *orders));
        self.orders += seconds.iter().map(|(_, orders)| orders).sum::<u64>();
        if self.orders <= self.sampled_at + self.sampled_at / SAMPLE_AFTER {
            return Ok(());
        }
        self.sample(read()?);
        Ok(())
    }

    /// Ends the warm-up with these bytes read.
    pub(crate) fn end(&mut self, read_bytes: Option<u64>) {
        if self.sampled_at < self.orders {
            self.sample(read_bytes);
        }
    }

    fn sample(&mut self, read_bytes: Option<u64>) {
        self.sampled_at = self.orders;
        self.samples.extend(read_bytes.map(|read_bytes| Filling { orders: self.orders, read_bytes }));
    }

    /// The samples, with only the bytes read after the counter was at `before`, and without those that the load
    /// did not read (`beside`).
    pub(crate) fn samples(self, before: Option<u64>, beside: u64) -> Vec<Filling> {
        let base = before.unwrap_or(0) + beside;
        self.samples.into_iter().map(|sample| Filling { read_bytes: sample.read_bytes.saturating_sub(base), ..sample }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_taken_ever_less_often_and_count_from_the_start() {
        let mut watch = BufferWarmUp::default();
        for second in 1..=100 {
            watch.take(&[(second, 10)], || Ok(Some(1_000 + second * 500))).unwrap();
        }
        watch.take(&[], || panic!("nothing was done since")).unwrap();
        watch.end(Some(51_000));
        assert_eq!(watch.per_second.len(), 100);
        let samples = watch.samples(Some(1_000), 100);
        let orders: Vec<u64> = samples.iter().map(|sample| sample.orders).collect();
        assert_eq!(orders[..6], [10, 20, 30, 40, 60, 80]);
        assert!(orders.windows(2).rev().skip(1).all(|pair| pair[1] * 4 > pair[0] * 5) && orders.len() < 20, "{orders:?}");
        assert_eq!(samples.last(), Some(&Filling { orders: 1_000, read_bytes: 49_900 }));
        assert_eq!(samples[0], Filling { orders: 10, read_bytes: 400 });
    }

    #[test]
    fn a_host_that_counts_no_reads_leaves_no_looks() {
        let mut watch = BufferWarmUp::default();
        watch.take(&[(1, 10)], || Ok(None)).unwrap();
        assert_eq!(watch.samples(None, 0), []);
    }
}
