//! Arms held against each other, and against what was promised.

use serde::{Deserialize, Serialize};

use crate::judgement::{FixedLoad, RelativeDifference};
use crate::statistics::Difference;

/// One measured path against the first measured one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Name of the first measured arm.
    pub first: String,
    /// Name of the arm held against it.
    pub path: String,
    /// OETs of `path` by OETs of `first`.
    pub oets_ratio: f64,
    /// Processor time for 1,000 orders, `path` by `first`.
    pub cpu_ratio: f64,
    /// Whether the intervals show a difference.
    pub difference: Difference,
    /// Difference of the orders per minute with its interval, in percent of the first path's.
    #[serde(default)]
    pub orders_difference: Option<RelativeDifference>,
    /// Difference of the processor time for 1,000 orders with its interval.
    #[serde(default)]
    pub cpu_difference: Option<RelativeDifference>,
    /// Whether the processor costs may be compared at equal load.
    #[serde(default)]
    pub fixed_load: Option<FixedLoad>,
    /// The same in words.
    pub text: String,
}

/// A promise the plan asked to be tested.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What must hold.
    pub promise: String,
    /// The figure found.
    pub found: f64,
    /// The least figure that passes.
    pub least: f64,
    /// Whether it passed.
    pub passed: bool,
}
