//! Parts of a comparison that vary one thing: the load, or a tuning step by step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statistics::MeanInterval;

/// One load that was tried with one configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Name of the configuration.
    pub arm: String,
    /// Users.
    pub users: u32,
    /// Due transactions per minute, in an open or paced load.
    #[serde(default)]
    pub offered_per_minute: Option<f64>,
    /// Order entry transactions per minute.
    pub oets_per_minute: f64,
    /// Half-width of the 95 % interval of this value, with two runs or more.
    #[serde(default)]
    pub ci95: Option<f64>,
    /// Median response time of New-Order in milliseconds.
    pub response_p50_ms: f64,
    /// 90th percentile.
    pub response_p90_ms: f64,
    /// 99th percentile.
    pub response_p99_ms: f64,
    /// Busy share of the host's processors, by all processes, 0 to 1.
    #[serde(default)]
    pub host_busy_share: Option<f64>,
    /// Whether this load was then used for the comparison.
    #[serde(default)]
    pub chosen: bool,
}

/// One step of a ladder from one tuning to another with one configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LadderStep {
    /// Name of the configuration, or of the path, of the ladder.
    pub arm: String,
    /// Position in the ladder: 0 is the start, without any step.
    pub place: u32,
    /// Name of the step.
    pub name: String,
    /// Its settings: knob to value with unit.
    #[serde(default)]
    pub sets: BTreeMap<String, String>,
    /// OETs per minute with this step alone, added to the start.
    #[serde(default)]
    pub alone: Option<MeanInterval>,
    /// OETs per minute with this step and all previous ones.
    #[serde(default)]
    pub added_up: Option<MeanInterval>,
}

/// The published report that a plan reproduces, and the differences.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StandsFor {
    /// Name of the report: `TR-3557`.
    pub report: String,
    /// Cited sections and figures, one entry each.
    #[serde(default)]
    pub cites: Vec<String>,
    /// How the plan is smaller than the report's measurement, or differs from it.
    #[serde(default)]
    pub scaled: String,
}
