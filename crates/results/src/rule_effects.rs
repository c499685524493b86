//! Effects of rules measured by `tune measure`, in the form that an audit reads.

use serde::{Deserialize, Serialize};

/// Version of the stored form; fields are added, never renamed.
pub const SCHEMA: u32 = 1;

/// The effects of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleEffects {
    /// Version of this stored form.
    pub schema: u32,
    /// Version of the program.
    pub program: String,
    /// Time of the measurement, RFC 3339, UTC.
    pub taken: String,
    /// Whether the comparison was valid; if not, nothing is claimed.
    pub valid: bool,
    /// One for each rule.
    pub effects: Vec<RuleEffect>,
}

/// Measured effect of the settings of one rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleEffect {
    /// The rule.
    pub rule: String,
    /// The measurement; absent if the rule's settings were not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// A measured difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Difference of the orders per minute: of the rule alone, or added to the rules before it if that shows a gain.
    pub percent: f64,
    /// Whether a gain is shown.
    pub shown: bool,
    /// The same in words, with the intervals.
    pub text: String,
}
