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

/// The file of a record. A symbolic link is followed. What is no regular file, such as /dev/stdout, is written directly.
pub(super) struct RecordFile {
    path: PathBuf,
    /// A file beside it, which is written and then renamed, so that a reader never sees half a record.
    /// `None` for what is no regular file.
    part: Option<PathBuf>,
}

impl RecordFile {
    /// Fails if the file could not be written at the end.
    pub(super) fn prepare(path: &Path) -> anyhow::Result<Self> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_special = fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let part = (!is_special).then(|| PathBuf::from([path.as_os_str(), ".part".as_ref()].join(std::ffi::OsStr::new(""))));
        let file = Self { path, part };
        file.try_part().map_err(|error| hinted(anyhow!(error).context(file.phrase()), HINT))?;
        file.check_rename()?;
        Ok(file)
    }

    /// Writes the record. If the complete file cannot be renamed it stays, and the hint names it.
    pub(super) fn write(&self, record: &OrdersRun) -> anyhow::Result<()> {
        let mut json = serde_json::to_vec_pretty(record)?;
        json.push(b'\n');
        let part = self.part.as_ref().unwrap_or(&self.path);
        fs::write(part, json).map_err(|error| hinted(anyhow!(error).context(self.phrase()), HINT))?;
        let Some(part) = &self.part else { return Ok(()) };
        fs::rename(part, &self.path).map_err(|error| {
            let hint = format!("the complete record is in {}", part.display());
            hinted(anyhow!(error).context(self.phrase()), hint)
        })
    }

    fn phrase(&self) -> String {
        format!("write the record {}", self.path.display())
    }

    /// Opens the file beside it, and removes it again if it did not exist.
    fn try_part(&self) -> io::Result<()> {
        let Some(part) = &self.part else { return OpenOptions::new().append(true).open(&self.path).map(drop) };
        let existed = part.try_exists()?;
        OpenOptions::new().create(true).append(true).open(part)?;
        if existed { Ok(()) } else { fs::remove_file(part) }
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
        // A link is followed, and a device stays what it is.
        std::os::unix::fs::symlink("run.json", directory.join("link")).unwrap();
        let linked = RecordFile::prepare(&directory.join("link")).unwrap();
        assert_eq!((linked.path.file_name(), linked.part.is_some()), (Some("run.json".as_ref()), true));
        assert_eq!(RecordFile::prepare(Path::new("/dev/null")).unwrap().part, None);
        fs::remove_dir_all(&directory).unwrap();
    }
}
