//! Figures of many comparisons over commits or dates: what `millrace history --json` prints, schema 1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::judgement::RelativeDifference;
use crate::names::names;
use crate::statistics::MeanInterval;

/// Version of the record's shape.
pub const SCHEMA: u32 = 1;

names! {
    /// What a point stands for.
    pub enum PointBy {
        /// All records of one commit.
        Commit = "commit",
        /// One record, at the moment of its start.
        Date = "date",
    }
}

names! {
    /// A figure that is followed.
    pub enum HistoryFigure {
        /// Order entry transactions per minute.
        Oets = "oets_per_minute",
        /// Processor seconds for 1,000 orders without the filer.
        Cpu = "cpu_s_per_1000_orders",
    }
}

/// Records below a directory or in a database, as series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Version of this record's shape ([`SCHEMA`]).
    pub schema: u32,
    /// Kind of record: always `history`.
    pub kind: String,
    /// What a point stands for.
    pub by: PointBy,
    /// Records that were read.
    pub records: usize,
    /// Start of the earliest and of the latest of them, UTC, RFC 3339.
    pub span_utc: Option<(String, String)>,
    /// What may be compared, one entry for each path under the same conditions.
    pub series: Vec<HistorySeries>,
    /// Files and arms that are not shown, each with the reason.
    pub left_out: Vec<LeftOut>,
}

/// One path under the same conditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistorySeries {
    /// Name of the arm in the newest record.
    pub arm: String,
    /// The path: `local`, `dnfs`, `iscsi`, `knfs`, `fc` or `block`.
    pub path: String,
    /// What is the same in all its records: database, load, medium, host, by name.
    pub conditions: BTreeMap<String, String>,
    /// What tells it from the first series of the same path: `medium: nvme, there fc15k`; empty for that one.
    pub differs: Vec<String>,
    /// From the earliest to the latest.
    pub points: Vec<HistoryPoint>,
}

/// The records of one commit, or one record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// The commit, when the records name one.
    pub commit: Option<String>,
    /// Version of the program that measured.
    pub version: String,
    /// Start of its first and of its last record, UTC.
    pub span_utc: (String, String),
    /// Where its records are.
    pub records: Vec<String>,
    /// Orders per minute over the runs of all its records.
    pub oets_per_minute: Option<MeanInterval>,
    /// Mean of each record, when there are several.
    pub oets_of_records: Vec<f64>,
    /// Processor seconds for 1,000 orders without the filer, over the same runs.
    #[serde(default)]
    pub cpu_s_per_1000_orders_without_filer: Option<MeanInterval>,
    /// The same under its older name.
    pub cpu_s_per_1000_orders: Option<MeanInterval>,
    /// 99th percentile of the new order's response in milliseconds, one value for each record.
    pub new_order_p99_ms: Option<MeanInterval>,
    /// Changes from the point before whose 99 % interval excludes zero and which the points around confirm.
    pub steps: Vec<HistoryStep>,
    /// What else changed since the point before: kernel, version of the database, settings.
    pub changed: Vec<String>,
    /// Why its figures are no result to cite; empty when they are.
    pub not_a_result: Vec<String>,
}

/// A change from the point before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryStep {
    /// Of which figure.
    pub figure: HistoryFigure,
    /// How large, in percent of the point before.
    pub difference: RelativeDifference,
    /// More orders, or less processor time.
    pub better: bool,
}

/// Something that is not shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The file, or where else the record is.
    pub record: String,
    /// Why.
    pub reason: String,
}
