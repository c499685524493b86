//! Conformance and proof: gates, the proof of path, the consistency conditions, the audit of the load.

use results::orders_run::{Conform, ConformItem};

use super::section::{Section, Table, arm_cell, outcome};
use super::view::View;
use super::words::{escape, figure, grouped};

const LEAD: &str = "Why these figures may be believed. Proof of path: what the database says it read against what was seen on \
    the path it is attributed to. Audit: what the driver really did against the ranges of the specification. Conditions: the \
    twelve consistency rules, after every run.";

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let mut body = gates(view);
    body += &proofs(view).html();
    body += &audits(view).html();
    body += &audit_notes(view);
    body += &checks(view).html();
    Section::new("proof", "Conformance and proof of path", LEAD, body)
}

fn gates(view: &View<'_>) -> String {
    let items: String = view
        .comparison
        .gates
        .iter()
        .map(|gate| {
            let (promise, found) = (escape(&gate.promise), figure(gate.found));
            format!("<li>{} {promise}; found {found}</li>\n", outcome(gate.passed, "threshold met:", "threshold missed:"))
        })
        .collect();
    if items.is_empty() { items } else { format!("<ul class=\"gates\">{items}</ul>\n") }
}

fn proofs(view: &View<'_>) -> Table {
    let heads = [
        "path",
        "database read, bytes",
        "counted on the path, bytes",
        "difference, %",
        "allowed, %",
        "<outcome",
        "<what was counted",
    ];
    let mut table = Table::new("Proof of path", &heads);
    for arm in &view.arms {
        let Some(proof) = &arm.result.proof else { continue };
        table.row(&[
            arm_cell(arm),
            grouped(proof.database_read_bytes as f64),
            grouped(proof.path_read_bytes as f64),
            format!("{:.2}", proof.difference_percent),
            figure(proof.tolerance_percent),
            proof.not_proven.as_ref().map_or_else(
                || outcome(proof.passed, "passed", "failed"),
                |why| format!("<span class=\"faint\">not proven: {}</span>", escape(why)),
            ),
            escape(&proof.explanation),
        ]);
    }
    table
}

/// Every rule with its range, and the value of each configuration's worst run.
fn audits(view: &View<'_>) -> Table {
    let audited: Vec<_> = view
        .arms
        .iter()
        .map(|arm| (arm, arm.result.runs.iter().filter_map(|run| run.conform.as_ref()).collect::<Vec<_>>()))
        .filter(|(_, audits)| !audits.is_empty())
        .collect();
    let mut heads = vec!["rule".to_owned(), "<clause".to_owned(), "<allowed".to_owned()];
    heads.extend(audited.iter().map(|(arm, _)| format!("<{}", arm.name)));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("Audit of the load: the worst of the runs", &heads);
    let Some(first) = audited.first().and_then(|(_, audits)| audits.first()) else { return table };
    for rule in &first.items {
        let mut cells = vec![escape(&rule.name), escape(&rule.clause), allowed(rule)];
        for (_, audits) in &audited {
            cells.push(worst(audits, &rule.name).map_or_else(|| "–".to_owned(), found));
        }
        table.row(&cells);
    }
    table
}

fn allowed(rule: &ConformItem) -> String {
    match (rule.least, rule.most) {
        (Some(least), Some(most)) => format!("{} to {}", figure(least), figure(most)),
        (Some(least), None) => format!("≥ {}", figure(least)),
        (None, Some(most)) => format!("≤ {}", figure(most)),
        (None, None) => "–".to_owned(),
    }
}

fn worst<'a>(audits: &[&'a Conform], rule: &str) -> Option<&'a ConformItem> {
    let items = || audits.iter().flat_map(|audit| audit.items.iter()).filter(|item| item.name == rule);
    items().find(|item| !item.passed).or_else(|| items().next())
}

fn found(item: &ConformItem) -> String {
    if let Some(why) = &item.not_judged {
        return format!("{} <span class=\"faint\">not judged: {}</span>", figure(item.found), escape(why));
    }
    let found = figure(item.found);
    outcome(item.passed, &found, &found)
}

fn audit_notes(view: &View<'_>) -> String {
    let mut notes: Vec<&str> = Vec::new();
    for audit in view.arms.iter().flat_map(|arm| &arm.result.runs).filter_map(|run| run.conform.as_ref()) {
        for note in &audit.notes {
            if !notes.contains(&note.as_str()) {
                notes.push(note);
            }
        }
    }
    let items: String = notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    if items.is_empty() { items } else { format!("<ul class=\"faint\">{items}</ul>\n") }
}

fn checks(view: &View<'_>) -> Table {
    let mut table = Table::new("Consistency conditions after every run", &["path", "hold", "fail", "<what failed"]);
    for arm in &view.arms {
        let Some(checks) = &arm.result.checks else { continue };
        let failures: Vec<String> = checks.failures.iter().map(|failure| escape(failure)).collect();
        let what = if failures.is_empty() { outcome(checks.failed == 0, "none", "not recorded") } else { failures.join("<br>") };
        table.row(&[arm_cell(arm), checks.passed.to_string(), checks.failed.to_string(), what]);
    }
    table
}
