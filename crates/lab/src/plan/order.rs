//! The order of runs, and estimates of their duration.

use std::time::Duration;

use crate::plan::Plan;

/// The order of runs: every round runs each configuration once, every second round in reverse
/// (A B, B A, …), so that a drift of the host does not become a difference of configurations.
/// Returns rounds from 1 and indexes into the list of configurations.
#[must_use]
pub fn interleave(arms: usize, repeats: u32) -> Vec<(u32, usize)> {
    let mut order = Vec::new();
    for round in 1..=repeats {
        let mut turn: Vec<usize> = (0..arms).collect();
        if round % 2 == 0 {
            turn.reverse();
        }
        order.extend(turn.into_iter().map(|arm| (round, arm)));
    }
    order
}

/// Additional time of a run on a modelled medium: the probe, a database that starts slowly, and its restart for the checks.
const MEDIUM_STEPS: Duration = Duration::from_secs(12);

/// Durations: first estimated, later measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Creating and loading the database.
    pub load: Duration,
    /// One run with everything around it.
    pub run: Duration,
}

impl Estimate {
    /// The first estimate for a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let warehouses = f64::from(plan.warehouses);
        let copy_s = plan.database_bytes() as f64 / 250e6;
        // The mean of the configurations' runs, which may have different lengths.
        let measured: u64 = plan.arms.iter().map(|arm| plan.seconds_of(arm)).sum();
        let measured_s = measured as f64 / plan.arms.len().max(1) as f64;
        Self {
            load: Duration::from_secs_f64(6.0 + 3.0 * warehouses),
            run: Duration::from_secs_f64(8.0 + copy_s + 0.5 * warehouses + measured_s + plan.warmup_seconds as f64),
        }
    }

    /// Duration of a run on a medium.
    #[must_use]
    pub fn run_on_medium(&self) -> Duration {
        self.run + MEDIUM_STEPS
    }

    /// Duration of a complete comparison with `runs` runs.
    #[must_use]
    pub fn whole(&self, runs: usize) -> Duration {
        self.load + self.run * u32::try_from(runs).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_alternate_so_that_drift_cancels() {
        let order = interleave(2, 3);
        let arms: Vec<_> = order.iter().map(|(_, arm)| *arm).collect();
        assert_eq!(arms, [0, 1, 1, 0, 0, 1]);
        assert_eq!(order[3].0, 2);
    }
}
