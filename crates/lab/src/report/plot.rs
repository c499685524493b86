//! A field with two axes, and the legend below it.

use super::scale::Scale;
use super::section::swatch;
use super::svg::{LINE, Svg};
use super::view::Arm;
use super::words::{escape, figure};

/// Room around the field.
pub(crate) const LEFT: f64 = 58.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 2.0 * LINE + 6.0;

/// The ends of the field on a paper of this size, for making scales: left, right, bottom, top.
pub(crate) fn field(width: f64, height: f64) -> (f64, f64, f64, f64) {
    (LEFT, width - RIGHT, height - BOTTOM, TOP)
}

/// An axis: its scale, its name, and how its marks are written.
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

/// Paper with axes and grid.
pub(crate) fn paper(width: f64, height: f64, x: &Axis<'_>, y: &Axis<'_>) -> Svg {
    let mut svg = Svg::new(width, height);
    let (left, right, bottom, top) = field(width, height);
    let narrow = svg.narrow();
    for mark in y.scale.marks(5) {
        let at = y.scale.at(mark);
        svg.line("grid", (left, at), (right, at));
        svg.text("tick end", (left - 7.0, at + 4.5), &(y.words)(mark));
    }
    let marks = x.scale.marks(if narrow { 5 } else { 10 });
    for mark in &marks {
        let at = x.scale.at(*mark);
        svg.line("tick-line", (at, bottom), (at, bottom + 5.0));
    }
    svg.ticks(marks.iter().map(|mark| (x.scale.at(*mark), (x.words)(*mark))), bottom + LINE);
    svg.path("axis", &format!("M{left:.1} {top:.1}V{bottom:.1}H{right:.1}"), "");
    svg.text("axis-name", (4.0, top - 12.0), y.name);
    svg.text("axis-name end", (right, height - 5.0), x.name);
    svg
}

/// Arms with their colours. Lines of later tunings are dashed, which the swatch shows too.
pub(crate) fn legend(arms: &[&Arm<'_>]) -> String {
    let items: String = arms.iter().map(|arm| format!("<span>{}{}</span> ", swatch(&arm.class()), escape(arm.name))).collect();
    format!("<p class=\"legend\">{items}</p>\n")
}
