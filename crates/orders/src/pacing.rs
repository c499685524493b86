//! When a paced terminal sends next: keying and think times (clauses 5.2.5.2 to 5.2.5.4).
//!
//! A terminal's cycle is: key the input, send, wait for the answer, think. A transaction is due at
//! the end of its keying. Its response time is measured from there, whether or not a session is free. This
//! module reads no clock: its functions take and return moments.

use std::time::{Duration, Instant};

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::mix::Kind;

/// Keying times of New-Order, Payment, Order-Status, Delivery, Stock-Level in seconds: constant.
pub const KEYING_S: [f64; 5] = [18.0, 3.0, 2.0, 2.0, 2.0];
/// Means of the negative exponential think times after the same, in seconds.
pub const THINK_MEAN_S: [f64; 5] = [12.0, 12.0, 10.0, 5.0, 5.0];
/// A think time is limited to this multiple of its mean.
pub const THINK_CUT: f64 = 10.0;
/// Terminals of a warehouse: one per district.
pub const TERMINALS_PER_WAREHOUSE: u32 = 10;
/// New-Orders per minute and warehouse that ten terminals reach if the other four transactions have
/// their minimum shares and responses take no time: 45 in 2,099 s of one terminal.
pub const CEILING_PER_MINUTE: f64 = 12.86;
/// New-Orders per minute and warehouse below which a run is too slow for its database (clause 4.1.3: 9 per warehouse).
pub const FLOOR_PER_MINUTE: f64 = 9.0;

/// The pacing of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pacing {
    /// Factor for all keying and think times; 1 is the specification's.
    scale: f64,
}

impl Pacing {
    /// Times multiplied by `scale`, which must be above 0.
    #[must_use]
    pub fn new(scale: f64) -> Self {
        debug_assert!(scale > 0.0 && scale.is_finite(), "{scale}");
        Self { scale }
    }

    /// Time to key the input of a transaction.
    #[must_use]
    pub fn keying(&self, kind: Kind) -> Duration {
        seconds(KEYING_S[kind.index()] * self.scale)
    }

    /// Time to think after a transaction: a negative exponential draw, limited to ten times its mean.
    pub fn think(&self, kind: Kind, rng: &mut Xoshiro256PlusPlus) -> Duration {
        let mean_s = THINK_MEAN_S[kind.index()];
        let drawn_s = exponential(mean_s, rng).min(mean_s * THINK_CUT);
        seconds(drawn_s * self.scale)
    }

    /// When a terminal whose transaction `done` ended at `ended` sends `next`.
    pub fn next_due(&self, ended: Instant, done: Kind, next: Kind, rng: &mut Xoshiro256PlusPlus) -> Instant {
        ended + self.think(done, rng) + self.keying(next)
    }

    /// When a terminal sends its first transaction: at a random point of a mean cycle, so that terminals do
    /// not start in step.
    pub fn first_due(&self, began: Instant, rng: &mut Xoshiro256PlusPlus) -> Instant {
        began + seconds(rng.random_range(0.0..self.cycle_mean().as_secs_f64()))
    }

    /// Mean time from one transaction of a terminal to the next with the mix of the deck, if
    /// responses take no time.
    #[must_use]
    pub fn cycle_mean(&self) -> Duration {
        const CARDS: [f64; 5] = [10.0, 10.0, 1.0, 1.0, 1.0];
        let times = KEYING_S.iter().zip(THINK_MEAN_S).zip(CARDS);
        let sum_s: f64 = times.map(|((keying_s, think_s), cards)| (keying_s + think_s) * cards).sum();
        seconds(sum_s / CARDS.iter().sum::<f64>() * self.scale)
    }
}

/// A negative exponential draw with this mean.
pub(crate) fn exponential(mean: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    // 1 - [0, 1) is never 0, so the logarithm is finite.
    -(1.0 - rng.random::<f64>()).ln() * mean
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn a_cycle_is_think_of_the_last_and_keying_of_the_next() {
        let (pacing, ended) = (Pacing::new(1.0), Instant::now());
        for (done, next) in [(Kind::NewOrder, Kind::Payment), (Kind::StockLevel, Kind::NewOrder)] {
            let due = pacing.next_due(ended, done, next, &mut stream(3, 1));
            let think = pacing.think(done, &mut stream(3, 1));
            assert_eq!(due - ended, think + pacing.keying(next));
        }
        assert_eq!(pacing.keying(Kind::NewOrder), Duration::from_secs(18));
        assert_eq!(Pacing::new(0.01).keying(Kind::Payment), Duration::from_millis(30));
    }

    #[test]
    fn think_times_are_exponential_with_their_mean_and_cut_at_ten_times_it() {
        let (pacing, mut rng) = (Pacing::new(1.0), stream(4, 1));
        for kind in Kind::ALL {
            let mean_s = THINK_MEAN_S[kind.index()];
            let draws: Vec<f64> = (0..200_000).map(|_| pacing.think(kind, &mut rng).as_secs_f64()).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            assert!((mean / mean_s - 1.0).abs() < 0.02, "{kind:?} {mean}");
            // Half of an exponential distribution is below ln 2 of its mean; e^-10 of it (9 of these draws) is cut off.
            let below = draws.iter().filter(|draw| **draw < mean_s * std::f64::consts::LN_2).count();
            assert!((below as f64 / draws.len() as f64 - 0.5).abs() < 0.01, "{kind:?} {below}");
            let longest = draws.iter().copied().fold(0.0, f64::max);
            assert!(longest <= mean_s * THINK_CUT, "{kind:?} {longest}");
            assert!(longest > mean_s * 8.0, "{kind:?} {longest}");
        }
    }

    #[test]
    fn ten_terminals_that_get_answers_at_once_stay_under_the_ceiling() {
        // Thirty hours of ten terminals with instant responses and the minimum shares of the other transactions.
        let (pacing, began) = (Pacing::new(1.0), Instant::now());
        let ends = began + Duration::from_secs(30 * 3600);
        let mut orders = 0_u32;
        for terminal in 0..10 {
            let mut rng = stream(5, terminal);
            let mut kind = Kind::NewOrder;
            let mut due = pacing.first_due(began, &mut rng);
            while due < ends {
                orders += u32::from(kind == Kind::NewOrder);
                let next = match rng.random_range(0..100) {
                    0..45 => Kind::NewOrder,
                    45..88 => Kind::Payment,
                    88..92 => Kind::OrderStatus,
                    92..96 => Kind::Delivery,
                    _ => Kind::StockLevel,
                };
                due = pacing.next_due(due, kind, next, &mut rng);
                kind = next;
            }
        }
        let per_minute = f64::from(orders) / (30.0 * 60.0);
        assert!((per_minute / CEILING_PER_MINUTE - 1.0).abs() < 0.015, "{per_minute}");
        assert!((Pacing::new(1.0).cycle_mean().as_secs_f64() - 476.0 / 23.0).abs() < 1e-6);
    }

    #[test]
    fn terminals_begin_spread_over_a_cycle() {
        let (pacing, began) = (Pacing::new(0.1), Instant::now());
        let firsts: Vec<Duration> =
            (0..1_000).map(|terminal| pacing.first_due(began, &mut stream(6, terminal)) - began).collect();
        let cycle = pacing.cycle_mean();
        assert!(firsts.iter().all(|first| *first < cycle));
        let early = firsts.iter().filter(|first| **first < cycle / 2).count();
        assert!((450..550).contains(&early), "{early}");
    }
}
