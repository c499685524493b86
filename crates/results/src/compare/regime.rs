//! Further regimes of a comparison: the same paths, from the same loaded state, on another medium or at a fixed load.

use serde::{Deserialize, Serialize};

use super::against::Against;
use super::path::PathResult;
use super::plan::PlanRecord;
use crate::names::names;

names! {
    /// What became of a regime.
    pub enum RegimeStatus {
        /// Its runs were carried out; `valid` says whether the figures may be used.
        Measured = "measured",
        /// Not begun; `reason` says why.
        LeftOut = "left_out",
        /// Begun, and ended by an error, which is `reason`.
        Failed = "failed",
    }
}

/// One further regime. The comparison's own paths are of its first regime; no claim mixes two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RegimeResult {
    /// Name, unique in the record: `array`, `fixed load`.
    pub name: String,
    /// What became of it.
    pub status: RegimeStatus,
    /// Why it was left out, or failed.
    #[serde(default)]
    pub reason: Option<String>,
    /// Medium below every path as given to the media model; absent on the storage as it is.
    #[serde(default)]
    pub medium: Option<String>,
    /// Load as asked for: `users=32`, or with a rate of transactions of all kinds.
    pub load: String,
    /// New orders per minute that were offered on every path; only of a fixed load.
    #[serde(default)]
    pub offered_orders_per_minute: Option<f64>,
    /// One round only: no interval, and no verdict.
    #[serde(default)]
    pub look: bool,
    /// One sentence that says what was found in this regime.
    #[serde(default)]
    pub verdict: String,
    /// Why its figures are no result to cite, each in a clause.
    #[serde(default)]
    pub not_a_result: Vec<String>,
    /// False when a proof, a check or the exercise of storage failed on a path measured in it.
    pub valid: bool,
    /// Whatever a reader must know before believing its figures.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How it was carried out.
    #[serde(default)]
    pub plan: PlanRecord,
    /// One entry for each path asked for, as in the comparison.
    #[serde(default)]
    pub paths: Vec<PathResult>,
    /// Each path measured in it against the first one.
    #[serde(default)]
    pub against_first: Vec<Against>,
}

impl RegimeResult {
    /// Whether runs of it are recorded.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        matches!(self.status, RegimeStatus::Measured)
    }
}
