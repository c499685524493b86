//! Seeded dice: SplitMix64 (Steele, Lea, Flood 2014), so that a seed tells the whole story.

/// The dice; the whole state is one number.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `count`; 0 when that is 0.
    pub(crate) const fn below(&mut self, count: u64) -> u64 {
        let drawn = self.draw();
        if count == 0 { 0 } else { drawn % count }
    }

    /// True in that share of the cases.
    pub(crate) fn chance(&mut self, rate: f64) -> bool {
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((self.draw() >> 11) as f64) < rate * STEPS
    }

    /// Dice of their own, so that one use can draw more without moving the others.
    pub(crate) const fn fork(&mut self) -> Self {
        Self(self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_are_those_of_splitmix64() {
        // Published test values for seed 1234567.
        let mut dice = Dice::new(1_234_567);
        assert_eq!((dice.draw(), dice.draw()), (6_457_827_717_110_365_317, 3_203_168_211_198_807_973));
    }

    #[test]
    fn a_rate_is_kept_and_one_is_always() {
        let mut dice = Dice::new(1);
        assert!((0..1000).all(|_| dice.chance(1.0)));
        let struck = (0..10_000).filter(|_| dice.chance(0.1)).count();
        assert!((900..1100).contains(&struck), "{struck}");
    }
}
