//! How reads go with orders while buffers fill: the path's counter, looked at whenever a quarter more orders are done.

use results::compare::Filling;

use crate::error::LabError;
use crate::run::driver::Second;

/// A look is due after this part of the orders done until the last one.
const LOOK_AFTER: u64 = 4;

/// What was seen of a warm-up.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Orders in each second until now.
    pub(crate) per_second: Vec<u64>,
    orders: u64,
    looked_at: u64,
    looks: Vec<Filling>,
}

impl Watch {
    /// Takes seconds that are over; asks for the bytes read on the path until now when a look is due.
    pub(crate) fn take(
        &mut self,
        seconds: &[Second],
        read: impl FnOnce() -> Result<Option<u64>, LabError>,
    ) -> Result<(), LabError> {
        self.per_second.extend(seconds.iter().map(|(_, orders)| *orders));
        self.orders += seconds.iter().map(|(_, orders)| orders).sum::<u64>();
        if self.orders <= self.looked_at + self.looked_at / LOOK_AFTER {
            return Ok(());
        }
        self.look(read()?);
        Ok(())
    }

    /// The warm-up ends with these bytes read.
    pub(crate) fn end(&mut self, read_bytes: Option<u64>) {
        if self.looked_at < self.orders {
            self.look(read_bytes);
        }
    }

    fn look(&mut self, read_bytes: Option<u64>) {
        self.looked_at = self.orders;
        self.looks.extend(read_bytes.map(|read_bytes| Filling { orders: self.orders, read_bytes }));
    }

    /// The looks, with only those bytes that were read after the counter stood at `before`, and without those read `beside`
    /// the load.
    pub(crate) fn looks(self, before: Option<u64>, beside: u64) -> Vec<Filling> {
        let base = before.unwrap_or(0) + beside;
        self.looks.into_iter().map(|look| Filling { read_bytes: look.read_bytes.saturating_sub(base), ..look }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_taken_ever_less_often_and_count_from_the_start() {
        let mut watch = Watch::default();
        for second in 1..=100 {
            watch.take(&[(second, 10)], || Ok(Some(1_000 + second * 500))).unwrap();
        }
        watch.take(&[], || panic!("nothing was done since")).unwrap();
        watch.end(Some(51_000));
        assert_eq!(watch.per_second.len(), 100);
        let looks = watch.looks(Some(1_000), 100);
        let orders: Vec<u64> = looks.iter().map(|look| look.orders).collect();
        assert_eq!(orders[..6], [10, 20, 30, 40, 60, 80]);
        assert!(orders.windows(2).rev().skip(1).all(|pair| pair[1] * 4 > pair[0] * 5) && orders.len() < 20, "{orders:?}");
        assert_eq!(looks.last(), Some(&Filling { orders: 1_000, read_bytes: 49_900 }));
        assert_eq!(looks[0], Filling { orders: 10, read_bytes: 400 });
    }

    #[test]
    fn a_host_that_counts_no_reads_leaves_no_looks() {
        let mut watch = Watch::default();
        watch.take(&[(1, 10)], || Ok(None)).unwrap();
        assert_eq!(watch.looks(None, 0), []);
    }
}
