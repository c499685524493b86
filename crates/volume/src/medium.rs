//! The modelled medium of a volume: the model of `media` with its state, for the server that answers calls.
//!
//! A volume always does its real work on the host. A medium only says how long the server must delay the reply.

use std::sync::atomic::AtomicU64;

pub use media::{Counters, Kind, Operation, Profile, SpecError};

/// A modelled medium and its state.
#[derive(Debug)]
pub struct Medium {
    model: media::Medium,
    state: Box<[AtomicU64]>,
}

impl Medium {
    /// A medium without any operations yet.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let model = media::Medium::new(profile);
        let state: Box<[AtomicU64]> = (0..model.words()).map(|_| AtomicU64::new(0)).collect();
        model.begin(&state);
        Self { model, state }
    }

    /// The profile that it models.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        self.model.profile()
    }

    /// When an operation that arrives at `now_ns` is done, in ns of the same clock; see [`media::Medium::submit`].
    #[must_use]
    pub fn submit(&self, now_ns: u64, operation: Operation) -> u64 {
        self.model.submit(&self.state, now_ns, operation, self.model.draw(&self.state))
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.model.counters(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medium_queues_counts_and_has_its_profile() {
        let medium = Medium::new(Profile::parse("service_ms=8,seed=5").unwrap());
        let read = Operation { kind: Kind::Read, file: 1, offset: 0, bytes: 8192 };
        assert_eq!(medium.submit(1000, read), 8_001_000);
        assert_eq!(medium.submit(2000, read), 16_001_000);
        assert_eq!((medium.counters().reads, medium.counters().busy_ns), (2, 16_000_000));
        assert!(medium.profile().to_string().contains("service_ms=8"));
    }
}
