//! Text for a terminal.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use host::escape::plain;
use results::audit::{Audit, Finding, Verdict};

use super::groups::{by_group, heading};
use super::missing::{self, Missing};
use super::origins::found_with_origins;
use super::words::{count, status};
use super::{Counts, Look, Weight, by_layer};
use crate::describe::{activation, layer as layer_name, severity};

/// The width at which long sentences are wrapped.
const WIDTH: usize = 100;
/// The column in which the text of a detail begins.
const INDENT: usize = 14;

/// One line for each finding, grouped by what the fix interrupts, the worst first; then the counts.
///
/// Without [`Look::verbose`], known, waived and unknown judgements are only counted.
#[must_use]
pub fn text(audit: &Audit, look: &Look<'_>) -> String {
    let mut text = format!(
        "Audit of {} ({}), facts of {}, {}\n",
        plain(&audit.host),
        plain(&audit.system),
        plain(&audit.taken),
        plain(&audit.from)
    );
    if let Some(baseline) = look.baseline {
        let _ = writeln!(
            text,
            "Against the baseline of {} of {}: {}",
            plain(&baseline.host),
            plain(&baseline.taken),
            count(baseline.len(), "finding", "findings")
        );
    }
    let is_judged = |finding: &Finding| matches!(finding.verdict, Verdict::Finding | Verdict::Waived);
    let is_listed = |finding: &Finding| is_listed(look.weight(finding), look.verbose);
    for (group, findings) in by_group(audit, |finding| is_judged(finding) && is_listed(finding)) {
        section(&mut text, heading(group), &findings, look);
    }
    for (name, verdict) in [("Not known", Verdict::Unknown), ("Passed", Verdict::Passed)] {
        let kept = by_layer(audit, |finding| finding.verdict == verdict && is_listed(finding));
        let findings: Vec<&Finding> = kept.into_iter().flat_map(|(_, findings)| findings).collect();
        section(&mut text, name, &findings, look);
    }
    text.push('\n');
    for remark in &audit.remarks {
        let _ = writeln!(text, "note: {}", plain(remark));
    }
    let counts = Counts::of(audit, look);
    let _ = writeln!(text, "{}.", counts.words(look));
    if counts.unknown > 0 {
        let _ = writeln!(text, "{}", unknown_words(audit, look.verbose));
    }
    let passed = count(counts.passed, "check passed", "checks passed");
    let not_applicable = count(counts.not_applicable, "rule does not apply here", "rules do not apply here");
    let _ = writeln!(text, "{passed}, {not_applicable}.");
    if !look.verbose && counts.counting + counts.info + counts.below_threshold > 0 {
        text += "-v adds what was found, why, its effect, the sources and the fix.\n";
    }
    text
}

/// Whether a judgement is listed and not only counted. Passed ones are in an audit only on request.
const fn is_listed(weight: Weight, verbose: bool) -> bool {
    match weight {
        Weight::Counts | Weight::Light | Weight::Info | Weight::Passed => true,
        Weight::Known | Weight::Waived | Weight::Unknown => verbose,
    }
}

/// A heading with its lines; nothing if there are no findings.
fn section(text: &mut String, name: &str, findings: &[&Finding], look: &Look<'_>) {
    if !findings.is_empty() {
        let _ = writeln!(text, "\n{name}");
        findings.iter().for_each(|finding| line(text, finding, look));
    }
}

fn line(text: &mut String, finding: &Finding, look: &Look<'_>) {
    let word = match finding.verdict {
        Verdict::Finding => severity(finding.severity),
        Verdict::Unknown => "unknown",
        Verdict::Waived => "waived",
        Verdict::Passed => "passed",
    };
    let subject = finding.subject.as_ref().map(|subject| plain(subject) + ": ").unwrap_or_default();
    let known = if look.weight(finding) == Weight::Known { " (known)" } else { "" };
    let expired = if finding.verdict == Verdict::Finding && finding.waiver.is_some() { " (its waiver has expired)" } else { "" };
    let _ = writeln!(text, "  {word:<8}  {subject}{} [{}]{known}{expired}", plain(&finding.title), plain(&finding.rule));
    finding.measured.iter().for_each(|measured| detail(text, "measured", &measured.text));
    if look.verbose && finding.verdict != Verdict::Passed {
        details(text, finding, look);
    }
}

fn details(text: &mut String, finding: &Finding, look: &Look<'_>) {
    let mut add = |name: &str, words: &str| detail(text, name, words);
    add("layer", layer_name(&finding.layer));
    found_with_origins(finding, look.facts).iter().for_each(|found| add("found", found));
    let missing: Vec<Missing> = finding.missing.iter().map(|said| Missing::of(said)).collect();
    missing.iter().for_each(|missing| add("missing", &missing.words()));
    let cures: BTreeSet<&str> = missing.iter().map(|missing| missing.cure.as_str()).filter(|cure| !cure.is_empty()).collect();
    cures.iter().for_each(|cure| add("to do", cure));
    finding.waiver.iter().for_each(|waiver| add("waiver", waiver));
    if finding.verdict == Verdict::Unknown {
        return;
    }
    add("why", &finding.reason);
    finding.effect.iter().for_each(|effect| add("effect", effect));
    finding.sources.iter().for_each(|source| add("source", source));
    status(finding.status).iter().for_each(|words| add("status", words));
    finding.standing.iter().for_each(|standing| add("status", standing));
    finding.fix.iter().for_each(|fix| add("fix", fix));
    finding.activation.iter().for_each(|takes| add("in force", activation(*takes)));
}

/// A name and its text, wrapped into aligned lines.
fn detail(text: &mut String, name: &str, words: &str) {
    let mut column = INDENT;
    let _ = write!(text, "    {name:<8}  ");
    let mut is_first = true;
    for word in plain(words).split_whitespace() {
        let letters = word.chars().count();
        if !is_first && column + 1 + letters > WIDTH {
            let _ = write!(text, "\n{:INDENT$}", "");
            column = INDENT;
            is_first = true;
        }
        if !is_first {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += letters;
        is_first = false;
    }
    text.push('\n');
}

/// The number of judgements that lack facts, their layers, the facts that are missing most, and
/// what makes them known.
fn unknown_words(audit: &Audit, verbose: bool) -> String {
    let unknown = || audit.findings.iter().filter(|finding| finding.verdict == Verdict::Unknown);
    let layers: Vec<String> = by_layer(audit, |finding| finding.verdict == Verdict::Unknown)
        .iter()
        .map(|(layer, findings)| format!("{} {}", findings.len(), plain(layer)))
        .collect();
    let checks = count(unknown().count(), "check", "checks");
    let hint = if verbose { "" } else { " (-v lists them)" };
    let mut words = format!("{checks} not known, for lack of facts: {}{hint}.", layers.join(", "));
    for line in missing::summary(unknown().flat_map(|finding| &finding.missing)) {
        let _ = write!(words, "\n  missing: {}", plain(&line));
    }
    words
}
