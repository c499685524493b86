//! A LUN that is served.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use host::Unpoisoned;
use iscsi_proto::scsi::{Asc, Host, HostError, Identity, LogicalUnit, Nexus, Settings};
use volume::Volume;

use super::error::LunError;
use super::kept::{Kept, LossReports};
use super::naming;
use super::record::LunRecord;
use super::stats::LunStats;
use super::store::LunStore;

/// The product name of every LUN, as initiators see it.
const PRODUCT: &str = "LUN";
/// The product revision. It names the behaviour of LUNs, not the version of the program, because an initiator treats a LUN with another
/// revision as another disk.
const REVISION: &str = "0001";

/// The logical unit of a LUN.
pub(crate) type Unit = LogicalUnit<Arc<LunStore>>;

/// Aborts the commands of a nexus at a unit of a target that have not begun.
pub(crate) type Abort = Arc<dyn Fn(&Nexus, u16) + Send + Sync>;

/// What all LUNs of a volume share.
#[derive(Clone)]
pub(super) struct OfVolume {
    pub(super) volume: Volume,
    pub(super) target: String,
    pub(super) ports: Vec<iscsi_proto::scsi::TargetPort>,
    pub(super) abort: Abort,
}

/// A LUN. Shared by all sessions.
pub(crate) struct Lun {
    name: String,
    of_volume: OfVolume,
    naa: u64,
    store: Arc<LunStore>,
    unit: RwLock<Arc<Unit>>, // another one after a power cut
    record: RwLock<LunRecord>,
    kept: Kept,
    reported: LossReports,
    executing: RwLock<()>,
    stats: LunStats,
}

/// While this exists, commands of the LUN are in progress.
pub(crate) struct Executing<'l>(#[expect(dead_code, reason = "held for what it keeps away")] RwLockReadGuard<'l, ()>);

/// While this exists, no command of the LUN is in progress, and no command begins.
pub(crate) struct Halted<'l>(#[expect(dead_code, reason = "held for what it keeps away")] RwLockWriteGuard<'l, ()>);

/// What a nexus knows about lost data of the LUN when it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knows {
    /// No write of it is remembered.
    Nothing,
    /// No data was lost since it wrote here.
    All,
    /// Data may have been lost since. A unit attention reports that.
    NotTheLoss,
}

impl Lun {
    pub(super) fn open(name: &str, of_volume: &OfVolume, record: LunRecord, node: &volume::Node) -> Result<Self, LunError> {
        let device = of_volume.volume.open_device(node, record.block_bytes).map_err(LunError::device("open its data"))?;
        let kept = Kept::new(of_volume.volume.state_dir(), record.id);
        let naa = naming::number(&of_volume.volume, record.id);
        let store = Arc::new(LunStore::new(device, format!("{}/{name}", of_volume.target)));
        let unit = RwLock::new(Arc::new(unit(name, of_volume, &record, &kept, &store)?));
        let (reported, executing, stats) = (LossReports::new(kept.reported_losses()), RwLock::new(()), LunStats::default());
        let (name, of_volume, record) = (name.to_owned(), of_volume.clone(), RwLock::new(record));
        Ok(Self { name, of_volume, naa, store, unit, record, kept, reported, executing, stats })
    }

    /// The LUN's name in its volume.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number by which initiators address the LUN.
    pub(crate) fn number(&self) -> u16 {
        self.record().lun
    }

    pub(crate) fn record(&self) -> RwLockReadGuard<'_, LunRecord> {
        self.record.read().unpoisoned()
    }

    pub(super) fn set_record(&self, record: LunRecord) {
        *self.record.write().unpoisoned() = record;
    }

    /// The LUN's data as a block device.
    pub(crate) fn device(&self) -> &volume::BlockDevice {
        self.store.device()
    }

    /// The volume that has the LUN.
    pub(crate) const fn volume(&self) -> &Volume {
        &self.of_volume.volume
    }

    /// The logical unit.
    pub(crate) fn unit(&self) -> Arc<Unit> {
        Arc::clone(&self.unit.read().unpoisoned())
    }

    /// The LUN's counters.
    pub(crate) const fn stats(&self) -> &LunStats {
        &self.stats
    }

    /// The LUN's serial number, which its NAA identifier contains too.
    pub(crate) fn serial(&self) -> String {
        serial(self.naa)
    }

    /// Must be held while commands of the LUN are executed.
    pub(crate) fn executing(&self) -> Executing<'_> {
        Executing(self.executing.read().unpoisoned())
    }

    /// Waits for the commands in progress, and prevents further ones from beginning.
    pub(crate) fn halt(&self) -> Halted<'_> {
        Halted(self.executing.write().unpoisoned())
    }

    /// Attaches a new nexus. The reply to its first command reports what happened to the unit since its last session. Returns what the
    /// nexus knows, and the loss epoch that it knows after that command.
    pub(crate) fn attach(&self, nexus: &Nexus) -> (Knows, u64) {
        let epoch = self.device().loss_epoch();
        let knows = match self.reported.of(&key(nexus)) {
            None => Knows::Nothing,
            Some(known) if known == epoch => Knows::All,
            Some(_) => Knows::NotTheLoss,
        };
        let attention = match knows {
            // The nexus may have been forgotten, or its initiator may write by another nexus. A superfluous report does no harm.
            Knows::Nothing if epoch > volume::FIRST_LOSS_EPOCH && self.record().write_cache => Asc::POWER_ON_OCCURRED,
            Knows::Nothing => Asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET,
            Knows::All => Asc::I_T_NEXUS_LOSS_OCCURRED,
            Knows::NotTheLoss => Asc::POWER_ON_OCCURRED,
        };
        self.unit().attach(nexus, Some(attention));
        (knows, epoch)
    }

    /// Records that a nexus knows this loss epoch, because it has received the reports. **Durability**: on disk when it returns. If the
    /// disk write fails, the loss is reported again after a restart.
    pub(crate) fn knows(&self, nexus: &Nexus, epoch: u64) {
        if let Err(error) = self.reported.set(&key(nexus), epoch, |reported| self.kept.keep_reported_losses(reported)) {
            tracing::warn!(lun = self.name, %error, "failed to keep which initiators know of the latest loss");
        }
    }

    /// Restarts the unit after a power cut, with the reservations that were kept. No session exists at this time.
    pub(super) fn power_cycle(&self) -> Result<(), LunError> {
        let fresh = unit(&self.name, &self.of_volume, &self.record(), &self.kept, &self.store)?;
        *self.unit.write().unpoisoned() = Arc::new(fresh);
        Ok(())
    }

    /// Removes the state of the LUN outside its volume.
    pub(super) fn forget_kept(&self) -> Result<(), LunError> {
        self.kept.remove_all()
    }
}

/// The key of a nexus in the list of known losses.
fn key(nexus: &Nexus) -> String {
    let isid: String = nexus.isid().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{},i,0x{isid},{}", nexus.initiator_name(), nexus.relative_target_port())
}

fn serial(naa: u64) -> String {
    // The first digit of an NAA identifier is its type.
    format!("{:015x}", naa & 0x0fff_ffff_ffff_ffff)
}

fn unit(name: &str, of_volume: &OfVolume, record: &LunRecord, kept: &Kept, store: &Arc<LunStore>) -> Result<Unit, LunError> {
    let naa = naming::number(&of_volume.volume, record.id);
    let identity = Identity::new(PRODUCT, REVISION, &serial(naa), naa, &of_volume.target, &of_volume.ports)?;
    let settings = Settings {
        write_cache: record.write_cache,
        read_only: record.read_only,
        thin: record.thin,
        physical_block_bytes: record.physical_block_bytes,
    };
    let (target, name) = (of_volume.target.clone(), name.to_owned());
    let host = UnitHost { target, name, lun: record.lun, kept: kept.clone(), abort: Arc::clone(&of_volume.abort) };
    Ok(LogicalUnit::new(Arc::clone(store), identity, settings, Box::new(host), &kept.reservations()?)?)
}

/// The interface of a unit to the filer.
struct UnitHost {
    target: String,
    name: String,
    lun: u16,
    kept: Kept,
    abort: Abort,
}

impl Host for UnitHost {
    fn keep_reservations(&self, bytes: &[u8]) -> Result<(), HostError> {
        self.kept.keep_reservations(bytes).map_err(|error| {
            tracing::error!(lun = self.name, %error, "failed to keep a persistent reservation: the command that made it is refused");
            HostError
        })
    }

    fn abort_commands(&self, nexus: &Nexus) {
        (self.abort)(nexus, self.lun);
    }

    fn failed(&self) {
        tracing::error!(
            iqn = self.target,
            lun = self.name,
            "the LUN lost acknowledged writes that were not flushed: it refuses writes until the filer is restarted"
        );
    }
}
