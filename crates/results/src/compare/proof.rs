//! Proof of path, and the consistency conditions.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// The counter that is compared with the database's own count of its reads.
    pub enum ProofSource {
        /// READ payload bytes that Millrace's filer sent.
        FilerReads = "filer_reads",
        /// READ payload bytes that Millrace's client received, if the server's counters cannot be read.
        ClientReads = "client_reads",
        /// Bytes that the database's processes received from read calls of the kernel.
        ReadCalls = "read_calls",
        /// Bytes that programs received from read calls on an NFS mount of the kernel, as counted by the mount.
        MountReads = "mount_reads",
    }
}

/// Evidence that the database's reads used the storage path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The counter that the database's reads are compared with.
    pub kind: ProofSource,
    /// Bytes that the database read by its own count: blocks times block size.
    pub database_read_bytes: u64,
    /// Bytes counted on the path.
    pub path_read_bytes: u64,
    /// Difference in percent of the larger.
    pub difference_percent: f64,
    /// Largest allowed difference.
    pub tolerance_percent: f64,
    /// Whether it passes.
    pub passed: bool,
    /// Why nothing is proven, although no count contradicts the path. Only records of versions that judged an iSCSI path by the
    /// target's bytes alone have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_proven: Option<String>,
    /// What was counted, and over which interval.
    pub explanation: String,
    /// Traffic of the path below the kernel's page cache; absent on paths without a client in the kernel.
    #[serde(default)]
    pub carried: Option<Carried>,
}

impl Proof {
    /// Whether a count contradicts the path.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        !self.passed && self.not_proven.is_none()
    }

    /// The result in words.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        match (self.passed, &self.not_proven) {
            (true, _) => "passed",
            (false, Some(_)) => "not proven",
            (false, None) => "FAILED",
        }
    }
}

/// Bytes that crossed a path below the page cache of the database's host, as counted by the kernel. Reads that the page cache
/// served are not included; all writes are, including those of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Where they were counted: `mountstats` or `diskstats`.
    pub source: String,
    /// Bytes read from the server or the device.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// The same reads, counted by Millrace's filer; absent if the filer did not serve them.
    pub server_read_bytes: Option<u64>,
    /// The same writes, counted by Millrace's filer.
    pub server_written_bytes: Option<u64>,
}

/// Consistency conditions over all runs of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// Conditions that held.
    pub passed: u32,
    /// Conditions that did not.
    pub failed: u32,
    /// The failures, one line each.
    pub failures: Vec<String>,
}
