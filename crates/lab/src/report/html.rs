//! The page: one file, nothing fetched, readable in light and dark and on paper.

use std::fmt::Write;

use results::compare::{Comparison, PathResult, PathStatus};

use super::page_style::STYLE;
use super::svg::{self, Bar, Stack};
use crate::error::LabError;
use crate::summary::{grouped, interval_words};

const OWNERS: [&str; 3] = ["database", "filer", "driver"];

/// The whole page.
///
/// # Errors
/// When the record can't be written as JSON.
pub fn render(comparison: &Comparison) -> Result<String, LabError> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Millrace: storage paths compared</title><style>{STYLE}</style></head><body>\n\
         <h1>Storage paths compared</h1>\n<p class=\"rehearsal\">{}</p>\n<p class=\"verdict\">{}</p>\n\
         <p class=\"faint\">{}. Measured {}, {:.0} s in all.</p>\n",
        escape(&comparison.rehearsal_note),
        escape(&comparison.verdict),
        escape(&comparison.disclaimer),
        escape(&comparison.started_utc),
        comparison.elapsed_s,
    );
    overview(&mut page, comparison);
    charts(&mut page, comparison);
    responses(&mut page, comparison);
    evidence(&mut page, comparison);
    surroundings(&mut page, comparison);
    let _ = write!(
        page,
        "<h2>Record</h2>\n<details><summary>results.json</summary><pre>{0}</pre></details>\n\
         <script type=\"application/json\" id=\"results\">{1}</script>\n</body></html>\n",
        escape(&super::json(comparison)?),
        script_json(&super::json(comparison)?),
    );
    Ok(page)
}

/// Text for HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// JSON inside a script element must not end it: `<` is written as an escape.
fn script_json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

fn ran(comparison: &Comparison) -> impl Iterator<Item = &PathResult> {
    comparison.paths.iter().filter(|path| path.status != PathStatus::Skipped)
}

fn overview(page: &mut String, comparison: &Comparison) {
    let heads = [
        "path",
        "status",
        "orders per minute",
        "against first",
        "block read, mean us",
        "reads per order",
        "writes per order",
        "log bytes per order",
        "buffer hits %",
        "CPU s per 1,000 orders",
        "checks",
    ];
    let mut rows = Vec::new();
    for path in &comparison.paths {
        let io = path.io.clone().unwrap_or_default();
        let against = comparison.against_first.iter().find(|line| line.path == path.name);
        if path.status == PathStatus::Skipped {
            let reason = escape(path.reason.as_deref().unwrap_or_default());
            rows.push(format!("<td>{}</td><td>skipped</td><td class=\"words\" colspan=\"9\">{reason}</td>", escape(&path.name)));
            continue;
        }
        let status = match path.status {
            PathStatus::Measured => "<span class=\"good\">measured</span>",
            _ => "<span class=\"bad\">not valid</span>",
        };
        let mut cells = vec![escape(&path.name), status.to_owned()];
        cells.push(path.oets_per_minute.as_ref().map_or_else(dash, interval_words));
        cells.push(against.map_or_else(|| "1".to_owned(), |line| format!("{:.2}", line.oets_ratio)));
        cells.push(path.block_read_us.as_ref().map_or_else(dash, |read| format!("{:.1}", read.mean)));
        cells.push(format!("{:.1}", io.reads_per_order));
        cells.push(format!("{:.1}", io.writes_per_order));
        cells.push(grouped(io.log_bytes_per_order));
        cells.push(format!("{:.1}", io.hit_ratio * 100.0));
        cells.push(path.cpu.as_ref().map_or_else(dash, |cpu| format!("{:.2}", cpu.s_per_1000_orders)));
        cells.push(path.checks.as_ref().map_or_else(dash, |c| format!("{} of {}", c.passed, c.passed + c.failed)));
        rows.push(cells.into_iter().map(|cell| format!("<td>{cell}</td>")).collect());
    }
    table(page, &heads, &rows);
    for gate in &comparison.gates {
        let (class, word) = if gate.passed { ("good", "met") } else { ("bad", "missed") };
        let _ = writeln!(page, "<p class=\"{class}\">Gate {word}: {} (found {:.2}).</p>", escape(&gate.promise), gate.found);
    }
    if !comparison.notes.is_empty() {
        let notes: String = comparison.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        let _ = writeln!(page, "<ul>{notes}</ul>");
    }
}

fn charts(page: &mut String, comparison: &Comparison) {
    let oets: Vec<Bar> = ran(comparison)
        .filter_map(|path| {
            let interval = path.oets_per_minute.as_ref()?;
            let text = interval_words(interval);
            Some(Bar { label: path.name.clone(), value: interval.mean, error: interval.ci95, text })
        })
        .collect();
    section(page, "Orders per minute", "Mean of the runs; the line is its 95 % interval. Longer is better.");
    page.push_str(&svg::bars("Orders per minute by path", &oets));
    let cpu: Vec<Stack> = ran(comparison).filter_map(cpu_stack).collect();
    section(page, "Processor time for 1,000 orders", "Seconds, by owner, user and kernel apart. Shorter is better.");
    page.push_str("<p class=\"faint\">");
    for owner in OWNERS {
        for (mode, word) in [("user", "user"), ("sys", "kernel")] {
            let _ = write!(
                page,
                "<svg class=\"key\" viewBox=\"0 0 1 1\"><rect class=\"part-{owner}-{mode}\" width=\"1\" height=\"1\"/></svg>{owner} {word}"
            );
        }
    }
    page.push_str("</p>\n");
    page.push_str(&svg::stacks("Processor time for 1,000 orders by path and owner", &cpu));
    let series: Vec<(String, &[u64])> =
        ran(comparison).flat_map(|path| path.runs.iter().map(|run| (path.name.clone(), run.per_second.as_slice()))).collect();
    section(page, "Orders in each second", "One line for each run, warm-up left out.");
    page.push_str(&svg::lines("Orders in each second", &series));
}

fn cpu_stack(path: &PathResult) -> Option<Stack> {
    let cpu = path.cpu.as_ref()?;
    let orders = cpu.by_owner.values().map(|owner| owner.user_s + owner.sys_s).sum::<f64>() / cpu.s_per_1000_orders;
    let mut parts = Vec::new();
    for owner in OWNERS {
        let Some(time) = cpu.by_owner.get(owner) else { continue };
        parts.push((format!("{owner}-user"), time.user_s / orders));
        parts.push((format!("{owner}-sys"), time.sys_s / orders));
    }
    parts.retain(|(_, value)| value.is_finite());
    Some(Stack { label: path.name.clone(), parts, text: format!("{:.2} s", cpu.s_per_1000_orders) })
}

fn responses(page: &mut String, comparison: &Comparison) {
    section(page, "Response times", "Milliseconds, from the merged histograms of all runs, retries included.");
    let heads = ["transaction", "path", "count", "mean", "p50", "p90", "p95", "p99", "p99.9", "max", "retries", "errors"];
    let mut rows = Vec::new();
    for name in ["new_order", "payment", "order_status", "delivery", "stock_level"] {
        for path in ran(comparison) {
            let Some(ms) = path.response_ms.get(name) else { continue };
            let mut row = format!(
                "<td>{}</td><td class=\"words\">{}</td><td>{}</td>",
                name.replace('_', " "),
                escape(&path.name),
                grouped(ms.count as f64)
            );
            for value in [ms.mean, ms.p50, ms.p90, ms.p95, ms.p99, ms.p999, ms.max] {
                let _ = write!(row, "<td>{value:.2}</td>");
            }
            let _ = write!(row, "<td>{}</td><td>{}</td>", ms.retries, ms.errors);
            rows.push(row);
        }
    }
    table(page, &heads, &rows);
}

fn evidence(page: &mut String, comparison: &Comparison) {
    section(page, "Proof of path", "The database's block reads held against what was read on the path.");
    let mut rows = Vec::new();
    for path in ran(comparison) {
        let Some(proof) = &path.proof else { continue };
        let outcome = if proof.passed { "<span class=\"good\">passed</span>" } else { "<span class=\"bad\">failed</span>" };
        rows.push(format!(
            "<td>{}</td><td>{}</td><td>{}</td><td>{:.2} %</td><td>{outcome}</td><td class=\"words\">{}</td>",
            escape(&path.name),
            grouped(proof.database_read_bytes as f64),
            grouped(proof.path_read_bytes as f64),
            proof.difference_percent,
            escape(&proof.explanation),
        ));
    }
    table(page, &["path", "database read, bytes", "path carried, bytes", "difference", "outcome", "what was counted"], &rows);
    section(page, "What limited each path", "");
    for path in ran(comparison) {
        let bottleneck = path.bottleneck.as_ref();
        let words = bottleneck.map_or_else(String::new, |b| format!("{} ({})", b.kind.replace('_', " "), b.evidence));
        let reason = path.reason.as_deref().map_or_else(String::new, |reason| format!(" Not valid: {reason}."));
        let lines = [path.load.as_deref(), path.layout.as_deref(), path.caching.as_deref()];
        let about: Vec<String> = lines.into_iter().flatten().map(escape).collect();
        let _ = writeln!(
            page,
            "<p><b>{}</b>: {}.<span class=\"bad\">{}</span><br><span class=\"faint\">{}</span></p>",
            escape(&path.name),
            escape(&words),
            escape(&reason),
            about.join("; "),
        );
    }
}

fn surroundings(page: &mut String, comparison: &Comparison) {
    let (environment, plan) = (&comparison.environment, &comparison.plan);
    section(page, "Where it was measured", "");
    let settings: Vec<String> = environment.database_settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let store = &environment.store;
    let facts = [
        ("system", format!("{}, kernel {}, {}", environment.os, environment.kernel, environment.architecture)),
        ("processors", format!("{} x {}", environment.cpu_count, environment.cpu_model)),
        ("memory", format!("{} MiB", grouped((environment.memory_bytes >> 20) as f64))),
        ("load average before", format!("{:.2}", environment.load_average_before)),
        ("virtualization", environment.virtualization.clone().unwrap_or_else(|| "none seen".to_owned())),
        (
            "store",
            format!("{} on {} ({}), state restored by {}", store.file_system, store.device, store.mount_options, plan.restore),
        ),
        ("database", format!("PostgreSQL {} as user {}", environment.database_version, environment.database_user)),
        ("database settings", settings.join(", ")),
        (
            "plan",
            format!(
                "{} warehouses, {} users, {} of {} runs of {} s after {} s on each path, order: {}",
                plan.warehouses,
                plan.users,
                plan.repeats_done,
                plan.repeats,
                plan.seconds,
                plan.warmup_seconds,
                plan.order.join(" ")
            ),
        ),
        (
            "millrace",
            format!("{} {}", environment.millrace_version, environment.millrace_commit.as_deref().unwrap_or("(commit unknown)")),
        ),
    ];
    let rows: Vec<String> =
        facts.iter().map(|(name, fact)| format!("<td>{name}</td><td class=\"words\">{}</td>", escape(fact))).collect();
    table(page, &[], &rows);
}

fn section(page: &mut String, title: &str, words: &str) {
    let _ = writeln!(page, "<h2>{}</h2>", escape(title));
    if !words.is_empty() {
        let _ = writeln!(page, "<p class=\"faint\">{}</p>", escape(words));
    }
}

fn table(page: &mut String, heads: &[&str], rows: &[String]) {
    page.push_str("<div class=\"wide\"><table>");
    if !heads.is_empty() {
        let heads: String = heads.iter().map(|head| format!("<th>{}</th>", escape(head))).collect();
        let _ = write!(page, "<thead><tr>{heads}</tr></thead>");
    }
    for row in rows {
        let _ = write!(page, "<tr>{row}</tr>");
    }
    page.push_str("</table></div>\n");
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{SOUND, Shape, comparison};

    fn page(shape: Shape) -> String {
        render(&comparison(shape)).unwrap()
    }

    #[test]
    fn page_holds_verdict_figures_proof_and_the_disclaimer() {
        let page = page(SOUND);
        for fact in [
            "REHEARSAL",
            "Direct NFS did 67 % of the orders of local disk",
            "6,000 ± 50",
            "the results are not comparable to published TPC-C results",
            "12 of 12",
            "491,520,000",
            "shared_buffers=256MB",
            "prefers-color-scheme:dark",
            "class=\"part-filer-sys\"",
        ] {
            assert!(page.contains(fact), "{fact} is missing");
        }
        assert!(!page.contains("tpmC"));
    }

    #[test]
    fn page_fetches_nothing() {
        let page = page(SOUND);
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn reasons_are_escaped() {
        let page = page(SOUND);
        assert!(page.contains("not built yet: &lt;later&gt;") && !page.contains("<later>"));
    }

    #[test]
    fn embedded_record_reads_back_as_the_same_comparison() {
        let page = page(SOUND);
        let begin = page.find("id=\"results\">").unwrap() + "id=\"results\">".len();
        let end = page[begin..].find("</script>").unwrap() + begin;
        let again: Comparison = serde_json::from_str(&page[begin..end]).unwrap();
        assert_eq!(again, comparison(SOUND));
    }

    #[test]
    fn path_that_is_not_valid_is_marked_with_the_reason() {
        let page = page(Shape { filer_share: 0.2, ..SOUND });
        assert!(page.contains("not valid</span>") && page.contains("proof of path failed"));
        assert!(page.contains("nothing may be concluded"));
    }
}
