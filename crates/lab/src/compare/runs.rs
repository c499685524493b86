//! Carries the runs of a comparison out in their order.

use std::path::Path;
use std::time::Instant;

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

/// Carries the runs out in their order, and says how many more were done than count. No round is started that would not end within
/// the budget.
pub(super) fn run_all(
    setup: &Setup<'_>,
    arms: &mut [MeasuredArm<'_>],
    order: &[(u32, usize)],
    (journal, mut done): (&mut Journal, Vec<FinishedRun>),
    estimate: &mut Estimate,
    progress: &mut Progress<'_>,
) -> Result<(Vec<FinishedRun>, u32), LabError> {
    let mut left_out = 0;
    for (index, (round, place)) in order.iter().copied().enumerate().skip(done.len()) {
        let count = arms.len();
        let Some(MeasuredArm { arm, placement }) = arms.get_mut(place) else { break };
        let left = u32::try_from(order.len() - index).unwrap_or(u32::MAX);
        progress.expect(estimate.run * left);
        let round_needs = estimate.run * u32::try_from(count).unwrap_or(1);
        if round > 1 && index % count == 0 && progress.elapsed() + round_needs > setup.plan.budget {
            break;
        }
        let begin = Instant::now();
        let sequence = u32::try_from(index + 1).unwrap_or(u32::MAX);
        progress.run_of(index + 1, order.len());
        let turn = Turn { arm, sequence, round, order: run_order(setup.plan, arm, round)? };
        let needed = progress.elapsed() + estimate.run * left;
        let spare = repeats::time_to_spare(setup.plan, needed);
        let counted = repeats::until_quiet(spare, progress, |progress| {
            let run = || format!("run {} of {} ({}, round {round})", index + 1, order.len(), arm.id);
            setup.run(turn, &mut **placement, progress).map_err(|error| error.in_run(run))
        })?;
        let finished = FinishedRun { place, run: counted.run, record: counted.record };
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
    Ok((done, left_out))
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
