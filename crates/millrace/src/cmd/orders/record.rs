//! The file of `millrace orders run --record`. It is checked before the run, so that no run is
//! measured in vain.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use results::orders_run::OrdersRun;

use crate::error_printing::{hinted, refusal};

const HINT: &str = "name a file that this user may write, in a directory that is there";
/// The sticky bit, which /tmp has: a user may not rename over another user's file in such a directory.
const STICKY: u32 = 0o1000;

/// The file of a record.
pub(super) struct RecordFile {
    path: PathBuf,
    /// A file beside it, which is written and then renamed, so that a reader never sees half a record.
    part: PathBuf,
}

impl RecordFile {
    /// Fails if the file could not be written at the end.
    pub(super) fn prepare(path: &Path) -> anyhow::Result<Self> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let file = Self { path: path.to_owned(), part: part.into() };
        file.try_part().map_err(|error| hinted(anyhow!(error).context(file.phrase()), HINT))?;
        file.check_rename()?;
        Ok(file)
    }

    /// Writes the record. If the complete file cannot be renamed it stays, and the hint names it.
    pub(super) fn write(&self, record: &OrdersRun) -> anyhow::Result<()> {
        let mut json = serde_json::to_vec_pretty(record)?;
        json.push(b'\n');
        fs::write(&self.part, json).map_err(|error| hinted(anyhow!(error).context(self.phrase()), HINT))?;
        fs::rename(&self.part, &self.path).map_err(|error| {
            let hint = format!("the complete record is in {}", self.part.display());
            hinted(anyhow!(error).context(self.phrase()), hint)
        })
    }

    fn phrase(&self) -> String {
        format!("write the record {}", self.path.display())
    }

    /// Opens the file beside it, and removes it again if it did not exist.
    fn try_part(&self) -> io::Result<()> {
        let existed = self.part.try_exists()?;
        OpenOptions::new().create(true).append(true).open(&self.part)?;
        if existed { Ok(()) } else { fs::remove_file(&self.part) }
    }

    /// Refuses what rename(2) would refuse at the end: a directory, and another user's file in a
    /// sticky directory.
    fn check_rename(&self) -> anyhow::Result<()> {
        let Ok(file) = fs::symlink_metadata(&self.path) else { return Ok(()) };
        if file.is_dir() {
            return Err(refusal(format!("{}: it is a directory", self.phrase()), "name a file in it"));
        }
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(directory) = fs::metadata(parent) else { return Ok(()) };
        let user = rustix::process::geteuid().as_raw();
        let may = directory.mode() & STICKY == 0 || [0, file.uid(), directory.uid()].contains(&user);
        let other = || format!("{}: it is a file of another user, in a directory with the sticky bit", self.phrase());
        if may { Ok(()) } else { Err(refusal(other(), HINT)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_known_before_the_run_and_looking_leaves_nothing() {
        let directory = std::env::temp_dir().join(format!("millrace-record-{}", std::process::id()));
        fs::create_dir_all(directory.join("taken")).unwrap();
        let said = |name: &str| RecordFile::prepare(&directory.join(name)).err().map(|error| format!("{error:#}"));
        assert_eq!(said("run.json"), None);
        assert!(said("missing/run.json").unwrap().ends_with("missing/run.json: No such file or directory (os error 2)"));
        assert!(said("taken").unwrap().ends_with("taken: it is a directory"));
        fs::write(directory.join("run.json"), "of an earlier run").unwrap();
        assert_eq!(said("run.json"), None);
        assert_eq!(fs::read_to_string(directory.join("run.json")).unwrap(), "of an earlier run");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        fs::remove_dir_all(&directory).unwrap();
    }
}
