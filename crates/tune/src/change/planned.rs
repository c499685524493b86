//! One planned change of a rule.

use results::audit::{Activation, Severity};
use serde::Serialize;

use super::setting::{self, SettingChange};
use super::target::Part;

/// One change: what one rule sets in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The rule.
    pub rule: String,
    /// Its title.
    pub title: String,
    /// How bad it is as it is.
    pub severity: Severity,
    /// What was judged: the thing, `mount /u02`, the database server, or a thing of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The database server that is changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What is set; absent for what is all by hand.
    #[serde(flatten, serialize_with = "setting::serialize")]
    pub set: Option<SettingChange>,
    /// What it takes to be in force.
    pub activation: Activation,
    /// What has to be done before, in order.
    pub needs: Vec<String>,
    /// What has to be done after it, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The setting may lose acknowledged data.
    pub loses_durability: bool,
    /// Who says otherwise.
    pub contested: Vec<String>,
    /// What is done.
    pub parts: Vec<Part>,
    /// What is to be known about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Change {
    /// The rule, with its subject if there is one: `linux-hard (mount /redo)`.
    pub(super) fn named(&self) -> String {
        match &self.subject {
            Some(subject) => format!("{} ({subject})", self.rule),
            None => self.rule.clone(),
        }
    }

    /// Whether apply can do any of it.
    pub fn is_ours(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::File { .. } | Part::Running { .. }))
    }
}
