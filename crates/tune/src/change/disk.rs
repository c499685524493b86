//! The calls that change a disk. Each is counted as steps and is durable when it returns.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::attributes;
use super::limits::VALUE_BYTES_MAX;
use super::root::read_bounded;
use super::{ChangeError, Steps};

/// The metadata of a file that a change keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileMetadata {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Time of the last change of the contents: seconds and nanoseconds. `None` for a file that
    /// gets a new time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) modified: Option<(i64, u32)>,
}

impl FileMetadata {
    /// Reads the metadata of a file.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        let nanoseconds = u32::try_from(found.mtime_nsec()).unwrap_or(0);
        Ok(Self { mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid(), modified: Some((found.mtime(), nanoseconds)) })
    }
}

/// The temporary file for new contents, in the same directory. No other program uses a file of this
/// name.
pub(super) fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.millrace-new"))
}

/// Replaces a file's contents: creates a temporary file in the same directory, writes it, sets its
/// owner and mode, syncs and renames it, then syncs the directory. Wherever this ends, the file has
/// its old contents or its new ones.
///
/// # Errors
/// An error of the system. A temporary file that already exists is an error too.
pub(super) fn put(path: &Path, bytes: &[u8], metadata: Option<FileMetadata>, steps: &mut Steps) -> Result<(), ChangeError> {
    let new = temporary_path(path);
    let failed = |what| move |error| ChangeError::io(what, path, error);
    steps.next()?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .map_err(|error| ChangeError::io("make", &new, error))?;
    let (kept, go_on) = steps.next_write(bytes.len());
    file.write_all(bytes.get(..kept).unwrap_or(bytes)).map_err(failed("write the new"))?;
    go_on?;
    steps.next()?;
    set_metadata(&file, &new, metadata).map_err(failed("give owner and mode to the new"))?;
    attributes::pass_on(path, &file).map_err(failed("give access list and labels to the new"))?;
    steps.next()?;
    file.sync_all().map_err(failed("sync the new"))?;
    steps.next()?;
    fs::rename(&new, path).map_err(failed("replace"))?;
    sync_folder_of(path, steps)
}

/// Sets the owner, then the mode, because a change of owner clears bits of the mode, then the time.
fn set_metadata(file: &File, path: &Path, metadata: Option<FileMetadata>) -> io::Result<()> {
    let Some(metadata) = metadata else {
        return file.set_permissions(Permissions::from_mode(0o644));
    };
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (metadata.uid, metadata.gid) {
        chown(path, Some(metadata.uid), Some(metadata.gid))?;
    }
    file.set_permissions(Permissions::from_mode(metadata.mode))?;
    if let Some((seconds, nanoseconds)) = metadata.modified {
        let since = Duration::new(seconds.unsigned_abs(), nanoseconds);
        let time = if seconds >= 0 { SystemTime::UNIX_EPOCH.checked_add(since) } else { None };
        if let Some(time) = time {
            file.set_modified(time)?;
        }
    }
    Ok(())
}

/// Creates a folder that must not exist yet.
pub(super) fn make_folder(path: &Path, mode: u32, steps: &mut Steps) -> Result<(), ChangeError> {
    steps.next()?;
    fs::create_dir(path).map_err(|error| ChangeError::io("make the folder", path, error))?;
    steps.next()?;
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|error| ChangeError::io("give a mode to the folder", path, error))?;
    sync_folder_of(path, steps)
}

/// Removes a file. A missing file is not an error.
pub(super) fn remove_file(path: &Path, steps: &mut Steps) -> Result<(), ChangeError> {
    steps.next()?;
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => done.map_err(|error| ChangeError::io("remove", path, error))?,
    }
    sync_folder_of(path, steps)
}

/// Removes an empty folder. Returns whether the folder no longer exists; a folder with contents
/// stays.
pub(super) fn remove_folder(path: &Path, steps: &mut Steps) -> Result<bool, ChangeError> {
    steps.next()?;
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(false),
        done => done.map_err(|error| ChangeError::io("remove the folder", path, error))?,
    }
    sync_folder_of(path, steps)?;
    Ok(true)
}

/// Writes a file of the journal's folder. It may replace a torn one. The file and its folder are
/// synced.
pub(super) fn keep(path: &Path, bytes: &[u8], steps: &mut Steps) -> Result<(), ChangeError> {
    let failed = |error| ChangeError::io("write", path, error);
    steps.next()?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(failed)?;
    let (kept, go_on) = steps.next_write(bytes.len());
    file.write_all(bytes.get(..kept).unwrap_or(bytes)).map_err(failed)?;
    go_on?;
    steps.next()?;
    file.sync_all().map_err(failed)?;
    sync_folder_of(path, steps)
}

/// Sets a running value with one write, as a shell's `echo >` does.
pub(super) fn set_value(path: &Path, value: &str, steps: &mut Steps) -> Result<(), ChangeError> {
    let failed = |error| ChangeError::io("set", path, error);
    let (kept, go_on) = steps.next_write(value.len());
    if go_on.is_err() && kept == 0 {
        return go_on;
    }
    let mut file = OpenOptions::new().write(true).truncate(true).open(path).map_err(failed)?;
    file.write_all(value.as_bytes().get(..kept).unwrap_or_default()).map_err(failed)?;
    go_on
}

/// Reads a running value; `None` if its file does not exist.
pub(super) fn value(path: &Path) -> Result<Option<String>, ChangeError> {
    let failed = |error| ChangeError::io("read", path, error);
    match read_bounded(path, VALUE_BYTES_MAX).map_err(failed)? {
        None => Ok(None),
        Some(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| failed(io::Error::other("the value is not UTF-8 text"))),
    }
}

/// A file's name is durable only after its folder is synced.
pub(super) fn sync_folder_of(path: &Path, steps: &mut Steps) -> Result<(), ChangeError> {
    steps.next()?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| ChangeError::io("sync the folder", folder, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_old_or_its_new_contents_whenever_it_ends() {
        for step in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("fstab");
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
            let metadata = FileMetadata::of(&path).unwrap();
            let done = put(&path, b"new contents", Some(metadata), &mut Steps::ending_at(step, true));
            let now = fs::read_to_string(&path).unwrap();
            assert!(now == "old" || now == "new contents", "{now:?} at step {step}");
            assert_eq!(FileMetadata::of(&path).unwrap().mode, 0o640);
            if done.is_ok() {
                assert!(now == "new contents" && step >= 6);
                assert_eq!(FileMetadata::of(&path).unwrap(), metadata);
                return;
            }
        }
    }

    #[test]
    fn a_left_over_beside_is_an_error_and_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fstab");
        fs::write(temporary_path(&path), "somebody's").unwrap();
        assert!(put(&path, b"new", None, &mut Steps::new()).is_err());
        assert_eq!(fs::read_to_string(temporary_path(&path)).unwrap(), "somebody's");
    }
}
