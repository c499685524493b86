//! Orders per minute of each configuration, with intervals.

use results::compare::{Comparison, PathStatus};
use results::statistics::Difference;

use super::rows::{self, Row};
use super::section::{Section, Table, arm_cell, facet_heading, outcome};
use super::view::{Arm, View, name, read_source};
use super::words::{CPU, ORDERS, WITHOUT_FILER, escape, figure, grouped, interval_words, micros};

const LEAD: &str = "Orders (New-Order transactions committed) per minute. A bar is the mean of the runs, dots are the \
    runs, the line with ends is the 95 % interval of its mean. Whether two paths differ is \
    judged by the interval of their difference, in the table below.";

/// The bars of all configurations as one SVG file, for a page or a ticket.
#[must_use]
pub fn picture(comparison: &Comparison) -> String {
    let view = View::new(comparison);
    let bars: Vec<Row> = view.arms.iter().filter_map(row).collect();
    rows::picture("Orders per minute of each path", ORDERS, &bars, super::page::STYLE)
}

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let mut body = String::new();
    for facet in view.facets() {
        let bars: Vec<Row> = facet.arms.iter().filter_map(|arm| row(arm)).collect();
        if !bars.is_empty() {
            body += &facet_heading(facet.title);
            body += &rows::chart("Orders per minute of each path", ORDERS, &bars);
        }
    }
    body += &table(view).html();
    body += &skipped(view);
    Section::new("orders", "Orders per minute", LEAD, body)
}

fn row(arm: &Arm<'_>) -> Option<Row> {
    let interval = arm.result.oets_per_minute.as_ref()?;
    let text = interval_words(interval);
    let class = if arm.valid() { format!("fill {}", arm.class()) } else { "fill void".to_owned() };
    let words = format!("{}: {text} orders per minute", arm.name);
    Some(Row {
        label: arm.name.to_owned(),
        parts: vec![(class, interval.mean, words)],
        interval: interval.ends(),
        dots: if interval.runs > 1 { interval.values.clone() } else { Vec::new() },
        text: if arm.valid() { text } else { format!("{text}, not valid") },
    })
}

fn table(view: &View<'_>) -> Table {
    let heads = [
        "path",
        "<status",
        ORDERS,
        "against first",
        "<difference",
        "New-Order p50",
        "p99",
        "block read",
        "reads/order",
        "buffer hits, %",
        CPU,
        WITHOUT_FILER,
        "checks",
    ];
    let mut table = Table::new("Each path at a glance", &heads);
    for arm in &view.arms {
        let result = arm.result;
        let against = view.comparison.against_first.iter().find(|line| line.path == arm.name || line.path == result.name);
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        let io = result.io.as_ref();
        table.row(&[
            arm_cell(arm),
            outcome(result.status == PathStatus::Measured, "measured", "not valid"),
            or_dash(result.oets_per_minute.as_ref().map(interval_words)),
            against.map_or_else(|| "first".to_owned(), |line| format!("{:.2} ×", line.oets_ratio)),
            against.map_or_else(String::new, |line| difference(line.difference).to_owned()),
            or_dash(result.response_ms.get("new_order").map(|response| micros(response.p50 * 1e3))),
            or_dash(result.response_ms.get("new_order").map(|response| micros(response.p99 * 1e3))),
            or_dash(result.block_read_us.as_ref().map(|read| micros(read.mean) + read_source(view.comparison, result))),
            or_dash(io.map(|io| figure(io.reads_per_order))),
            or_dash(io.map(|io| format!("{:.1}", io.hit_ratio * 100.0))),
            or_dash(result.cpu.as_ref().map(|cpu| figure(cpu.s_per_1000_orders))),
            or_dash(result.cpu.as_ref().map(|cpu| figure(cpu.without_filer_s_per_1000_orders()))),
            or_dash(result.checks.as_ref().map(|checks| {
                let all = checks.passed + checks.failed;
                format!("{} of {}", grouped(f64::from(checks.passed)), grouped(f64::from(all)))
            })),
        ]);
    }
    table
}

/// The claim in at most two words.
pub(crate) fn difference(difference: Difference) -> &'static str {
    match difference {
        Difference::Shown => "shown",
        Difference::NotShown => "not shown",
        Difference::Unknown => "nothing claimed",
    }
}

fn skipped(view: &View<'_>) -> String {
    let left_out = view.comparison.paths.iter().filter(|path| path.status == PathStatus::Skipped);
    let items: String = left_out
        .map(|path| {
            let reason = path.reason.as_deref().unwrap_or("no reason recorded");
            format!("<li><b>{}</b> was skipped: {}</li>\n", escape(name(path)), escape(reason))
        })
        .collect();
    if items.is_empty() { String::new() } else { format!("<ul class=\"skipped\">{items}</ul>\n") }
}
