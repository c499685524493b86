//! Carries out the runs of a comparison in order.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::compare::journal::{FinishedRun, Journal};
use crate::compare::measured_arm::MeasuredArm;
use crate::compare::prepare::Prepared;
use crate::compare::repeats;
use crate::error::LabError;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::placement::Part;
use crate::placement::workdir::WorkDir;
use crate::plan::{Arm, Estimate, Level, Plan};
use crate::run::driver::RunOrder;
use crate::run::progress::Progress;
use crate::run::setup::{Setup, Turn};
use crate::summary;

/// The runs of one scenario, and the time reserved for those after it.
pub(super) struct Sequence<'a> {
    /// Name of the scenario; `None` for the plan's own configurations.
    pub(super) regime: Option<&'a str>,
    /// Rounds, and indexes into the list of configurations.
    pub(super) order: &'a [(u32, usize)],
    /// Number of runs of other scenarios before it.
    pub(super) before: usize,
    /// Time of the scenarios that follow.
    pub(super) after: Duration,
    /// The part of that time that further rounds of this scenario must not use.
    pub(super) kept_after: Duration,
    /// The first round that must leave that time.
    pub(super) kept_from: u32,
    /// Rounds that repeats of disturbed runs must not displace.
    pub(super) sure_rounds: u32,
}

impl Sequence<'_> {
    /// Whether a round that takes `needs` may start after `elapsed`.
    pub(super) fn begins(&self, round: u32, elapsed: Duration, needs: Duration, budget: Duration) -> bool {
        let kept = if round >= self.kept_from { self.kept_after } else { Duration::ZERO };
        round <= 1 || elapsed + needs + kept <= budget
    }

    /// Number of rounds with `arms` configurations that fit into the budget, estimated before the first one.
    pub(super) fn rounds_within(&self, plan: &Plan, estimate: &Estimate, arms: usize) -> u32 {
        let needs = estimate.run * u32::try_from(arms).unwrap_or(u32::MAX);
        let begins = |round: &u32| self.begins(*round, estimate.load + needs * (round - 1), needs, plan.budget);
        (1..=plan.repeats).take_while(begins).last().unwrap_or(0)
    }
}

/// Carries out the runs in order, after those that are already done. Returns how many more were done than count. Starts no round
/// that would not end within the budget.
pub(super) fn run_all(
    setup: &Setup<'_>,
    arms: &mut [MeasuredArm<'_>],
    sequence: &Sequence<'_>,
    (journal, done): (&mut Journal, &mut Vec<FinishedRun>),
    estimate: &mut Estimate,
    progress: &mut Progress<'_>,
) -> Result<u32, LabError> {
    let Sequence { order, before, after, .. } = *sequence;
    let mut left_out = 0;
    for (index, (round, place)) in order.iter().copied().enumerate().skip(done.len()) {
        let count = arms.len();
        let Some(MeasuredArm { arm, placement }) = arms.get_mut(place) else { break };
        let left = order.get(index..).unwrap_or_default();
        let time_of = |runs: usize| estimate.run * u32::try_from(runs).unwrap_or(u32::MAX) + after;
        progress.expect(time_of(left.len()).min(setup.plan.budget.saturating_sub(progress.elapsed())));
        let round_needs = estimate.run * u32::try_from(count).unwrap_or(1);
        if index % count == 0 && !sequence.begins(round, progress.elapsed(), round_needs, setup.plan.budget) {
            break;
        }
        let begin = Instant::now();
        let number = u32::try_from(before + index + 1).unwrap_or(u32::MAX);
        progress.run_of(sequence.regime, index + 1, order.len());
        let turn = Turn { arm, sequence: number, round, order: run_order(setup.plan, arm, round)? };
        let sure = left.iter().filter(|(round, _)| *round <= sequence.sure_rounds).count();
        let needed = progress.elapsed() + time_of(sure);
        let spare = repeats::time_to_spare(setup.plan, needed);
        let counted = repeats::until_quiet(spare, progress, |progress| {
            let regime = sequence.regime.map_or_else(String::new, |name| format!("{name}, "));
            let run = || format!("{regime}run {} of {} ({}, round {round})", index + 1, order.len(), arm.id);
            setup.run(turn, &mut **placement, progress).map_err(|error| error.in_run(run))
        })?;
        let regime = sequence.regime.map(str::to_owned);
        let finished = FinishedRun { regime, place, run: counted.run, record: counted.record };
        left_out += counted.left_out;
        progress.step(&format!(
            "{}: {} orders per minute in round {round}",
            arm.id,
            summary::grouped(finished.run.oets_per_minute)
        ));
        journal.append(&finished)?;
        done.push(finished);
        let taken = begin.elapsed() / (counted.left_out + 1);
        estimate.run = if index == 0 { taken } else { (estimate.run + taken) / 2 };
    }
    Ok(left_out)
}

/// The driver's order for one round of a configuration.
pub(super) fn run_order(plan: &Plan, arm: &Arm, round: u32) -> Result<RunOrder, LabError> {
    let Level::Users(users) = arm.load.level else {
        return Err(LabError::plan(format!("apply the load \"{}\"", arm.load), "this version takes users=N"));
    };
    Ok(RunOrder {
        users,
        threads: plan.threads,
        seconds: plan.seconds_of(arm),
        warmup_seconds: plan.warmup_seconds,
        seed: plan.seed + u64::from(round) - 1,
    })
}

/// Places the files of each configuration, in the order of `prepared.measured`.
pub(super) fn place(
    plan: &Plan,
    prepared: &Prepared,
    program: &Path,
    work: &WorkDir,
    overwrite: bool,
    progress: &mut Progress<'_>,
) -> Result<Vec<Box<dyn Placement>>, LabError> {
    let mut placements = Vec::new();
    for arm in &prepared.measured {
        let (target, parts) = (arm.path.target.as_deref(), Part::of(arm.layout));
        let (layout, tuning, user) = (arm.layout, plan.tuning_of(arm), &prepared.user);
        let order = PlacementOrder { target, parts, layout, tuning, program, overwrite, work, user };
        let (placement, removed) = arm.path.kind.prepare(order)?;
        for gone in removed {
            progress.step(&format!("removed {gone}, left on {} by a comparison that was killed", arm.path));
        }
        placements.push(placement);
    }
    Ok(placements)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{DEFAULT_PLAN, Overrides};

    fn rounds(budget: &str, kept_s: u64, arms: usize) -> u32 {
        let overrides =
            Overrides { budget: Some(crate::plan::parse_duration(budget).unwrap()), repeats: Some(6), ..Overrides::default() };
        let plan = Plan::parse(DEFAULT_PLAN, &overrides).unwrap();
        let kept_after = Duration::from_secs(kept_s);
        let after = kept_after;
        let sequence = Sequence { regime: None, order: &[], before: 0, after, kept_after, kept_from: 4, sure_rounds: 3 };
        let estimate = Estimate { load: Duration::from_secs(30), run: Duration::from_secs(50) };
        sequence.rounds_within(&plan, &estimate, arms)
    }

    #[test]
    fn rounds_fill_the_budget_and_from_the_fourth_on_leave_the_time_of_what_follows() {
        assert_eq!(rounds("12m", 0, 2), 6);
        assert_eq!(rounds("12m", 130, 2), 5);
        assert_eq!(rounds("12m", 200, 3), 3);
        // Three rounds come before the following scenarios, and one is always measured.
        assert_eq!(rounds("6m", 130, 2), 3);
        assert_eq!(rounds("10s", 130, 2), 1);
    }
}
