//! Where a figure was measured: facts about host, store and programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The surroundings of a measurement. Holds no host name, address or user name.
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
    /// Processors this process may run on.
    pub cpu_count: usize,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Load average over one minute before anything was started.
    pub load_average_before: f64,
    /// Container or virtual machine seen, if any.
    pub virtualization: Option<String>,
    /// How its figures are to be read where it is a guest of Millrace's (`millrace compare --guest`); absent elsewhere. They are
    /// never compared with figures of another label, or of none.
    #[serde(default)]
    pub guest: Option<String>,
    /// The store that holds every path's files.
    pub store: Store,
    /// Version of the database server, as it reports itself.
    pub database_version: String,
    /// Settings of the database that are not the built-in default; the same on every path.
    pub database_settings: BTreeMap<String, String>,
    /// User the database runs as.
    pub database_user: String,
    /// Version of this program.
    pub millrace_version: String,
    /// Commit this program was built from, when the build knew it.
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
