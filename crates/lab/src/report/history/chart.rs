//! One figure of one series: a line with marks and their intervals.

use results::history::{HistoryFigure, HistoryPoint, PointBy};
use results::statistics::MeanInterval;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::plot::{self, Axis};
use super::super::scale::Scale;
use super::super::svg::{Svg, commands, width_of};
use super::super::words::signed;
use super::words::{interval_words, point_name, step_words};

/// Number of marks above which they are drawn small.
const MARKS_LARGE_MAX: f64 = 30.0;
/// Smallest height of the axis relative to the mean, so that noise does not look like a change.
const SPAN_LEAST: f64 = 0.1;

/// A drawn figure.
pub(super) struct Followed {
    /// With its unit.
    pub(super) name: &'static str,
    /// A short form for the axis and the heading of a column.
    pub(super) short: &'static str,
    /// The figure whose steps are marked.
    pub(super) figure: Option<HistoryFigure>,
    pub(super) pick: fn(&HistoryPoint) -> Option<&MeanInterval>,
}

/// A mark: its position, the point, the value.
type Mark<'a> = (f64, &'a HistoryPoint, &'a MeanInterval);

pub(super) fn draw(width: f64, hue: usize, points: &[HistoryPoint], followed: &Followed, by: &PointBy) -> Svg {
    let height = if width < 600.0 { 220.0 } else { 250.0 };
    let (left, right, bottom, top) = plot::field(width, height);
    let places = places(points, by, left, right);
    let marks: Vec<Mark<'_>> =
        points.iter().zip(&places).filter_map(|(point, place)| Some((*place, point, (followed.pick)(point)?))).collect();
    let y = Axis::new(scale(&marks, bottom, top), followed.short);
    let mut svg = plot::frame(width, height, if *by == PointBy::Date { "date (UTC)" } else { "commit" }, &y);
    let words = |point: &HistoryPoint| match (by, &point.commit) {
        (PointBy::Commit, Some(commit)) => commit.chars().take(7).collect(),
        _ => point.span_utc.0.split('T').next().unwrap_or_default().to_owned(),
    };
    let below: Vec<(f64, String)> = points.iter().zip(&places).map(|(point, place)| (*place, words(point))).collect();
    plot::mark_below(&mut svg, &below);
    let class = format!("h{hue} s1");
    let at = |(place, _, interval): &Mark<'_>| (*place, y.scale.at(interval.mean));
    band(&mut svg, &class, &marks, &y.scale);
    svg.polyline(&format!("stroke {class}"), &marks.iter().map(at).collect::<Vec<_>>(), "");
    let small = marks.len() as f64 > MARKS_LARGE_MAX * width / 880.0;
    let mut steps = Vec::new();
    for mark in &marks {
        let (px, py) = at(mark);
        let title = title(mark, followed);
        let radius = if small { 2.5 } else { 4.5 };
        svg.path(&format!("fill {class}"), &circle((px, py), radius), &title);
        if let Some(step) = mark.1.steps.iter().find(|step| Some(&step.figure) == followed.figure.as_ref()) {
            svg.line("edge", (px, top + 8.0), (px, bottom));
            svg.path("ring", &circle((px, py), 8.0), &format!("{title}; {}", step_words(step)));
            let words = format!("{} %", signed(step.difference.percent));
            // Not over the marks of the vertical axis.
            steps.push((px.max(left + width_of(&words) / 2.0), words));
        }
    }
    svg.ticks(steps.into_iter(), top + 4.0);
    svg
}

/// Positions of the marks: commits at equal distances, dates in proportion.
fn places(points: &[HistoryPoint], by: &PointBy, left: f64, right: f64) -> Vec<f64> {
    let seconds = |point: &HistoryPoint| {
        OffsetDateTime::parse(&point.span_utc.0, &Rfc3339).ok().map(|moment| moment.unix_timestamp() as f64)
    };
    let numbers: Vec<f64> = (0..points.len()).map(|place| place as f64).collect();
    let moments: Option<Vec<f64>> = points.iter().map(seconds).collect();
    let values = match moments {
        Some(moments) if *by == PointBy::Date => moments,
        _ => numbers,
    };
    let (first, last) = super::ends(&values);
    // A margin of half a mark's distance at both ends.
    let room = if last > first { (last - first) / values.len() as f64 / 2.0 } else { 1.0 };
    let scale = Scale::exact(first - room, last + room, left, right);
    values.into_iter().map(|value| scale.at(value)).collect()
}

/// An axis that contains all intervals and spans at least a tenth of the mean.
fn scale(marks: &[Mark<'_>], bottom: f64, top: f64) -> Scale {
    let half = |interval: &MeanInterval| interval.ci95.unwrap_or(0.0).min(interval.mean.abs());
    let low = marks.iter().map(|(.., interval)| interval.mean - half(interval)).fold(f64::INFINITY, f64::min);
    let high = marks.iter().map(|(.., interval)| interval.mean + half(interval)).fold(f64::NEG_INFINITY, f64::max);
    let middle = f64::midpoint(low, high);
    let reach = ((high - low) * 0.58).max(middle.abs() * SPAN_LEAST / 2.0);
    // Space above for the texts of the steps.
    Scale::exact((middle - reach).max(0.0), middle + reach * 1.25, bottom, top)
}

/// The intervals as an area; it is narrow at marks without an interval.
fn band(svg: &mut Svg, class: &str, marks: &[Mark<'_>], scale: &Scale) {
    if marks.len() < 2 || marks.iter().all(|(.., interval)| interval.ci95.is_none()) {
        if let [(place, _, interval)] = marks
            && let Some((low, high)) = interval.ends()
        {
            let (low, high) = (scale.at(low), scale.at(high));
            svg.path(
                "whisker",
                &format!("M{place:.1} {low:.1}V{high:.1}M{0:.1} {low:.1}h10M{0:.1} {high:.1}h10", place - 5.0),
                "",
            );
        }
        return;
    }
    let edge =
        |(place, _, interval): &Mark<'_>, sign: f64| (*place, scale.at(interval.mean + sign * interval.ci95.unwrap_or(0.0)));
    let mut outline: Vec<(f64, f64)> = marks.iter().map(|mark| edge(mark, 1.0)).collect();
    outline.extend(marks.iter().rev().map(|mark| edge(mark, -1.0)));
    svg.path(&format!("area {class}"), &(commands(&outline) + "z"), "");
}

fn circle((x, y): (f64, f64), radius: f64) -> String {
    let wide = 2.0 * radius;
    format!("M{:.1} {y:.1}a{radius} {radius} 0 1 0 {wide} 0a{radius} {radius} 0 1 0 -{wide} 0z", x - radius)
}

/// Text shown at the pointer: commit, date, value.
fn title((_, point, interval): &Mark<'_>, followed: &Followed) -> String {
    let runs = point.oets_per_minute.as_ref().map_or(0, |interval| interval.runs);
    let disturbed = if point.not_a_result.is_empty() { "" } else { "; not a result" };
    let value = interval_words(interval);
    format!("{}, {}: {value} {} ({runs} runs){disturbed}", point_name(point), point.span_utc.0, followed.name)
}
