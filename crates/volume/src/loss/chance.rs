//! Decides which changes that are not durable survive a cut.

use media::Random;

/// The decisions of one seed.
#[derive(Debug, Clone)]
pub(super) struct Chance {
    /// `None`: everything is lost.
    random: Option<Random>,
}

impl Chance {
    /// The decisions of a seed. With 0, everything is lost.
    pub(super) fn new(seed: u64) -> Self {
        Self { random: (seed != 0).then(|| Random::new(seed)) }
    }

    /// Whether the next change survives.
    pub(super) fn survives(&mut self) -> bool {
        self.random.as_mut().is_some_and(|random| random.bits() & 1 == 1)
    }

    /// A number from 0 to `most`. 0 if everything is lost.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.random.as_mut().map_or(0, |random| random.below(most.saturating_add(1)))
    }
}
