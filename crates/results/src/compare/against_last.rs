//! A comparison held against earlier ones of the same series.

use serde::{Deserialize, Serialize};

use crate::judgement::RelativeDifference;

/// Each measured arm against the newest earlier record that it may be compared with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgainstLast {
    /// Loss in percent that is allowed.
    pub threshold_percent: f64,
    /// Earlier records that were looked through.
    pub records: usize,
    /// One entry for each arm that was measured.
    pub arms: Vec<ArmAgainstLast>,
}

/// One arm against its last one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmAgainstLast {
    /// Name of the arm.
    pub arm: String,
    /// File of the earlier record; absent when there is none to compare with.
    pub record: Option<String>,
    /// Its start, UTC.
    pub started_utc: Option<String>,
    /// The commit it was measured with, when known.
    pub commit: Option<String>,
    /// Difference of the orders per minute, in percent of the earlier ones.
    pub orders_difference: Option<RelativeDifference>,
    /// Difference of the processor time of the database's host for one order.
    pub cpu_difference: Option<RelativeDifference>,
    /// The orders are lower, or the processor time higher, by more than the threshold, and the interval shows it.
    pub lost: bool,
    /// What else differs between the two: kernel, version of the database, settings.
    pub changed: Vec<String>,
    /// Newer records that were passed over, each with the reason.
    pub passed_over: Vec<String>,
    /// The same in words.
    pub text: String,
}

impl AgainstLast {
    /// Whether an arm lost more than was allowed.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.arms.iter().any(|arm| arm.lost)
    }
}
