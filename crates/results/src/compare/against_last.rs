//! Compares a comparison with earlier ones of the same series.

use serde::{Deserialize, Serialize};

use crate::judgement::RelativeDifference;

/// Each measured configuration compared with the newest comparable earlier record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgainstLast {
    /// Allowed loss in percent.
    pub threshold_percent: f64,
    /// Number of earlier records that were examined.
    pub records: usize,
    /// One entry for each measured configuration.
    pub arms: Vec<ArmAgainstLast>,
}

/// One configuration compared with its newest earlier record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmAgainstLast {
    /// Name of the configuration.
    pub arm: String,
    /// File of the earlier record; absent if there is no comparable one.
    pub record: Option<String>,
    /// Start of the earlier comparison, UTC.
    pub started_utc: Option<String>,
    /// Commit of the earlier comparison, if known.
    pub commit: Option<String>,
    /// Difference of the orders per minute, in percent of the earlier value.
    pub orders_difference: Option<RelativeDifference>,
    /// Difference of the processor time per order on the database's host.
    pub cpu_difference: Option<RelativeDifference>,
    /// Whether the orders are lower, or the processor time is higher, by more than the threshold, and the interval shows it.
    pub lost: bool,
    /// Other differences between the two: kernel, version of the database, settings.
    pub changed: Vec<String>,
    /// Newer records that were skipped, each with the reason.
    pub passed_over: Vec<String>,
    /// The same in words.
    pub text: String,
}

impl AgainstLast {
    /// Whether a configuration lost more than allowed.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.arms.iter().any(|arm| arm.lost)
    }
}
