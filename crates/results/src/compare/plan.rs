//! The plan of a comparison, as carried out.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// Method of restoring a loaded state.
    pub enum RestoreMethod {
        /// Copies that share extents with the loaded state.
        Reflink = "reflink",
        /// Copies by read and write calls.
        Copy = "copy",
        /// Copies over NFS by Millrace's client.
        Nfs = "nfs",
    }
}

names! {
    /// The database of a comparison.
    pub enum DatabaseSystem {
        /// PostgreSQL.
        Postgresql = "postgresql",
        /// MariaDB.
        MariaDb = "mariadb",
    }
}

/// The default for records of older versions.
fn postgresql() -> DatabaseSystem {
    DatabaseSystem::Postgresql
}

/// The plan as carried out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Name of the plan: its file name without directory and extension, `compare` for the built-in
    /// one; absent in records of older versions.
    #[serde(default)]
    pub name: Option<String>,
    /// Names of the configurations ([`PathResult::arm`](super::PathResult::arm)) in the requested order.
    pub paths: Vec<String>,
    /// The database.
    #[serde(default = "postgresql")]
    pub database: DatabaseSystem,
    /// Warehouses loaded.
    pub warehouses: u32,
    /// Users without think time.
    pub users: u32,
    /// Driver threads.
    pub driver_threads: u32,
    /// Seconds measured in each run.
    pub seconds: u64,
    /// Seconds of warm-up before the interval in each run.
    pub warmup_seconds: u64,
    /// Requested runs on each path.
    pub repeats: u32,
    /// Completed runs on each path; fewer than `repeats` if the time budget ran out.
    pub repeats_done: u32,
    /// Order in which the runs were carried out, by configuration.
    pub order: Vec<String>,
    /// Seconds after which no further round starts.
    pub budget_seconds: u64,
    /// First seed of the driver; each round uses the next one, the same on every path.
    pub seed: u64,
    /// Size of the loaded database in bytes.
    pub database_bytes: u64,
    /// Size of the database's buffers in bytes: `shared_buffers`, `innodb_buffer_pool_size`.
    pub buffers_bytes: u64,
    /// How the loaded state was restored before each run.
    pub restore: RestoreMethod,
}
