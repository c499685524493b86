//! Computes the points of a series from its records: means, spread, and the steps between neighbours.

use results::history::{HistoryFigure, HistoryPoint, HistoryStep};
use results::judgement::RelativeDifference;
use results::statistics::{Difference, MeanInterval, RunValue};

use super::conditions::changes;
use super::entry::{ArmFigures, Entry};
use crate::diff;

/// A record, and one of its configurations.
pub(super) type Held<'a> = (&'a Entry, &'a ArmFigures);

type Runs = fn(&ArmFigures) -> &[RunValue];

/// Figures whose steps are marked, and whether larger values are better.
const FOLLOWED: [(HistoryFigure, bool, Runs); 2] =
    [(HistoryFigure::Oets, true, |arm| &arm.oets), (HistoryFigure::Cpu, false, |arm| &arm.cpu)];

/// Points on each side that must confirm a step.
const CONFIRMING_POINTS: usize = 3;

/// Number of standard deviations that a step must exceed: a normally distributed value exceeds it by chance in 1 of 2,000 cases, and
/// a page has some hundred neighbours.
const STEP_DEVIATIONS: f64 = 3.5;
/// Smallest number of differences of neighbours for estimating the scatter.
const SCATTER_DIFFERENCES_MIN: usize = 4;

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
        cpu_s_per_1000_orders_without_filer: MeanInterval::of_runs(&runs(|arm| &arm.cpu)),
        cpu_s_per_1000_orders: MeanInterval::of_runs(&runs(|arm| &arm.cpu)),
        new_order_p99_ms: MeanInterval::of(&p99),
        not_a_result,
        ..HistoryPoint::default()
    }
}

/// Indexes of the steps, each with its change from the previous point. The runs of both points must show the change, and so must those
/// of up to three points before, since the last step, compared with up to three from there on; and the levels of these points must
/// differ by more than neighbours in the series do by chance. Records differ by more than their runs do, and a single outlier
/// is not a step.
fn steps(runs: &[Vec<RunValue>]) -> Vec<(usize, RelativeDifference)> {
    let levels: Vec<f64> = runs.iter().map(|runs| mean(&runs.iter().map(|run| run.value.ln()).collect::<Vec<_>>())).collect();
    let scatter = scatter(&levels);
    let shown = |before: &[RunValue], now: &[RunValue]| {
        diff::between_records(before, now).filter(|found| found.shown == Difference::Shown)
    };
    let (mut steps, mut level_begins) = (Vec::new(), 0);
    for (place, pair) in runs.windows(2).enumerate() {
        let [before, now] = pair else { continue };
        let place = place + 1;
        let Some(difference) = shown(before, now) else { continue };
        let begin = level_begins.max(place.saturating_sub(CONFIRMING_POINTS));
        let end = (place + CONFIRMING_POINTS).min(runs.len());
        let around = |from: usize, to: usize| runs.get(from..to).unwrap_or_default().concat();
        let confirmed = shown(&around(begin, place), &around(place, end));
        let confirmed = confirmed.is_some_and(|found| (found.percent > 0.0) == (difference.percent > 0.0));
        let level = |from: usize, to: usize| mean(levels.get(from..to).unwrap_or_default());
        let apart = (level(place, end) - level(begin, place)).abs();
        let by_chance = (1.0 / (place - begin) as f64 + 1.0 / (end - place) as f64).sqrt() * STEP_DEVIATIONS;
        if confirmed && scatter.is_none_or(|scatter| apart > scatter * by_chance) {
            steps.push((place, difference));
            level_begins = place;
        }
    }
    steps
}

/// Standard deviation of a point's level, from the differences of neighbours: their median, which steps do not affect. `None` if there
/// are too few points.
fn scatter(levels: &[f64]) -> Option<f64> {
    let mut sizes: Vec<f64> = levels.windows(2).filter_map(|pair| Some((pair.last()? - pair.first()?).abs())).collect();
    sizes.sort_by(f64::total_cmp);
    let median = (sizes.len() >= SCATTER_DIFFERENCES_MIN).then(|| sizes.get(sizes.len() / 2).copied())??;
    // The median of the absolute value of a normal variable is 0.6745 of its deviation; a difference contains two of them.
    Some(median / 0.6745 / 2f64.sqrt())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
