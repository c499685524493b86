//! A plot area with two axes, and the legend below it.

use super::scale::Scale;
use super::section::swatch;
use super::svg::{LINE, Svg};
use super::view::Arm;
use super::words::{escape, figure};

/// Margins around the plot area.
pub(crate) const LEFT: f64 = 58.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 2.0 * LINE + 6.0;

/// The edges of the plot area for a drawing of this size, for creating scales: left, right, bottom, top.
pub(crate) fn field(width: f64, height: f64) -> (f64, f64, f64, f64) {
    (LEFT, width - RIGHT, height - BOTTOM, TOP)
}

/// An axis: its scale, its name, and the format of its marks.
pub(crate) struct Axis<'a> {
    pub(crate) scale: Scale,
    pub(crate) name: &'a str,
    pub(crate) words: fn(f64) -> String,
}

impl<'a> Axis<'a> {
    pub(crate) fn new(scale: Scale, name: &'a str) -> Self {
        Self { scale, name, words: figure }
    }
}

/// A drawing with axes and grid.
pub(crate) fn paper(width: f64, height: f64, x: &Axis<'_>, y: &Axis<'_>) -> Svg {
    let mut svg = frame(width, height, x.name, y);
    let marks = x.scale.marks(if svg.narrow() { 5 } else { 10 });
    let marks: Vec<(f64, String)> = marks.into_iter().map(|mark| (x.scale.at(mark), (x.words)(mark))).collect();
    mark_below(&mut svg, &marks);
    svg
}

/// A drawing with a vertical axis and its grid; the horizontal axis has its name but no marks yet.
pub(crate) fn frame(width: f64, height: f64, x_name: &str, y: &Axis<'_>) -> Svg {
    let mut svg = Svg::new(width, height);
    let (left, right, bottom, top) = field(width, height);
    for mark in y.scale.marks(5) {
        let at = y.scale.at(mark);
        svg.line("grid", (left, at), (right, at));
        svg.text("tick end", (left - 7.0, at + 4.5), &(y.words)(mark));
    }
    svg.path("axis", &format!("M{left:.1} {top:.1}V{bottom:.1}H{right:.1}"), "");
    svg.text("axis-name", (4.0, top - 12.0), y.name);
    svg.text("axis-name end", (right, height - 5.0), x_name);
    svg
}

/// Adds marks to the horizontal axis, by position and text.
pub(crate) fn mark_below(svg: &mut Svg, marks: &[(f64, String)]) {
    let (.., bottom, _) = field(svg.width, svg.height);
    for (at, _) in marks {
        svg.line("tick-line", (*at, bottom), (*at, bottom + 5.0));
    }
    svg.ticks(marks.iter().cloned(), bottom + LINE);
}

/// Configurations with their colours. Lines of later tunings are dashed, which the swatch also shows.
pub(crate) fn legend(arms: &[&Arm<'_>]) -> String {
    let items: String = arms.iter().map(|arm| format!("<span>{}{}</span> ", swatch(&arm.class()), escape(arm.name))).collect();
    format!("<p class=\"legend\">{items}</p>\n")
}
