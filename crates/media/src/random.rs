//! Seeded random numbers.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// The number that SplitMix64 adds before it mixes: 2^64 divided by the golden ratio, as an odd number.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Numbers of 53 bits, as many as the mantissa of an `f64` holds.
const STEPS: f64 = (1_u64 << 53) as f64;

/// Mixes 64 bits so that the results of neighbours are independent: the output of SplitMix64 for the state `value`.
pub(crate) fn mix(value: u64) -> u64 {
    SplitMix64::seed_from_u64(value.wrapping_sub(GAMMA)).next_u64()
}

/// The `nth` number of the sequence of a seed. It needs no earlier one, because processes share a count and not a generator.
pub(crate) fn nth(seed: u64, nth: u64) -> u64 {
    mix(seed.wrapping_mul(GAMMA) ^ mix(nth))
}

/// Random numbers that follow from a seed (SplitMix64). The state is one number. The same seed
/// gives the same numbers in every version.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `count`; 0 if `count` is 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.bits().checked_rem(count).unwrap_or(0)
    }

    /// A number from 0 to below 1, of 53 bits.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / STEPS
    }

    /// A number above 0 and below 1: the middle of each step of [`Self::share`], so that its logarithm is finite.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / STEPS
    }

    /// About normal around 0 with a deviation of 1: the sum of twelve uniform numbers, less 6.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }

    /// True with the probability `rate`.
    pub fn chance(&mut self, rate: f64) -> bool {
        self.share() < rate
    }

    /// Another generator, so that one use can draw more numbers without changing those of the others.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_and_one_is_always() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.chance(1.0)));
        let struck = (0..10_000).filter(|_| random.chance(0.1)).count();
        assert!((900..1100).contains(&struck), "{struck}");
    }
}
