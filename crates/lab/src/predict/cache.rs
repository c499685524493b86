//! Initially empty buffers: how many blocks an order reads, depending on the number of orders before it.
//!
//! Every run starts the database again, so its first orders read nearly all blocks that they use. The number of distinct pages
//! that `n` orders use grows as a power of `n` (Heaps' law: frequently used pages occur early). While these fit into the buffers,
//! each new page is a read. Once the buffers are full, a page is evicted after as many orders as it took to fill them, so an order
//! reads as many blocks as at that moment (the characteristic time of Che, Tung and Wang, 2002). If orders insert data, the
//! accesses spread over more pages.

/// Smallest and largest exponent of a fit: at lower values, all pages are hot; at higher ones, no page is used twice.
const EXPONENT: (f64, f64) = (0.1, 1.0);
/// Range of the number of orders after which the buffers are full in a fit.
const FULL_AFTER: (f64, f64) = (1e-3, 1e12);
/// Steps of each search in a fit: each reduces the bracket to a half or, with the golden section, to 0.62.
const STEPS: u32 = 60;
/// Factor by which the number of orders grows from one step of a cold start to the next.
const STRIDE: f64 = 1.1;
/// Most steps of a run: 1.1^400 are 10^16 orders.
const STRIDES_MAX: u32 = 400;

/// Buffers under a load that starts with none of its pages in them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cache {
    /// Number of reads that fill the buffers.
    pub blocks: f64,
    /// Orders after which they are full.
    pub full_after: f64,
    /// Exponent of the growth until then, 0 to 1.
    pub exponent: f64,
    /// Relative growth of the data with each order.
    pub growth: f64,
}

/// A run from its cold start: buffers, and the time of the measurement. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColdStart {
    /// The buffers.
    pub cache: Cache,
    /// Time from the start to the measured interval.
    pub warmup_s: f64,
    /// Length of the measured interval.
    pub measured_s: f64,
}

/// Orders, and the reads that they needed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Done {
    /// Orders.
    pub orders: f64,
    /// Block reads.
    pub reads: f64,
}

/// The observations of a run about its buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed<'a> {
    /// Observations during the warm-up, counted since the start; may be empty.
    pub samples: &'a [Done],
    /// Work before the measured interval.
    pub before: Done,
    /// Work in the measured interval.
    pub measured: Done,
    /// Number of reads that fill the buffers.
    pub blocks: f64,
    /// Relative growth of the data with each order.
    pub growth: f64,
}

impl Observed<'_> {
    /// Whether the reads per order did not increase by more than the growth explains; otherwise the buffers were already warm.
    fn began_empty(&self) -> bool {
        let before = grown(self.before.orders, self.growth);
        let measured = grown(self.before.orders + self.measured.orders, self.growth) - before;
        self.before.reads / before >= self.measured.reads / measured
    }

    /// Deviation of a curve from the observed warm-up: squares of the ratios' logarithms.
    fn distance(&self, cache: &Cache) -> f64 {
        let before = [self.before];
        let moments = if self.samples.is_empty() { &before[..] } else { self.samples };
        let counted = moments.iter().filter(|seen| seen.orders >= 1.0 && seen.reads >= 1.0);
        counted.map(|seen| (cache.reads(seen.orders) / seen.reads).ln().powi(2)).sum()
    }
}

impl Cache {
    /// Fits the buffers to the observations of a run; `None` if its counts are not those of initially empty buffers.
    #[must_use]
    pub fn fit(seen: &Observed<'_>) -> Option<Self> {
        let counts = [seen.before.orders, seen.before.reads, seen.measured.orders, seen.measured.reads, seen.blocks];
        if counts.iter().any(|count| *count < 1.0) || !seen.began_empty() {
            return None;
        }
        // For each exponent, the reads of the interval determine when the buffers were full. The warm-up then determines the
        // exponent: the smaller it is, the more of the reads come early.
        let exponent = least(EXPONENT, |exponent| seen.distance(&Self::through(seen, exponent)));
        Some(Self::through(seen, exponent))
    }

    /// The curve with this exponent that has the reads of the measured interval.
    fn through(seen: &Observed<'_>, exponent: f64) -> Self {
        let at = |logarithm: f64| Self { blocks: seen.blocks, full_after: logarithm.exp(), exponent, growth: seen.growth };
        let (first, last) = (seen.before.orders, seen.before.orders + seen.measured.orders);
        let (mut low, mut high) = (FULL_AFTER.0.ln(), FULL_AFTER.1.ln());
        for _ in 0..STEPS {
            let middle = f64::midpoint(low, high);
            if at(middle).reads(last) - at(middle).reads(first) > seen.measured.reads {
                low = middle;
            } else {
                high = middle;
            }
        }
        at(f64::midpoint(low, high))
    }

    /// Reads of the first `orders` orders.
    #[must_use]
    pub fn reads(&self, orders: f64) -> f64 {
        let part = orders.max(0.0) / self.full_after;
        if part <= 1.0 {
            return self.blocks * part.powf(self.exponent);
        }
        self.blocks + self.reads_when_full() * (grown(orders, self.growth) - grown(self.full_after, self.growth))
    }

    /// Reads per order when the buffers are full and the data have not grown yet.
    #[must_use]
    pub fn reads_when_full(&self) -> f64 {
        self.exponent * self.blocks / self.full_after
    }
}

/// Orders, weighted by the additional reads that the growth before them causes: proportional to the data, which is
/// exact for an exponent of 1/2 (data s times as large fill the buffers s^((1 - b) / b) times as soon).
fn grown(orders: f64, growth: f64) -> f64 {
    orders * (1.0 + growth * orders / 2.0)
}

/// Results of a run in its measured interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Orders per second.
    pub orders_per_s: f64,
    /// Block reads per order.
    pub reads: f64,
    /// Share of the orders that found the buffers full.
    pub full: f64,
}

impl ColdStart {
    /// The measured interval, if `seconds` returns the time of the complete system for one order, given its number of block reads and
    /// whether the buffers are full.
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
        // Orders take hardly any time, so no number of them fills the interval.
        Interval { orders_per_s: f64::INFINITY, reads: self.cache.reads_when_full(), full: 1.0 }
    }
}

/// The minimum of a function with a single minimum, by the golden section.
fn least((mut low, mut high): (f64, f64), value: impl Fn(f64) -> f64) -> f64 {
    const SECTION: f64 = 0.618_033_988_749_895;
    let inner = |low: f64, high: f64| (high - (high - low) * SECTION, low + (high - low) * SECTION);
    let (mut left, mut right) = inner(low, high);
    let (mut at_left, mut at_right) = (value(left), value(right));
    for _ in 0..STEPS {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = inner(low, high).0;
            at_left = value(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = inner(low, high).1;
            at_right = value(right);
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: Cache = Cache { blocks: 14_000.0, full_after: 1_100.0, exponent: 0.5, growth: 0.0 };

    fn done(truth: Cache, first: f64, last: f64) -> Done {
        Done { orders: last - first, reads: truth.reads(last) - truth.reads(first) }
    }

    fn seen(truth: Cache, samples: &[Done], warm: f64, end: f64) -> Observed<'_> {
        let (before, measured) = (done(truth, 0.0, warm), done(truth, warm, end));
        Observed { samples, before, measured, blocks: truth.blocks, growth: truth.growth }
    }

    #[test]
    fn one_run_tells_the_buffers_wherever_they_became_full() {
        for truth in [TRUTH, Cache { growth: 1e-5, ..TRUTH }] {
            for (warm, end) in [(100.0, 900.0), (100.0, 2_000.0), (1_000.0, 1_200.0), (3_000.0, 12_000.0)] {
                let found = Cache::fit(&seen(truth, &[], warm, end)).unwrap();
                assert!((found.exponent - 0.5).abs() < 1e-4, "{warm} to {end}: {found:?}");
                assert!((found.full_after - 1_100.0).abs() < 1.0, "{warm} to {end}: {found:?}");
            }
        }
        assert!((TRUTH.reads_when_full() - 6.3636).abs() < 1e-3);
    }

    #[test]
    fn looks_at_the_warm_up_tell_the_cold_start_and_the_interval_stays_as_it_was() {
        let samples: Vec<Done> = (0..14).map(|sample| done(TRUTH, 0.0, 400.0 * 1.28_f64.powi(sample))).collect();
        // As observed, but orders read a twentieth less once the buffers have been full for a long time.
        let mut seen = seen(TRUTH, &samples, 11_000.0, 41_000.0);
        seen.measured.reads *= 0.95;
        let found = Cache::fit(&seen).unwrap();
        assert!(((found.reads(41_000.0) - found.reads(11_000.0)) / seen.measured.reads - 1.0).abs() < 1e-6, "{found:?}");
        assert!((found.reads(400.0) / TRUTH.reads(400.0) - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn reads_that_growth_makes_more_later_are_no_sign_of_warm_buffers() {
        // From a run with sixteen users: 7.2 reads per order in the warm-up, including the cold start, 8.2 after it.
        let (before, measured) = (Done { orders: 11_071.0, reads: 79_700.0 }, Done { orders: 30_142.0, reads: 246_260.0 });
        let found = Cache::fit(&Observed { samples: &[], before, measured, blocks: 13_180.0, growth: 8.2e-6 }).unwrap();
        assert!((found.reads(41_213.0) - found.reads(11_071.0) - 246_260.0).abs() < 1.0, "{found:?}");
        assert!((found.reads(11_071.0) / 79_700.0 - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn data_that_grow_are_found_in_the_buffers_less_often() {
        let grows = Cache { growth: 1e-5, ..TRUTH };
        // With the exponent 1/2, reads grow like the data: 10 % more after 10,000 orders.
        let at = |orders: f64| grows.reads(orders + 0.5) - grows.reads(orders - 0.5);
        assert!((at(10_000.0) / TRUTH.reads_when_full() - 1.1).abs() < 1e-6);
    }

    #[test]
    fn counts_that_say_nothing_give_no_cache() {
        let none = Done { orders: 0.0, reads: 0.0 };
        let (cold, warm) = (done(TRUTH, 0.0, 100.0), done(TRUTH, 100.0, 200.0));
        let fit = |before, measured, blocks| Cache::fit(&Observed { samples: &[], before, measured, blocks, growth: 0.0 });
        assert_eq!(fit(none, warm, 1e4), None);
        assert_eq!(fit(cold, none, 1e4), None);
        assert_eq!(fit(cold, warm, 0.0), None);
        // More reads per order later than at the start: these buffers were warm.
        assert_eq!(fit(warm, Done { reads: 2.0 * warm.reads, ..warm }, 1e4), None);
    }

    #[test]
    fn a_slow_start_is_measured_while_it_still_warms_up() {
        let cold_start = ColdStart { cache: TRUTH, warmup_s: 10.0, measured_s: 25.0 };
        // 2 ms per read and 1 ms of other time: the time until n orders is 2 ms x 14,000 x sqrt(n / 1,100) + n ms.
        let Interval { orders_per_s: rate, reads, full } = cold_start.measured(|reads, _| reads * 0.002 + 0.001);
        assert!(full > 0.0 && full < 1.0, "{full}");
        let until = |n: f64| 0.002 * TRUTH.reads(n) + 0.001 * n;
        let find = |seconds: f64| (1..200_000).map(|n| f64::from(n) / 10.0).find(|n| until(*n) >= seconds).unwrap();
        let (first, last) = (find(10.0), find(35.0));
        assert!((rate / ((last - first) / 25.0) - 1.0).abs() < 0.01, "{rate} instead of {}", (last - first) / 25.0);
        assert!(reads > 1.2 * TRUTH.reads_when_full(), "{reads}");
    }

    #[test]
    fn a_long_run_reads_what_full_buffers_leave() {
        let cold_start = ColdStart { cache: TRUTH, warmup_s: 600.0, measured_s: 600.0 };
        let Interval { orders_per_s: rate, reads, .. } = cold_start.measured(|reads, _| reads * 0.002);
        assert!((reads - TRUTH.reads_when_full()).abs() < 1e-6);
        assert!((rate * reads * 0.002 - 1.0).abs() < 1e-6);
    }
}
