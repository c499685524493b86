//! The volume's own record on disk, outside the served directory. To replace it, the volume writes a new file, flushes it,
//! renames it over the old one, and flushes the directory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::descriptor_budget::opening;
use crate::error::OpenError;
use crate::record::Record;
use crate::sys;

const FILE: &str = "volume-state";
const LOCK: &str = "lock";
/// The identity of the served directory.
const DIRECTORY: &str = "directory";

/// Directories that were made for a state directory, the outermost first.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewDirectories(Vec<PathBuf>);

impl NewDirectories {
    /// Makes a directory and those above it that do not exist.
    pub(crate) fn make(dir: &Path) -> io::Result<Self> {
        let missing: Vec<&Path> = dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.is_dir()).collect();
        let mut made = Self::default();
        for path in missing.into_iter().rev() {
            match fs::DirBuilder::new().mode(0o700).create(path) {
                Ok(()) => made.0.push(path.to_path_buf()),
                // Another process has just made it, so this one must not remove it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                Err(error) => {
                    made.remove();
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Removes the directories that were made: the innermost with the record in it, and those above it if they are empty.
    pub(crate) fn remove(&self) {
        let mut made = self.0.iter().rev();
        // The start was refused for another reason, which the caller reports.
        if let Some(innermost) = made.next() {
            let _ = fs::remove_dir_all(innermost);
        }
        let _ = made.try_for_each(fs::remove_dir);
    }
}

/// The record on disk, and the lock on it.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    dir: PathBuf,
    dir_file: File,
    lock: OwnedFd,
}

impl Drop for StateDirectory {
    fn drop(&mut self) {
        sys::unlock(&self.lock);
    }
}

impl StateDirectory {
    /// Locks the directory and reads its record. Makes the record if it does not exist.
    pub(crate) fn open(dir: &Path) -> Result<(Self, Record), OpenError> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| OpenError::State { path, source }
        };
        let dir_file = File::open(dir).map_err(failed(dir))?;
        let lock_path = dir.join(LOCK);
        let lock = sys::open_path(&lock_path, libc::O_RDWR | libc::O_CREAT, 0o600).map_err(failed(&lock_path))?;
        if !sys::lock_exclusively(&lock).map_err(failed(&lock_path))? {
            return Err(OpenError::InUse { path: lock_path });
        }
        let state = Self { dir: dir.to_path_buf(), dir_file, lock };
        let path = dir.join(FILE);
        let mut record = match fs::read_to_string(&path) {
            Ok(text) => Record::parse(&text).map_err(|reason| OpenError::StateFormat { path: path.clone(), reason })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let record = Record::random().map_err(failed(Path::new("/dev/urandom")))?;
                state.write(&record).map_err(failed(&path))?;
                record
            }
            Err(error) => return Err(failed(&path)(error)),
        };
        let shm_note = record.shm_note();
        // If the number is not readable, the process was killed while it wrote it: data was lost.
        let left = fs::read_to_string(&shm_note).ok().map(|text| text.parse::<u64>().unwrap_or(u64::MAX));
        if left.is_some_and(|left| left > record.loss_epoch) {
            // The number itself is not trusted. One step is enough to change the verifier.
            record.loss_epoch += 1;
            state.write(&record).map_err(failed(&path))?;
        }
        if left.is_some() {
            fs::remove_file(&shm_note).map_err(failed(&shm_note))?;
        }
        Ok((state, record))
    }

    /// Replaces the record after a loss. Before that, it notes the epoch in memory that outlives the process but not the
    /// kernel: after a reboot the boot id changes the verifier anyway. The note takes microseconds and the flushes of
    /// the record take milliseconds, so a kill in between hardly ever hides the loss. The note stays if the state
    /// directory cannot be written, because it may be on the disk that has just failed.
    pub(crate) fn write_loss(&self, record: &Record) -> io::Result<()> {
        let shm_note = record.shm_note();
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let left =
            opening(|| options.open(&shm_note)).and_then(|mut file| file.write_all(record.loss_epoch.to_string().as_bytes()));
        match (self.write(record), left) {
            (Ok(()), _) => {
                // If the note stays, the next start ignores and removes it: its epoch is that of the record.
                let _ = fs::remove_file(shm_note);
                Ok(())
            }
            (Err(_), Ok(())) => Ok(()),
            (Err(failed), Err(_)) => Err(failed),
        }
    }

    /// The record for the served directory with this identity. If the state was used for another directory, a new record replaces the
    /// old one: the host opens a handle wherever its object is on the file system, so handles of the other directory must not be valid
    /// here. Returns whether the record was replaced.
    pub(crate) fn of_directory(&self, record: Record, directory: &str) -> io::Result<(Record, bool)> {
        let path = self.dir.join(DIRECTORY);
        let known = match fs::read_to_string(&path) {
            Ok(known) => Some(known),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if known.as_deref() == Some(directory) {
            return Ok((record, false));
        }
        let is_another = known.is_some();
        let record = if is_another { Record::random()? } else { record };
        // The record is written first. After a crash in between, the next start makes another new one.
        if is_another {
            self.write(&record)?;
        }
        self.replace(DIRECTORY, directory)?;
        Ok((record, is_another))
    }

    /// Replaces the record. **Durability**: on disk when it returns.
    pub(crate) fn write(&self, record: &Record) -> io::Result<()> {
        self.replace(FILE, &record.to_text())
    }

    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        replace(&self.dir_file, &self.dir, name, text.as_bytes())
    }
}

/// Replaces a file of a state directory. **Durability**: on disk when it returns.
pub(crate) fn replace(dir_file: &File, dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let mut file = opening(|| fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, dir.join(name))?;
    dir_file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_NEW: &str = "volume-state.new";

    #[test]
    fn only_directories_that_were_made_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a/b/state");
        let made = NewDirectories::make(&dir).unwrap();
        fs::write(dir.join(FILE), "").unwrap();
        let again = NewDirectories::make(&dir).unwrap();
        again.remove();
        assert!(dir.join(FILE).exists(), "it was there already");
        fs::write(base.path().join("a/another"), "").unwrap();
        made.remove();
        assert!(!base.path().join("a/b").exists() && base.path().join("a/another").exists());
    }

    #[test]
    fn a_record_belongs_to_one_directory() {
        let base = tempfile::tempdir().unwrap();
        let (state, record) = StateDirectory::open(base.path()).unwrap();
        assert_eq!(
            state.of_directory(record.clone(), "1:aa\n").unwrap(),
            (record.clone(), false),
            "a record without a directory is kept"
        );
        assert_eq!(state.of_directory(record.clone(), "1:aa\n").unwrap(), (record.clone(), false));
        let (other, is_new) = state.of_directory(record.clone(), "1:bb\n").unwrap();
        assert!(is_new && other.key != record.key && other.fsid() != record.fsid());
        drop(state);
        assert_eq!(StateDirectory::open(base.path()).unwrap().1, other);
    }

    #[test]
    fn loss_survives_a_restart_though_the_state_directory_failed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("state");
        fs::create_dir(&dir).unwrap();
        let (state, mut record) = StateDirectory::open(&dir).unwrap();
        let before = record.loss_epoch;
        // Not even root can replace a directory by a file.
        fs::create_dir(dir.join(FILE_NEW)).unwrap();
        record.loss_epoch += 1;
        assert!(state.write(&record).is_err());
        state.write_loss(&record).unwrap();
        drop(state);
        fs::remove_dir(dir.join(FILE_NEW)).unwrap();
        assert_eq!(StateDirectory::open(&dir).unwrap().1.loss_epoch, before + 1);
        assert_eq!(StateDirectory::open(&dir).unwrap().1.loss_epoch, before + 1, "once");
    }

    #[test]
    fn loss_is_known_though_the_process_was_killed_while_it_noted_it() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("state");
        fs::create_dir(&dir).unwrap();
        let (state, mut record) = StateDirectory::open(&dir).unwrap();
        record.loss_epoch += 1;
        state.write_loss(&record).unwrap();
        assert!(!record.shm_note().exists(), "on record, so the note is removed");
        fs::write(record.shm_note(), "").unwrap();
        drop(state);
        assert_eq!(StateDirectory::open(&dir).unwrap().1.loss_epoch, record.loss_epoch + 1);
        assert!(!record.shm_note().exists());
    }
}
