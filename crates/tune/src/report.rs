//! An audit in the forms that users and programs read: text, JSON, SARIF 2.1.0, JUnit and one HTML
//! page.
//!
//! All forms are made from the stored form. Facts are used only to say where a value was read.
//! Names come from captures, so each form escapes characters that would control its reader.

mod counts;
mod groups;
mod html;
mod json;
mod junit;
mod missing;
mod origins;
#[cfg(test)]
pub(crate) mod sample;
mod sarif;
mod text;
mod words;

use results::audit::{Audit, Finding, Severity, Verdict};

use crate::baseline::Baseline;
use crate::facts::Facts;

pub use crate::describe::severity;
pub use counts::Counts;
pub use html::html;
pub use json::json;
pub use junit::junit;
pub use sarif::sarif;
pub use text::text;
pub use words::{fingerprint, verdict};

/// Options of a report.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// Whether to show all details of each finding, and each judgement that lacks a fact.
    pub verbose: bool,
    /// The lowest severity that counts. [`Severity::Info`] never counts.
    pub fail_on: Severity,
    /// Earlier findings, which no longer count.
    pub baseline: Option<&'a Baseline>,
    /// The facts of this audit, to say where a value was read.
    pub facts: Option<&'a Facts>,
}

impl Default for Look<'_> {
    fn default() -> Self {
        Self { verbose: false, fail_on: Severity::Low, baseline: None, facts: None }
    }
}

/// What a judgement means for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// A finding that counts.
    Counts,
    /// A finding below the severity that counts.
    Light,
    /// A finding for information only.
    Info,
    /// A finding that the baseline already has.
    Known,
    /// A finding under a waiver.
    Waived,
    /// A fact is missing.
    Unknown,
    /// The rule holds.
    Passed,
}

impl Look<'_> {
    /// What a judgement means for the exit code.
    #[must_use]
    pub fn weight(&self, finding: &Finding) -> Weight {
        match finding.verdict {
            Verdict::Passed => Weight::Passed,
            Verdict::Unknown => Weight::Unknown,
            Verdict::Waived => Weight::Waived,
            Verdict::Finding if finding.severity == Severity::Info => Weight::Info,
            Verdict::Finding if self.baseline.is_some_and(|baseline| baseline.knows(finding)) => Weight::Known,
            Verdict::Finding if finding.severity < self.fail_on => Weight::Light,
            Verdict::Finding => Weight::Counts,
        }
    }

    /// Whether the audit ends with exit code 1.
    #[must_use]
    pub fn fails(&self, audit: &Audit) -> bool {
        audit.findings.iter().any(|finding| self.weight(finding) == Weight::Counts)
    }
}

/// The judgements for which `keep` is true, by layer. The layer with the worst finding comes first;
/// equal ones are in the order of [`crate::rules::LAYERS`]. Within a layer the worst one comes
/// first.
fn by_layer(audit: &Audit, keep: impl Fn(&Finding) -> bool) -> Vec<(&str, Vec<&Finding>)> {
    let mut kept: Vec<&Finding> = audit.findings.iter().filter(|finding| keep(finding)).collect();
    kept.sort_by_key(|finding| (finding.verdict, std::cmp::Reverse(finding.severity), &finding.rule, &finding.subject));
    let mut layers: Vec<(&str, Vec<&Finding>)> = Vec::new();
    for finding in kept {
        match layers.iter_mut().find(|(layer, _)| *layer == finding.layer) {
            Some((_, findings)) => findings.push(finding),
            None => layers.push((&finding.layer, vec![finding])),
        }
    }
    layers.sort_by_key(|(layer, findings)| {
        let worst = findings.iter().filter(|finding| finding.verdict == Verdict::Finding).map(|finding| finding.severity).max();
        (std::cmp::Reverse(worst), words::depth(layer))
    });
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(severity: Severity) -> Finding {
        Finding { severity, ..sample::finding("linux-swappiness", "os-kernel") }
    }

    #[test]
    fn info_never_counts_and_what_is_lighter_than_asked_does_not() {
        let all = Look::default();
        assert_eq!(all.weight(&found(Severity::Info)), Weight::Info);
        assert_eq!(all.weight(&found(Severity::Low)), Weight::Counts);
        let asked_for_info = Look { fail_on: Severity::Info, ..all };
        assert_eq!(asked_for_info.weight(&found(Severity::Info)), Weight::Info);
        let high = Look { fail_on: Severity::High, ..all };
        assert_eq!(high.weight(&found(Severity::Medium)), Weight::Light);
        assert_eq!(high.weight(&found(Severity::Critical)), Weight::Counts);
    }

    #[test]
    fn what_the_baseline_has_does_not_count_until_it_is_worse() {
        let before = Audit { findings: vec![found(Severity::Medium)], ..sample::audit() };
        let baseline = Baseline::of(&before);
        let look = Look { baseline: Some(&baseline), ..Look::default() };
        assert_eq!(look.weight(&found(Severity::Medium)), Weight::Known);
        assert_eq!(look.weight(&found(Severity::High)), Weight::Counts);
        let elsewhere = Finding { subject: Some("mount /u02".into()), ..found(Severity::Medium) };
        assert_eq!(look.weight(&elsewhere), Weight::Counts);
    }

    #[test]
    fn what_was_not_known_before_is_new_when_it_is_a_finding() {
        let unknown = Finding { verdict: Verdict::Unknown, ..found(Severity::High) };
        let baseline = Baseline::of(&Audit { findings: vec![unknown], ..sample::audit() });
        assert!(baseline.is_empty());
        let look = Look { baseline: Some(&baseline), ..Look::default() };
        assert!(look.fails(&Audit { findings: vec![found(Severity::High)], ..sample::audit() }));
    }

    #[test]
    fn layers_with_the_worst_findings_come_first_then_from_the_database_down() {
        let audit = sample::audit();
        let layers: Vec<&str> = by_layer(&audit, |finding| finding.verdict == Verdict::Finding).iter().map(|(l, _)| *l).collect();
        assert_eq!(layers, ["nfs-mount", "os-kernel", "db"]);
    }
}
