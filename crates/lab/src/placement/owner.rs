//! The owner mark in each directory of a comparison, with which a later comparison can
//! remove what a killed one left, and nothing else.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::host::procfs;

/// Name of the mark in each directory of a comparison.
pub(crate) const MARK: &str = ".millrace-owner";
/// Prefix of the name of each directory of a comparison.
pub(crate) const PREFIX: &str = ::host::COMPARISON_DIRECTORY;
/// Size limit of a mark: it has about 250 bytes and a path.
pub(crate) const MARK_BYTES_MAX: usize = 8192;

/// The process that created a directory, identified by host, boot, pid and start time, so that a
/// later process with the same number, or one on another host, is not mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pid: u32,
    start_ticks: u64,
    boot_id: String,
    /// This host; a shared directory may contain the marks of other hosts.
    #[serde(default)]
    host: String,
    directory: PathBuf,
}

impl Owner {
    /// This process as the owner of `directory`.
    pub(crate) fn this_process(directory: &Path) -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_ticks: procfs::start_ticks(pid).unwrap_or_default(),
            boot_id: procfs::boot_id(),
            host: procfs::host_identity(),
            directory: directory.to_owned(),
        }
    }

    /// The text of the mark.
    pub(crate) fn text(&self) -> Result<Vec<u8>, LabError> {
        serde_json::to_vec(self).map_err(|source| LabError::Record { program: "the owner mark", source })
    }

    /// Whether `mark` was written by a process of this host that is no longer alive. The owner of an
    /// unreadable mark counts as alive.
    pub(crate) fn is_dead(mark: &[u8]) -> bool {
        let Ok(owner) = serde_json::from_slice::<Self>(mark) else { return false };
        owner.host == procfs::host_identity()
            && (owner.boot_id != procfs::boot_id() || procfs::start_ticks(owner.pid) != Some(owner.start_ticks))
    }
}

/// A name with this prefix that no other process of this host uses.
pub(crate) fn unique_name(prefix: &str) -> String {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.subsec_nanos());
    format!("{prefix}{}-{nanos:08x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_mark_is_alive_a_gone_process_is_dead_and_another_host_is_left_alone() {
        let mine = Owner::this_process(Path::new("/x"));
        assert!(!Owner::is_dead(&mine.text().unwrap()));
        let gone = Owner { start_ticks: mine.start_ticks + 1, ..mine.clone() };
        assert!(Owner::is_dead(&gone.text().unwrap()));
        let elsewhere = Owner { host: "another".into(), boot_id: "another".into(), ..mine };
        assert!(!Owner::is_dead(&elsewhere.text().unwrap()));
        assert!(!Owner::is_dead(b"rubbish"));
    }
}
