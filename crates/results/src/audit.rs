//! What an audit is stored as.

use serde::{Deserialize, Serialize};

use crate::rule_effects::Measured;

/// Version of the stored form; fields are added, never renamed.
pub const SCHEMA: u32 = 1;

/// What stands between a thing and its server in a subject.
const OF: &str = " of ";

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know; never counts as a finding in exit codes.
    Info,
    /// Little throughput or latency is lost, or only at times.
    Low,
    /// Some is lost.
    Medium,
    /// A tenth or more is lost, or all of it by an outage.
    High,
    /// Data are at risk, acknowledged transactions included.
    Critical,
}

/// What holds of a rule today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// As its source says.
    Valid,
    /// The same rule with another value.
    ValueChanged,
    /// Another rule stands in its place.
    Superseded,
    /// The opposite is advised now: the rule asks for today's side and names the old one.
    Reversed,
    /// Sources of today contradict each other.
    Contested,
    /// The platform is gone; holds where it still runs.
    Obsolete,
    /// Holds for the versions it names.
    Dated,
}

/// What a change takes to be in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// At once.
    Live,
    /// The database reads its settings again.
    Reload,
    /// The database starts again.
    DbRestart,
    /// The file system is mounted again.
    Remount,
    /// The network interface goes down and up.
    NicRestart,
    /// The host starts again.
    Reboot,
}

/// What setting something right interrupts: the groups in which advice is given, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceGroup {
    /// Nothing: it is in force at once, or when the database reads its settings again.
    Now,
    /// The database, a mount or a network interface.
    Restart,
    /// The host.
    Reboot,
    /// It is done on the storage side, whatever that takes there.
    Storage,
}

/// How a rule came out for the host or for one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The test says no.
    Finding,
    /// A fact that the test needs is not known.
    Unknown,
    /// A finding that a waiver covers.
    Waived,
    /// The test says yes.
    Passed,
}

/// One judgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Identity of the rule.
    pub rule: String,
    /// Layer of the rule.
    pub layer: String,
    /// What was judged: a thing, `mount /u02`, a database server, or a thing of one, `THING of SERVER`; absent for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The database server that was judged, as it stands in the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How it came out.
    pub verdict: Verdict,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, of a finding; of one that passed, the rule's title; else the rule's title with what became of it.
    pub title: String,
    /// The rule's title, which says what is wanted; absent in what was stored before the two were told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_title: Option<String>,
    /// What was found: `sysctl.vm.swappiness is 60`, a line for each fact the test looked at.
    pub found: Vec<String>,
    /// Facts that are missing, for [`Verdict::Unknown`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Why the rule stands.
    pub reason: String,
    /// What it brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Sources with their sections.
    pub sources: Vec<String>,
    /// What holds today.
    pub status: Status,
    /// Who says otherwise, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<String>,
    /// How it is set right, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fix: Vec<String>,
    /// What that takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// The group of advice it belongs to; absent where there is no fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<AdviceGroup>,
    /// What `tune measure` found that it brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Reason and expiry of the waiver, for [`Verdict::Waived`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiver: Option<String>,
}

impl Finding {
    /// The rule's title: what is wanted, the same for every outcome.
    #[must_use]
    pub fn general_title(&self) -> &str {
        self.rule_title.as_deref().unwrap_or(&self.title)
    }

    /// The subject of a thing, of a server, or of a thing of one.
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
    /// Version of this form.
    pub schema: u32,
    /// Version and commit of the program.
    pub program: String,
    /// Name of the host.
    pub host: String,
    /// Its operating system in words.
    pub system: String,
    /// When the facts were taken, RFC 3339, UTC.
    pub taken: String,
    /// Where they come from: `live`, or the capture's path.
    pub from: String,
    /// All judgements but those passed, worst first; passed ones too when asked for.
    pub findings: Vec<Finding>,
    /// Judgements that passed.
    pub passed: usize,
    /// Rules that do not apply here.
    pub not_applicable: usize,
    /// What was odd about the facts.
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
