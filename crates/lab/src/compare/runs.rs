//! Carries the runs of a comparison out in their order.

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

/// The runs of one regime, and what is to follow them.
pub(super) struct Sequence<'a> {
    /// Its name; none is that of the plan's own arms.
    pub(super) regime: Option<&'a str>,
    /// Rounds, and places in the list of arms.
    pub(super) order: &'a [(u32, usize)],
    /// Runs that come before it, of other regimes.
    pub(super) before: usize,
    /// Time of the regimes that follow.
    pub(super) after: Duration,
    /// The part of that time which is not given up for further rounds of this one.
    pub(super) kept_after: Duration,
}

/// Carries the runs out in their order after those that are done, and says how many more were done than count. No round is started that would not end within
/// the budget.
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
        let left = u32::try_from(order.len() - index).unwrap_or(u32::MAX);
        progress.expect(estimate.run * left + after);
        let round_needs = estimate.run * u32::try_from(count).unwrap_or(1) + sequence.kept_after;
        if round > 1 && index % count == 0 && progress.elapsed() + round_needs > setup.plan.budget {
            break;
        }
        let begin = Instant::now();
        let number = u32::try_from(before + index + 1).unwrap_or(u32::MAX);
        progress.run_of(sequence.regime, index + 1, order.len());
        let turn = Turn { arm, sequence: number, round, order: run_order(setup.plan, arm, round)? };
        let needed = progress.elapsed() + estimate.run * left + after;
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

/// What the driver is asked for in one round of an arm.
pub(super) fn run_order(plan: &Plan, arm: &Arm, round: u32) -> Result<RunOrder, LabError> {
    let Level::Users(users) = arm.load.level else {
        return Err(LabError::plan(format!("apply the load \"{}\"", arm.load), "this version takes users=N"));
    };
    Ok(RunOrder {
        users,
        threads: plan.threads,
        seconds: plan.seconds,
        warmup_seconds: plan.warmup_seconds,
        seed: plan.seed + u64::from(round) - 1,
    })
}

/// Puts the files of each arm in place, in the order of `prepared.measured`.
pub(super) fn place(
    prepared: &Prepared,
    program: &Path,
    work: &WorkDir,
    progress: &mut Progress<'_>,
) -> Result<Vec<Box<dyn Placement>>, LabError> {
    let mut placements = Vec::new();
    for arm in &prepared.measured {
        let (target, parts) = (arm.path.target.as_deref(), Part::of(arm.layout));
        let order = PlacementOrder { target, parts, luns: arm.layout.luns(), program, work, user: &prepared.user };
        let (placement, removed) = arm.path.kind.prepare(order)?;
        for gone in removed {
            progress.step(&format!("removed {gone}, left on {} by a comparison that was killed", arm.path));
        }
        placements.push(placement);
    }
    Ok(placements)
}
