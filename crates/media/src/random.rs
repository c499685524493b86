//! Chance, from one number: every use of a draw takes its own value of a seeded sequence.

/// Scrambles 64 bits so that neighbours have nothing in common (the finalizer of SplitMix64).
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The step of SplitMix64: 2^64 over the golden ratio, odd.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The values that follow from one draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn of(draw: u64) -> Self {
        Self(draw)
    }

    /// The next 64 bits.
    pub(crate) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// The next number above 0 and below 1: 53 bits, the middle of each step, so that its logarithm is finite.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1u64 << 53) as f64;
        ((self.bits() >> 11) as f64 + 0.5) / STEPS
    }
}
