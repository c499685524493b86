//! The volume's own record, outside the served directory: id, MAC key, loss epoch.
//!
//! Layout: `docs/format-volume-state.md`. The record is replaced whole: written beside, flushed,
//! renamed over, directory flushed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::handle::keyed_hash;
use crate::sys;

const FILE: &str = "volume-state";
const FILE_NEW: &str = "volume-state.new";
const LOCK: &str = "lock";
const TITLE: &str = "millrace-volume-state 1";

/// The record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Random, made once.
    pub(crate) id: [u8; 16],
    /// Random, made once; key of handles and verifier.
    pub(crate) key: [u8; 16],
    /// Times unstable data may have been lost under this volume id.
    pub(crate) loss_epoch: u64,
}

/// The record on disk, held under a lock.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    dir_file: File,
    _lock: OwnedFd,
}

impl Store {
    /// Makes the directory and the record where missing, locks it, reads it.
    pub(crate) fn open(dir: &Path) -> Result<(Self, Record), OpenError> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| OpenError::State { path, source }
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed(dir))?;
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
        let shm_note = Record::shm_note(&record.id);
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
        let shm_note = Record::shm_note(&record.id);
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

impl Record {
    /// Where the loss epoch is noted before the record: memory that outlives the process.
    fn shm_note(id: &[u8; 16]) -> PathBuf {
        Path::new("/dev/shm").join(format!("millrace-loss-{}", hex(id)))
    }

    fn random() -> io::Result<Self> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let (mut id, mut key) = ([0; 16], [0; 16]);
        id.copy_from_slice(&bytes[..16]);
        key.copy_from_slice(&bytes[16..]);
        Ok(Self { id, key, loss_epoch: 1 })
    }

    fn to_text(&self) -> String {
        let body = format!("{TITLE}\nid {}\nkey {}\nloss-epoch {}\n", hex(&self.id), hex(&self.key), self.loss_epoch);
        let sum = keyed_hash(&self.key, &[body.as_bytes()]);
        format!("{body}sum {sum:016x}\n")
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let (body, sum) = text.rsplit_once("sum ").ok_or("no checksum line")?;
        let mut lines = body.lines();
        if lines.next() != Some(TITLE) {
            return Err("not a volume state of version 1");
        }
        let mut field = |name: &str| lines.next().and_then(|line| line.strip_prefix(name));
        let id = field("id ").and_then(unhex).ok_or("volume id is not 32 hexadecimal digits")?;
        let key = field("key ").and_then(unhex).ok_or("key is not 32 hexadecimal digits")?;
        let loss_epoch = field("loss-epoch ").and_then(|n| n.parse().ok()).ok_or("loss epoch is not a number")?;
        if u64::from_str_radix(sum.trim_end(), 16) != Ok(keyed_hash(&key, &[body.as_bytes()])) {
            return Err("checksum does not match");
        }
        Ok(Self { id, key, loss_epoch })
    }
}

/// The write verifier: moves with the volume, the running kernel and the loss epoch, with nothing else.
pub(crate) fn verifier(record: &Record, boot_id: &[u8]) -> [u8; 8] {
    keyed_hash(&record.key, &[b"verifier", &record.id, boot_id, &record.loss_epoch.to_le_bytes()]).to_le_bytes()
}

/// The file system's number: moves with the volume, with nothing else.
pub(crate) fn fsid(record: &Record) -> u64 {
    u64::from_le_bytes(verifier(&Record { loss_epoch: 0, ..record.clone() }, b"fsid"))
}

/// Identity of the running kernel; `None` when /proc does not say.
pub(crate) fn boot_id() -> Option<Vec<u8>> {
    fs::read("/proc/sys/kernel/random/boot_id").ok().filter(|id| !id.is_empty())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record { id: [1; 16], key: [2; 16], loss_epoch: 9 }
    }

    #[test]
    fn record_round_trips() {
        assert_eq!(Record::parse(&record().to_text()), Ok(record()));
    }

    #[test]
    fn loss_survives_a_restart_though_the_state_directory_failed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("state");
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
        let (store, mut record) = Store::open(&dir).unwrap();
        record.loss_epoch += 1;
        store.write_loss(&record).unwrap();
        assert!(!Record::shm_note(&record.id).exists(), "on record, so the note is removed");
        fs::write(Record::shm_note(&record.id), "").unwrap();
        drop(store);
        assert_eq!(Store::open(&dir).unwrap().1.loss_epoch, record.loss_epoch + 1);
        assert!(!Record::shm_note(&record.id).exists());
    }

    #[test]
    fn damaged_record_is_refused() {
        let text = record().to_text();
        assert!(Record::parse(&text.replace("epoch 9", "epoch 8")).is_err());
        assert!(Record::parse(&text.replace("state 1", "state 2")).is_err());
        assert!(Record::parse(&text[..text.len() / 2]).is_err());
        assert!(Record::parse("").is_err());
    }

    #[test]
    fn verifier_moves_with_epoch_and_boot_only() {
        let (one, mut later) = (record(), record());
        assert_eq!(verifier(&one, b"boot"), verifier(&later, b"boot"));
        assert_ne!(verifier(&one, b"boot"), verifier(&one, b"tool"));
        later.loss_epoch += 1;
        assert_ne!(verifier(&one, b"boot"), verifier(&later, b"boot"));
    }
}
