//! The volume's own record on disk, outside the served directory. It is replaced whole: written beside, flushed,
//! renamed over, directory flushed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::record::Record;
use crate::sys;

const FILE: &str = "volume-state";
const FILE_NEW: &str = "volume-state.new";
const LOCK: &str = "lock";

/// Directories that were made for a state directory, the outermost first.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewDirectories(Vec<PathBuf>);

impl NewDirectories {
    /// Makes a directory with those above it, as far as they are missing.
    pub(crate) fn make(dir: &Path) -> io::Result<Self> {
        let missing: Vec<&Path> = dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.is_dir()).collect();
        let mut made = Self::default();
        for path in missing.into_iter().rev() {
            match fs::DirBuilder::new().mode(0o700).create(path) {
                Ok(()) => made.0.push(path.to_path_buf()),
                // By another process, in this moment: then it is not for this one to remove.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                Err(error) => {
                    made.remove();
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Removes what was made: the innermost with the record in it, those above unless something else is there by now.
    pub(crate) fn remove(&self) {
        let mut made = self.0.iter().rev();
        // That a directory stays is no error of the start that was refused.
        if let Some(innermost) = made.next() {
            let _ = fs::remove_dir_all(innermost);
        }
        let _ = made.try_for_each(fs::remove_dir);
    }
}

/// The record on disk, held under a lock.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    dir_file: File,
    _lock: OwnedFd,
}

impl Store {
    /// Locks the directory and reads its record, which is made where missing.
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
        let store = Self { dir: dir.to_path_buf(), dir_file, _lock: lock };
        let path = dir.join(FILE);
        let mut record = match fs::read_to_string(&path) {
            Ok(text) => Record::parse(&text).map_err(|reason| OpenError::StateFormat { path: path.clone(), reason })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let record = Record::random().map_err(failed(Path::new("/dev/urandom")))?;
                store.write(&record).map_err(failed(&path))?;
                record
            }
            Err(error) => return Err(failed(&path)(error)),
        };
        let shm_note = record.shm_note();
        // An unreadable number is that of a process killed while it wrote: there was a loss.
        let left = fs::read_to_string(&shm_note).ok().map(|text| text.parse::<u64>().unwrap_or(u64::MAX));
        if left.is_some_and(|left| left > record.loss_epoch) {
            // The number itself is not trusted: one step moves the verifier.
            record.loss_epoch += 1;
            store.write(&record).map_err(failed(&path))?;
        }
        if left.is_some() {
            fs::remove_file(&shm_note).map_err(failed(&shm_note))?;
        }
        Ok((store, record))
    }

    /// Replaces the record after a loss. First the epoch is left in memory that outlives the process but not
    /// the kernel (after a reboot the boot id has moved the verifier anyway): that takes microseconds, in
    /// which a kill could make the loss unknown, where the flushes of the record take milliseconds. There it
    /// stays when the state directory can't be written: it may be on the disk that just failed.
    pub(crate) fn write_loss(&self, record: &Record) -> io::Result<()> {
        let shm_note = record.shm_note();
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let left = options.open(&shm_note).and_then(|mut file| file.write_all(record.loss_epoch.to_string().as_bytes()));
        match (self.write(record), left) {
            (Ok(()), _) => {
                // What stays is older than the record then, and removed by the next start.
                let _ = fs::remove_file(shm_note);
                Ok(())
            }
            (Err(_), Ok(())) => Ok(()),
            (Err(failed), Err(_)) => Err(failed),
        }
    }

    /// Replaces the record. **Durability**: on disk when it returns.
    pub(crate) fn write(&self, record: &Record) -> io::Result<()> {
        let new = self.dir.join(FILE_NEW);
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(record.to_text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.dir.join(FILE))?;
        self.dir_file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn loss_survives_a_restart_though_the_state_directory_failed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("state");
        fs::create_dir(&dir).unwrap();
        let (store, mut record) = Store::open(&dir).unwrap();
        let before = record.loss_epoch;
        // Nobody, not even root, can replace a directory by a file.
        fs::create_dir(dir.join(FILE_NEW)).unwrap();
        record.loss_epoch += 1;
        assert!(store.write(&record).is_err());
        store.write_loss(&record).unwrap();
        drop(store);
        fs::remove_dir(dir.join(FILE_NEW)).unwrap();
        assert_eq!(Store::open(&dir).unwrap().1.loss_epoch, before + 1);
        assert_eq!(Store::open(&dir).unwrap().1.loss_epoch, before + 1, "once");
    }

    #[test]
    fn loss_is_known_though_the_process_was_killed_while_it_noted_it() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("state");
        fs::create_dir(&dir).unwrap();
        let (store, mut record) = Store::open(&dir).unwrap();
        record.loss_epoch += 1;
        store.write_loss(&record).unwrap();
        assert!(!record.shm_note().exists(), "on record, so the note is removed");
        fs::write(record.shm_note(), "").unwrap();
        drop(store);
        assert_eq!(Store::open(&dir).unwrap().1.loss_epoch, record.loss_epoch + 1);
        assert!(!record.shm_note().exists());
    }
}
