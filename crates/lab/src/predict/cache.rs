//! Buffers that begin empty: how many blocks an order reads, by the orders that were done before it.
//!
//! Every run starts the database anew, so its first orders read almost all they touch. Distinct pages touched by `n`
//! orders grow as a power of `n` (Heaps' law: what is touched often is touched early). While they fit the buffers, each
//! new page is a read. Once the buffers are full, a page leaves after as many orders as it took to fill them, so an order
//! reads what it read at that moment (the characteristic time of Che, Tung and Wang, 2002). Data that grow by what orders
//! insert spread the touches over more pages.

/// Least and most exponent that a fit may give: below, all is hot; above, nothing is touched twice.
const EXPONENT: (f64, f64) = (0.1, 1.0);
/// Orders after which a fit may find the buffers full.
const FULL_AFTER: (f64, f64) = (1e-3, 1e12);
/// Steps of each search of the fit: each halves the bracket.
const STEPS: u32 = 60;
/// From one step of the course to the next, orders done grow by this.
const STRIDE: f64 = 1.1;
/// Most steps of a course: 1.1^400 are 10^16 orders.
const STRIDES_MAX: u32 = 400;

/// What the buffers make of a load that begins with none of its pages in them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cache {
    /// Reads that fill the buffers.
    pub blocks: f64,
    /// Orders after which they are full.
    pub full_after: f64,
    /// Exponent of the growth until then, 0 to 1.
    pub exponent: f64,
    /// Share by which the data grow with each order.
    pub growth: f64,
}

/// A run from its cold start: buffers, and when it is measured. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Course {
    /// The buffers.
    pub cache: Cache,
    /// From the start to the measured interval.
    pub warmup_s: f64,
    /// The measured interval.
    pub measured_s: f64,
}

/// A count of orders with the reads they took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Done {
    /// Orders.
    pub orders: f64,
    /// Block reads.
    pub reads: f64,
}

impl Cache {
    /// From what was done before the measured interval, what was done in it, the reads that fill the buffers and the share
    /// by which data grow with each order; `None` when the counts are not of buffers that began empty.
    #[must_use]
    pub fn fit(before: Done, measured: Done, blocks: f64, growth: f64) -> Option<Self> {
        let all = Done { orders: before.orders + measured.orders, reads: before.reads + measured.reads };
        let counted = [before.orders, before.reads, measured.orders, measured.reads, blocks].iter().all(|count| *count >= 1.0);
        if !counted || before.reads / before.orders < measured.reads / measured.orders {
            return None;
        }
        // For each exponent, the moment at which the buffers were full follows from all reads; the exponent then from
        // those before the interval: the less it is, the more of them come early.
        let (mut low, mut high) = EXPONENT;
        for _ in 0..STEPS {
            let exponent = f64::midpoint(low, high);
            if Self::through(all, blocks, growth, exponent).reads(before.orders) > before.reads {
                low = exponent;
            } else {
                high = exponent;
            }
        }
        Some(Self::through(all, blocks, growth, f64::midpoint(low, high)))
    }

    /// The curve with this exponent that goes through a count.
    fn through(all: Done, blocks: f64, growth: f64, exponent: f64) -> Self {
        let (mut low, mut high) = (FULL_AFTER.0.ln(), FULL_AFTER.1.ln());
        let at = |logarithm: f64| Self { blocks, full_after: logarithm.exp(), exponent, growth };
        for _ in 0..STEPS {
            let middle = f64::midpoint(low, high);
            if at(middle).reads(all.orders) > all.reads {
                low = middle;
            } else {
                high = middle;
            }
        }
        at(f64::midpoint(low, high))
    }

    /// Reads of the first `orders`.
    #[must_use]
    pub fn reads(&self, orders: f64) -> f64 {
        let part = orders.max(0.0) / self.full_after;
        if part <= 1.0 {
            return self.blocks * part.powf(self.exponent);
        }
        self.blocks + self.reads_when_full() * (self.grown(orders) - self.grown(self.full_after))
    }

    /// Orders, each weighed by the reads that the growth before it has brought: as many more as there are data more, which
    /// is what the curve says of an exponent of 1/2 (data s times as large fill the buffers s^((1 - b) / b) times as soon).
    fn grown(&self, orders: f64) -> f64 {
        orders * (1.0 + self.growth * orders / 2.0)
    }

    /// Reads of one order once the buffers are full, before the data have grown.
    #[must_use]
    pub fn reads_when_full(&self) -> f64 {
        self.exponent * self.blocks / self.full_after
    }
}

/// What a course did in its measured interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Orders per second.
    pub orders_per_s: f64,
    /// Block reads of one order.
    pub reads: f64,
    /// Share of the orders that found the buffers full.
    pub full: f64,
}

impl Course {
    /// The measured interval, when `seconds` is the time that one order takes of the whole system while an order reads so
    /// many blocks into buffers that are full or not.
    #[must_use]
    pub fn measured(&self, seconds: impl Fn(f64, bool) -> f64) -> Interval {
        let (mut time, mut orders, mut next) = (0.0, 0.0, 1.0);
        let mut begin = None;
        let end_s = self.warmup_s + self.measured_s;
        for _ in 0..STRIDES_MAX {
            let reads = (self.cache.reads(next) - self.cache.reads(orders)) / (next - orders);
            let each = seconds(reads, orders >= self.cache.full_after).max(f64::MIN_POSITIVE);
            let after = time + (next - orders) * each;
            if begin.is_none() && after >= self.warmup_s {
                begin = Some(orders + (self.warmup_s - time) / each);
            }
            if after >= end_s {
                let (first, last) = (begin.unwrap_or(orders), orders + (end_s - time) / each);
                let done = (last - first).max(f64::MIN_POSITIVE);
                return Interval {
                    orders_per_s: done / self.measured_s,
                    reads: (self.cache.reads(last) - self.cache.reads(first)) / done,
                    full: ((last - self.cache.full_after.max(first)) / done).clamp(0.0, 1.0),
                };
            }
            (time, orders, next) = (after, next, next * STRIDE);
        }
        // Orders took next to no time, so that no number of them fills the interval.
        Interval { orders_per_s: f64::INFINITY, reads: self.cache.reads_when_full(), full: 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: Cache = Cache { blocks: 14_000.0, full_after: 1_100.0, exponent: 0.5, growth: 0.0 };

    fn done(truth: Cache, first: f64, last: f64) -> Done {
        Done { orders: last - first, reads: truth.reads(last) - truth.reads(first) }
    }

    #[test]
    fn one_run_tells_the_buffers_wherever_they_became_full() {
        for truth in [TRUTH, Cache { growth: 1e-5, ..TRUTH }] {
            for (warm, end) in [(100.0, 900.0), (100.0, 2_000.0), (1_000.0, 1_200.0), (3_000.0, 12_000.0)] {
                let found = Cache::fit(done(truth, 0.0, warm), done(truth, warm, end), truth.blocks, truth.growth).unwrap();
                assert!((found.exponent - 0.5).abs() < 1e-4, "{warm} to {end}: {found:?}");
                assert!((found.full_after - 1_100.0).abs() < 1.0, "{warm} to {end}: {found:?}");
            }
        }
        assert!((TRUTH.reads_when_full() - 6.3636).abs() < 1e-3);
    }

    #[test]
    fn data_that_grow_are_found_in_the_buffers_less_often() {
        let grows = Cache { growth: 1e-5, ..TRUTH };
        // With the exponent 1/2, reads grow as the data do: 10 % more after 10,000 orders.
        let at = |orders: f64| grows.reads(orders + 0.5) - grows.reads(orders - 0.5);
        assert!((at(10_000.0) / TRUTH.reads_when_full() - 1.1).abs() < 1e-6);
    }

    #[test]
    fn counts_that_say_nothing_give_no_cache() {
        let none = Done { orders: 0.0, reads: 0.0 };
        let (cold, warm) = (done(TRUTH, 0.0, 100.0), done(TRUTH, 100.0, 200.0));
        assert_eq!(Cache::fit(none, warm, 1e4, 0.0), None);
        assert_eq!(Cache::fit(cold, none, 1e4, 0.0), None);
        assert_eq!(Cache::fit(cold, warm, 0.0, 0.0), None);
        // More reads per order later than at the start: these buffers were warm.
        assert_eq!(Cache::fit(warm, Done { reads: 2.0 * warm.reads, ..warm }, 1e4, 0.0), None);
    }

    #[test]
    fn a_slow_start_is_measured_while_it_still_warms_up() {
        let course = Course { cache: TRUTH, warmup_s: 10.0, measured_s: 25.0 };
        // 2 ms a read and 1 ms besides: by hand, the time until n orders is 2 ms x 14,000 x sqrt(n / 1,100) + n ms.
        let Interval { orders_per_s: rate, reads, full } = course.measured(|reads, _| reads * 0.002 + 0.001);
        assert!(full > 0.0 && full < 1.0, "{full}");
        let until = |n: f64| 0.002 * TRUTH.reads(n) + 0.001 * n;
        let find = |seconds: f64| (1..200_000).map(|n| f64::from(n) / 10.0).find(|n| until(*n) >= seconds).unwrap();
        let (first, last) = (find(10.0), find(35.0));
        assert!((rate / ((last - first) / 25.0) - 1.0).abs() < 0.01, "{rate} instead of {}", (last - first) / 25.0);
        assert!(reads > 1.2 * TRUTH.reads_when_full(), "{reads}");
    }

    #[test]
    fn a_long_run_reads_what_full_buffers_leave() {
        let course = Course { cache: TRUTH, warmup_s: 600.0, measured_s: 600.0 };
        let Interval { orders_per_s: rate, reads, .. } = course.measured(|reads, _| reads * 0.002);
        assert!((reads - TRUTH.reads_when_full()).abs() < 1e-6);
        assert!((rate * reads * 0.002 - 1.0).abs() < 1e-6);
    }
}
