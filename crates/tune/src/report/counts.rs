//! Counts the judgements of an audit.

use results::audit::{Audit, Severity};
use serde::Serialize;

use super::{Look, Weight};

/// The number of judgements of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Findings that make the exit code 1.
    pub counting: usize,
    /// Those of them with severity critical: data is at risk.
    pub critical: usize,
    /// Those of them with severity high.
    pub high: usize,
    /// Those of them with severity medium.
    pub medium: usize,
    /// Those of them with severity low.
    pub low: usize,
    /// Findings below the severity that counts.
    pub below_threshold: usize,
    /// Findings for information only.
    pub info: usize,
    /// Findings that the baseline already has.
    pub known: usize,
    /// Findings under a waiver.
    pub waived: usize,
    /// Judgements that lack a fact.
    pub unknown: usize,
    /// Judgements that passed.
    pub passed: usize,
    /// Rules that do not apply here.
    pub not_applicable: usize,
}

impl Counts {
    /// Counts the judgements of an audit.
    #[must_use]
    pub fn of(audit: &Audit, look: &Look<'_>) -> Self {
        let mut counts = Self { passed: audit.passed, not_applicable: audit.not_applicable, ..Self::default() };
        for finding in &audit.findings {
            match look.weight(finding) {
                Weight::Counts => {
                    counts.counting += 1;
                    match finding.severity {
                        Severity::Critical => counts.critical += 1,
                        Severity::High => counts.high += 1,
                        Severity::Medium => counts.medium += 1,
                        Severity::Low | Severity::Info => counts.low += 1,
                    }
                }
                Weight::Light => counts.below_threshold += 1,
                Weight::Info => counts.info += 1,
                Weight::Known => counts.known += 1,
                Weight::Waived => counts.waived += 1,
                Weight::Unknown => counts.unknown += 1,
                // The judge counted them, whether or not the audit lists them.
                Weight::Passed => {}
            }
        }
        counts
    }

    /// The counts in words: `3 findings: 1 critical, 2 low; 1 for information, 4 waived`.
    #[must_use]
    pub fn words(&self, look: &Look<'_>) -> String {
        let new = if look.baseline.is_some() { "new " } else { "" };
        let mut words = match self.counting {
            0 => format!("no {new}finding"),
            1 => format!("1 {new}finding"),
            number => format!("{number} {new}findings"),
        };
        let severities = [(self.critical, "critical"), (self.high, "high"), (self.medium, "medium"), (self.low, "low")];
        words += &listed(if self.counting > 0 { ": " } else { "" }, &severities);
        let others = [
            (self.below_threshold, "below what was asked to fail on"),
            (self.info, "for information"),
            (self.known, "known from the baseline"),
            (self.waived, "waived"),
        ];
        words + &listed("; ", &others)
    }
}

fn listed(before: &str, counts: &[(usize, &str)]) -> String {
    let listed: Vec<String> =
        counts.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")).collect();
    if listed.is_empty() { String::new() } else { format!("{before}{}", listed.join(", ")) }
}
