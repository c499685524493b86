//! LUNs of Millrace's filers as mounted disks of this host, by the kernel's initiator (open-iscsi), with dm-multipath for two portals
//! or more. Needs root.
//!
//! A journal in the work directory contains the names of the targets, each of which belongs only to a filer of Millrace: it is used
//! to find what a killed comparison left.

mod journal;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use initiator::kernel::{self, Disk, KernelDevice, KernelError, Lack, Portal, Settings, Waiting};

use crate::error::LabError;
use crate::host::block_device::{self, BlockDevice, DiskStats, parse_stats};
use crate::host::interrupt;
use crate::host::kernel_mount::{self, KernelMount};
use journal::Journal;

/// Time without a connection after which commands fail and dm-multipath uses another path.
const REPLACEMENT: Duration = Duration::from_secs(15);
/// Number of the LUN in a filer that contains the file system.
const LUN: u16 = 0;

/// The order to mount a LUN as a disk.
pub(crate) struct LunOrder<'a> {
    pub(crate) target: &'a str,
    /// Portals, each with the tag of its portal group; each is one path.
    pub(crate) portals: &'a [(SocketAddr, u16)],
    /// Commands in flight on each path.
    pub(crate) depth: u32,
    pub(crate) mount: &'a Path,
    /// Size in bytes of the file system to create; `None` to use the existing one.
    pub(crate) make_bytes: Option<u64>,
    /// A work directory of Millrace.
    pub(crate) root: &'a Path,
    pub(crate) log: PathBuf,
}

/// A LUN that is logged in to and mounted. Dropping it detaches it at once: unwritten data may be lost.
#[derive(Debug)]
pub(crate) struct KernelLun {
    /// Taken by `detach`; dropped first.
    mount: Option<KernelMount>,
    device: Option<KernelDevice>,
    journal: Journal,
    is_attached: bool,
}

/// Waits until Ctrl-C.
struct Interruptible;

impl Waiting for Interruptible {
    fn is_over(&self) -> bool {
        interrupt::check().is_err()
    }
}

/// Missing requirements of this host for the kernel's initiator with this number of portals, with hints; `None` if it has all.
pub(crate) fn why_not(portals: u32) -> Option<String> {
    let said = |lack: Lack| match lack {
        Lack::Initiator => format!("{lack}; a guest has it: millrace compare --guest"),
        _ => lack.to_string(),
    };
    kernel::why_not(portals as usize).map(said).or_else(block_device::missing_program)
}

impl KernelLun {
    /// Logs in, waits for the disks, and mounts the existing file system, or creates one.
    ///
    /// # Errors
    /// An error with the output of the failed step. Nothing is left attached.
    pub(crate) fn attach(order: &LunOrder<'_>) -> Result<Self, LabError> {
        let journal = Journal::write(order.root, order.target)?;
        let mut lun = Self { mount: None, device: None, journal, is_attached: true };
        let settings = Settings::new(order.depth, REPLACEMENT);
        let mut sessions = Vec::new();
        for (address, group) in order.portals {
            interrupt::check()?;
            let portal = Portal { address: *address, group: Some(*group) };
            sessions.push(kernel::log_in(order.target, portal, &settings, &Interruptible).map_err(failed)?);
        }
        let wanted =
            kernel::LunOrder { target: order.target, lun: LUN, sessions: &sessions, depth: order.depth, designator: None };
        let device = KernelDevice::bring_up(&wanted, &Interruptible).map_err(failed)?;
        let path = device.path();
        lun.device = Some(device);
        if let Some(bytes) = order.make_bytes {
            // The LUN is new, so it contains nothing.
            BlockDevice::examine(&path, false)?.make_file_system(bytes, order.log.clone())?;
        }
        lun.mount = Some(KernelMount::mount("ext4", "", path.as_os_str(), order.mount, order.log.clone())?);
        Ok(lun)
    }

    fn disks(&self) -> &[Disk] {
        self.device.as_ref().map(KernelDevice::disks).unwrap_or_default()
    }

    /// Number of paths to the LUN.
    pub(crate) fn paths(&self) -> usize {
        self.disks().len()
    }

    /// Sum of the traffic of the disks below a multipath device: the traffic on the wire.
    pub(crate) fn stats(&self) -> Result<DiskStats, LabError> {
        self.disks().iter().map(stats_of).sum()
    }

    /// Unmounts the file system, logs out and removes the node records.
    ///
    /// Durability: data written to the file system are on the LUN and flushed when it returns.
    pub(crate) fn detach(mut self) -> Result<(), LabError> {
        if let Some(mount) = self.mount.take() {
            mount.unmount()?;
        }
        if let Some(device) = &self.device {
            device.flush().map_err(failed)?;
        }
        kernel::take_away(self.journal.target()).map_err(failed)?;
        self.is_attached = false;
        self.journal.remove()
    }
}

impl Drop for KernelLun {
    fn drop(&mut self) {
        if self.is_attached {
            // A filer that is gone does not answer. Requests that wait for it fail now, so that the file system can be released.
            kernel::fail_without_paths(self.journal.target());
            drop(self.mount.take());
            match kernel::take_away(self.journal.target()) {
                Ok(()) => drop(self.journal.remove()),
                Err(error) => eprintln!("millrace: cannot {}", failed(error)),
            }
        }
    }
}

/// Detaches and unmounts what a killed comparison left; `root` is one of its directories.
///
/// # Errors
/// An error with the step that failed.
pub(crate) fn end_left_behind(root: &Path) -> Result<(), LabError> {
    for journal in Journal::all_below(root) {
        kernel::fail_without_paths(journal.target());
        kernel_mount::end_left_behind(root)?;
        kernel::take_away(journal.target()).map_err(failed)?;
        journal.remove()?;
    }
    Ok(())
}

fn stats_of(disk: &Disk) -> Result<DiskStats, LabError> {
    let file = disk.system().join("stat");
    std::fs::read_to_string(&file).map(|text| parse_stats(&text)).map_err(LabError::file("read", &file))
}

fn failed(error: KernelError) -> LabError {
    match (error.hint(), error) {
        (_, KernelError::Interrupted) => LabError::Interrupted,
        (_, error @ KernelError::NoMap { .. }) => {
            let one_path = "or take one path: [tuning.NAME.iscsi] portals = 1";
            let hint = error.hint().map_or_else(|| one_path.to_owned(), |hint| format!("{hint}; {one_path}"));
            LabError::Missing { what: error.to_string(), hint }
        }
        (Some(hint), error) => LabError::Missing { what: format!("log in: {error}"), hint },
        (None, error) => {
            LabError::Program { program: "open-iscsi".to_owned(), outcome: "failed".to_owned(), detail: format!("\n    {error}") }
        }
    }
}
