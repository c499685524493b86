//! Seeded random numbers for faults and simulated power cuts. The same seed gives the same decisions.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// A generator whose state is one number.
#[derive(Debug, Clone)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `count`. 0 if `count` is 0.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        let drawn = self.bits();
        if count == 0 { 0 } else { drawn % count }
    }

    /// True with the probability `rate`.
    pub(crate) fn chance(&mut self, rate: f64) -> bool {
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((self.bits() >> 11) as f64) < rate * STEPS
    }

    /// A separate generator, whose draws do not affect those of this one.
    pub(crate) fn fork(&mut self) -> Self {
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
