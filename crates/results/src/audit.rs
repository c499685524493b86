//! The stored form of an audit.

use serde::{Deserialize, Serialize};

use crate::rule_effects::Measured;

/// Version of the stored form; fields are added, never renamed.
pub const SCHEMA: u32 = 1;

/// Separates a thing from its server in a subject.
const OF: &str = " of ";

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Information; never counts as a finding in exit codes.
    Info,
    /// A small loss of throughput or latency, or only a temporary one.
    Low,
    /// A moderate loss.
    Medium,
    /// A loss of a tenth or more, or of everything by an outage.
    High,
    /// Data are at risk, acknowledged transactions included.
    Critical,
}

/// Whether a rule still applies today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Applies as its source says.
    Valid,
    /// The rule applies with another value.
    ValueChanged,
    /// Another rule has replaced it.
    Superseded,
    /// The opposite is recommended today: the rule checks for today's recommendation and names the old one.
    Reversed,
    /// Current sources contradict each other.
    Contested,
    /// The platform is obsolete; the rule applies where it is still in use.
    Obsolete,
    /// Applies to the versions that it names.
    Dated,
}

/// Action that a change needs to take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// No action: the change takes effect at once.
    Live,
    /// The database must reload its settings.
    Reload,
    /// The database must be restarted.
    DbRestart,
    /// The file system must be remounted.
    Remount,
    /// The network interface must be set down and up.
    NicRestart,
    /// The host must be restarted.
    Reboot,
}

/// Interruption that a fix causes: the groups of the advice, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceGroup {
    /// No interruption: the change takes effect at once, or after a reload of the database's settings.
    Now,
    /// The fix interrupts the database, a mount or a network interface.
    Restart,
    /// The host must be restarted.
    Reboot,
    /// The change is made on the storage side and may interrupt service there.
    Storage,
}

/// Result of a rule for the host or for one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The test failed.
    Finding,
    /// A fact that the test needs is not known.
    Unknown,
    /// The test failed, and a waiver covers it.
    Waived,
    /// The test passed.
    Passed,
}

/// Result of one rule for one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Identity of the rule.
    pub rule: String,
    /// Layer of the rule.
    pub layer: String,
    /// The subject: a thing, `mount /u02`, a database server, or a thing of one, `THING of SERVER`; absent for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The database server in the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The result.
    pub verdict: Verdict,
    /// The severity.
    pub severity: Severity,
    /// For a finding, the fault; for a passed rule, the rule's title; otherwise the rule's title with the result.
    pub title: String,
    /// The rule's title, which states the recommendation; absent in records of versions that stored only one title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_title: Option<String>,
    /// The values found: `sysctl.vm.swappiness is 60`, a line for each fact that the test used.
    pub found: Vec<String>,
    /// Facts that are missing, for [`Verdict::Unknown`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Reason for the rule.
    pub reason: String,
    /// Benefit of the recommendation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Sources with their sections.
    pub sources: Vec<String>,
    /// Whether the rule still applies today.
    pub status: Status,
    /// Sources that disagree, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<String>,
    /// Steps of the fix, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fix: Vec<String>,
    /// Action that the fix needs to take effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// The group of the advice; absent if there is no fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<AdviceGroup>,
    /// Benefit that `tune measure` found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Reason and expiry of the waiver, for [`Verdict::Waived`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiver: Option<String>,
}

impl Finding {
    /// The rule's title: the recommendation, the same for every result.
    #[must_use]
    pub fn general_title(&self) -> &str {
        self.rule_title.as_deref().unwrap_or(&self.title)
    }

    /// The subject for a thing, a server, or a thing of a server.
    #[must_use]
    pub fn subject_of(thing: Option<&str>, server: Option<&str>) -> Option<String> {
        match (thing, server) {
            (Some(thing), Some(server)) => Some(format!("{thing}{OF}{server}")),
            (one, other) => one.or(other).map(str::to_owned),
        }
    }

    /// The thing in the subject: `mount /u02`.
    #[must_use]
    pub fn thing(&self) -> Option<&str> {
        let subject = self.subject.as_deref()?;
        match &self.server {
            Some(server) => subject.strip_suffix(server.as_str())?.strip_suffix(OF),
            None => Some(subject),
        }
    }
}

/// One audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// Version of this stored form.
    pub schema: u32,
    /// Version and commit of the program.
    pub program: String,
    /// Name of the host.
    pub host: String,
    /// Description of its operating system.
    pub system: String,
    /// Time at which the facts were collected, RFC 3339, UTC.
    pub taken: String,
    /// Source of the facts: `live`, or the path of the capture.
    pub from: String,
    /// All results except passed ones, worst first; also passed ones if requested.
    pub findings: Vec<Finding>,
    /// Number of passed results.
    pub passed: usize,
    /// Number of rules that do not apply.
    pub not_applicable: usize,
    /// Irregularities of the facts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(subject: Option<&str>, server: Option<&str>) -> Finding {
        let text = serde_json::json!({
            "rule": "a", "layer": "db", "verdict": "finding", "severity": "low", "title": "T", "found": [], "reason": "R",
            "sources": [], "status": "valid", "subject": subject, "server": server,
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn what_was_stored_before_rules_had_titles_of_their_own_is_read() {
        let old = finding(None, None);
        assert_eq!((old.rule_title.as_deref(), old.general_title()), (None, "T"));
        let new = Finding { rule_title: Some("wanted".into()), ..old };
        assert_eq!(new.general_title(), "wanted");
    }

    #[test]
    fn a_subject_names_a_thing_a_server_or_both() {
        for (thing, server) in
            [(None, None), (Some("mount /a"), None), (None, Some("MariaDB")), (Some("mount /a of b"), Some("b"))]
        {
            let subject = Finding::subject_of(thing, server);
            assert_eq!(finding(subject.as_deref(), server).thing(), thing, "{subject:?}");
        }
    }
}
