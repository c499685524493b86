//! Seeded random numbers. Each operation takes one number of a sequence.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// The number that SplitMix64 adds before it mixes: 2^64 divided by the golden ratio, as an odd number.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes 64 bits so that the results of neighbours are independent: the output of SplitMix64 for the state `value`.
pub(crate) fn mix(value: u64) -> u64 {
    SplitMix64::seed_from_u64(value.wrapping_sub(GAMMA)).next_u64()
}

/// The `nth` number of the sequence of a seed. It needs no earlier one, because processes share a count and not a generator.
pub(crate) fn nth(seed: u64, nth: u64) -> u64 {
    mix(seed.wrapping_mul(GAMMA) ^ mix(nth))
}

/// The random numbers of one operation, which depend only on its draw.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn of(draw: u64) -> Self {
        Self(SplitMix64::seed_from_u64(draw))
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// The next number above 0 and below 1: the middle of one of 2^53 steps, so that its logarithm is finite.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1u64 << 53) as f64;
        ((self.bits() >> 11) as f64 + 0.5) / STEPS
    }
}
