//! The LUNs of a volume: opened with the volume; created, changed and deleted while it is served.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use host::Unpoisoned;
use iscsi_proto::scsi::Nexus;
use volume::{Durable, Error, Volume};

use super::error::LunError;
use super::files::LunFiles;
use super::kept::Kept;
use super::lun::{Abort, Lun, OfVolume};
use super::naming::Naming;
use super::record::{LunOptions, LunRecord, LunState};
use crate::limits::{LUN_INITIATORS_MAX, LUN_NAME_BYTES_MAX, LUN_NUMBER_MAX, LUN_PHYSICAL_BLOCK_BYTES_MAX, LUNS_PER_VOLUME_MAX};
use crate::sys;

/// The LUNs of a volume.
pub(crate) struct Luns {
    volume_name: String,
    files: LunFiles,
    of_volume: OfVolume,
    open: RwLock<Open>,
    /// Changes when the LUNs change, or the initiators that one is mapped to.
    generation: AtomicU64,
    /// Held during a change.
    changing: Mutex<()>,
}

#[derive(Default)]
struct Open {
    by_number: BTreeMap<u16, Arc<Lun>>,
    /// Names of LUNs that cannot be served, with the reason.
    failed: BTreeMap<String, String>,
}

/// Properties of a LUN that will be created.
#[derive(Clone, Debug)]
pub(crate) struct NewLun {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// `None`: the first free number.
    pub(crate) number: Option<u16>,
    pub(crate) options: LunOptions,
}

impl Luns {
    /// Opens the LUNs of a volume. Logs a LUN that cannot be served, and lists it with the reason. The other LUNs are served.
    pub(crate) fn open(
        volume_name: &str,
        volume: &Volume,
        naming: &Naming,
        abort: impl Fn(&Nexus, u16) + Send + Sync + 'static,
    ) -> Self {
        let abort: Abort = Arc::new(abort);
        let of_volume =
            OfVolume { volume: volume.clone(), target: naming.target(volume_name, volume), ports: naming.ports(), abort };
        let luns = Self {
            volume_name: volume_name.to_owned(),
            files: LunFiles::new(volume.clone()),
            of_volume,
            open: RwLock::default(),
            generation: AtomicU64::new(1),
            changing: Mutex::default(),
        };
        match luns.files.names() {
            Ok(names) => names.iter().for_each(|name| luns.open_one(name)),
            Err(error) => tracing::error!(volume = volume_name, %error, "failed to look for LUNs: none is served"),
        }
        luns
    }

    fn open_one(&self, name: &str) {
        let opened = self.files.read(name).and_then(|record| match record.state {
            LunState::Ready => self.enter(name, record).map(drop),
            // No initiator has seen a LUN that was not complete, and no one relies on the data of a LUN whose deletion began.
            LunState::Creating | LunState::Deleting => {
                tracing::info!(volume = self.volume_name, lun = name, state = ?record.state, "removing what was left of a LUN");
                Kept::new(self.volume().state_dir(), record.id).remove_all()?;
                self.files.remove(name)
            }
        });
        if let Err(error) = opened {
            tracing::error!(volume = self.volume_name, lun = name, %error, "failed to open a LUN: it is not served");
            self.open.write().unpoisoned().failed.insert(name.to_owned(), error.to_string());
        }
    }

    /// Opens a LUN whose files are complete and makes it visible to initiators.
    fn enter(&self, name: &str, record: LunRecord) -> Result<Arc<Lun>, LunError> {
        let number = record.lun;
        if let Some(other) = self.numbered(number) {
            return Err(LunError::NumberTaken { number, name: other.name().to_owned() });
        }
        let lun = Arc::new(Lun::open(name, &self.of_volume, record, &self.files.data(name)?)?);
        let mut open = self.open.write().unpoisoned();
        open.failed.remove(name);
        open.by_number.insert(number, Arc::clone(&lun));
        Ok(lun)
    }

    /// The name of the target that has these LUNs.
    pub(crate) fn target(&self) -> &str {
        &self.of_volume.target
    }

    pub(crate) fn volume(&self) -> &Volume {
        self.files.volume()
    }

    /// Changes with every change of the LUNs.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// All LUNs, by number.
    pub(crate) fn all(&self) -> Vec<Arc<Lun>> {
        self.open.read().unpoisoned().by_number.values().cloned().collect()
    }

    /// The LUN with this number.
    pub(crate) fn numbered(&self, number: u16) -> Option<Arc<Lun>> {
        self.open.read().unpoisoned().by_number.get(&number).cloned()
    }

    /// Names of the LUNs that cannot be served, with the reason.
    pub(crate) fn failed(&self) -> Vec<(String, String)> {
        self.open.read().unpoisoned().failed.iter().map(|(name, reason)| (name.clone(), reason.clone())).collect()
    }

    /// The LUN with this name.
    ///
    /// # Errors
    /// [`LunError::NotFound`].
    pub(crate) fn named(&self, name: &str) -> Result<Arc<Lun>, LunError> {
        let open = self.open.read().unpoisoned();
        open.by_number.values().find(|lun| lun.name() == name).cloned().ok_or_else(|| LunError::NotFound {
            volume: self.volume_name.clone(),
            name: name.to_owned(),
            names: open.by_number.values().map(|lun| lun.name().to_owned()).collect(),
        })
    }

    /// Creates a LUN. **Durability**: the LUN is durable when this returns. After a crash before that, it does not exist.
    ///
    /// # Errors
    /// The invalid property, or why the LUN cannot be created. In that case nothing of it remains.
    pub(crate) fn create(&self, new: NewLun) -> Result<Arc<Lun>, LunError> {
        let _changing = self.changing.lock().unpoisoned();
        let NewLun { name, size, number, mut options } = new;
        check_name(&name)?;
        check_size(size, options.block_bytes)?;
        check_physical(&options)?;
        let names = self.files.names()?;
        if names.contains(&name) || self.files.has_data(&name) {
            return Err(LunError::Exists);
        }
        if names.len() >= LUNS_PER_VOLUME_MAX {
            return Err(LunError::TooMany);
        }
        options.lun = self.number_for(number)?;
        if options.initiators.len() > LUN_INITIATORS_MAX {
            return Err(LunError::TooManyInitiators);
        }
        let made = self.make(&name, size, options);
        if made.is_err()
            && let Err(error) = self.files.remove(&name)
        {
            tracing::warn!(lun = name, %error, "failed to remove what was made of a LUN; the next start does it");
        }
        self.changed(made.as_ref().ok());
        made.map_err(|error| self.with_space(size, size, error))
    }

    /// An error about the size with the reason, for example what is free, now that the attempt is undone. `wanted`: how much larger the
    /// LUN would be.
    fn with_space(&self, size: u64, wanted: u64, error: LunError) -> LunError {
        let volume = self.volume_name.clone();
        match error.of_volume() {
            Some(Error::NoSpace | Error::Quota) => {
                let available = self.volume().fs_stat().ok().map(|found| found.available_bytes);
                LunError::NoSpace { volume, wanted, quota: self.volume().quota(), available }
            }
            Some(Error::TooBig) => LunError::TooLarge { volume, size },
            _ => error,
        }
    }

    fn make(&self, name: &str, size: u64, options: LunOptions) -> Result<Arc<Lun>, LunError> {
        let failed = LunError::volume("make its data");
        let id = sys::random_number().map_err(|error| failed(error.into()))?;
        let mut record = LunRecord::new(id, options);
        self.files.write(name, &record)?;
        let node = self.files.make_data(name, size)?;
        if !record.thin {
            let device = self.volume().open_device(&node, record.block_bytes).map_err(LunError::device("reserve its space"))?;
            device.write_zeroes(0, size, Durable::OnReturn).map_err(LunError::device("reserve its space"))?;
        }
        record.state = LunState::Ready;
        self.files.write(name, &record)?;
        self.enter(name, record)
    }

    /// The number of a new LUN.
    fn number_for(&self, wanted: Option<u16>) -> Result<u16, LunError> {
        let open = self.open.read().unpoisoned();
        match wanted {
            Some(number) if number > LUN_NUMBER_MAX => Err(LunError::Number(number)),
            Some(number) => match open.by_number.get(&number) {
                Some(other) => Err(LunError::NumberTaken { number, name: other.name().to_owned() }),
                None => Ok(number),
            },
            None => (0..=LUN_NUMBER_MAX).find(|number| !open.by_number.contains_key(number)).ok_or(LunError::TooMany),
        }
    }

    /// Changes the size of a LUN, and reports the change to its initiators. **Durability**: durable when it returns.
    ///
    /// # Errors
    /// The new size is smaller and `shrink` is not set, is not a whole number of blocks, or the volume has no space.
    pub(crate) fn resize(&self, name: &str, size: u64, shrink: bool) -> Result<Arc<Lun>, LunError> {
        let _changing = self.changing.lock().unpoisoned();
        let lun = self.named(name)?;
        let (now, block_bytes, thin) = (lun.device().size(), lun.device().block_bytes(), lun.record().thin);
        check_size(size, block_bytes)?;
        if size < now && !shrink {
            return Err(LunError::Shrinks { size, now });
        }
        let grown = lun.device().resize(size).map_err(LunError::device("set the size of its data"));
        grown.map_err(|error| self.with_space(size, size.saturating_sub(now), error))?;
        if size > now && !thin {
            let reserved = lun.device().write_zeroes(now, size - now, Durable::OnReturn);
            if let Err(error) = reserved {
                lun.device().resize(now).map_err(LunError::device("set the size of its data back"))?;
                return Err(self.with_space(size, size - now, LunError::device("reserve its space")(error)));
            }
        }
        if size != now {
            lun.unit().capacity_changed();
        }
        Ok(lun)
    }

    /// Sets the names that a LUN is mapped to. **Durability**: durable when it returns.
    ///
    /// # Errors
    /// Too many names, the error of `change`, or why the record cannot be written.
    pub(crate) fn map(
        &self,
        name: &str,
        change: impl FnOnce(&mut Vec<String>) -> Result<(), LunError>,
    ) -> Result<Arc<Lun>, LunError> {
        let _changing = self.changing.lock().unpoisoned();
        let lun = self.named(name)?;
        let mut record = lun.record().clone();
        change(&mut record.initiators)?;
        if record.initiators.len() > LUN_INITIATORS_MAX {
            return Err(LunError::TooManyInitiators);
        }
        self.files.write(name, &record)?;
        lun.set_record(record);
        self.changed(None);
        Ok(lun)
    }

    /// Deletes a LUN and its data. **Durability**: the LUN is gone when this returns. After a crash during the deletion, the next start
    /// completes it, if the deletion was recorded.
    ///
    /// # Errors
    /// `users` are logged in, or the LUN cannot be removed.
    pub(crate) fn delete(&self, name: &str, users: Vec<String>) -> Result<(), LunError> {
        let _changing = self.changing.lock().unpoisoned();
        if let Some(file) = self.open.read().unpoisoned().failed.get(name).map(|_| name.to_owned()) {
            // A LUN that cannot be served is not in use.
            self.files.remove(&file)?;
            self.open.write().unpoisoned().failed.remove(name);
            return Ok(());
        }
        let lun = self.named(name)?;
        if !users.is_empty() {
            return Err(LunError::InUse(users));
        }
        let mut record = lun.record().clone();
        record.state = LunState::Deleting;
        self.files.write(name, &record)?;
        self.open.write().unpoisoned().by_number.remove(&record.lun);
        self.changed(None);
        // Commands in progress end first. Sessions notice the deletion with their next command.
        drop(lun.halt());
        lun.forget_kept()?;
        self.files.remove(name)
    }

    /// Restarts all units after a power cut.
    pub(crate) fn power_cycle(&self) {
        for lun in self.all() {
            if let Err(error) = lun.power_cycle() {
                tracing::error!(volume = self.volume_name, lun = lun.name(), %error, "failed to open a LUN: it is not served");
                self.open.write().unpoisoned().by_number.remove(&lun.number());
                self.open.write().unpoisoned().failed.insert(lun.name().to_owned(), error.to_string());
            }
        }
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Reports to sessions that the LUNs have changed, and to initiators by a unit attention of each unit except `but`.
    fn changed(&self, but: Option<&Arc<Lun>>) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        let others = self.all().into_iter().filter(|lun| but.is_none_or(|but| !Arc::ptr_eq(but, lun)));
        others.for_each(|lun| lun.unit().luns_changed());
    }
}

fn check_name(name: &str) -> Result<(), LunError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = !name.is_empty() && name.len() <= LUN_NAME_BYTES_MAX && !name.starts_with('.') && name.bytes().all(plain);
    if fits { Ok(()) } else { Err(LunError::Name(name.to_owned())) }
}

fn check_physical(options: &LunOptions) -> Result<(), LunError> {
    let LunOptions { block_bytes, physical_block_bytes, .. } = *options;
    let fits =
        physical_block_bytes.is_power_of_two() && (block_bytes..=LUN_PHYSICAL_BLOCK_BYTES_MAX).contains(&physical_block_bytes);
    if fits { Ok(()) } else { Err(LunError::PhysicalBlockBytes { physical_block_bytes, block_bytes }) }
}

fn check_size(size: u64, block_bytes: u32) -> Result<(), LunError> {
    if !matches!(block_bytes, 512 | 4096) {
        return Err(LunError::BlockBytes(block_bytes));
    }
    if size == 0 || !size.is_multiple_of(u64::from(block_bytes)) { Err(LunError::Size { size, block_bytes }) } else { Ok(()) }
}
