//! Proof of path, and the consistency conditions.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// Counter that the database's own count of its reads is held against.
    pub enum ProofSource {
        /// READ payload bytes our filer sent.
        FilerReads = "filer_reads",
        /// READ payload bytes our client received, where the server's counters cannot be read.
        ClientReads = "client_reads",
        /// Bytes the database's processes received from read calls of the kernel.
        ReadCalls = "read_calls",
    }
}

/// Evidence that the database's reads took the path they are booked on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// What the database's reads are held against.
    pub kind: ProofSource,
    /// Bytes the database says it read: blocks by block size.
    pub database_read_bytes: u64,
    /// Bytes seen on the path.
    pub path_read_bytes: u64,
    /// Difference in percent of the larger.
    pub difference_percent: f64,
    /// Largest difference that passes.
    pub tolerance_percent: f64,
    /// Whether it passes.
    pub passed: bool,
    /// What was counted, over which interval.
    pub explanation: String,
}

/// Consistency conditions over all runs of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// Conditions that held.
    pub passed: u32,
    /// Conditions that did not.
    pub failed: u32,
    /// What failed, one line each.
    pub failures: Vec<String>,
}
