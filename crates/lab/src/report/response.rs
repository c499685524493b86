//! Response times by transaction, compared with the limits of the specification.

use results::compare::ResponseMs;

use super::plot;
use super::scale::Scale;
use super::section::{Section, Table, arm_cell, outcome};
use super::svg::{LINE, Svg, both};
use super::view::{Arm, View};
use super::words::{cut, figure, grouped, transaction};

const LEAD: &str = "From the median (thin end) over p90 (mark) to p99 (thick end), a faint line to p99.9; the axis is \
    logarithmic. The red line is the most that the specification (5.2.5.3) allows for p90. Percentiles come from merged \
    histograms of all runs; retries after a conflict count as part of the response.";

/// Transactions with their limit for the 90th percentile in milliseconds (TPC-C 5.2.5.3).
const LIMITS_MS: [(&str, f64); 5] =
    [("new_order", 5e3), ("payment", 5e3), ("order_status", 5e3), ("delivery", 5e3), ("stock_level", 20e3)];

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let arms: Vec<&Arm<'_>> = view.arms.iter().filter(|arm| arm.result.response_ms.values().any(|r| r.count > 0)).collect();
    if arms.is_empty() {
        return None;
    }
    let mut body = both("Response percentiles of each transaction by path", |width| draw(width, &arms));
    body += &plot::legend(&arms);
    body += &table(&arms).html();
    Section::new("responses", "Response times", LEAD, body)
}

const STEP: f64 = 17.0;

fn draw(width: f64, arms: &[&Arm<'_>]) -> Svg {
    let narrow = width < 600.0;
    let (left, right) = (if narrow { 8.0 } else { 110.0 }, width - 18.0);
    let head = if narrow { LINE } else { 6.0 };
    let block = head + arms.len() as f64 * STEP + 8.0;
    let bottom = LIMITS_MS.len() as f64 * block + 4.0;
    let mut svg = Svg::new(width, bottom + 2.0 * LINE + 6.0);
    let all = || arms.iter().flat_map(|arm| arm.result.response_ms.values()).filter(|response| response.count > 0);
    let least = all().map(|response| response.p50).filter(|p50| *p50 > 0.0).fold(f64::MAX, f64::min);
    let most = all().map(|response| response.p999).fold(20e3, f64::max);
    let scale = Scale::log(least, most, left, right);
    let marks = scale.marks(0);
    for mark in &marks {
        svg.line("grid", (scale.at(*mark), 0.0), (scale.at(*mark), bottom));
    }
    svg.ticks(marks.iter().map(|mark| (scale.at(*mark), figure(*mark))), bottom + LINE);
    svg.text("axis-name end", (right, bottom + 2.0 * LINE), "milliseconds");
    for (place, (name, limit)) in LIMITS_MS.iter().enumerate() {
        let top = place as f64 * block;
        if place > 0 {
            svg.line("grid", (0.0, top), (width, top));
        }
        let words = transaction(name);
        let at = if narrow { (left, top + LINE - 3.0) } else { (2.0, top + block / 2.0 + 5.0) };
        svg.text("label", at, &cut(&words, 16));
        for (row, arm) in arms.iter().enumerate() {
            let Some(response) = arm.result.response_ms.get(*name).filter(|response| response.count > 0) else { continue };
            span(&mut svg, &scale, arm, row, response, top + head + STEP * (row as f64 + 0.5));
        }
        if place == 0 {
            svg.text("limit-label end", (scale.at(*limit) - 6.0, top + LINE - 3.0), "p90 limit");
        }
        svg.line("limit", (scale.at(*limit), top + 2.0), (scale.at(*limit), top + block - 2.0));
    }
    svg
}

fn span(svg: &mut Svg, scale: &Scale, arm: &Arm<'_>, row: usize, response: &ResponseMs, y: f64) {
    let [p50, p90, p99, p999] = [response.p50, response.p90, response.p99, response.p999].map(|value| scale.at(value));
    let class = arm.class();
    svg.line(&format!("stroke thin {class}"), (p99, y), (p999, y));
    svg.line(&format!("stroke {class}"), (p50, y), (p90, y));
    svg.line(&format!("stroke thick {class}"), (p90, y), (p99, y));
    svg.line(&format!("stroke {class}"), (p50, y - 4.0), (p50, y + 4.0));
    let words = format!(
        "{}: p50 {}, p90 {}, p99 {}, p99.9 {} ms",
        arm.name,
        figure(response.p50),
        figure(response.p90),
        figure(response.p99),
        figure(response.p999)
    );
    svg.mark(&format!("fill {class}"), row, (p90, y), &words);
}

fn table(arms: &[&Arm<'_>]) -> Table {
    let heads =
        ["transaction", "<path", "count", "mean", "p50", "p90", "<limit", "p95", "p99", "p99.9", "max", "retries", "errors"];
    let mut table = Table::new("Response times in milliseconds", &heads);
    for (name, limit) in LIMITS_MS {
        for (place, arm) in arms.iter().enumerate() {
            let Some(ms) = arm.result.response_ms.get(name).filter(|response| response.count > 0) else { continue };
            let within = outcome(ms.p90 <= limit, &format!("≤ {}", grouped(limit)), &format!("over {}", grouped(limit)));
            table.row(&[
                if place == 0 { transaction(name) } else { format!("<span class=\"again\">{}</span>", transaction(name)) },
                arm_cell(arm),
                grouped(ms.count as f64),
                figure(ms.mean),
                figure(ms.p50),
                figure(ms.p90),
                within,
                figure(ms.p95),
                figure(ms.p99),
                figure(ms.p999),
                figure(ms.max),
                grouped(ms.retries as f64),
                grouped(ms.errors as f64),
            ]);
        }
    }
    table
}
