//! Points excluded from the fit: every configuration that differs from the fitted one only in users or slots is predicted and
//! compared with its measurement.

use results::compare::{BottleneckKind, Comparison, LoadModel, PathResult, PathStatus, Run};
use results::judgement::Prediction;

use super::cache::ColdStart;
use super::fit::{Fit, fit, slots};
use super::model::System;
use crate::paths;

/// Busy share of the processors above which they hide all other times from a fit.
const BUSY_FOR_FIT_MAX: f64 = 0.85;

/// Smallest number of orders per user in a measurement: with fewer, the orders in progress at its ends dominate.
const ORDERS_OF_A_USER_MIN: f64 = 3.0;

/// Error of a set of predictions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Median of the absolute errors in percent.
    pub median_percent: f64,
    /// Largest absolute error in percent.
    pub worst_percent: f64,
    /// Number of predictions.
    pub count: usize,
}

/// Predicts every point of the comparison for which another one of the same kind can be fitted.
#[must_use]
pub fn ladder(comparison: &Comparison) -> Vec<Prediction> {
    let mut left: Vec<&PathResult> = comparison.paths.iter().filter(|path| usable(path)).collect();
    let mut predictions = Vec::new();
    while let Some(first) = left.first().copied() {
        let (family, others): (Vec<&PathResult>, Vec<&PathResult>) =
            left.into_iter().partition(|path| alike(comparison, first, path));
        left = others;
        if let Some(fitted) = reference(&family).and_then(|path| fit(comparison, path).ok()) {
            predictions.extend(family.iter().filter(|path| path.arm != fitted.arm).map(|path| hold(comparison, &fitted, path)));
        }
    }
    predictions
}

/// Median and largest absolute error of the points whose measurement is reliable; `None` if there are none.
#[must_use]
pub fn errors(predictions: &[Prediction]) -> Option<Errors> {
    let sound = predictions.iter().filter(|point| point.doubt.is_none());
    let mut sizes: Vec<f64> = sound.map(|point| point.error_percent.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let middle = sizes.len() / 2;
    let upper = *sizes.get(middle)?;
    let median_percent = match middle.checked_sub(1).and_then(|below| sizes.get(below)) {
        Some(lower) if sizes.len().is_multiple_of(2) => f64::midpoint(*lower, upper),
        _ => upper,
    };
    Some(Errors { median_percent, worst_percent: sizes.last().copied()?, count: sizes.len() })
}

/// The throughput of one configuration predicted by the fit, with the measured one.
#[must_use]
pub fn hold(comparison: &Comparison, fitted: &Fit, path: &PathResult) -> Prediction {
    let users = path.users.unwrap_or(fitted.users);
    let system = System { slots: slots(comparison, path), cold_start: cold_start(fitted, path), ..fitted.system.clone() };
    let found = system.predict(users);
    let measured = path.oets_per_minute.as_ref().map_or(0.0, |oets| oets.mean);
    Prediction {
        fitted_on: point(&fitted.arm, fitted.users),
        held_out: point(&path.arm, users),
        quantity: "orders/min".to_owned(),
        predicted: found.oets_per_minute,
        measured,
        error_percent: if measured > 0.0 { (found.oets_per_minute / measured - 1.0) * 100.0 } else { 0.0 },
        range: None,
        bottleneck: found.bottleneck,
        doubt: doubt(path),
    }
}

/// The fitted buffers after a cold start, for the time for which the point was measured.
fn cold_start(fitted: &Fit, path: &PathResult) -> Option<ColdStart> {
    let cold_start = fitted.system.cold_start?;
    let runs = path.runs.len() as f64;
    let mean = |pick: fn(&Run) -> f64| path.runs.iter().map(pick).sum::<f64>() / runs;
    let (warmup_s, measured_s) = (mean(|run| run.warmup_s), mean(|run| run.measured_s));
    if measured_s > 0.0 { Some(ColdStart { warmup_s, measured_s, ..cold_start }) } else { Some(cold_start) }
}

/// Why a configuration's figures can neither be fitted nor compared with a prediction.
pub(super) fn doubt(path: &PathResult) -> Option<String> {
    if path.status == PathStatus::NotValid {
        return Some(path.reason.clone().unwrap_or_else(|| "not valid".to_owned()));
    }
    let interference = path.bottleneck.as_ref().filter(|found| found.kind == BottleneckKind::Interference);
    // The evidence begins with the interference.
    let interfered = interference.map(|found| found.evidence.split(';').next().unwrap_or_default().to_owned());
    interfered.or_else(|| too_short(path))
}

/// The reason if users completed too few orders in each run.
fn too_short(path: &PathResult) -> Option<String> {
    let orders: f64 = path.runs.iter().map(|run| run.orders as f64).sum();
    let each = orders / path.runs.len().max(1) as f64 / f64::from(path.users?.max(1));
    (each < ORDERS_OF_A_USER_MIN).then(|| {
        format!(
            "a user did {each:.1} orders while it was measured, fewer than {ORDERS_OF_A_USER_MIN:.0}: a longer run would tell"
        )
    })
}

fn point(arm: &str, users: u32) -> String {
    if arm.contains("users=") { arm.to_owned() } else { format!("{arm} at {users} users") }
}

fn usable(path: &PathResult) -> bool {
    let closed = path.runs.iter().all(|run| run.load.as_ref().is_some_and(|load| load.model == LoadModel::Closed));
    path.status != PathStatus::Skipped && path.oets_per_minute.is_some() && closed && !path.runs.is_empty()
}

/// Whether path, label, target, medium and layout are the same and the tunings differ only in the slots.
fn alike(comparison: &Comparison, one: &PathResult, other: &PathResult) -> bool {
    let knobs = |path: &PathResult| {
        let mut knobs = comparison.tunings.get(&path.tuning).cloned().unwrap_or_default();
        paths::slots_knob(path).map(|knob| knobs.remove(&knob));
        knobs
    };
    (&one.name, &one.label, &one.target, &one.medium, &one.layout_name)
        == (&other.name, &other.label, &other.target, &other.medium, &other.layout_name)
        && knobs(one) == knobs(other)
}

/// The configuration to fit: of those without saturated slots or processors, the one with the middle number of users,
/// which is closest to both ends; otherwise, the middle one of all. Never one with unreliable figures.
fn reference<'a>(family: &[&'a PathResult]) -> Option<&'a PathResult> {
    if family.len() < 2 {
        return None;
    }
    // With few slots, their queue hides the storage, so one with the most slots is fitted.
    let most = |path: &PathResult| path.slot_use.as_ref().map_or(0, |slots| slots.slots);
    let sound: Vec<&PathResult> = family.iter().copied().filter(|path| doubt(path).is_none()).collect();
    let widest = sound.iter().copied().map(most).max().unwrap_or(0);
    let mut by_users: Vec<&PathResult> = sound.into_iter().filter(|path| most(path) == widest).collect();
    by_users.sort_by_key(|path| path.users);
    let free = |path: &&PathResult| {
        let busy = path.cpu.as_ref().map_or(0.0, |cpu| cpu.host_busy_share);
        let bound = path.bottleneck.as_ref().is_some_and(|found| found.kind == BottleneckKind::Slots);
        busy <= BUSY_FOR_FIT_MAX && !bound
    };
    let roomy: Vec<&PathResult> = by_users.iter().copied().filter(free).collect();
    let chosen = if roomy.is_empty() { by_users } else { roomy };
    // Of an even number, the lower middle: a load that saturates a resource shows less of the others.
    chosen.get(chosen.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::predict::fit::tests::{arm, comparison, system};

    #[test]
    fn a_ladder_of_users_and_slots_is_predicted_from_one_point() {
        let mut comparison = comparison();
        for slots in [2_u32, 4, 128] {
            let knobs = BTreeMap::from([("dnfs.slots".to_owned(), slots.to_string())]);
            comparison.tunings.insert(format!("slots{slots}"), knobs);
            for users in [1, 2, 4, 8, 16, 32] {
                let truth = System { slots: Some(slots), ..system() };
                let mut path = arm(&format!("dnfs slots{slots} users={users}"), &truth, users);
                path.tuning = format!("slots{slots}");
                if slots < 10 && users > slots {
                    path.bottleneck = Some(results::compare::Bottleneck {
                        kind: BottleneckKind::Slots,
                        ..results::compare::Bottleneck::default()
                    });
                }
                comparison.paths.push(path);
            }
        }
        let predictions = ladder(&comparison);
        assert_eq!(predictions.len(), 17);
        let errors = errors(&predictions).unwrap();
        assert!(errors.median_percent < 3.0 && errors.worst_percent < 15.0, "{errors:?} {predictions:#?}");
        assert!(predictions.iter().any(|point| point.bottleneck == BottleneckKind::Slots));
    }

    #[test]
    fn arms_on_other_media_or_paths_are_not_mixed() {
        let mut comparison = comparison();
        let mut other = arm("dnfs fc15k", &system(), 4);
        other.medium = Some("fc15k".into());
        comparison.paths = vec![arm("dnfs", &system(), 8), other];
        assert_eq!(ladder(&comparison), []);
        assert_eq!(errors(&[]), None);
    }

    #[test]
    fn arms_with_a_failed_proof_or_interference_are_neither_fitted_nor_counted() {
        let mut comparison = comparison();
        comparison.paths = [2, 4, 8].map(|users| arm(&format!("dnfs users={users}"), &system(), users)).to_vec();
        comparison.paths[1].status = PathStatus::NotValid;
        comparison.paths[1].reason = Some("proof of path failed".into());
        comparison.paths[2].bottleneck = Some(results::compare::Bottleneck {
            kind: BottleneckKind::Interference,
            evidence: "processes outside; host 90 % busy".into(),
            ..results::compare::Bottleneck::default()
        });
        let predictions = ladder(&comparison);
        assert!(predictions.iter().all(|point| point.fitted_on == "dnfs users=2"), "{predictions:#?}");
        let doubts: Vec<&str> = predictions.iter().filter_map(|point| point.doubt.as_deref()).collect();
        assert!(doubts[0].contains("proof of path") && doubts[1] == "processes outside", "{doubts:?}");
        assert_eq!(errors(&predictions), None);
    }

    #[test]
    fn a_run_in_which_a_user_did_fewer_than_three_orders_is_neither_fitted_nor_counted() {
        let mut comparison = comparison();
        comparison.paths = [2, 4, 8].map(|users| arm(&format!("dnfs users={users}"), &system(), users)).to_vec();
        comparison.paths[1].runs[0].orders = 11;
        comparison.paths[2].runs[0].orders = 24;
        let predictions = ladder(&comparison);
        assert!(predictions.iter().all(|point| point.fitted_on != "dnfs users=4"), "{predictions:#?}");
        let doubts: Vec<(&str, &str)> =
            predictions.iter().filter_map(|point| Some((point.held_out.as_str(), point.doubt.as_deref()?))).collect();
        assert!(doubts.len() == 1 && doubts[0].0 == "dnfs users=4" && doubts[0].1.contains("2.8 orders"), "{doubts:?}");
    }

    #[test]
    fn median_of_an_even_count_lies_between() {
        let point = |error_percent| Prediction { error_percent, ..Prediction::default() };
        let found = errors(&[point(-4.0), point(1.0), point(2.0), point(10.0)]).unwrap();
        assert!((found.median_percent - 3.0).abs() < 1e-9 && (found.worst_percent - 10.0).abs() < 1e-9);
    }
}
