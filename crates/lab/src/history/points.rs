//! From the records of a series to its points: means, spread, and the steps between neighbours.

use results::history::{HistoryFigure, HistoryPoint, HistoryStep};
use results::judgement::RelativeDifference;
use results::statistics::{Difference, MeanInterval, RunValue};

use super::conditions::changes;
use super::entry::{ArmFigures, Entry};
use crate::diff;

/// An arm of a record, with the record.
pub(super) type Held<'a> = (&'a Entry, &'a ArmFigures);

type Runs = fn(&ArmFigures) -> &[RunValue];

/// Figures whose steps are marked, and whether more of them is better.
const FOLLOWED: [(HistoryFigure, bool, Runs); 2] =
    [(HistoryFigure::Oets, true, |arm| &arm.oets), (HistoryFigure::Cpu, false, |arm| &arm.cpu)];

/// Points on each side that must confirm a step.
const CONFIRMING_POINTS: usize = 3;

/// One point for each group of records.
pub(super) fn points(groups: &[Vec<Held<'_>>]) -> Vec<HistoryPoint> {
    let mut points: Vec<HistoryPoint> = groups.iter().map(|group| point(group)).collect();
    for (figure, more_is_better, pick) in FOLLOWED {
        let runs: Vec<Vec<RunValue>> =
            groups.iter().map(|group| group.iter().flat_map(|(_, arm)| pick(arm)).copied().collect()).collect();
        for (place, difference) in steps(&runs) {
            let better = (difference.percent > 0.0) == more_is_better;
            if let Some(point) = points.get_mut(place) {
                point.steps.push(HistoryStep { figure: figure.clone(), difference, better });
            }
        }
    }
    for (point, pair) in points.iter_mut().skip(1).zip(groups.windows(2)) {
        let [before, now] = pair else { continue };
        let ends = before.last().zip(now.first());
        point.changed = ends.map_or_else(Vec::new, |((_, before), (_, now))| changes(&before.changeable, &now.changeable));
    }
    points
}

fn point(group: &[Held<'_>]) -> HistoryPoint {
    let runs = |pick: Runs| -> Vec<RunValue> { group.iter().flat_map(|(_, arm)| pick(arm)).copied().collect() };
    let started = |held: Option<&Held<'_>>| held.map(|(entry, _)| entry.started_utc.clone()).unwrap_or_default();
    let mean = |runs: &[RunValue]| MeanInterval::of_runs(runs).map(|interval| interval.mean);
    let p99: Vec<f64> = group.iter().filter_map(|(_, arm)| arm.new_order_p99_ms).collect();
    let mut not_a_result: Vec<String> = group.iter().flat_map(|(entry, _)| entry.not_a_result.clone()).collect();
    not_a_result.dedup();
    let last = group.last().map(|(entry, _)| *entry);
    HistoryPoint {
        commit: last.and_then(|entry| entry.commit.clone()),
        version: last.map(|entry| entry.version.clone()).unwrap_or_default(),
        span_utc: (started(group.first()), started(group.last())),
        records: group.iter().map(|(entry, _)| entry.record.clone()).collect(),
        oets_per_minute: MeanInterval::of_runs(&runs(|arm| &arm.oets)),
        oets_of_records: if group.len() > 1 { group.iter().filter_map(|(_, arm)| mean(&arm.oets)).collect() } else { Vec::new() },
        cpu_s_per_1000_orders: MeanInterval::of_runs(&runs(|arm| &arm.cpu)),
        new_order_p99_ms: MeanInterval::of(&p99),
        not_a_result,
        ..HistoryPoint::default()
    }
}

/// Places of the steps, each with its change from the point before. That must be shown by the runs of both points, and by those of up
/// to three points before, since the last step, against up to three from there on: records differ by more than their runs do, and a
/// single point that stands apart is no step.
fn steps(runs: &[Vec<RunValue>]) -> Vec<(usize, RelativeDifference)> {
    let shown = |before: &[RunValue], now: &[RunValue]| {
        diff::between_records(before, now).filter(|found| found.shown == Difference::Shown)
    };
    let (mut steps, mut level_begins) = (Vec::new(), 0);
    for (place, pair) in runs.windows(2).enumerate() {
        let [before, now] = pair else { continue };
        let place = place + 1;
        let Some(difference) = shown(before, now) else { continue };
        let around = |from: usize, to: usize| runs.get(from..to.min(runs.len())).unwrap_or_default().concat();
        let level = around(level_begins.max(place.saturating_sub(CONFIRMING_POINTS)), place);
        let confirmed = shown(&level, &around(place, place + CONFIRMING_POINTS));
        if confirmed.is_some_and(|found| (found.percent > 0.0) == (difference.percent > 0.0)) {
            steps.push((place, difference));
            level_begins = place;
        }
    }
    steps
}
