//! Episodes: successive refusals that get one log line together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::limits::FULL_EPISODE_S;

/// Refusals for lack of space, each within [`FULL_EPISODE_S`] of the one before.
#[derive(Debug)]
pub(crate) struct Episode {
    since: Instant,
    last_s: AtomicU64, // second of the last refusal; 0 before the first one
}

impl Default for Episode {
    fn default() -> Self {
        Self { since: Instant::now(), last_s: AtomicU64::new(0) }
    }
}

impl Episode {
    /// Notes a refusal. Returns whether it begins an episode.
    pub(crate) fn begins(&self) -> bool {
        self.begins_at(self.since.elapsed())
    }

    fn begins_at(&self, now: Duration) -> bool {
        let now = now.as_secs() + 1;
        let last = self.last_s.swap(now, Ordering::Relaxed);
        last == 0 || now > last + FULL_EPISODE_S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_one_episode_until_a_minute_passes_without_one() {
        let episode = Episode::default();
        let begins = |at| episode.begins_at(Duration::from_secs(at));
        assert!(begins(0));
        assert!((0..300).all(|at| !begins(at)), "one line for five minutes of refusals");
        assert!(!begins(359) && begins(420));
    }
}
