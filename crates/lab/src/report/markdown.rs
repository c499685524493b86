//! The comparison as Markdown, for pasting: verdict, tables, conditions.

use std::fmt::Write;

use results::compare::{Comparison, PathStatus, RegimeResult};

use super::bars::difference;
use super::headline::headline;
use super::latency::array_words;
use super::regimes;
use super::traffic;
use super::view::{self, View, name, read_source};
use crate::database::kind::title_of;
use crate::judge;

use super::words::{
    CPU, ORDERS, WITHOUT_FILER, bottleneck_words, bytes, figure, grouped, interval_words, micros, not_counted, transaction,
};

/// The comparison as Markdown.
#[must_use]
pub fn render(comparison: &Comparison) -> String {
    let view = View::new(comparison);
    let mut text = String::from("# Storage paths compared\n\n");
    let (headline, sentences) = headline(comparison);
    let _ = writeln!(text, "**{}**\n", line(&headline));
    if comparison.rehearsal {
        let _ = writeln!(text, "> **{}**\n", line(&comparison.rehearsal_note));
    }
    if !comparison.valid {
        text += "**Not valid: a proof of path or a consistency check failed.**\n\n";
    }
    if !comparison.regimes.is_empty() {
        let heads = regimes::HEADS.map(|head| head.trim_start_matches('<'));
        table(&mut text, "Scenarios side by side", &heads, &regimes::overview_rows(comparison));
    }
    overview(&mut text, &view);
    crossed(&mut text, &view);
    processor_time(&mut text, &view);
    responses(&mut text, &view);
    limits(&mut text, &view);
    text.push('\n');
    for sentence in sentences {
        let _ = writeln!(text, "{}\n", line(&sentence));
    }
    for note in view::notes(comparison) {
        let _ = writeln!(text, "- note: {}", line(&note));
    }
    for regime in &comparison.regimes {
        further(&mut text, comparison, regime);
    }
    conditions(&mut text, comparison);
    text
}

/// A further scenario, with the same contents as the first one.
fn further(text: &mut String, whole: &Comparison, regime: &RegimeResult) {
    let words = regimes::words(regime);
    let look = if words.label.is_empty() { String::new() } else { format!(", {}", words.label) };
    let said = regimes::shortfall(regime).unwrap_or(words.what);
    let _ = write!(text, "\n# Scenario {}{look}\n\n{}\n", line(&words.name), line(&said));
    if regime.paths.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n**{}**\n", line(&regime.verdict));
    for note in &regime.notes {
        let _ = writeln!(text, "- note: {}", line(note));
    }
    let comparison = regimes::as_comparison(whole, regime);
    let view = View::new(&comparison);
    overview(text, &view);
    crossed(text, &view);
    processor_time(text, &view);
    responses(text, &view);
    limits(text, &view);
}

fn overview(text: &mut String, view: &View<'_>) {
    let mut rows = Vec::new();
    for arm in &view.arms {
        let result = arm.result;
        let against = view.comparison.against_first.iter().find(|line| line.path == arm.name);
        rows.push(vec![
            arm.name.to_owned(),
            if arm.valid() { "measured" } else { "NOT VALID" }.to_owned(),
            result.oets_per_minute.as_ref().map_or_else(dash, interval_words),
            against
                .map_or_else(|| "first".to_owned(), |line| format!("{:.2} × ({})", line.oets_ratio, difference(line.difference))),
            result.block_read_us.as_ref().map_or_else(dash, |read| micros(read.mean) + read_source(view.comparison, result)),
            result.io.as_ref().map_or_else(dash, |io| figure(io.reads_per_order)),
            result.cpu.as_ref().map_or_else(dash, |cpu| figure(cpu.s_per_1000_orders)),
            result.cpu.as_ref().map_or_else(dash, |cpu| figure(cpu.without_filer_s_per_1000_orders())),
            result.proof.as_ref().map_or_else(dash, |proof| {
                proof.not_proven.as_ref().map_or_else(
                    || format!("{} ({:.1} %)", proof.outcome(), proof.difference_percent),
                    |why| format!("not proven: {why}"),
                )
            }),
        ]);
    }
    let heads = [
        "path",
        "status",
        ORDERS,
        "against first (difference)",
        "block read",
        "reads/order",
        CPU,
        WITHOUT_FILER,
        "proof of path",
    ];
    table(text, "Orders per minute", &heads, &rows);
    text.push('\n');
    for arm in &view.arms {
        if let Some(words) = array_words(arm.result) {
            let _ = writeln!(text, "- {}: {}", line(arm.name), line(&words));
        }
    }
    for path in view.comparison.paths.iter().filter(|path| path.status == PathStatus::Skipped) {
        let _ = writeln!(
            text,
            "- {} was skipped: {}",
            line(name(path)),
            line(path.reason.as_deref().unwrap_or("no reason recorded"))
        );
    }
}

fn crossed(text: &mut String, view: &View<'_>) {
    let mut rows = Vec::new();
    for arm in &view.arms {
        let Some(found) = &arm.result.traffic else { continue };
        let mut row = vec![arm.name.to_owned()];
        row.extend(traffic::cells(found));
        row.push(traffic::counted_by(&found.source).to_owned());
        rows.push(row);
    }
    let mut heads = vec!["path"];
    heads.extend(traffic::HEADS);
    heads.push("counted by");
    table(text, "What crossed each path", &heads, &rows);
}

fn processor_time(text: &mut String, view: &View<'_>) {
    let mut rows = Vec::new();
    for arm in &view.arms {
        let Some(cpu) = &arm.result.cpu else { continue };
        for (owner, time) in &cpu.by_owner {
            let whole = (time.user_s + time.sys_s).max(f64::MIN_POSITIVE);
            rows.push(vec![
                arm.name.to_owned(),
                owner.clone(),
                figure(time.s_per_1000_orders),
                figure(time.s_per_1000_orders * time.user_s / whole),
                figure(time.s_per_1000_orders * time.sys_s / whole),
            ]);
        }
    }
    table(text, CPU, &["path", "owner", "all", "user", "kernel"], &rows);
}

fn responses(text: &mut String, view: &View<'_>) {
    let mut rows = Vec::new();
    for name in ["new_order", "payment", "order_status", "delivery", "stock_level"] {
        for arm in &view.arms {
            let Some(ms) = arm.result.response_ms.get(name).filter(|ms| ms.count > 0) else { continue };
            let mut row = vec![transaction(name), arm.name.to_owned(), grouped(ms.count as f64)];
            row.extend([ms.p50, ms.p90, ms.p99, ms.p999, ms.max].map(figure));
            rows.push(row);
        }
    }
    table(text, "Response times, ms", &["transaction", "path", "count", "p50", "p90", "p99", "p99.9", "max"], &rows);
}

fn limits(text: &mut String, view: &View<'_>) {
    let mut items = String::new();
    for arm in &view.arms {
        if let Some(bottleneck) = &arm.result.bottleneck {
            let (kind, evidence) = (line(&bottleneck_words(bottleneck)), line(&bottleneck.evidence));
            let _ = writeln!(items, "- **{}**: {kind} ({evidence})", line(arm.name));
            if !bottleneck.next.is_empty() {
                let _ = writeln!(items, "  - try next: {}", line(&bottleneck.next));
            }
        }
        if let Some(reason) = arm.result.reason.as_deref().filter(|_| !arm.valid()) {
            let _ = writeln!(items, "- **{}** is not valid: {}", line(arm.name), line(reason));
        }
    }
    for found in judge::saturation(view.comparison) {
        let _ = writeln!(items, "- **{}**: {}", line(&found.arm), line(&found.text));
    }
    if !items.is_empty() {
        let _ = write!(text, "\n## Bottleneck of each path\n\n{items}");
    }
    let mut rows = Vec::new();
    for point in &view.comparison.predictions {
        rows.push(vec![
            point.held_out.clone() + &not_counted(point),
            point.fitted_on.clone(),
            grouped(point.predicted),
            grouped(point.measured),
            format!("{:+.1} %", point.error_percent),
        ]);
    }
    table(text, "Predicted and measured", &["held out", "fitted on", "predicted", "measured", "error"], &rows);
}

fn conditions(text: &mut String, comparison: &Comparison) {
    let (plan, environment) = (&comparison.plan, &comparison.environment);
    let _ = write!(
        text,
        "\n## Conditions\n\n- {} warehouses ({}), buffers {}, {} users, runs on each path: {} of {} s after {} s of warm-up, interleaved\n\
         - {}, kernel {}, {} × {}; file system {} on {}\n- {} {}; millrace {}; {}\n",
        plan.warehouses,
        bytes(plan.database_bytes as f64),
        bytes(plan.buffers_bytes as f64),
        plan.users,
        plan.repeats_done,
        plan.seconds,
        plan.warmup_seconds,
        line(&environment.os),
        line(&environment.kernel),
        environment.cpu_count,
        line(&environment.cpu_model),
        line(&environment.store.file_system),
        line(&environment.store.device),
        line(title_of(&plan.database)),
        line(&environment.database_version),
        line(&environment.millrace_version),
        line(&comparison.started_utc),
    );
    for gate in &comparison.gates {
        let word = if gate.passed { "met" } else { "MISSED" };
        let _ = writeln!(text, "- threshold {word}: {} (found {})", line(&gate.promise), figure(gate.found));
    }
    let _ = writeln!(text, "\n{}.", line(&comparison.disclaimer));
}

fn table(text: &mut String, title: &str, heads: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(text, "\n## {title}\n\n| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| line(cell).replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

/// Text on one line, with Markdown's and HTML's markup characters escaped.
fn line(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ").replace('&', "&amp;").replace('<', "&lt;");
    text.replace('*', "\\*").replace('`', "\\`")
}

fn dash() -> String {
    "–".to_owned()
}
