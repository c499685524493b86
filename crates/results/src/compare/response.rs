//! Response times of transactions and of single block reads.

use serde::{Deserialize, Serialize};

/// Response times of one transaction in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseMs {
    /// Committed; for New-Order, also those rolled back as the rules require.
    pub count: u64,
    /// Errors that reached the driver.
    pub errors: u64,
    /// Retries after a deadlock or a serialization failure.
    pub retries: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

/// Time of one block read in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockReadUs {
    /// Mean over the measured intervals: `blk_read_time` divided by `blks_read`.
    pub mean: f64,
    /// Median; absent if the database reports only sums.
    pub p50: Option<f64>,
    /// 99th percentile; absent if the database reports only sums.
    pub p99: Option<f64>,
}
