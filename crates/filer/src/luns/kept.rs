//! The state of a LUN outside its volume, in the volume's state directory: reservations (APTPL), and the losses that were
//! reported to each initiator.
//!
//! Both belong to the device and not to its data. A restored snapshot must not bring back an old reservation, and a copy
//! of the volume, which is another device, must not begin with a reservation.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use host::Unpoisoned;
use serde::{Deserialize, Serialize};
use volume::opening;

use super::error::LunError;
use crate::limits::{LUN_KEPT_BYTES_MAX, LUN_NEXUSES_KEPT_MAX};

const FORMAT: u32 = 1;
/// The file of the losses that were reported.
const LOSSES: &str = "told";

/// The files of a LUN in the state directory.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    dir: PathBuf,
    id: u64,
}

/// For each nexus, the last loss epoch of the volume that was reported to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportedLosses {
    format: u32,
    nexuses: VecDeque<(String, u64)>, // the latest last
}

impl ReportedLosses {
    /// The epoch that a nexus knows. `None` if it never wrote here, or if that was long ago.
    pub(super) fn of(&self, nexus: &str) -> Option<u64> {
        self.nexuses.iter().find(|(name, _)| name == nexus).map(|(_, epoch)| *epoch)
    }

    /// Notes that a nexus knows an epoch.
    pub(super) fn set(&mut self, nexus: &str, epoch: u64) {
        self.nexuses.retain(|(name, _)| name != nexus);
        if self.nexuses.len() >= LUN_NEXUSES_KEPT_MAX {
            self.nexuses.pop_front();
        }
        self.nexuses.push_back((nexus.to_owned(), epoch));
    }
}

/// The reported losses in memory, for all sessions of a LUN.
#[derive(Debug)]
pub(super) struct LossReports {
    noted: Mutex<Noted>,
    /// The latest change that is on disk. Held while the file is written.
    kept: Mutex<u64>,
}

#[derive(Debug)]
struct Noted {
    losses: ReportedLosses,
    changes: u64,
}

impl LossReports {
    pub(super) fn new(losses: ReportedLosses) -> Self {
        Self { noted: Mutex::new(Noted { losses, changes: 0 }), kept: Mutex::new(0) }
    }

    /// The epoch that a nexus knows. `None` if it never wrote here, or if that was long ago.
    pub(super) fn of(&self, nexus: &str) -> Option<u64> {
        self.noted.lock().unpoisoned().losses.of(nexus)
    }

    /// Notes that a nexus knows an epoch, and returns when `keep` has written that to disk. Callers that wait for the disk at the same time
    /// share the next write.
    pub(super) fn set<E>(&self, nexus: &str, epoch: u64, keep: impl FnOnce(&ReportedLosses) -> Result<(), E>) -> Result<(), E> {
        let own = {
            let mut noted = self.noted.lock().unpoisoned();
            if noted.losses.of(nexus) == Some(epoch) {
                return Ok(());
            }
            noted.losses.set(nexus, epoch);
            noted.changes += 1;
            noted.changes
        };
        let mut kept = self.kept.lock().unpoisoned();
        if *kept >= own {
            return Ok(());
        }
        let (losses, changes) = {
            let noted = self.noted.lock().unpoisoned();
            (noted.losses.clone(), noted.changes)
        };
        keep(&losses)?;
        *kept = changes;
        Ok(())
    }
}

impl Kept {
    /// The files of the LUN with this id.
    pub(super) fn new(state_dir: &Path, id: u64) -> Self {
        Self { dir: state_dir.join("luns"), id }
    }

    /// The reservations that were stored last. Empty if no reservation was stored.
    pub(super) fn reservations(&self) -> Result<Vec<u8>, LunError> {
        self.read("reservations")
    }

    /// Stores the reservations. Removes the file if there are none. **Durability**: on disk when it returns.
    pub(super) fn keep_reservations(&self, bytes: &[u8]) -> Result<(), LunError> {
        if bytes.is_empty() { self.remove("reservations") } else { self.write("reservations", bytes) }
    }

    /// The losses that were reported to initiators. If the file cannot be read, all losses are reported once more.
    pub(super) fn reported_losses(&self) -> ReportedLosses {
        let read = self.read(LOSSES).ok();
        let reported = read.and_then(|text| serde_json::from_slice::<ReportedLosses>(&text).ok());
        reported
            .filter(|reported| reported.format == FORMAT && reported.nexuses.len() <= LUN_NEXUSES_KEPT_MAX)
            .unwrap_or_default()
    }

    /// Stores the reported losses. **Durability**: on disk when it returns.
    pub(super) fn keep_reported_losses(&self, reported: &ReportedLosses) -> Result<(), LunError> {
        let reported = ReportedLosses { format: FORMAT, ..reported.clone() };
        self.write(LOSSES, &serde_json::to_vec(&reported).unwrap_or_default())
    }

    /// Removes the LUN's files.
    pub(super) fn remove_all(&self) -> Result<(), LunError> {
        ["reservations", LOSSES].iter().try_for_each(|what| self.remove(what))
    }

    fn path(&self, what: &str) -> PathBuf {
        self.dir.join(format!("{:016x}.{what}", self.id))
    }

    fn read(&self, what: &str) -> Result<Vec<u8>, LunError> {
        let path = self.path(what);
        let mut bytes = Vec::new();
        let read = opening(|| File::open(&path)).and_then(|file| file.take(LUN_KEPT_BYTES_MAX).read_to_end(&mut bytes));
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
        let mut file = opening(|| OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new))?;
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
    opening(|| File::open(dir))?.sync_all()
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
        let mut reported = kept.reported_losses();
        reported.set("a", 1);
        kept.keep_reported_losses(&reported).unwrap();
        assert_eq!((kept.reservations().unwrap(), kept.reported_losses().of("a")), (b"some".to_vec(), Some(1)));
        assert_eq!(Kept::new(state.path(), 8).reservations().unwrap(), b"", "another LUN's");
        kept.keep_reservations(b"").unwrap();
        kept.remove_all().unwrap();
        assert_eq!(fs::read_dir(state.path().join("luns")).unwrap().count(), 0);
    }

    #[test]
    fn initiators_that_write_first_at_one_time_share_what_is_written_to_the_disk() {
        const INITIATORS: u64 = 50;
        let (reported, written) = (LossReports::new(ReportedLosses::default()), Mutex::new(Vec::new()));
        let write = |losses: &ReportedLosses| -> Result<(), ()> {
            // The first write is slow, so the other callers wait during it.
            while written.lock().unpoisoned().is_empty() && reported.noted.lock().unpoisoned().changes < INITIATORS {
                std::thread::yield_now();
            }
            written.lock().unpoisoned().push(losses.nexuses.len() as u64);
            Ok(())
        };
        std::thread::scope(|scope| {
            for nexus in 0..INITIATORS {
                let (reported, write) = (&reported, &write);
                scope.spawn(move || reported.set(&nexus.to_string(), 1, write).unwrap());
            }
        });
        let written = written.lock().unpoisoned().clone();
        assert!(written.len() <= 2 && written.last() == Some(&INITIATORS), "{written:?}");
    }

    #[test]
    fn the_latest_initiators_are_remembered() {
        let mut reported = ReportedLosses::default();
        (0..=LUN_NEXUSES_KEPT_MAX as u64).for_each(|nexus| reported.set(&nexus.to_string(), nexus));
        reported.set("1", 77);
        assert_eq!((reported.of("0"), reported.of("1"), reported.of("2")), (None, Some(77), Some(2)));
    }
}
