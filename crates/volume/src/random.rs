//! Seeded random numbers, so that the same seed takes the same decisions: in faults and in what survives a cut.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// A generator; the whole state is one number.
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

    /// A number below `count`; 0 when that is 0.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        let drawn = self.bits();
        if count == 0 { 0 } else { drawn % count }
    }

    /// True in that share of the cases.
    pub(crate) fn chance(&mut self, rate: f64) -> bool {
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((self.bits() >> 11) as f64) < rate * STEPS
    }

    /// A generator of its own, so that one use can draw more without moving the others.
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
