//! When transactions of an open load become due: at a rate, whatever the database does.
//!
//! This module reads no clock: it returns times relative to the start.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::limits::{RATE_PER_S_MAX, RATE_PER_S_MIN};
use crate::pacing::exponential;

/// Distribution of the arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal intervals.
    Constant,
    /// As a Poisson process: the intervals have a negative exponential distribution.
    Poisson,
}

impl Arrivals {
    /// Name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
        }
    }
}

/// Transactions of all kinds per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    per_s: f64,
}

impl Rate {
    /// Transactions per second.
    #[must_use]
    pub const fn per_s(self) -> f64 {
        self.per_s
    }

    /// The rate of `part` of `whole` users, if several drivers share a run.
    #[must_use]
    pub fn share(self, part: u32, whole: u32) -> Self {
        Self { per_s: self.per_s * f64::from(part) / f64::from(whole.max(1)) }
    }
}

/// The text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a rate is N/s or N/min, from one an hour to {RATE_PER_S_MAX} per second, such as 200/s")]
pub struct RateError;

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (number, unit) = text.split_once('/').ok_or(RateError)?;
        let number: f64 = number.trim().parse().map_err(|_| RateError)?;
        let per_s = match unit.trim() {
            "s" => number,
            "min" => number / 60.0,
            _ => return Err(RateError),
        };
        // Also refuses what is not a number.
        if (RATE_PER_S_MIN..=RATE_PER_S_MAX).contains(&per_s) { Ok(Self { per_s }) } else { Err(RateError) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.per_s)
    }
}

/// The arrivals of one of several equal parts of a driver, as times since the start.
///
/// The parts together have the complete rate: constant arrivals are assigned to the parts in turn; Poisson
/// arrivals are one process per part.
#[derive(Debug)]
pub struct ArrivalTimes {
    arrivals: Arrivals,
    rate_per_s: f64,
    part: u32,
    parts: u32,
    taken: u64,
    last_s: f64,
    rng: Xoshiro256PlusPlus,
}

impl ArrivalTimes {
    /// Arrivals of part `part` of `parts`.
    #[must_use]
    pub fn new(arrivals: Arrivals, rate: Rate, part: u32, parts: u32, rng: Xoshiro256PlusPlus) -> Self {
        debug_assert!(part < parts);
        Self { arrivals, rate_per_s: rate.per_s, part, parts, taken: 0, last_s: 0.0, rng }
    }

    /// Time of the next arrival since the start; never earlier than the previous one.
    pub fn next_after_start(&mut self) -> Duration {
        let parts = f64::from(self.parts);
        self.last_s = match self.arrivals {
            // Multiplied, not summed, so that no rounding error accumulates over a long run.
            Arrivals::Constant => (self.taken as f64 * parts + f64::from(self.part)) / self.rate_per_s,
            Arrivals::Poisson => self.last_s + exponential(parts / self.rate_per_s, &mut self.rng),
        };
        self.taken += 1;
        Duration::try_from_secs_f64(self.last_s).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    fn first(arrivals: Arrivals, part: u32, parts: u32, count: usize) -> Vec<Duration> {
        let rate = "200/s".parse().unwrap();
        let mut times = ArrivalTimes::new(arrivals, rate, part, parts, stream(9, u64::from(part)));
        (0..count).map(|_| times.next_after_start()).collect()
    }

    #[test]
    fn rates_are_per_second_or_per_minute_and_bounded() {
        assert!(("12000/min".parse::<Rate>().unwrap().per_s() - 200.0).abs() < 1e-9);
        assert!((" 0.5 / s".parse::<Rate>().unwrap().per_s() - 0.5).abs() < 1e-9);
        for text in ["200", "200/h", "-1/s", "0/s", "NaN/s", "inf/s", "1e9/s", "/s", ""] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn constant_arrivals_of_all_parts_are_equally_spaced() {
        let mut all: Vec<Duration> = (0..4).flat_map(|part| first(Arrivals::Constant, part, 4, 50)).collect();
        all.sort_unstable();
        for (index, due) in all.iter().enumerate() {
            let expected = Duration::from_micros(5_000 * index as u64);
            assert!(due.abs_diff(expected) < Duration::from_nanos(10), "{index} {due:?}");
        }
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_vary_as_much_as_they_should() {
        let times = first(Arrivals::Poisson, 0, 1, 200_000);
        let took = times.last().unwrap().as_secs_f64();
        assert!((200_000.0 / took / 200.0 - 1.0).abs() < 0.01, "{took}");
        assert!(times.is_sorted());
        // In a Poisson process, the variance of the counts per second equals their mean.
        let mut counts = vec![0.0; took as usize];
        for due in &times {
            if let Some(count) = counts.get_mut(due.as_secs() as usize) {
                *count += 1.0;
            }
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / counts.len() as f64;
        assert!((variance / mean - 1.0).abs() < 0.15, "{variance} {mean}");
    }

    #[test]
    fn arrivals_repeat_with_the_seed_and_differ_between_parts() {
        assert_eq!(first(Arrivals::Poisson, 1, 4, 100), first(Arrivals::Poisson, 1, 4, 100));
        assert_ne!(first(Arrivals::Poisson, 1, 4, 100), first(Arrivals::Poisson, 2, 4, 100));
    }
}
