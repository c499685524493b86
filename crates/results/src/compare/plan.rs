//! What was asked for and how it was carried out.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// How a loaded state is brought back.
    pub enum RestoreMethod {
        /// Copies that share extents with the loaded state.
        Reflink = "reflink",
        /// Copies by read and write.
        Copy = "copy",
        /// Copies over NFS by our client.
        Nfs = "nfs",
    }
}

names! {
    /// The database that is compared with.
    pub enum DatabaseSystem {
        /// PostgreSQL.
        Postgresql = "postgresql",
        /// MariaDB.
        MariaDb = "mariadb",
    }
}

impl DatabaseSystem {
    /// Its name in a sentence. Records that name none are of PostgreSQL.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::Postgresql => "PostgreSQL",
            Self::MariaDb => "MariaDB",
            Self::Unknown(name) if name.is_empty() => "PostgreSQL",
            Self::Unknown(name) => name,
        }
    }
}

/// Records of before are of PostgreSQL.
fn postgresql() -> DatabaseSystem {
    DatabaseSystem::Postgresql
}

/// The plan as it was carried out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Name of the plan: its file without directory and ending, `compare` for the built-in one; absent in records of before.
    #[serde(default)]
    pub name: Option<String>,
    /// Names of the arms ([`PathResult::arm`](super::PathResult::arm)) in the order asked for.
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
    /// Seconds dropped before the interval in each run.
    pub warmup_seconds: u64,
    /// Runs asked for on each path.
    pub repeats: u32,
    /// Runs carried out on each path, less than `repeats` when the budget ended.
    pub repeats_done: u32,
    /// Order in which the runs were carried out, by arm.
    pub order: Vec<String>,
    /// Seconds after which no further round is started.
    pub budget_seconds: u64,
    /// First seed of the driver; each round takes the next one, the same on every path.
    pub seed: u64,
    /// Size of the loaded database in bytes.
    pub database_bytes: u64,
    /// Buffers of the database in bytes: `shared_buffers`, `innodb_buffer_pool_size`.
    pub buffers_bytes: u64,
    /// How the loaded state was brought back before each run.
    pub restore: RestoreMethod,
}
