//! One additional point: another number of users, measured once, excluded from all figures, and compared with
//! the prediction of a model that is fitted to the requested ones.

use std::time::Duration;

use results::compare::{Comparison, Run};
use results::judgement::Prediction;
use results::orders_run::OrdersRun;

use crate::compare::measured_arm::MeasuredArm;
use crate::compare::runs::run_order;
use crate::error::LabError;
use crate::plan::{Arm, Estimate, Level, Load};
use crate::predict::fit::fit;
use crate::predict::ladder;
use crate::run::progress::Progress;
use crate::run::setup::{Setup, Turn};
use crate::summary::{self, Common};

/// Result of the additional run.
pub(super) struct HeldOut {
    /// The configuration as it was run, with the other load.
    arm: Arm,
    /// Unique name of the configuration that the model is fitted to.
    fitted_on: String,
    run: Run,
    record: OrdersRun,
}

/// Measures half the users on the last configuration, unless the configurations already form a ladder of loads, rounds are not
/// repeated, or the budget does not allow it before the scenarios, which take `after`.
pub(super) fn measure(
    setup: &Setup<'_>,
    arms: &mut [MeasuredArm<'_>],
    (sequence, after): (usize, Duration),
    estimate: &Estimate,
    progress: &mut Progress<'_>,
) -> Result<Option<HeldOut>, LabError> {
    let plan = setup.plan;
    let ladder = arms.iter().any(|last| arms.first().is_some_and(|first| first.arm.load != last.arm.load));
    if ladder || plan.repeats < 2 || progress.elapsed() + estimate.run + after > plan.budget {
        return Ok(None);
    }
    let Some(last) = arms.last_mut() else { return Ok(None) };
    let (Level::Users(users), "closed") = (&last.arm.load.level, last.arm.load.model.as_str()) else { return Ok(None) };
    if *users < 2 {
        return Ok(None);
    }
    let half = users / 2;
    let arm = Arm { id: format!("{} users={half}", last.arm.id), load: Load::users(half), ..last.arm.clone() };
    let sequence = u32::try_from(sequence + 1).unwrap_or(u32::MAX);
    progress.step(&format!("{}: one point kept out of the model, {half} users", last.arm.id));
    let turn = Turn { arm: &arm, sequence, round: plan.repeats, order: run_order(plan, &arm, 1)? };
    let (run, record) = setup.run(turn, &mut *last.placement, progress)?;
    Ok(Some(HeldOut { fitted_on: last.arm.id.clone(), arm, run, record }))
}

/// Predictions of the configurations for each other, and of the excluded point.
pub(super) fn predictions(comparison: &Comparison, held: Option<HeldOut>, common: Common) -> Vec<Prediction> {
    let mut predictions = ladder::ladder(comparison);
    let Some(held) = held else { return predictions };
    let fitted = comparison.paths.iter().find(|path| path.arm == held.fitted_on).map(|path| fit(comparison, path));
    if let Some(Ok(fitted)) = fitted {
        let found = summary::measured(&held.arm, vec![held.run], &[held.record], common);
        predictions.push(ladder::hold(comparison, &fitted, &found));
    }
    predictions
}
