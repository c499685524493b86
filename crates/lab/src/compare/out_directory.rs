//! The directory of the record.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::error::LabError;

/// The output directory, with its created parents.
pub(crate) struct OutDirectory {
    /// Created directories, innermost first.
    made: Vec<PathBuf>,
}

impl OutDirectory {
    /// The directory of a resumed comparison: nothing is created.
    pub(super) fn resumed() -> Self {
        Self { made: Vec::new() }
    }

    /// Fails if the directory is not empty, or if this user can neither create nor write to it. Creates nothing.
    pub(super) fn check(out: &Path) -> Result<(), LabError> {
        let existing = out.ancestors().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
        if let Some(existing) = existing.into_iter().find(|path| path.symlink_metadata().is_ok()) {
            if !existing.is_dir() {
                return Err(LabError::Plan {
                    what: format!("write the record to {}: {} is not a directory", out.display(), existing.display()),
                    hint: "name a new directory with --out".to_owned(),
                });
            }
            let rights = Access::WRITE_OK | Access::EXEC_OK;
            let action = if existing == out { "write the record to" } else { "create directory" };
            accessat(CWD, existing, rights, AtFlags::EACCESS).map_err(|error| LabError::file(action, out)(error.into()))?;
        }
        let taken = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
        if taken {
            return Err(LabError::Plan {
                what: format!("write the record to {}: it is not empty", out.display()),
                hint: "name a new directory with --out".to_owned(),
            });
        }
        Ok(())
    }

    /// Creates the directory; refuses one that is not empty.
    pub(crate) fn make(out: &Path) -> Result<Self, LabError> {
        Self::check(out)?;
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = out.ancestors().take_while(missing).map(Path::to_owned).collect();
        fs::create_dir_all(out).map_err(LabError::file("create directory", out))?;
        Ok(Self { made })
    }

    /// Removes the created directories that are empty.
    pub(crate) fn unmake(&self) {
        for directory in &self.made {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Keeps the logs of a failed comparison, which are more useful than its data.
pub(super) fn keep_logs(logs: &Path, out: &Path) {
    let target = out.join("logs");
    if fs::create_dir(&target).is_err() {
        return;
    }
    for entry in fs::read_dir(logs).into_iter().flatten().flatten() {
        let _ = fs::copy(entry.path(), target.join(entry.file_name()));
    }
}
