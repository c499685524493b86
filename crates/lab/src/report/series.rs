//! Orders in each second of every run, with the warm-up and the checkpoints.

use results::compare::Run;

use super::plot::{self, Axis};
use super::scale::Scale;
use super::section::{Section, Table, arm_cell, facet_heading, swatch};
use super::svg::{Svg, both, commands};
use super::view::{Arm, View};
use super::words::{escape, figure, grouped};

const LEAD: &str = "Orders in each second, one field for each path on the same scale, one line for each run (long runs as means \
    with the range behind them). The shaded part is warm-up, which is dropped; triangles are ends of checkpoints. A steady arm \
    is flat: a slope or a step says that the mean hides something.";

/// Maximum number of points of a line per unit of width: more are not visible.
const POINTS_PER_UNIT: f64 = 0.5;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let runs = || view.arms.iter().flat_map(|arm| &arm.result.runs);
    let most = runs().flat_map(|run| run.per_second.iter().chain(&run.warmup_per_second)).copied().max().unwrap_or(0);
    if most == 0 {
        return None;
    }
    let span = Span {
        from: -runs().map(warmup_s).fold(0.0, f64::max),
        to: runs().map(|run| run.per_second.len() as f64).fold(1.0, f64::max),
        most: most as f64,
    };
    let mut body = String::new();
    for facet in view.facets() {
        body += &facet_heading(facet.title);
        for arm in facet.arms.iter().filter(|arm| arm.result.runs.iter().any(|run| !run.per_second.is_empty())) {
            body += &format!("<h4>{}{}</h4>\n", swatch(&arm.class()), escape(arm.name));
            body += &both(&format!("Orders in each second of {}", arm.name), |width| draw(width, arm, span));
            body += &responses(arm, span);
        }
    }
    body += &table(view).html();
    Section::new("series", "Second by second", LEAD, body)
}

/// Range of every plot area: seconds, and the largest number of orders.
#[derive(Clone, Copy)]
struct Span {
    from: f64,
    to: f64,
    most: f64,
}

/// Seconds of warm-up to show: those recorded, or all of them as a shaded blank.
fn warmup_s(run: &Run) -> f64 {
    if run.warmup_per_second.is_empty() { run.warmup_s.clamp(0.0, 600.0) } else { run.warmup_per_second.len() as f64 }
}

fn draw(width: f64, arm: &Arm<'_>, span: Span) -> Svg {
    let height = if width < 600.0 { 170.0 } else { 190.0 };
    let (left, right, bottom, top) = plot::field(width, height);
    let x = Axis::new(Scale::exact(span.from, span.to, left, right), "seconds of the measured interval");
    let y = Axis::new(Scale::linear(span.most, bottom, top), "orders per second");
    let mut svg = plot::paper(width, height, &x, &y);
    if span.from < 0.0 {
        svg.rect("dropped", (left, top), (x.scale.at(0.0) - left, bottom - top), "warm-up, dropped");
        svg.line("edge", (x.scale.at(0.0), top), (x.scale.at(0.0), bottom));
    }
    let groups = ((right - left) * POINTS_PER_UNIT) as usize;
    for (place, run) in arm.result.runs.iter().enumerate() {
        let warm = run.warmup_per_second.len() as f64;
        let values: Vec<f64> = run.warmup_per_second.iter().chain(&run.per_second).map(|orders| *orders as f64).collect();
        let class = format!("{} r{}", arm.class(), place % 3);
        let title = format!("{}, run {}: mean {} orders per second", arm.name, run.sequence, figure(mean(&run.per_second)));
        let at = |second: f64| x.scale.at(second - warm + 0.5);
        line(&mut svg, &class, &title, &groups_of(&values, groups), at, &y.scale);
        for end in run.checkpoint_ends_s.iter().filter(|end| (-warm..=span.to).contains(*end)) {
            let at = x.scale.at(*end);
            svg.line("checkpoint", (at, top), (at, bottom));
            svg.path(
                "checkpoint-mark",
                &format!("M{:.1} {:.1}h10l-5 8z", at - 5.0, top - 6.0),
                &format!("checkpoint of run {}", run.sequence),
            );
        }
    }
    svg
}

/// Mean, minimum and maximum of a group of seconds, with the middle of the group.
#[derive(Debug, PartialEq)]
struct Group {
    middle: f64,
    mean: f64,
    least: f64,
    most: f64,
}

/// Combines seconds so that there are at most `groups`.
fn groups_of(values: &[f64], groups: usize) -> Vec<Group> {
    let size = values.len().div_ceil(groups.max(1)).max(1);
    let group = |(place, part): (usize, &[f64])| Group {
        middle: (place * size) as f64 + (part.len() - 1) as f64 / 2.0,
        mean: part.iter().sum::<f64>() / part.len() as f64,
        least: part.iter().copied().fold(f64::MAX, f64::min),
        most: part.iter().copied().fold(0.0, f64::max),
    };
    values.chunks(size).enumerate().map(group).collect()
}

fn line(svg: &mut Svg, class: &str, title: &str, groups: &[Group], x: impl Fn(f64) -> f64, y: &Scale) {
    if groups.iter().any(|group| group.most > group.least) {
        let upper = groups.iter().map(|group| (x(group.middle), y.at(group.most)));
        let lower = groups.iter().rev().map(|group| (x(group.middle), y.at(group.least)));
        svg.path(&format!("area {class}"), &commands(&upper.chain(lower).collect::<Vec<_>>()), "");
    }
    let points: Vec<(f64, f64)> = groups.iter().map(|group| (x(group.middle), y.at(group.mean))).collect();
    svg.polyline(&format!("stroke fine {class}"), &points, title);
}

/// Median and p90 of all transactions in each second, if the driver recorded them.
fn responses(arm: &Arm<'_>, span: Span) -> String {
    let most = arm.result.runs.iter().flat_map(|run| &run.series).filter_map(|second| second.response_p90_us).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let label = format!("Response time in each second of {}: p90", arm.name);
    both(&label, |width| {
        let height = if width < 600.0 { 140.0 } else { 150.0 };
        let (left, right, bottom, top) = plot::field(width, height);
        let x = Axis::new(Scale::exact(span.from, span.to, left, right), "");
        let y = Axis::new(Scale::linear(most as f64 / 1e3, bottom, top), "p90 of all transactions, ms");
        let mut svg = plot::paper(width, height, &x, &y);
        if span.from < 0.0 {
            svg.rect("dropped", (left, top), (x.scale.at(0.0) - left, bottom - top), "warm-up, dropped");
        }
        let groups = ((right - left) * POINTS_PER_UNIT) as usize;
        for (place, run) in arm.result.runs.iter().enumerate() {
            let values: Vec<f64> = run.series.iter().map(|second| second.response_p90_us.unwrap_or(0) as f64 / 1e3).collect();
            let class = format!("{} r{}", arm.class(), place % 3);
            let title = format!("{}, run {}", arm.name, run.sequence);
            line(&mut svg, &class, &title, &groups_of(&values, groups), |second| x.scale.at(second + 0.5), &y.scale);
        }
        svg
    })
}

fn table(view: &View<'_>) -> Table {
    let heads = [
        "run",
        "<path",
        "round",
        "seed",
        "measured, s",
        "dropped, s",
        "orders",
        "orders per minute",
        "slowest second",
        "fastest second",
        "checkpoints",
    ];
    let mut table = Table::new("Each run, in the order they were carried out", &heads);
    let mut runs: Vec<(&Arm<'_>, &Run)> =
        view.arms.iter().flat_map(|arm| arm.result.runs.iter().map(move |run| (arm, run))).collect();
    runs.sort_by_key(|(_, run)| run.sequence);
    for (arm, run) in runs {
        let extreme = |value: Option<&u64>| value.map_or_else(|| "–".to_owned(), |orders| grouped(*orders as f64));
        table.row(&[
            run.sequence.to_string(),
            arm_cell(arm),
            run.round.to_string(),
            run.seed.to_string(),
            figure(run.measured_s),
            figure(run.warmup_s),
            grouped(run.orders as f64),
            grouped(run.oets_per_minute),
            extreme(run.per_second.iter().min()),
            extreme(run.per_second.iter().max()),
            run.database.checkpoints.to_string(),
        ]);
    }
    table
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_becomes_few_points_that_keep_its_extremes() {
        let mut values = vec![700.0; 3600];
        values[1_800] = 3.0;
        let groups = groups_of(&values, 400);
        assert!(groups.len() <= 400);
        assert!(groups.iter().any(|group| group.least < 4.0), "a stall of one second must be seen");
        assert_eq!(groups_of(&values[..30], 400).len(), 30);
        assert_eq!(groups_of(&[], 400), []);
    }
}
