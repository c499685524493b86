//! The targets that a comparison has logged in to, so that the next one can log out of them after SIGKILL.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::sys;

/// Directory in a work directory with a file for each target.
const DIRECTORY: &str = "open-iscsi";

/// One target.
#[derive(Debug)]
pub(super) struct Journal {
    file: PathBuf,
    target: String,
}

impl Journal {
    /// Records a target below a work directory, before the login.
    pub(super) fn write(root: &Path, target: &str) -> Result<Self, LabError> {
        let directory = root.join(DIRECTORY);
        fs::create_dir_all(&directory).map_err(LabError::file("create directory", &directory))?;
        // A user of the filer may configure the name, so it must not be used as a path.
        let file = directory.join(target.replace('/', "_"));
        let written = File::create(&file).and_then(|mut open| open.write_all(target.as_bytes()).and_then(|()| open.sync_all()));
        written.map_err(LabError::file("write", &file))?;
        Ok(Self { file, target: target.to_owned() })
    }

    /// Journals below a work directory of a killed comparison. Those of another user are not trusted.
    pub(super) fn all_below(root: &Path) -> Vec<Self> {
        let directory = root.join(DIRECTORY);
        let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|facts| facts.uid() == sys::effective_uid());
        if !is_own(root) || !is_own(&directory) {
            return Vec::new();
        }
        let files = fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path());
        files
            .filter_map(|file| Some(Self { target: fs::read_to_string(&file).ok().filter(|text| !text.is_empty())?, file }))
            .collect()
    }

    /// Name of the target.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// Removes the journal, after everything of the target was removed.
    pub(super) fn remove(&self) -> Result<(), LabError> {
        fs::remove_file(&self.file).map_err(LabError::file("remove", &self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_again_until_nothing_is_left_of_them() {
        let root = tempfile::tempdir().unwrap();
        assert!(Journal::all_below(root.path()).is_empty());
        let journal = Journal::write(root.path(), "iqn.2026-11.internal.millrace:volume.0123").unwrap();
        let found = Journal::all_below(root.path());
        assert_eq!(found.iter().map(Journal::target).collect::<Vec<_>>(), ["iqn.2026-11.internal.millrace:volume.0123"]);
        journal.remove().unwrap();
        assert!(Journal::all_below(root.path()).is_empty());
    }
}
