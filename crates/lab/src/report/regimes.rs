//! Report sections: all scenarios of a comparison side by side, and each further one with the same drawings as the first.

use std::fmt::Write;

use results::compare::{Comparison, PathResult, PathStatus, RegimeResult, RegimeStatus};

use super::rows::{self, Row};
use super::section::{Section, Table, swatch};
use super::view::{View, name};
use super::words::{bottleneck_words, escape, figure, grouped, interval_words};
use super::{bars, cpu, findings, proof, response};
use crate::plan::HOST;

const OVERVIEW_LEAD: &str = "The same paths, from the same loaded state, in each scenario. Compare paths within a scenario: \
    between scenarios medium and load differ, and no verdict mixes them. The database's CPU is that of its processes with the \
    client inside them, without filer and driver.";

const CAPTION: &str = "Each path in each scenario: p50 and p99 of New-Order, the database's CPU for each order, how busy this host's \
    processors were";

/// Description of a scenario.
pub(super) struct Words {
    pub(super) name: String,
    /// Medium and load.
    pub(super) what: String,
    /// `a look`, or empty.
    pub(super) label: &'static str,
}

/// A scenario as a comparison of its own, for drawing. Load searches, predictions and gates belong only to the first scenario.
pub(super) fn as_comparison(whole: &Comparison, regime: &RegimeResult) -> Comparison {
    Comparison {
        schema: whole.schema,
        kind: whole.kind.clone(),
        verdict: regime.verdict.clone(),
        not_a_result: regime.not_a_result.clone(),
        valid: regime.valid,
        notes: regime.notes.clone(),
        plan: regime.plan.clone(),
        paths: regime.paths.clone(),
        against_first: regime.against_first.clone(),
        environment: whole.environment.clone(),
        ..Comparison::default()
    }
}

/// Description of a further scenario.
pub(super) fn words(regime: &RegimeResult) -> Words {
    let users = regime.plan.users;
    let what = match (&regime.medium, regime.offered_orders_per_minute) {
        (_, Some(offered)) => format!("{} orders per minute offered on every path, by {users} users", grouped(offered)),
        (Some(medium), None) => format!("modelled medium {medium}, {users} users"),
        (None, None) => regime.load.clone(),
    };
    Words { name: regime.name.clone(), what, label: if regime.look { "one round" } else { "" } }
}

/// Description of the first scenario.
fn own_words(comparison: &Comparison) -> Words {
    let what = format!("this host's own storage, {} users", comparison.plan.users);
    Words { name: HOST.to_owned(), what, label: "" }
}

/// Why a scenario has no figures, or not all; `None` if all runs were carried out.
pub(super) fn shortfall(regime: &RegimeResult) -> Option<String> {
    let word = match &regime.status {
        RegimeStatus::Measured => return None,
        RegimeStatus::Failed => "failed",
        _ => "left out",
    };
    Some(format!("{word}: {}", regime.reason.as_deref().unwrap_or("no reason recorded")))
}

/// Every configuration that ran, with the description of its scenario, in the order of the record.
fn arms(comparison: &Comparison) -> Vec<(Words, &PathResult)> {
    let ran = |path: &&PathResult| path.status != PathStatus::Skipped;
    let own = comparison.paths.iter().filter(ran).map(|path| (own_words(comparison), path));
    let others = comparison.regimes.iter().flat_map(|regime| {
        let of = move |path| (words(regime), path);
        regime.paths.iter().filter(ran).map(of)
    });
    own.chain(others).collect()
}

/// Headings of the columns of [`overview_rows`] as plain text; `<` marks text columns. Short, for a terminal: p50 and p99 are those
/// of New-Order, the database's CPU is in milliseconds per order, "busy" is the share of this host's processors.
pub(super) const HEADS: [&str; 7] = ["scenario: path", "orders/min", "p50 ms", "p99 ms", "db CPU ms", "busy %", "<bottleneck"];

/// The figures of each configuration in each scenario: label and cells, plain text.
pub(super) fn overview_rows(comparison: &Comparison) -> Vec<Vec<String>> {
    let row = |(words, path): (Words, &PathResult)| {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        let response = path.response_ms.get("new_order");
        vec![
            label(&words, path),
            or_dash(path.oets_per_minute.as_ref().map(interval_words)),
            or_dash(response.map(|response| figure(response.p50))),
            or_dash(response.map(|response| figure(response.p99))),
            or_dash(path.cpu.as_ref().map(|cpu| figure(cpu.database_host_s_per_1000_orders()))),
            or_dash(path.cpu.as_ref().map(|cpu| format!("{:.0}", cpu.host_busy_share * 100.0))),
            or_dash(path.bottleneck.as_ref().map(bottleneck_words)),
        ]
    };
    arms(comparison).into_iter().map(row).collect()
}

fn label(words: &Words, path: &PathResult) -> String {
    let not_valid = if path.status == PathStatus::NotValid { " (not valid)" } else { "" };
    let look = if words.label.is_empty() { String::new() } else { format!(", {}", words.label) };
    format!("{}{look}: {}{not_valid}", words.name, name(path))
}

/// All scenarios in one table and two drawings; `None` if there is only one scenario.
pub(crate) fn overview(view: &View<'_>) -> Option<Section> {
    let comparison = view.comparison;
    if comparison.regimes.is_empty() {
        return None;
    }
    let class = |path: &PathResult| view.arm(name(path)).map_or_else(|| "h5 s1".to_owned(), super::view::Arm::class);
    let mut table = Table::new(CAPTION, &HEADS);
    for ((_, path), cells) in arms(comparison).into_iter().zip(overview_rows(comparison)) {
        let mut cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
        if let Some(first) = cells.first_mut() {
            *first = format!("<span class=\"arm\">{}{}</span>", swatch(&class(path)), first);
        }
        table.row(&cells);
    }
    let chart = |title: &str, unit: &str, value: &dyn Fn(&PathResult) -> Option<f64>| {
        let row = |(words, path): (Words, &PathResult)| {
            let value = value(path)?;
            let fill = if path.status == PathStatus::Measured { format!("fill {}", class(path)) } else { "fill void".to_owned() };
            let label = format!("{}: {}", words.name, name(path));
            let behind = format!("{label}: {} {unit}", figure(value));
            Some(Row { label, parts: vec![(fill, value, behind)], text: figure(value), ..Row::default() })
        };
        let bars: Vec<Row> = arms(comparison).into_iter().filter_map(row).collect();
        if bars.is_empty() { String::new() } else { format!("<h3>{title}</h3>\n{}", rows::chart(title, unit, &bars)) }
    };
    let mut body = what_each_is(comparison);
    body += &table.html();
    body += &chart("Orders per minute by scenario", "orders per minute", &|path| Some(path.oets_per_minute.as_ref()?.mean));
    body += &chart("The database's CPU by scenario", "ms per order", &|path| {
        Some(path.cpu.as_ref()?.database_host_s_per_1000_orders())
    });
    Section::new("regimes", "Scenarios side by side", OVERVIEW_LEAD, body)
}

/// Each scenario with its verdict, or the reason why it has none.
fn what_each_is(comparison: &Comparison) -> String {
    let own = own_words(comparison);
    let mut items = format!("<li><b>{}</b>: {}. {}</li>\n", own.name, escape(&own.what), escape(&comparison.verdict));
    for regime in &comparison.regimes {
        let words = words(regime);
        let look = if words.label.is_empty() { String::new() } else { format!(" ({})", words.label) };
        let what = if regime.paths.is_empty() { String::new() } else { format!(" {}.", words.what) };
        let said = [shortfall(regime), Some(regime.verdict.clone())];
        let said: Vec<String> = said.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        let _ = writeln!(items, "<li><b>{}</b>{look}:{} {}</li>", escape(&words.name), escape(&what), escape(&said.join(". ")),);
    }
    format!("<ul class=\"regimes\">{items}</ul>\n")
}

/// A further scenario, drawn like the first one.
pub(crate) fn section(whole: &Comparison, regime: &RegimeResult) -> Option<Section> {
    if regime.paths.is_empty() {
        return None;
    }
    let comparison = as_comparison(whole, regime);
    let view = View::new(&comparison);
    let mut body = format!("<p><b>{}</b></p>\n", escape(&regime.verdict));
    let notes: String = super::view::notes(&comparison).iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    if !notes.is_empty() {
        body += &format!("<ul class=\"notes\">\n{notes}</ul>\n");
    }
    for part in [bars::section, response::section, cpu::section, findings::section, proof::section] {
        let Some(part) = part(&view) else { continue };
        body += &format!("<h3>{}</h3>\n{}", escape(&part.title), part.body);
    }
    if !regime.not_a_result.is_empty() {
        body = format!("<div class=\"not-a-result\">\n{body}</div>\n");
    }
    let words = words(regime);
    let look = if words.label.is_empty() { String::new() } else { format!(", {}", words.label) };
    let id = format!("regime-{}", regime.name.replace(' ', "-"));
    let lead = format!("The same paths in another scenario: {}. Its figures are judged apart from all others.", words.what);
    Section::new(id, format!("Scenario {}{look}", words.name), lead, body)
}
