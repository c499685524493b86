//! Which of what was not promised survives a cut.

use crate::random::Random;

/// What survives of what was not promised.
#[derive(Debug, Clone)]
pub(super) struct Chance {
    /// None: everything is lost.
    random: Option<Random>,
}

impl Chance {
    /// Chance of a seed; 0: everything is lost.
    pub(super) fn new(seed: u64) -> Self {
        Self { random: (seed != 0).then(|| Random::new(seed)) }
    }

    /// Whether something that was not promised survives.
    pub(super) fn survives(&mut self) -> bool {
        self.random.as_mut().is_some_and(|random| random.bits() & 1 == 1)
    }

    /// A number up to and including `most`; 0 when everything is lost.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.random.as_mut().map_or(0, |random| random.below(most.saturating_add(1)))
    }
}
