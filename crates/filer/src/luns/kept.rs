//! What is kept of a LUN outside its volume, in the volume's state directory: reservations (APTPL), and which initiators have
//! been told of which loss.
//!
//! Both belong to the device and not to its data: a snapshot that is restored must not bring an old reservation back, and a copy
//! of the volume, which is another device, must not begin with one.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::LunError;
use crate::limits::{LUN_KEPT_BYTES_MAX, LUN_NEXUSES_KEPT_MAX};

const FORMAT: u32 = 1;

/// The files of a LUN in the state directory.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    dir: PathBuf,
    id: u64,
}

/// The loss epoch of the volume that each nexus was last told of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToldLosses {
    format: u32,
    nexuses: VecDeque<(String, u64)>, // the latest last
}

impl ToldLosses {
    /// The epoch that a nexus knows; none: it never wrote here, or that was long ago.
    pub(super) fn of(&self, nexus: &str) -> Option<u64> {
        self.nexuses.iter().find(|(name, _)| name == nexus).map(|(_, epoch)| *epoch)
    }

    /// Notes that a nexus knows of an epoch.
    pub(super) fn set(&mut self, nexus: &str, epoch: u64) {
        self.nexuses.retain(|(name, _)| name != nexus);
        if self.nexuses.len() >= LUN_NEXUSES_KEPT_MAX {
            self.nexuses.pop_front();
        }
        self.nexuses.push_back((nexus.to_owned(), epoch));
    }
}

impl Kept {
    /// Those of the LUN of an id.
    pub(super) fn new(state_dir: &Path, id: u64) -> Self {
        Self { dir: state_dir.join("luns"), id }
    }

    /// The reservations as they were kept last; empty when there are none.
    pub(super) fn reservations(&self) -> Result<Vec<u8>, LunError> {
        self.read("reservations")
    }

    /// Keeps them; nothing is kept of none. **Durability**: on disk when it returns.
    pub(super) fn keep_reservations(&self, bytes: &[u8]) -> Result<(), LunError> {
        if bytes.is_empty() { self.remove("reservations") } else { self.write("reservations", bytes) }
    }

    /// Which losses initiators have been told of. What cannot be read counts as nothing: they are told once more.
    pub(super) fn told_losses(&self) -> ToldLosses {
        let read = self.read("told").ok();
        let told = read.and_then(|text| serde_json::from_slice::<ToldLosses>(&text).ok());
        told.filter(|told| told.format == FORMAT && told.nexuses.len() <= LUN_NEXUSES_KEPT_MAX).unwrap_or_default()
    }

    /// Keeps that. **Durability**: on disk when it returns.
    pub(super) fn keep_told_losses(&self, told: &ToldLosses) -> Result<(), LunError> {
        let told = ToldLosses { format: FORMAT, ..told.clone() };
        self.write("told", &serde_json::to_vec(&told).unwrap_or_default())
    }

    /// Keeps nothing more of the LUN.
    pub(super) fn remove_all(&self) -> Result<(), LunError> {
        ["reservations", "told"].iter().try_for_each(|what| self.remove(what))
    }

    fn path(&self, what: &str) -> PathBuf {
        self.dir.join(format!("{:016x}.{what}", self.id))
    }

    fn read(&self, what: &str) -> Result<Vec<u8>, LunError> {
        let path = self.path(what);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(LUN_KEPT_BYTES_MAX).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(LunError::State { what: "read", path, source }),
        }
    }

    fn write(&self, what: &str, bytes: &[u8]) -> Result<(), LunError> {
        let path = self.path(what);
        self.replace(&path, bytes).map_err(|source| LunError::State { what: "write", path, source })
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(&self.dir) {
            Ok(()) => self.dir.parent().map_or(Ok(()), sync_directory)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_directory(&self.dir)
    }

    fn remove(&self, what: &str) -> Result<(), LunError> {
        let path = self.path(what);
        match fs::remove_file(&path) {
            Ok(()) => sync_directory(&self.dir).map_err(|source| LunError::State { what: "remove", path, source }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(LunError::State { what: "remove", path, source }),
        }
    }
}

fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_nothing_is_kept_of_nothing() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::new(state.path(), 7);
        assert_eq!(kept.reservations().unwrap(), b"");
        kept.keep_reservations(b"some").unwrap();
        let mut told = kept.told_losses();
        told.set("a", 1);
        kept.keep_told_losses(&told).unwrap();
        assert_eq!((kept.reservations().unwrap(), kept.told_losses().of("a")), (b"some".to_vec(), Some(1)));
        assert_eq!(Kept::new(state.path(), 8).reservations().unwrap(), b"", "another LUN's");
        kept.keep_reservations(b"").unwrap();
        kept.remove_all().unwrap();
        assert_eq!(fs::read_dir(state.path().join("luns")).unwrap().count(), 0);
    }

    #[test]
    fn the_latest_initiators_are_remembered() {
        let mut told = ToldLosses::default();
        (0..=LUN_NEXUSES_KEPT_MAX as u64).for_each(|nexus| told.set(&nexus.to_string(), nexus));
        told.set("1", 77);
        assert_eq!((told.of("0"), told.of("1"), told.of("2")), (None, Some(77), Some(2)));
    }
}
