//! Seeded random numbers: each operation takes its own number of one sequence.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// What SplitMix64 adds before it mixes: 2^64 over the golden ratio, odd. Multiples of it spread neighbouring numbers.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes 64 bits so that neighbours have nothing in common: what SplitMix64 gives for the state `value`.
pub(crate) fn mix(value: u64) -> u64 {
    SplitMix64::seed_from_u64(value.wrapping_sub(GAMMA)).next_u64()
}

/// The `nth` number of the sequence of a seed, without the ones before it: processes share a count, not a generator.
pub(crate) fn nth(seed: u64, nth: u64) -> u64 {
    mix(seed.wrapping_mul(GAMMA) ^ mix(nth))
}

/// The random numbers of one operation, that follow from its draw.
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

    /// The next number above 0 and below 1: 53 bits, the middle of each step, so that its logarithm is finite.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1u64 << 53) as f64;
        ((self.bits() >> 11) as f64 + 0.5) / STEPS
    }
}
