//! Repeats runs that steal time disturbed: if the hypervisor gave the requested processor time to other machines, a
//! run shows how busy the hypervisor was, not how fast this host is. Only the steal time determines this, never the figure
//! of the run, so that no run is selected for being fast or slow.

use std::time::{Duration, Instant};

use results::compare::Run;

use crate::judge::STOLEN_MAX;
use crate::plan::Plan;
use crate::run::progress::Progress;

/// Most repeats of one run.
const REPEATS_MAX: u32 = 2;

/// Shorter runs are only first impressions and are never repeated.
const MEASUREMENT_S: u64 = 10;

/// Time for repeats if the remaining runs take `needed`, counted from the start.
pub(super) fn time_to_spare(plan: &Plan, needed: Duration) -> Duration {
    let looks = plan.quick || plan.seconds < MEASUREMENT_S;
    if looks { Duration::ZERO } else { plan.budget.saturating_sub(needed) }
}

/// A run that counts, and the number of repeats that do not.
pub(super) struct Counted<T> {
    pub(super) run: Run,
    pub(super) record: T,
    pub(super) left_out: u32,
}

/// Repeats a run until steal time did not disturb it, as long as `spare` allows. The one with the least steal time counts.
pub(super) fn until_quiet<T, E>(
    spare: Duration,
    progress: &mut Progress<'_>,
    mut carry_out: impl FnMut(&mut Progress<'_>) -> Result<(Run, T), E>,
) -> Result<Counted<T>, E> {
    let began = Instant::now();
    let (run, record) = carry_out(progress)?;
    let mut best = Counted { run, record, left_out: 0 };
    while stolen_share(&best.run) > STOLEN_MAX && best.left_out < REPEATS_MAX {
        let one = began.elapsed() / (best.left_out + 1);
        if began.elapsed() > spare {
            break;
        }
        let percent = stolen_share(&best.run) * 100.0;
        progress.step(&format!(
            "steal time: the hypervisor gave {percent:.0} % of the processor time wanted here to other machines; repeating the run, \
             about {} s",
            one.as_secs()
        ));
        let left_out = best.left_out + 1;
        let (run, record) = carry_out(progress)?;
        if stolen_share(&run) < stolen_share(&best.run) {
            best = Counted { run, record, left_out };
        }
        best.left_out = left_out;
    }
    Ok(best)
}

/// Part of this host's requested processor time that the hypervisor gave to other machines.
fn stolen_share(run: &Run) -> f64 {
    if run.host_busy_s > 0.0 { (run.host_stolen_s / run.host_busy_s).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{DEFAULT_PLAN, Overrides};
    use std::convert::Infallible;

    /// Given the stolen shares of successive tries: the sequence number of the one that counts, and how many were left out.
    fn counted(stolen: &[f64], spare: Duration) -> (u32, u32) {
        let mut tries = (1..).zip(stolen);
        let mut watcher = |_: &crate::run::progress::Event| {};
        let mut progress = Progress::new(&mut watcher);
        let counted = until_quiet(spare, &mut progress, |_| {
            let (sequence, share) = tries.next().expect("no further try is made");
            Ok::<_, Infallible>((Run { sequence, host_busy_s: 50.0, host_stolen_s: share * 50.0, ..Run::default() }, ()))
        });
        let Ok(counted) = counted;
        (counted.run.sequence, counted.left_out)
    }

    #[test]
    fn a_quiet_run_counts_at_once_and_of_disturbed_ones_that_with_the_least_steal() {
        let hour = Duration::from_secs(3600);
        assert_eq!(counted(&[0.05], hour), (1, 0));
        assert_eq!(counted(&[0.3, 0.02], hour), (2, 1));
        assert_eq!(counted(&[0.3, 0.2, 0.4], hour), (2, 2));
        assert_eq!(counted(&[0.3, 0.4, 0.5], hour), (1, 2));
    }

    #[test]
    fn time_is_left_over_by_measurements_within_their_budget_and_never_by_looks() {
        let spare = |budget: &str, seconds: u64| {
            let overrides = Overrides {
                budget: Some(crate::plan::parse_duration(budget).unwrap()),
                seconds: Some(seconds),
                ..Overrides::default()
            };
            time_to_spare(&Plan::parse(DEFAULT_PLAN, &overrides).unwrap(), Duration::from_secs(300))
        };
        assert_eq!(spare("10m", 30), Duration::from_secs(300));
        assert_eq!((spare("4m", 30), spare("10m", 5)), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn without_time_to_spare_the_first_one_counts() {
        assert_eq!(counted(&[0.3], Duration::ZERO), (1, 0));
    }
}
