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
        /// Bytes that the filer's iSCSI target sent for READ commands.
        TargetReads = "target_reads",
        /// Bytes that programs received from read calls on an NFS mount of the kernel, as that mount counts them.
        MountReads = "mount_reads",
    }
}

/// Evidence that the database's reads took the storage path they are attributed to.
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
    /// Why nothing is proven, although no count contradicts the path: a page cache answered reads that the path did not carry. Absent
    /// where it passed or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_proven: Option<String>,
    /// What was counted, over which interval.
    pub explanation: String,
    /// What crossed the path below the kernel's page cache; absent on paths without a client in the kernel.
    #[serde(default)]
    pub carried: Option<Carried>,
}

impl Proof {
    /// Whether a count contradicts the path.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        !self.passed && self.not_proven.is_none()
    }

    /// The outcome in words.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        match (self.passed, &self.not_proven) {
            (true, _) => "passed",
            (false, Some(_)) => "not proven",
            (false, None) => "FAILED",
        }
    }
}

/// Bytes that crossed a path below the page cache of the database's host, as the kernel counts them. Reads that the page cache
/// answers are not among them; writes are all there, the log among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Where they were counted: `mountstats`, `diskstats`; `the target` where the kernel has no count of its own.
    pub source: String,
    /// Bytes read from the server or the device.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// The same reads as our filer counted them; absent where none served.
    pub server_read_bytes: Option<u64>,
    /// The same writes as our filer counted them.
    pub server_written_bytes: Option<u64>,
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
