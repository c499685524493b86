//! The verdict in one line, and its further sentences.

use results::compare::Comparison;
use results::statistics::Difference;

/// The first line, and the sentences of the verdict that are not in it; those follow the figures.
pub(crate) fn headline(comparison: &Comparison) -> (String, Vec<String>) {
    let verdict = &comparison.verdict;
    if comparison.valid && !comparison.not_a_result.is_empty() {
        let first = format!("NOT A RESULT: {}.", comparison.not_a_result.join("; "));
        let rest = verdict.strip_prefix(&first).map_or(verdict.as_str(), str::trim_start);
        return (first, vec![rest.to_owned()]);
    }
    match short(comparison) {
        Some(short) => (short, vec![verdict.clone()]),
        None => (verdict.clone(), Vec::new()),
    }
}

/// Every path compared with the first one in a few words, if there are several.
fn short(comparison: &Comparison) -> Option<String> {
    let lines = comparison.against_first.as_slice();
    let first = lines.first().filter(|_| comparison.valid && lines.len() > 1)?;
    let each = |line: &results::compare::Against| {
        let shown = if line.difference == Difference::NotShown { " (no difference shown)" } else { "" };
        format!("{} {:.0} %{shown}", line.path, line.oets_ratio * 100.0)
    };
    Some(format!("Orders per minute relative to {}: {}.", first.first, lines.iter().map(each).collect::<Vec<_>>().join(", ")))
}
