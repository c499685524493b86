//! The terminal's table.

use results::compare::{Comparison, PathResult, PathStatus};

use super::latency::array_words;
use super::view::name;
use super::words::{limit, not_counted};
use crate::judge;
use crate::predict;
use crate::summary::{grouped, interval_words};

/// The whole terminal report: heading, verdict, table, proofs, notes.
#[must_use]
pub fn render(comparison: &Comparison) -> String {
    let note = &comparison.rehearsal_note;
    let mut text = if note.is_empty() { String::new() } else { format!("{note}\n\n") };
    text += &format!("{}\n\n", comparison.verdict);
    text += &columns(&rows(comparison));
    text.push('\n');
    for path in &comparison.paths {
        text += &details(path);
    }
    for carried in judge::carried(comparison) {
        text += &format!("{}: {}\n", carried.arm, carried.text);
    }
    for line in &comparison.against_first {
        text += &format!("{}\n", line.text);
    }
    for point in &comparison.predictions {
        text += &format!(
            "prediction: {} {} for {} from {}, measured {} ({:+.1} %){}\n",
            grouped(point.predicted),
            point.quantity,
            point.held_out,
            point.fitted_on,
            grouped(point.measured),
            point.error_percent,
            not_counted(point)
        );
    }
    if let Some(errors) = predict::ladder::errors(&comparison.predictions).filter(|errors| errors.count > 1) {
        let (median, worst) = (errors.median_percent, errors.worst_percent);
        text += &format!("{} predictions: median error {median:.1} %, worst {worst:.1} %\n", errors.count);
    }
    for gate in &comparison.gates {
        let outcome = if gate.passed { "met" } else { "MISSED" };
        text += &format!("gate {outcome}: {} (found {:.2})\n", gate.promise, gate.found);
    }
    for note in &comparison.notes {
        text += &format!("note: {note}\n");
    }
    let plan = &comparison.plan;
    text += &format!(
        "\n{} warehouses ({} MiB), {} MiB of buffers, {} users; {} runs of {} s after {} s warm-up on each path, \
         interleaved, each from the same restored state.\n± is the 95 % interval of the mean. {}.\n",
        plan.warehouses,
        grouped((plan.database_bytes >> 20) as f64),
        grouped((plan.buffers_bytes >> 20) as f64),
        plan.users,
        plan.repeats_done,
        plan.seconds,
        plan.warmup_seconds,
        comparison.disclaimer,
    );
    text
}

/// One row for each path below a heading.
fn rows(comparison: &Comparison) -> Vec<Vec<String>> {
    let mut rows = vec![
        [
            "path",
            "OETs/min",
            "vs first",
            "New-Order p50",
            "p90",
            "p99 ms",
            "read us",
            "reads/order",
            "hit %",
            "CPU s/1000: db",
            "filer",
            "driver",
            "checks",
            "proof",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for path in comparison.paths.iter().filter(|path| path.status != PathStatus::Skipped) {
        let against = comparison.against_first.iter().find(|line| line.path == name(path));
        let response = path.response_ms.get("new_order").cloned().unwrap_or_default();
        let owner = |name: &str| {
            let owners = path.cpu.as_ref().map(|cpu| &cpu.by_owner);
            owners.and_then(|all| all.get(name)).map_or_else(|| "-".to_owned(), |o| format!("{:.2}", o.s_per_1000_orders))
        };
        let io = path.io.clone().unwrap_or_default();
        rows.push(vec![
            name(path).to_owned(),
            path.oets_per_minute.as_ref().map_or_else(|| "-".to_owned(), interval_words),
            against.map_or_else(|| "1".to_owned(), |line| format!("{:.2}", line.oets_ratio)),
            format!("{:.1}", response.p50),
            format!("{:.1}", response.p90),
            format!("{:.1}", response.p99),
            path.block_read_us.as_ref().map_or_else(|| "-".to_owned(), |read| format!("{:.0}", read.mean)),
            format!("{:.1}", io.reads_per_order),
            format!("{:.1}", io.hit_ratio * 100.0),
            owner("database"),
            owner("filer"),
            owner("driver"),
            path.checks.as_ref().map_or_else(|| "-".to_owned(), |c| format!("{} of {}", c.passed, c.passed + c.failed)),
            path.proof.as_ref().map_or_else(
                || "-".to_owned(),
                |proof| format!("{} ({:.1} %)", if proof.passed { "passed" } else { "FAILED" }, proof.difference_percent),
            ),
        ]);
    }
    rows
}

/// Lines below the table about one arm.
fn details(path: &PathResult) -> String {
    let (arm, reason) = (name(path), path.reason.as_deref().unwrap_or_default());
    let array = array_words(path).map_or_else(String::new, |words| format!("{arm}: {words}\n"));
    let outcome = match path.status {
        PathStatus::Skipped => format!("{arm}: skipped: {reason}\n"),
        PathStatus::NotValid => format!("{arm}: NOT VALID: {reason}\n"),
        PathStatus::Measured => path.bottleneck.as_ref().map_or_else(String::new, |bottleneck| {
            let next = if bottleneck.next.is_empty() { String::new() } else { format!("; next: {}", bottleneck.next) };
            format!("{arm}: limited by {} ({}){next}\n", limit(&bottleneck.kind), bottleneck.evidence)
        }),
    };
    outcome + &array
}

/// Aligns cells; the first column to the left, figures to the right.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths.get(column).copied().unwrap_or(0);
            if column == 0 {
                line += &format!("{cell:<width$}");
            } else {
                line += &format!("  {cell:>width$}");
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{SOUND, Shape, comparison};

    #[test]
    fn table_says_rehearsal_figures_skips_and_the_disclaimer() {
        let text = render(&comparison(SOUND));
        assert!(text.starts_with("REHEARSAL"), "{text}");
        assert!(text.contains("6,000 ± 50"), "{text}");
        assert!(text.contains("4,000 ± 50"), "{text}");
        assert!(text.contains("0.67"), "{text}");
        assert!(text.contains("iscsi: skipped: not built yet: <later>"), "{text}");
        assert!(text.contains("not comparable to published TPC-C results"), "{text}");
        assert!(text.contains("12 of 12") && text.contains("passed (0.0 %)"), "{text}");
        assert!(text.contains("gate met"), "{text}");
        assert!(!text.contains("tpmC"), "{text}");
    }

    #[test]
    fn rows_are_aligned() {
        let text = columns(&[vec!["a".into(), "1".into()], vec!["bcd".into(), "22 ± 3".into()]]);
        assert_eq!(text, "a         1\nbcd  22 ± 3\n");
    }

    #[test]
    fn failed_proof_is_shouted() {
        let text = render(&comparison(Shape { filer_share: 0.5, ..SOUND }));
        assert!(text.contains("FAILED (50.0 %)"), "{text}");
        assert!(text.contains("dnfs: NOT VALID: proof of path failed"), "{text}");
        assert!(text.contains("Not valid: dnfs"), "{text}");
    }

    #[test]
    fn overlapping_intervals_show_no_difference() {
        let text = render(&comparison(Shape { dnfs_orders: [3_000, 2_960, 3_040], ..SOUND }));
        assert!(text.contains("No difference shown"), "{text}");
        assert!(text.contains("no difference shown: -0.0 %"), "{text}");
    }

    #[test]
    fn database_that_fits_its_buffers_does_not_exercise_storage() {
        let found = comparison(Shape { blocks_read: 100, ..SOUND });
        assert!(!found.valid);
        assert!(render(&found).contains("storage not exercised"), "{}", render(&found));
    }

    #[test]
    fn failed_check_makes_the_path_not_valid_and_missed_gate_is_said() {
        let found = comparison(Shape { failed_checks: 2, ..SOUND });
        assert!(!found.valid);
        assert!(render(&found).contains("10 of 12"));
        let slow = comparison(Shape { dnfs_orders: [1_000, 1_010, 990], ..SOUND });
        assert!(slow.valid && !slow.gates[0].passed);
        assert_eq!(crate::compare::exit_code(&slow), 1);
        assert_eq!(crate::compare::exit_code(&found), 3);
        assert_eq!(crate::compare::exit_code(&comparison(SOUND)), 0);
        assert!(render(&slow).contains("gate MISSED"));
    }
}
