//! The load-latency curve: the gain of more users, and their cost in response time.

use results::curves::CurvePoint;

use super::plot::{self, Axis};
use super::scale::Scale;
use super::section::{Section, Table, swatch};
use super::svg::{Svg, both};
use super::view::View;
use super::words::{escape, figure, grouped};

const LEAD: &str = "Each mark is one load that was tried, with its number of users. Left to right more orders, upwards longer \
    responses (New-Order, p90): where the curve turns up without going right, the path is saturated. A ring is the load that was \
    then used for the comparison.";

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let points = &view.comparison.curve;
    if points.is_empty() {
        return None;
    }
    let curves = by_arm(points);
    let mut body = both("Response time against orders per minute, by path and users", |width| draw(width, view, &curves));
    let items: String = curves
        .iter()
        .enumerate()
        .map(|(place, (name, _))| format!("<span>{}{}</span> ", swatch(&class(view, name, place)), escape(name)))
        .collect();
    body += &format!("<p class=\"legend\">{items}</p>\n");
    body += &table(view, &curves).html();
    Section::new("curve", "Load and latency", LEAD, body)
}

type Curve<'a> = (&'a str, Vec<&'a CurvePoint>);

fn by_arm(points: &[CurvePoint]) -> Vec<Curve<'_>> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for point in points {
        match curves.iter_mut().find(|(name, _)| *name == point.arm) {
            Some((_, known)) => known.push(point),
            None => curves.push((&point.arm, vec![point])),
        }
    }
    for (_, points) in &mut curves {
        points.sort_by(|a, b| a.users.cmp(&b.users).then(due(a).total_cmp(&due(b))));
    }
    curves
}

fn due(point: &CurvePoint) -> f64 {
    point.offered_per_minute.unwrap_or(0.0)
}

/// Colour of a configuration; one that is only used for a search has no colour of its own.
fn class(view: &View<'_>, name: &str, place: usize) -> String {
    view.arm(name).map_or_else(|| format!("h{} s1", place % 6), super::view::Arm::class)
}

fn draw(width: f64, view: &View<'_>, curves: &[Curve<'_>]) -> Svg {
    let height = if width < 600.0 { 280.0 } else { 340.0 };
    let all = || curves.iter().flat_map(|(_, points)| points.iter());
    let (left, right, bottom, top) = plot::field(width, height);
    let most = all().map(|point| point.oets_per_minute + point.ci95.unwrap_or(0.0)).fold(0.0, f64::max);
    let slowest = all().map(|point| point.response_p90_ms).fold(0.0, f64::max);
    let x = Axis::new(Scale::linear(most * 1.04, left, right), "orders per minute");
    let y = Axis::new(Scale::linear(slowest, bottom, top), "New-Order p90, ms");
    let mut svg = plot::paper(width, height, &x, &y);
    for (place, (name, points)) in curves.iter().enumerate() {
        let class = class(view, name, place);
        let at = |point: &CurvePoint| (x.scale.at(point.oets_per_minute), y.scale.at(point.response_p90_ms));
        let line: Vec<(f64, f64)> = points.iter().map(|point| at(point)).collect();
        svg.polyline(&format!("stroke {class}"), &line, name);
        for point in points {
            let (px, py) = at(point);
            if let Some(half) = point.ci95 {
                let ends = (x.scale.at(point.oets_per_minute - half), x.scale.at(point.oets_per_minute + half));
                svg.whisker(ends, py);
            }
            if point.chosen {
                svg.path("ring", &format!("M{:.1} {py:.1}a9 9 0 1 0 18 0a9 9 0 1 0 -18 0z", px - 9.0), "used for the comparison");
            }
            let words = format!(
                "{name}, {} users: {} orders per minute, p90 {} ms",
                point.users,
                grouped(point.oets_per_minute),
                figure(point.response_p90_ms)
            );
            svg.mark(&format!("fill {class}"), place, (px, py), &words);
            if !svg.narrow() || point.chosen || Some(&point.users) == points.last().map(|last| &last.users) {
                svg.text("mark-label", (px + 7.0, py - 7.0), &point.users.to_string());
            }
        }
    }
    svg
}

fn table(view: &View<'_>, curves: &[Curve<'_>]) -> Table {
    let heads = ["path", "users", "due per minute", "orders per minute", "p50, ms", "p90, ms", "p99, ms", "<"];
    let mut table = Table::new("Every load that was tried", &heads);
    for (place, (name, points)) in curves.iter().enumerate() {
        for point in points {
            let half = point.ci95.map_or_else(String::new, |half| format!(" ± {}", grouped(half)));
            table.row(&[
                format!("{}{}", swatch(&class(view, name, place)), escape(name)),
                point.users.to_string(),
                point.offered_per_minute.map_or_else(|| "–".to_owned(), grouped),
                grouped(point.oets_per_minute) + &half,
                figure(point.response_p50_ms),
                figure(point.response_p90_ms),
                figure(point.response_p99_ms),
                if point.chosen { "used for the comparison".to_owned() } else { String::new() },
            ]);
        }
    }
    table
}
