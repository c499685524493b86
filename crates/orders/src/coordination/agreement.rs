//! Options that the drivers of one run must have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::postgres::Postgres;

/// A run that several drivers carry out together, and the database through which they are coordinated.
#[derive(Debug, Clone)]
pub struct SharedRun {
    /// The results database.
    pub results: Postgres,
    /// Name of the run, unique in the results database.
    pub run: String,
    /// Number of drivers of the run.
    pub drivers: u32,
    /// Number of this driver, from 1; `None` for the first free number.
    pub driver: Option<u32>,
    /// Name of this host, for the record.
    pub host: String,
    /// Time limit for waiting for the others at the start.
    pub barrier_timeout: Duration,
}

/// Options that must be the same for all drivers of a run.
#[derive(Debug, Clone)]
pub(super) struct AgreedOptions {
    /// The seed that the user gave; `None` if the run's first driver chooses.
    pub(super) seed: Option<u64>,
    /// The seed that the first driver uses if the user gave none.
    pub(super) seed_else: u64,
    pub(super) warmup_s: u64,
    pub(super) measured_s: u64,
    pub(super) users: u32,
    /// All further options, by name.
    pub(super) others: BTreeMap<String, String>,
}

impl AgreedOptions {
    /// Users of driver `number` (from 1) of `drivers`, and the number of the first of them.
    pub(super) fn share(&self, number: u32, drivers: u32) -> (u32, u32) {
        let (each, over, before) = (self.users / drivers, self.users % drivers, number - 1);
        (each + u32::from(before < over), before * each + before.min(over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_disjoint_and_cover_all_users() {
        for (users, drivers) in [(1, 1), (10, 3), (3, 3), (11, 4), (10_000, 7)] {
            let agreed = AgreedOptions { seed: None, seed_else: 1, warmup_s: 0, measured_s: 1, users, others: BTreeMap::new() };
            let mut next = 0;
            for number in 1..=drivers {
                let (share, first) = agreed.share(number, drivers);
                assert!(first == next && share >= users / drivers, "{users} {drivers} {number}");
                next = first + share;
            }
            assert_eq!(next, users);
        }
    }
}
