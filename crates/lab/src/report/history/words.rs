//! Words for points and steps of the history.

use results::history::{HistoryFigure, HistoryPoint, HistoryStep};
use results::statistics::MeanInterval;

use super::super::words::{figure, signed};

/// Formats `orders/min −9.8 %: worse`.
pub(crate) fn step_words(step: &HistoryStep) -> String {
    let name = if step.figure == HistoryFigure::Cpu { "CPU" } else { "orders/min" };
    format!("{name} {} %: {}", signed(step.difference.percent), if step.better { "better" } else { "worse" })
}

/// The displayed commit, or else the version.
/// The commit of a point, or the version of Millrace if its records name no commit.
pub(crate) fn point_name(point: &HistoryPoint) -> String {
    let short = |commit: &String| commit.chars().take(12).collect();
    point.commit.as_ref().map_or_else(|| format!("version {}", point.version), short)
}

/// The heading above the names of points.
pub(crate) fn point_heading(points: &[HistoryPoint]) -> &'static str {
    if points.iter().all(|point| point.commit.is_some()) { "commit" } else { "commit or version" }
}

pub(super) fn interval_words(interval: &MeanInterval) -> String {
    figure(interval.mean) + &interval.ci95.map_or_else(String::new, |half| format!(" ± {}", figure(half)))
}
