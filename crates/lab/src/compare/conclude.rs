//! Makes the record of a comparison from its runs.

use std::collections::BTreeMap;
use std::time::Duration;

use results::compare::{Comparison, DatabaseSystem, PathResult, PlanRecord, Run, SCHEMA};
use results::environment::Environment;
use results::orders_run::OrdersRun;

use crate::compare::initial_load::Loaded;
use crate::compare::journal::FinishedRun;
use crate::compare::notes::{DISCLAIMER, REHEARSAL_NOTE};
use crate::judge::{self, Judgement};
use crate::measure::cache_class;
use crate::measure::probe;
use crate::placement::restore::Method;
use crate::plan::{Arm, Plan, ShareGate};
use crate::summary::{self, Common};

/// The plan as carried out.
pub(crate) fn plan_record(plan: &Plan, order: &[(u32, usize)], measured: &[Arm], loaded: &Loaded, method: Method) -> PlanRecord {
    let name = |place: usize| measured.get(place).map(|arm| arm.id.clone()).unwrap_or_default();
    PlanRecord {
        name: Some(plan.name.clone()),
        paths: plan.arms.iter().map(|arm| arm.id.clone()).collect(),
        database: DatabaseSystem::from(plan.database.name()),
        warehouses: plan.warehouses,
        users: plan.users,
        driver_threads: plan.threads,
        seconds: plan.seconds,
        warmup_seconds: plan.warmup_seconds,
        repeats: plan.repeats,
        repeats_done: u32::try_from(order.len() / measured.len().max(1)).unwrap_or(0),
        order: order.iter().map(|(_, place)| name(*place)).collect(),
        budget_seconds: plan.budget.as_secs(),
        seed: plan.seed,
        database_bytes: loaded.database_bytes,
        buffers_bytes: loaded.buffers_bytes,
        restore: method.name().into(),
    }
}

/// Settings of the tunings in use: `database.work_mem` and the like to values.
pub(crate) fn tunings_record(plan: &Plan) -> BTreeMap<String, BTreeMap<String, String>> {
    plan.arms.iter().map(|arm| (arm.tuning.clone(), plan.tuning_of(arm).named_knobs())).collect()
}

/// Builds the record from the results.
pub(crate) fn conclude(
    mut paths: Vec<PathResult>,
    plan: PlanRecord,
    environment: Environment,
    mut notes: Vec<String>,
    share_gates: &[ShareGate],
    (started_utc, elapsed): (String, Duration),
) -> Comparison {
    let Judgement { mut verdict, against_first, notes: judged, not_a_result, mut valid } =
        judge::judge(&mut paths, &plan, environment.guest.as_deref());
    notes.extend(judged);
    notes.extend(cache_class::notes(&paths));
    if let Some(why) = probe::disagreement(&paths) {
        verdict = format!("Verdict withheld: {why}.");
        valid = false;
    }
    let gates = judge::gates(&paths, &against_first, share_gates);
    Comparison {
        schema: SCHEMA,
        kind: "compare".to_owned(),
        started_utc,
        elapsed_s: elapsed.as_secs_f64(),
        rehearsal: true,
        rehearsal_note: REHEARSAL_NOTE.to_owned(),
        disclaimer: DISCLAIMER.to_owned(),
        verdict,
        not_a_result,
        valid,
        notes,
        plan,
        paths,
        against_first,
        gates,
        environment,
        ..Comparison::default()
    }
}

/// One result for each configuration of the plan, in order.
pub(crate) fn results_by_arm(
    plan: &Plan,
    measured: &[Arm],
    skipped: &[(Arm, String)],
    done: &[FinishedRun],
    common: Common,
) -> Vec<PathResult> {
    let mut results = Vec::new();
    for arm in &plan.arms {
        if let Some((_, reason)) = skipped.iter().find(|(other, _)| other.id == arm.id) {
            results.push(summary::skipped(arm, reason));
            continue;
        }
        // The configuration as it was run, with the load that was found for it.
        let arm = measured.iter().find(|other| other.id == arm.id).unwrap_or(arm);
        let mine = done.iter().filter(|done| measured.get(done.place).is_some_and(|other| other.id == arm.id)).cloned();
        let (runs, records): (Vec<Run>, Vec<OrdersRun>) = mine.map(|done| (done.run, done.record)).unzip();
        let common = Common { past_page_cache: plan.is_past_page_cache(arm), ..common };
        results.push(summary::measured(arm, runs, &records, common));
    }
    results
}
