//! Full disclosure: host, store, database, plan, notes: everything needed to repeat the comparison.

use std::collections::BTreeMap;

use results::compare::Comparison;

use super::section::{Section, Table, term};
use super::view::View;
use super::words::{bytes, escape, figure};
use crate::database::kind::title_of;

const LEAD: &str = "Everything needed to repeat this: host, store, database with each setting not at its built-in default, and \
    the plan as it was carried out. Names of hosts and users are not recorded.";

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let comparison = view.comparison;
    let mut body = String::new();
    body += &format!("<h3>Host and programs</h3>\n<dl class=\"facts\">{}</dl>\n", host(comparison));
    body += &format!("<h3>Plan</h3>\n<dl class=\"facts\">{}</dl>\n", plan(view));
    body += &settings(&comparison.environment.database_settings).html();
    body += &steps(view).html();
    Section::new("disclosure", "Full disclosure", LEAD, body)
}

fn host(comparison: &Comparison) -> String {
    let environment = &comparison.environment;
    let store = &environment.store;
    let unknown = |text: &str| if text.is_empty() { "unknown".to_owned() } else { escape(text) };
    let facts = [
        (
            "system",
            format!(
                "{}, kernel {}, {}",
                unknown(&environment.os),
                unknown(&environment.kernel),
                unknown(&environment.architecture)
            ),
        ),
        ("processors", format!("{} × {}", environment.cpu_count, unknown(&environment.cpu_model))),
        ("memory", bytes(environment.memory_bytes as f64)),
        ("virtualization", environment.virtualization.as_deref().map_or_else(|| "none detected".to_owned(), escape)),
        ("load average before", format!("{:.2}", environment.load_average_before)),
        (
            "file system",
            format!(
                "{} on {} ({}), {} free, {} reflinks",
                unknown(&store.file_system),
                unknown(&store.device),
                unknown(&store.mount_options),
                bytes(store.free_bytes as f64),
                if store.reflink { "with" } else { "without" }
            ),
        ),
        (
            "database",
            format!(
                "{} {} as user {}",
                escape(title_of(&comparison.plan.database)),
                unknown(&environment.database_version),
                unknown(&environment.database_user)
            ),
        ),
        (
            "millrace",
            format!(
                "{} ({})",
                unknown(&environment.millrace_version),
                environment.millrace_commit.as_deref().map_or_else(|| "commit unknown".to_owned(), escape)
            ),
        ),
    ];
    list(&facts)
}

fn plan(view: &View<'_>) -> String {
    let (comparison, plan) = (view.comparison, &view.comparison.plan);
    let facts = [
        ("started", format!("{}, {} s in all", escape(&comparison.started_utc), figure(comparison.elapsed_s))),
        ("paths requested", escape(&plan.paths.join(", "))),
        (
            "database",
            format!(
                "{} warehouses, {}; buffers {}",
                plan.warehouses,
                bytes(plan.database_bytes as f64),
                bytes(plan.buffers_bytes as f64)
            ),
        ),
        ("load", format!("{} users on {} driver threads, first seed {}", plan.users, plan.driver_threads, plan.seed)),
        (
            "runs",
            format!(
                "{} of {} on each path, {} s measured after {} s of warm-up",
                plan.repeats_done, plan.repeats, plan.seconds, plan.warmup_seconds
            ),
        ),
        ("order", escape(&plan.order.join(", "))),
        ("state restored by", escape(plan.restore.as_str())),
        ("budget", format!("{} s", plan.budget_seconds)),
    ];
    list(&facts)
}

fn list(facts: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        term(&mut text, name, value);
    }
    text
}

fn settings(settings: &BTreeMap<String, String>) -> Table {
    let mut table = Table::new("Database settings not at their built-in default, the same on every path", &["setting", "<value"]);
    for (name, value) in settings {
        let value = if value.is_empty() { "(empty)".to_owned() } else { escape(value) };
        table.row(&[format!("<code>{}</code>", escape(name)), value]);
    }
    table
}

/// Seconds of the steps around each run, mean over the runs of a configuration.
fn steps(view: &View<'_>) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for name in view.arms.iter().flat_map(|arm| &arm.result.runs).flat_map(|run| run.step_s.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut heads = vec!["path"];
    heads.extend(&names);
    let mut table = Table::new("Seconds each step took, mean of the runs", &heads);
    if names.is_empty() {
        return table;
    }
    for arm in view.arms.iter().filter(|arm| !arm.result.runs.is_empty()) {
        let mut cells = vec![escape(arm.name)];
        cells.extend(names.iter().map(|name| {
            let all: f64 = arm.result.runs.iter().filter_map(|run| run.step_s.get(*name)).sum();
            figure(all / arm.result.runs.len() as f64)
        }));
        table.row(&cells);
    }
    table
}
