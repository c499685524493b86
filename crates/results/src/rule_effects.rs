//! What `tune measure` found that rules bring, as an audit reads it again.

use serde::{Deserialize, Serialize};

/// Version of the stored form; fields are added, never renamed.
pub const SCHEMA: u32 = 1;

/// The effects of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleEffects {
    /// Version of this form.
    pub schema: u32,
    /// Version of the program.
    pub program: String,
    /// When it was measured, RFC 3339, UTC.
    pub taken: String,
    /// Whether the comparison was valid: of one that was not, nothing is claimed.
    pub valid: bool,
    /// One for each rule.
    pub effects: Vec<RuleEffect>,
}

/// What the settings of one rule brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleEffect {
    /// The rule.
    pub rule: String,
    /// What was measured; absent where the rule's settings were not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// A measured difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Difference of the orders per minute: alone, or on top of the rules before it where that is the one that shows a gain.
    pub percent: f64,
    /// Whether a gain is shown.
    pub shown: bool,
    /// The same in words, with the intervals.
    pub text: String,
}
