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
    /// How bad the current state is.
    pub severity: Severity,
    /// What was judged: the thing, for example `mount /u02`, the database server, or a thing of a
    /// server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The database server whose setting changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The setting; `None` for a step by hand.
    #[serde(flatten, serialize_with = "setting::serialize")]
    pub set: Option<SettingChange>,
    /// What puts it in force.
    pub activation: Activation,
    /// What must be done before, in order.
    pub needs: Vec<String>,
    /// What must be done after, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The setting may lose acknowledged data.
    pub loses_durability: bool,
    /// The sources that contest it.
    pub contested: Vec<String>,
    /// What is written, set or run.
    pub parts: Vec<Part>,
    /// What the user should know about it.
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

    /// Whether apply can make a part of the change.
    pub fn is_ours(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::File { .. } | Part::Running { .. }))
    }
}
