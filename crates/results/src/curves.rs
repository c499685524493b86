//! Parts of a comparison that vary one thing: the load, or a tuning step by step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statistics::MeanInterval;

/// One load that was tried on one arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Name of the arm.
    pub arm: String,
    /// Users.
    pub users: u32,
    /// Transactions per minute that were due, in an open or paced load.
    #[serde(default)]
    pub offered_per_minute: Option<f64>,
    /// Order entry transactions per minute.
    pub oets_per_minute: f64,
    /// Half-width of its 95 % interval, with two runs or more.
    #[serde(default)]
    pub ci95: Option<f64>,
    /// New-Order response in milliseconds: median.
    pub response_p50_ms: f64,
    /// 90th percentile.
    pub response_p90_ms: f64,
    /// 99th percentile.
    pub response_p99_ms: f64,
    /// Share of the host's processors that was busy, by anybody, 0 to 1.
    #[serde(default)]
    pub host_busy_share: Option<f64>,
    /// Whether this load was then used for the comparison.
    #[serde(default)]
    pub chosen: bool,
}

/// One step of a ladder from one tuning to another on one arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LadderStep {
    /// Name of the arm, or of the path, that the ladder climbs on.
    pub arm: String,
    /// Place in the ladder: 0 is the start, without any step.
    pub place: u32,
    /// Name of the step.
    pub name: String,
    /// What it sets: knob to value with unit.
    #[serde(default)]
    pub sets: BTreeMap<String, String>,
    /// OETs per minute with this step alone on top of the start.
    #[serde(default)]
    pub alone: Option<MeanInterval>,
    /// OETs per minute with this step and all before it.
    #[serde(default)]
    pub added_up: Option<MeanInterval>,
}

/// The report a plan stands for, and how it differs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StandsFor {
    /// Name of the report: `TR-3557`.
    pub report: String,
    /// Sections and figures, one entry each.
    #[serde(default)]
    pub cites: Vec<String>,
    /// How the plan is smaller than, or unlike, what the report did.
    #[serde(default)]
    pub scaled: String,
}
