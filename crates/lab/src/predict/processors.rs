//! Processors that users share with background work, for which no user waits: checkpointer and writers, the filer on the same host.

/// Upper limit of the counted background jobs that are present at the same time.
const PIECES_MAX: u32 = 4_000;
/// Smallest weight of a count that is added to a sum.
const WEIGHT_MIN: f64 = 1e-12;

/// Processor sharing: if there is more to do than processors, all work takes equally longer. Background work
/// arrives at random and keeps `load` of them busy; the length of one job does not matter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shared {
    /// Processors.
    pub(super) cores: f64,
    /// Mean number of processors busy with background work; below `cores`.
    pub(super) load: f64,
}

/// The share of the processors that a number of users get.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Met {
    /// Processors that work for the users.
    pub(super) served: f64,
    /// Time of a background job divided by its work.
    pub(super) stretch: f64,
}

impl Shared {
    /// With `users` at the processors. Background jobs come and go as in a birth-death process. If there are as many
    /// users as processors, users get what the background work leaves (the sums of a negative binomial distribution).
    pub(super) fn met(&self, users: f64) -> Met {
        let (cores, load) = (self.cores, self.load.max(0.0));
        if load <= 0.0 {
            return Met { served: users.min(cores), stretch: ((users + 1.0) / cores).max(1.0) };
        }
        if users >= cores {
            return Met { served: cores - load, stretch: (users + 1.0) / (cores - load) };
        }
        let (mut weight, mut weights, mut served, mut pieces) = (1.0, 1.0, users, 0.0);
        for count in (1..=PIECES_MAX).map(f64::from) {
            let all = users + count;
            let share = all.min(cores) / all;
            weight *= load / (count * share);
            weights += weight;
            served += weight * users * share;
            pieces += weight * count;
            if weight < WEIGHT_MIN * weights {
                break;
            }
        }
        Met { served: served / weights, stretch: (pieces / weights / load).max(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_other_work_users_have_the_processors() {
        let alone = Shared { cores: 2.0, load: 0.0 };
        assert_eq!([1.0, 2.0, 5.0].map(|users| alone.met(users).served), [1.0, 2.0, 2.0]);
    }

    #[test]
    fn many_users_get_what_other_work_leaves_and_few_nearly_all_they_want() {
        let shared = Shared { cores: 2.0, load: 0.8 };
        assert!((shared.met(2.0).served - 1.2).abs() < 1e-9 && (shared.met(50.0).served - 1.2).abs() < 1e-9);
        let one = shared.met(1.0).served;
        assert!(one > 0.8 && one < 1.0, "{one}");
    }

    #[test]
    fn other_work_alone_queues_as_two_servers_do() {
        // M/M/2 at load 0.6 per server: time divided by work is 1 / (1 - 0.6^2).
        let found = Shared { cores: 2.0, load: 1.2 }.met(0.0);
        assert!((found.stretch - 1.0 / (1.0 - 0.36)).abs() < 1e-6 && found.served == 0.0, "{found:?}");
    }

    #[test]
    fn one_processor_meets_the_mixed_network_exactly() {
        // Users on one processor get what other work leaves (BCMP, open and closed customers).
        for users in [1.0, 2.0, 7.0] {
            assert!((Shared { cores: 1.0, load: 0.3 }.met(users).served - 0.7).abs() < 1e-9);
        }
    }
}
