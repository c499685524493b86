//! Environment of a measurement: facts about host, store and programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The environment of a measurement. Contains no host name, address or user name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the distribution, from os-release.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture, `x86_64` for example.
    pub architecture: String,
    /// Model name of the first processor.
    pub cpu_model: String,
    /// Number of processors that this process may use.
    pub cpu_count: usize,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// One-minute load average before the comparison started anything.
    pub load_average_before: f64,
    /// Detected container or virtual machine, if any.
    pub virtualization: Option<String>,
    /// How to read the figures if this is one of Millrace's guests (`millrace compare --guest`); otherwise absent. They are
    /// never compared with figures that have another label or no label.
    #[serde(default)]
    pub guest: Option<String>,
    /// The store that holds every path's files.
    pub store: Store,
    /// Version of the database server, as it reports itself.
    pub database_version: String,
    /// Settings of the database that differ from the built-in defaults; the same on every path.
    pub database_settings: BTreeMap<String, String>,
    /// User that the database runs as.
    pub database_user: String,
    /// Version of this program.
    pub millrace_version: String,
    /// Commit from which this program was built, if known.
    pub millrace_commit: Option<String>,
}

/// The file system under the work directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Store {
    /// File system type, `ext4` for example.
    pub file_system: String,
    /// Mount options of that file system.
    pub mount_options: String,
    /// Device below it, as the kernel names it.
    pub device: String,
    /// Free bytes before the comparison.
    pub free_bytes: u64,
    /// Whether files can share extents there (FICLONE worked on a probe file).
    pub reflink: bool,
}
