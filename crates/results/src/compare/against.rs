//! Comparisons of configurations with each other, and with the guarantees of the plan.

use serde::{Deserialize, Serialize};

use crate::judgement::{FixedLoad, RelativeDifference};
use crate::statistics::Difference;

/// One measured path compared with the first measured one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Name of the first measured configuration.
    pub first: String,
    /// Name of the configuration that is compared with it.
    pub path: String,
    /// OETs of `path` divided by OETs of `first`.
    pub oets_ratio: f64,
    /// Processor time per 1,000 orders, `path` divided by `first`.
    pub cpu_ratio: f64,
    /// Whether the intervals show a difference.
    pub difference: Difference,
    /// Difference of the orders per minute with its interval, in percent of the first path's.
    #[serde(default)]
    pub orders_difference: Option<RelativeDifference>,
    /// Difference of the processor time per 1,000 orders with its interval.
    #[serde(default)]
    pub cpu_difference: Option<RelativeDifference>,
    /// Whether the processor costs may be compared as at equal load.
    #[serde(default)]
    pub fixed_load: Option<FixedLoad>,
    /// The same in words.
    pub text: String,
}

/// A guarantee that the plan tests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The condition.
    pub promise: String,
    /// The measured value.
    pub found: f64,
    /// The smallest value that passes, with the spread of these runs.
    pub least: f64,
    /// Whether it passed: `found >= least`.
    pub passed: bool,
}

impl Gate {
    /// The gate of a value that must be at least `least`.
    #[must_use]
    pub fn of(promise: String, found: f64, least: f64) -> Self {
        Self { promise, found, least, passed: found >= least }
    }
}
