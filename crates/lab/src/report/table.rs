//! The terminal report: the verdict, two tables, then the details of each path. No line exceeds the requested width.

use results::compare::{Comparison, PathResult, PathStatus, RegimeResult};

use super::columns::{columns, labelled, wrapped};
use super::headline::headline;
use super::latency::array_words;
use super::regimes;
use super::traffic;
use super::view::{self, name, read_source};
use super::words::{CPU, ORDERS, WITHOUT_FILER, bottleneck_words, not_counted};
use crate::database::kind::title_of;
use crate::judge;
use crate::paths;
use crate::predict;
use crate::summary::{grouped, interval_words};

/// Columns that the report uses at most; it uses fewer on a narrower terminal.
pub const WIDTH_MAX: usize = 100;

/// The complete terminal report in lines of at most `width` columns: the verdict in one line, tables, paths, notes, conditions.
#[must_use]
pub fn render(comparison: &Comparison, width: usize) -> String {
    rendered(comparison, width, &|figures| figures)
}

/// The same for a terminal, on which figures that are not a result are dimmed.
#[must_use]
pub fn render_for_terminal(comparison: &Comparison, width: usize) -> String {
    let dim = |figures: String| figures.lines().map(dimmed).collect();
    if comparison.not_a_result.is_empty() { render(comparison, width) } else { rendered(comparison, width, &dim) }
}

/// A line in the terminal's faint style (ECMA-48 SGR 2).
fn dimmed(line: &str) -> String {
    if line.is_empty() { "\n".to_owned() } else { format!("\x1b[2m{line}\x1b[22m\n") }
}

fn rendered(comparison: &Comparison, width: usize, figures: &dyn Fn(String) -> String) -> String {
    let (headline, sentences) = headline(comparison);
    let mut text = wrapped(&headline, width);
    if !comparison.rehearsal_note.is_empty() {
        text += &wrapped(&comparison.rehearsal_note, width);
    }
    text += &figures(tables(comparison, width));
    for regime in &comparison.regimes {
        text += &further(comparison, regime, width);
    }
    text.push('\n');
    for line in sentences.into_iter().chain(closing(comparison)).chain(notes(comparison)) {
        text += &wrapped(&line, width);
    }
    text.push('\n');
    text + &wrapped(&conditions(comparison), width) + &wrapped(&format!("{}.", comparison.disclaimer), width)
}

/// The tables, with all scenarios side by side if there are several, and the details of each path.
fn tables(comparison: &Comparison, width: usize) -> String {
    let ran: Vec<&PathResult> = comparison.paths.iter().filter(|path| path.status != PathStatus::Skipped).collect();
    let mut text = String::new();
    let overview = || heads(regimes::HEADS).into_iter().chain(regimes::overview_rows(comparison)).collect();
    let overview: Option<Vec<Vec<String>>> = (!comparison.regimes.is_empty()).then(overview);
    for table in [Some(throughput(comparison, &ran)), overview, Some(times(comparison, &ran))].into_iter().flatten() {
        text.push('\n');
        text += &columns(&table, width);
    }
    text + &comparison.paths.iter().map(|path| details(path, width)).collect::<String>()
}

/// A further scenario: its verdict, the same tables, its notes.
fn further(whole: &Comparison, regime: &RegimeResult, width: usize) -> String {
    let words = regimes::words(regime);
    let look = if words.label.is_empty() { String::new() } else { format!(" ({})", words.label) };
    let said = regimes::shortfall(regime).unwrap_or(words.what);
    let mut text = format!("\n{}", wrapped(&format!("scenario {}{look}: {said}", words.name), width));
    if regime.paths.is_empty() {
        return text;
    }
    text += &wrapped(&regime.verdict, width);
    text += &tables(&regimes::as_comparison(whole, regime), width);
    regime.notes.iter().fold(text, |text, note| text + &wrapped(&format!("note: {note}"), width))
}

/// Orders, their cost, and the bottleneck. The first column names the path.
fn throughput(comparison: &Comparison, ran: &[&PathResult]) -> Vec<Vec<String>> {
    let mut rows = heads(["path", ORDERS, "vs first", CPU, "<bottleneck"]);
    for path in ran {
        let against = comparison.against_first.iter().find(|line| line.path == name(path));
        rows.push(vec![
            name(path).to_owned(),
            path.oets_per_minute.as_ref().map_or_else(dash, interval_words),
            against.map_or_else(|| alone(ran, path), |line| format!("{:.2}", line.oets_ratio)),
            path.cpu.as_ref().map_or_else(dash, |cpu| format!("{:.2}", cpu.s_per_1000_orders)),
            path.bottleneck.as_ref().map_or_else(dash, bottleneck_words),
        ]);
    }
    rows
}

/// Response times, reads and the processor time of each process.
fn times(comparison: &Comparison, ran: &[&PathResult]) -> Vec<Vec<String>> {
    let mut rows = heads([
        "path",
        "New-Order p50",
        "p90",
        "p99 ms",
        "read us",
        "reads/order",
        "hits %",
        "CPU s: db",
        "filer",
        "driver",
        WITHOUT_FILER,
    ]);
    for path in ran {
        let response = path.response_ms.get("new_order");
        let ms = |pick: fn(&results::compare::ResponseMs) -> f64| response.map_or_else(dash, |ms| format!("{:.1}", pick(ms)));
        let owner = |name: &str| {
            let owners = path.cpu.as_ref().map(|cpu| &cpu.by_owner);
            owners.and_then(|all| all.get(name)).map_or_else(dash, |owner| format!("{:.2}", owner.s_per_1000_orders))
        };
        rows.push(vec![
            name(path).to_owned(),
            ms(|ms| ms.p50),
            ms(|ms| ms.p90),
            ms(|ms| ms.p99),
            path.block_read_us.as_ref().map_or_else(dash, |read| format!("{:.0}{}", read.mean, read_source(comparison, path))),
            path.io.as_ref().map_or_else(dash, |io| format!("{:.1}", io.reads_per_order)),
            path.io.as_ref().map_or_else(dash, |io| format!("{:.1}", io.hit_ratio * 100.0)),
            owner("database"),
            owner("filer"),
            owner("driver"),
            path.cpu.as_ref().map_or_else(dash, |cpu| format!("{:.2}", cpu.without_filer_s_per_1000_orders())),
        ]);
    }
    rows
}

/// Cell of a path that is not compared with another one: the first, or one that is never ranked with it.
fn alone(ran: &[&PathResult], path: &PathResult) -> String {
    let is_unranked = ran.first().is_some_and(|first| paths::never_ranked(first, path).is_some());
    if is_unranked { dash() } else { "1".to_owned() }
}

fn heads<const COUNT: usize>(names: [&str; COUNT]) -> Vec<Vec<String>> {
    vec![names.map(str::to_owned).to_vec()]
}

fn dash() -> String {
    "-".to_owned()
}

/// Lines about one configuration, below its name.
fn details(path: &PathResult, width: usize) -> String {
    let (arm, reason) = (name(path), path.reason.as_deref().unwrap_or_default());
    if path.status == PathStatus::Skipped {
        return format!("\n{}", wrapped(&format!("{arm}: skipped: {reason}"), width));
    }
    let mut text = format!("\n{arm}\n");
    let mut line = |label: &str, words: &str| text += &labelled(label, words, width);
    if path.status == PathStatus::NotValid {
        line("NOT VALID", reason);
    }
    if let Some(bottleneck) = &path.bottleneck {
        line("bottleneck", &format!("{}: {}", bottleneck_words(bottleneck), bottleneck.evidence));
        if !bottleneck.next.is_empty() {
            line("try next", &bottleneck.next);
        }
    }
    if let Some(proof) = &path.proof {
        let differ = || {
            format!(
                "the reads the database counted and those counted on the path differ by {:.1} % ({} % allowed)",
                proof.difference_percent, proof.tolerance_percent
            )
        };
        line("proof of path", &format!("{}: {}", proof.outcome(), proof.not_proven.clone().unwrap_or_else(differ)));
    }
    if let Some(traffic) = &path.traffic {
        line("traffic", &traffic::words(traffic));
    }
    if let Some(folios) = traffic::folio_words(path) {
        line("page cache", &format!("folios of {folios}: the units in which the kernel caches the files"));
    }
    if let Some(checks) = &path.checks {
        line("checks", &format!("{} of {} consistency conditions hold", checks.passed, checks.passed + checks.failed));
    }
    if let Some(words) = array_words(path) {
        line("storage", &words);
    }
    text
}

/// Lines about the configurations together: load, differences, predictions, thresholds.
fn closing(comparison: &Comparison) -> Vec<String> {
    let mut lines: Vec<String> =
        judge::saturation(comparison).into_iter().map(|found| format!("{}: {}", found.arm, found.text)).collect();
    lines.extend(comparison.against_first.iter().map(|line| line.text.clone()));
    lines.extend(comparison.predictions.iter().map(|point| {
        format!(
            "prediction: {} {} for {} from {}, measured {} ({:+.1} %){}",
            grouped(point.predicted),
            point.quantity,
            point.held_out,
            point.fitted_on,
            grouped(point.measured),
            point.error_percent,
            not_counted(point)
        )
    }));
    if let Some(errors) = predict::ladder::errors(&comparison.predictions).filter(|errors| errors.count > 1) {
        let (median, worst) = (errors.median_percent, errors.worst_percent);
        lines.push(format!("{} predictions: median error {median:.1} %, worst {worst:.1} %", errors.count));
    }
    lines.extend(comparison.gates.iter().map(|gate| {
        let outcome = if gate.passed { "met" } else { "MISSED" };
        format!("threshold {outcome}: {} (found {:.2})", gate.promise, gate.found)
    }));
    lines
}

fn notes(comparison: &Comparison) -> Vec<String> {
    view::notes(comparison).into_iter().map(|note| format!("note: {note}")).collect()
}

fn conditions(comparison: &Comparison) -> String {
    let plan = &comparison.plan;
    format!(
        "{}, {} warehouses ({} MiB), {} MiB of buffers, {} users; runs on each path: {} of {} s after {} s warm-up, interleaved, each \
         from the same restored state. ± is the 95 % interval of the mean.",
        title_of(&plan.database),
        plan.warehouses,
        grouped((plan.database_bytes >> 20) as f64),
        grouped((plan.buffers_bytes >> 20) as f64),
        plan.users,
        plan.repeats_done,
        plan.seconds,
        plan.warmup_seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::{Size, comparison as example};
    use crate::report::fixture::{SOUND, Shape, comparison};

    #[test]
    fn table_says_rehearsal_figures_skips_and_the_disclaimer() {
        let text = render(&comparison(SOUND), WIDTH_MAX);
        assert!(text.starts_with("Direct NFS: 67 % of the orders per minute of local disk (95 % interval "), "{text}");
        let before = text.lines().take_while(|line| !line.starts_with("REHEARSAL")).count();
        assert!(before == 2 && text.lines().nth(1).is_some_and(|line| line.trim() == "per order."), "after the verdict: {text}");
        assert!(text.contains("6,000 ± 50"), "{text}");
        assert!(text.contains("4,000 ± 50"), "{text}");
        assert!(text.contains("0.67"), "{text}");
        assert!(text.contains("iscsi: skipped: not built yet: <later>"), "{text}");
        assert!(text.contains("not comparable to published TPC-C"), "{text}");
        assert!(text.contains("12 of 12 consistency conditions hold"), "{text}");
        assert!(text.contains("proof of path  passed: the reads"), "{text}");
        assert!(text.contains("threshold met"), "{text}");
        assert!(!text.contains("tpmC"), "{text}");
    }

    #[test]
    fn failed_proof_is_shouted() {
        let text = render(&comparison(Shape { filer_share: 0.5, ..SOUND }), WIDTH_MAX);
        assert!(text.contains("FAILED: the reads"), "{text}");
        assert!(text.contains("NOT VALID      proof of path failed"), "{text}");
        assert!(text.contains("Not valid: dnfs"), "{text}");
    }

    #[test]
    fn overlapping_intervals_show_no_difference() {
        let text = render(&comparison(Shape { dnfs_orders: [3_000, 2_960, 3_040], ..SOUND }), WIDTH_MAX);
        assert!(text.contains("no difference shown to the orders per minute of local disk"), "{text}");
        assert!(text.contains("no difference shown: -0.0 %"), "{text}");
    }

    #[test]
    fn database_that_fits_its_buffers_does_not_exercise_storage() {
        let found = comparison(Shape { blocks_read: 100, ..SOUND });
        assert!(!found.valid);
        assert!(render(&found, WIDTH_MAX).contains("storage not exercised"), "{}", render(&found, WIDTH_MAX));
    }

    #[test]
    fn failed_check_makes_the_path_not_valid_and_missed_gate_is_said() {
        let found = comparison(Shape { failed_checks: 2, ..SOUND });
        assert!(!found.valid);
        assert!(render(&found, WIDTH_MAX).contains("10 of 12"));
        let slow = comparison(Shape { dnfs_orders: [1_000, 1_010, 990], ..SOUND });
        assert!(slow.valid && !slow.gates[0].passed);
        assert_eq!(crate::compare::exit_code(&slow), 1);
        assert_eq!(crate::compare::exit_code(&found), 3);
        assert_eq!(crate::compare::exit_code(&comparison(SOUND)), 0);
        assert!(render(&slow, WIDTH_MAX).contains("threshold MISSED"));
    }

    #[test]
    fn gate_is_missed_only_where_the_interval_lies_below_it() {
        // 0.58 of local's orders on average: runs that agree show that it is below 0.6; runs that differ leave it open.
        let sure = comparison(Shape { dnfs_orders: [1_740, 1_745, 1_735], ..SOUND });
        let open = comparison(Shape { dnfs_orders: [1_740, 1_900, 1_600], ..SOUND });
        assert!(!sure.gates[0].passed && open.gates[0].passed, "{:?}, {:?}", sure.gates, open.gates);
        assert!(open.gates[0].found < 0.6 && open.gates[0].promise.contains("by the 95 % interval"), "{:?}", open.gates);
        assert_eq!([&sure, &open].map(crate::compare::exit_code), [1, 0]);
    }

    #[test]
    fn no_line_passes_the_width_and_the_verdict_stands_first() {
        for width in [WIDTH_MAX, 80] {
            for record in [example(7, Size { seconds: 30, repeats: 3, media: true }), comparison(SOUND)] {
                let text = render(&record, width);
                let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > width).collect();
                assert!(long.is_empty(), "{long:#?}");
                let first = text.lines().next().unwrap();
                assert!(headline(&record).0.starts_with(first), "{first}");
            }
        }
    }
}
