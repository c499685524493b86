//! The directory in which a kernel is unpacked, and the programs for unpacking.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::LabError;
use crate::guest::cache::Cache;
use crate::host::process::Launch;
use crate::placement::owner;
use crate::placement::workdir::{make_directory, remove_tree, sweep_below, write_mark};

/// Prefix of the directory's name.
const PREFIX: &str = "unpacking-";
/// Time limit for unpacking: 400 MB on a slow disk.
pub(crate) const UNPACK_MAX: Duration = Duration::from_secs(600);

/// The directory of one unpacking in the cache, removed when dropped.
pub(crate) struct Unpacking {
    root: PathBuf,
}

impl Unpacking {
    /// Creates it, with a mark from which a later process can tell whether this one is still running.
    pub(crate) fn make(cache: &Cache) -> Result<Self, LabError> {
        let root = cache.root().join(owner::unique_name(PREFIX));
        make_directory(&root, 0o755)?;
        let unpacking = Self { root };
        write_mark(&unpacking.root, &unpacking.root)?;
        Ok(unpacking)
    }

    /// Path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The directory whose space it uses.
    fn room(&self) -> String {
        self.root.parent().unwrap_or(&self.root).display().to_string()
    }

    /// Decompresses a file and removes its extension. Returns whether the extension is that of a compressed file.
    pub(crate) fn decompress(&self, file: &Path) -> Result<bool, LabError> {
        let program = match file.extension().and_then(|extension| extension.to_str()) {
            Some("xz") => "xz",
            Some("zst") => "zstd",
            Some("gz") => "gzip",
            _ => return Ok(false),
        };
        let mut command = Command::new(program);
        command.args(["-d", "-q"]).arg(file);
        self.run(program, command, UNPACK_MAX)?;
        let _ = fs::remove_file(file); // zstd keeps what it read
        Ok(true)
    }

    /// Runs a program to its end.
    pub(crate) fn run(&self, name: &str, command: Command, limit: Duration) -> Result<(), LabError> {
        let hint = format!(
            "check the network, and that {} has 600 MB free; `apt-get update`, as root, refreshes the lists of packages",
            self.room()
        );
        self.run_or(name, command, limit, hint)
    }

    /// As [`Self::run`], with this hint if the program fails.
    pub(crate) fn run_or(&self, name: &str, command: Command, limit: Duration, hint: String) -> Result<(), LabError> {
        match Launch::new(name, command, self.path(&format!("{name}.log"))).run(limit) {
            Err(LabError::Program { program, outcome, detail }) => {
                Err(LabError::Missing { what: format!("get the guest's kernel: {program} {outcome}{detail}"), hint })
            }
            other => other,
        }
    }
}

/// Removes directories of killed processes.
pub(crate) fn sweep(cache: &Cache) {
    sweep_below(cache.root(), PREFIX);
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.root) {
            eprintln!("millrace: cannot {error}");
        }
    }
}
