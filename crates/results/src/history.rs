//! Figures of many comparisons over commits or dates: the output of `millrace history --json`, schema 1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::judgement::RelativeDifference;
use crate::names::names;
use crate::statistics::MeanInterval;

/// Version of the record's schema.
pub const SCHEMA: u32 = 1;

names! {
    /// Meaning of a point.
    pub enum PointBy {
        /// All records of one commit.
        Commit = "commit",
        /// One record, at the moment of its start.
        Date = "date",
    }
}

names! {
    /// A figure of the history.
    pub enum HistoryFigure {
        /// Order entry transactions per minute.
        Oets = "oets_per_minute",
        /// Processor seconds per 1,000 orders, without the filer.
        Cpu = "cpu_s_per_1000_orders",
    }
}

/// Series of the records below a directory or in a database.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Version of this record's schema ([`SCHEMA`]).
    pub schema: u32,
    /// Kind of record: always `history`.
    pub kind: String,
    /// Meaning of a point.
    pub by: PointBy,
    /// Number of records that were read.
    pub records: usize,
    /// Start of the earliest and of the latest record, UTC, RFC 3339.
    pub span_utc: Option<(String, String)>,
    /// Comparable records: one series for each path under the same conditions.
    pub series: Vec<HistorySeries>,
    /// Files and configurations that are not shown, each with the reason.
    pub left_out: Vec<LeftOut>,
}

/// One path under the same conditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistorySeries {
    /// Name of the configuration in the newest record.
    pub arm: String,
    /// Name of the storage path: `local`, for example.
    pub path: String,
    /// Conditions that are the same in all its records: database, load, medium, host, by name.
    pub conditions: BTreeMap<String, String>,
    /// Differences from the first series of the same path: `medium: nvme, there fc15k`; empty for the first one.
    pub differs: Vec<String>,
    /// Points from the earliest to the latest.
    pub points: Vec<HistoryPoint>,
}

/// The records of one commit, or one record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// The commit, if the records name one.
    pub commit: Option<String>,
    /// Version of the program that measured.
    pub version: String,
    /// Start of its first and of its last record, UTC, RFC 3339.
    pub span_utc: (String, String),
    /// Files or places of its records.
    pub records: Vec<String>,
    /// Order entry transactions per minute over the runs of all its records.
    pub oets_per_minute: Option<MeanInterval>,
    /// Mean of each record, if there are several.
    pub oets_of_records: Vec<f64>,
    /// Processor seconds per 1,000 orders without the filer, over the same runs.
    #[serde(default)]
    pub cpu_s_per_1000_orders_without_filer: Option<MeanInterval>,
    /// The same under its older name.
    pub cpu_s_per_1000_orders: Option<MeanInterval>,
    /// 99th percentile of the response time of New-Order in milliseconds, one value for each record.
    pub new_order_p99_ms: Option<MeanInterval>,
    /// Changes since the previous point whose 99 % interval excludes zero and which the neighbouring points confirm.
    pub steps: Vec<HistoryStep>,
    /// Other changes since the previous point: kernel, version of the database, settings.
    pub changed: Vec<String>,
    /// Why its figures are not a citable result; empty if they are.
    pub not_a_result: Vec<String>,
}

/// A change since the previous point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryStep {
    /// The figure that changed.
    pub figure: HistoryFigure,
    /// Size of the change, in percent of the previous point.
    pub difference: RelativeDifference,
    /// Whether there are more orders, or less processor time.
    pub better: bool,
}

/// A file or configuration that is not shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The file or other place of the record.
    pub record: String,
    /// Reason.
    pub reason: String,
}
