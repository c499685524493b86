//! Placement of the database's files on a block device, and the storage of a run on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use results::compare::{Carried, ProofSource, Served};

use super::Below;
use crate::database::cluster::Server;
use crate::error::LabError;
use crate::host::block_device::BlockDevice;
use crate::host::kernel_mount::KernelMount;
use crate::limits::{LUN_BYTES_MIN, LUN_PER_STATE};
use crate::measure::kernel_counters::Interfaces;
use crate::measure::proof::DISKSTATS;
use crate::paths::kernel_files::KernelStorage;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage::{KernelSlots, Reads, StartOrder, Storage, StorageCounters};
use crate::placement::KeptState;
use crate::placement::directories::Directories;
use crate::placement::owner;
use crate::placement::part::Part;
use crate::placement::restore::{Method, tree_size};
use crate::sys::User;

/// A device, and its mount point during a run.
pub(crate) struct OnDevice {
    device: BlockDevice,
    overwrite: bool,
    /// What made the device; `None` if the user named it.
    below: Option<Rc<dyn Below>>,
    /// Whether a Millrace file system may still have to be removed from it.
    made: bool,
    directories: Directories,
    logs: PathBuf,
}

impl OnDevice {
    pub(crate) fn make(path: &Path, below: Option<Box<dyn Below>>, order: PlacementOrder<'_>) -> Result<Self, LabError> {
        let device = BlockDevice::examine(path, order.overwrite)?;
        let directories = Directories::within(order.work, &owner::unique_name("device-"), order.parts, order.user)?;
        Ok(Self {
            device,
            overwrite: order.overwrite,
            below: below.map(Rc::from),
            made: false,
            directories,
            logs: order.work.path("logs"),
        })
    }

    fn mount(&self, log: &str) -> Result<KernelMount, LabError> {
        KernelMount::mount("ext4", "", self.device.path().as_os_str(), self.directories.root(), self.logs.join(log))
    }

    /// Removes Millrace's file system, once.
    fn wipe(&mut self) -> Result<(), LabError> {
        if std::mem::take(&mut self.made) { self.device.wipe() } else { Ok(()) }
    }
}

impl Placement for OnDevice {
    fn parts(&self) -> &[Part] {
        self.directories.parts()
    }

    fn database_finds(&self, part: Part) -> PathBuf {
        self.directories.of(part)
    }

    fn method(&self, _own: Method) -> &'static str {
        Method::Copy.name()
    }

    fn restore(&mut self, state: &KeptState, _own: Method, user: &User, progress: &mut dyn FnMut(u64)) -> Result<(), LabError> {
        self.below.as_ref().map_or(Ok(()), |below| below.set_medium(None))?;
        // Another program may have started to use it in the meantime.
        self.device = BlockDevice::examine(self.device.path(), self.overwrite)?;
        let bytes = LUN_BYTES_MIN.max(tree_size(&state.root).bytes.saturating_mul(LUN_PER_STATE));
        self.made = true;
        self.device.make_file_system(bytes, self.logs.join("mkfs.log"))?;
        let mount = self.mount("restore-mount.log")?;
        self.directories.make_parts(user)?;
        self.directories.restore(state, &|part| self.directories.of(part), Method::Copy, user, progress)?;
        mount.unmount()
    }

    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError> {
        // The medium of a device that Millrace made is below the network; every other one is applied before the file system.
        let (mut limited, mut medium) = (None, order.medium);
        if let Some(below) = &self.below {
            limited = Some((Rc::clone(below), below.limit_commands(self.device.path())?));
            below.set_medium(medium.take())?;
        }
        let mount = self.mount(&format!("mount-{}.log", order.sequence))?;
        let files = KernelStorage::start(&self.directories, &StartOrder { medium, ..*order })?;
        Ok(Box::new(DeviceStorage { mount, device: self.device.clone(), files, limited }))
    }

    fn clear(&mut self) -> Result<(), LabError> {
        self.wipe()
    }

    fn remove(self: Box<Self>) -> Result<(), LabError> {
        let mut whole = self;
        whole.wipe()
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        // After an error. A mount still keeps the file system, as after SIGKILL; the next comparison recognises it by its label.
        if let Err(error) = self.wipe() {
            eprintln!("millrace: cannot {error}");
        }
    }
}

/// The storage of one run.
struct DeviceStorage {
    mount: KernelMount,
    device: BlockDevice,
    files: KernelStorage,
    /// What made the device, and the limit of the commands in flight on all paths to it together.
    limited: Option<(Rc<dyn Below>, u32)>,
}

impl Storage for DeviceStorage {
    fn command_prefix(&self) -> &[OsString] {
        self.files.command_prefix()
    }

    fn database_started(&mut self) -> Result<(), LabError> {
        self.files.database_started()
    }

    fn clients(&self) -> Vec<u32> {
        self.files.clients()
    }

    fn other_servers(&self) -> Vec<u32> {
        self.files.other_servers()
    }

    fn served(&self) -> Option<Served> {
        self.files.served()
    }

    fn delays_calls(&self) -> bool {
        self.files.delays_calls()
    }

    fn proof_source(&self) -> ProofSource {
        self.files.proof_source()
    }

    fn counters(&self) -> Result<StorageCounters, LabError> {
        let stats = self.device.stats()?;
        let carried = Carried {
            source: DISKSTATS.to_owned(),
            read_bytes: stats.read_bytes,
            written_bytes: stats.written_bytes,
            server_read_bytes: None,
            server_written_bytes: None,
        };
        let slots = |(below, limit): &(Rc<dyn Below>, u32)| {
            let paths = below.stats(self.device.path())?;
            Ok(KernelSlots { limit: *limit, most: 0, calls: paths.requests, queue_ms: 0, reply_ms: paths.request_ms })
        };
        let kernel_slots = self.limited.as_ref().map(slots).transpose()?;
        Ok(StorageCounters { carried: Some(carried), kernel_slots, ..StorageCounters::default() })
    }

    fn works_in_kernel(&self) -> bool {
        self.limited.is_some() // initiator and target
    }

    fn interfaces(&self) -> Option<Interfaces> {
        self.limited.as_ref().map(|_| Interfaces::Pairs)
    }

    fn reads(&self, database: &mut Server) -> Result<Reads, LabError> {
        self.files.reads(database)
    }

    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError> {
        self.files.medium_counters()
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        self.mount.unmount()
    }
}
