//! Further scenarios of a comparison: the same paths, from the same loaded state, on another medium or at a fixed load.

use serde::{Deserialize, Serialize};

use super::against::Against;
use super::path::PathResult;
use super::plan::PlanRecord;
use crate::names::names;

names! {
    /// Status of a scenario.
    pub enum RegimeStatus {
        /// Its runs were carried out; `valid` is true if the figures may be used.
        Measured = "measured",
        /// Not started; `reason` gives the cause.
        LeftOut = "left_out",
        /// Started, and ended by an error, which is in `reason`.
        Failed = "failed",
    }
}

/// One further scenario. The comparison's own paths belong to its first scenario; no claim combines two scenarios.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RegimeResult {
    /// Name, unique in the record: `array`, `fixed load`.
    pub name: String,
    /// Its status.
    pub status: RegimeStatus,
    /// Why it was left out, or failed.
    #[serde(default)]
    pub reason: Option<String>,
    /// Modelled medium below every path, as given to the media model; absent if the storage is used as it is.
    #[serde(default)]
    pub medium: Option<String>,
    /// Requested load: `users=32`, or with a rate of transactions of all kinds.
    pub load: String,
    /// New orders per minute that were offered on every path; only for a fixed load.
    #[serde(default)]
    pub offered_orders_per_minute: Option<f64>,
    /// Whether there was only one round: then there is no interval and no verdict.
    #[serde(default)]
    pub look: bool,
    /// The result of this scenario in one sentence.
    #[serde(default)]
    pub verdict: String,
    /// Why its figures are not a citable result, each reason as a clause.
    #[serde(default)]
    pub not_a_result: Vec<String>,
    /// False if a proof, a check or the exercise of storage failed on a path measured in it.
    pub valid: bool,
    /// Restrictions that a reader must know before using its figures.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Its plan as carried out.
    #[serde(default)]
    pub plan: PlanRecord,
    /// One entry for each requested path, as in the comparison.
    #[serde(default)]
    pub paths: Vec<PathResult>,
    /// Each path measured in it, compared with the first one.
    #[serde(default)]
    pub against_first: Vec<Against>,
}

impl RegimeResult {
    /// Whether it has recorded runs.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        matches!(self.status, RegimeStatus::Measured)
    }
}
