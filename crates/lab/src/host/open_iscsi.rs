//! LUNs as disks of this host by the kernel's initiator (open-iscsi), with dm-multipath above two portals or more. Needs root.
//!
//! open-iscsi has one database of nodes for the whole host. Only records of targets are made, changed and removed there whose names
//! a journal in the work directory has: those of filers of ours, each with a name that is nobody else's.

mod daemons;
mod journal;
mod multipath;
mod node;
mod session_disks;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::host::block_device::{self, BlockDevice, DiskStats};
use crate::host::interrupt;
use crate::host::kernel_mount::{self, KernelMount, has_program};
use crate::limits::SCSI_DISK_MAX;
use crate::sys;
use journal::Journal;
use node::Node;
use session_disks::SessionDisk;

/// A LUN that is to be a mounted disk.
pub(crate) struct LunOrder<'a> {
    pub(crate) target: &'a str,
    /// Portals, each with the tag of its portal group: a path each.
    pub(crate) portals: &'a [(SocketAddr, u16)],
    /// Commands under way on each path.
    pub(crate) depth: u32,
    pub(crate) mount: &'a Path,
    /// Make a file system of so many bytes first.
    pub(crate) make_bytes: Option<u64>,
    /// A work directory of ours.
    pub(crate) root: &'a Path,
    pub(crate) log: PathBuf,
}

/// A LUN that is logged in to and mounted. Dropping it takes it away at once: what was not written to it may be lost.
#[derive(Debug)]
pub(crate) struct KernelLun {
    /// Taken by `detach`, and dropped first.
    mount: Option<KernelMount>,
    disks: Vec<SessionDisk>,
    /// Name of the multipath device above them.
    map: Option<String>,
    journal: Journal,
    is_attached: bool,
}

/// What this host lacks for the kernel's initiator on so many portals, and what to do about that; `None` when it has all.
pub(crate) fn why_not(portals: u32) -> Option<String> {
    if sys::effective_uid() != 0 {
        return Some("open-iscsi logs in for root alone; run it as root".to_owned());
    }
    if !daemons::kernel_has("iscsi_tcp") {
        return Some("this kernel has no iSCSI initiator (modprobe iscsi_tcp); a guest has: millrace compare --guest".to_owned());
    }
    let programs: &[(&str, &str)] = if portals > 1 {
        &[("iscsiadm", "open-iscsi"), ("iscsid", "open-iscsi"), ("multipath", "multipath-tools"), ("dmsetup", "dmsetup")]
    } else {
        &[("iscsiadm", "open-iscsi"), ("iscsid", "open-iscsi")]
    };
    if let Some((name, package)) = programs.iter().find(|(name, _)| !has_program(name)) {
        return Some(format!("{name} is not in PATH; install {package}"));
    }
    let daemons = [daemons::ISCSID, daemons::MULTIPATHD];
    let needed = if portals > 1 { 2 } else { 1 };
    let idle = daemons.into_iter().take(needed).find(|daemon| !daemon.listens());
    idle.map(daemons::Daemon::hint).or_else(block_device::missing_program)
}

impl KernelLun {
    /// Logs in, waits for the disks, and mounts the file system that is there, or that is made.
    ///
    /// # Errors
    /// With what was said. Nothing is left attached then.
    pub(crate) fn attach(order: &LunOrder<'_>) -> Result<Self, LabError> {
        let nodes: Vec<Node> = order.portals.iter().map(|portal| Node::of(order.target, *portal)).collect();
        let journal = Journal::write(order.root, order.target)?;
        let mut lun = Self { mount: None, disks: Vec::new(), map: None, journal, is_attached: true };
        for node in &nodes {
            interrupt::check()?;
            node.make(order.depth, &order.log)?;
            node.login(&order.log)?;
        }
        lun.disks = session_disks::wait_for(order.target, nodes.len())?;
        let device = lun.device()?;
        if let Some(bytes) = order.make_bytes {
            // The LUN is new: nobody else has anything on it.
            BlockDevice::examine(&device, false)?.make_file_system(bytes, order.log.clone())?;
        }
        lun.mount = Some(KernelMount::mount("ext4", "", device.as_os_str(), order.mount, order.log.clone())?);
        Ok(lun)
    }

    /// The disk, or the multipath device above all of them.
    fn device(&mut self) -> Result<PathBuf, LabError> {
        match self.disks.as_slice() {
            [one] => Ok(one.path()),
            all => {
                let map = multipath::wait_for(all)?;
                let path = multipath::path(&map);
                self.map = Some(map);
                Ok(path)
            }
        }
    }

    /// Paths to the LUN.
    pub(crate) fn paths(&self) -> usize {
        self.disks.len()
    }

    /// What the disks below a multipath device carried together: what crossed the wire.
    pub(crate) fn stats(&self) -> Result<DiskStats, LabError> {
        let each = self.disks.iter().map(SessionDisk::stats);
        each.sum()
    }

    /// Unmounts the file system, logs out and removes the node records.
    ///
    /// Durability: what was written to the file system is on the LUN, and it is flushed.
    pub(crate) fn detach(mut self) -> Result<(), LabError> {
        if let Some(mount) = self.mount.take() {
            mount.unmount()?;
        }
        if let Some(map) = &self.map {
            multipath::flush(map)?;
        }
        node::forget(self.journal.target()).map_err(left)?;
        self.is_attached = false;
        self.journal.remove()
    }
}

impl Drop for KernelLun {
    fn drop(&mut self) {
        if self.is_attached {
            // A filer that is gone answers nothing: what waits for it fails now, and the file system can be let go.
            multipath::fail_without_paths(self.map.as_slice());
            drop(self.mount.take());
            match take_away(self.journal.target(), self.map.as_slice()) {
                Ok(()) => drop(self.journal.remove()),
                Err(error) => eprintln!("millrace: cannot {}", left(error)),
            }
        }
    }
}

fn left(detail: String) -> LabError {
    LabError::Program {
        program: "open-iscsi".to_owned(),
        outcome: "did not log out".to_owned(),
        detail: format!("\n    {detail}"),
    }
}

/// Logs out of a target whatever uses its disks, forgets it, and removes the multipath devices that stood on them.
fn take_away(target: &str, maps: &[String]) -> Result<(), String> {
    let ended = node::forget(target);
    multipath::remove_unused(maps)?;
    ended
}

/// Takes away what a killed comparison left logged in to, with what it left mounted; `root` is a directory of its.
///
/// # Errors
/// With what could not be done.
pub(crate) fn end_left_behind(root: &Path) -> Result<(), LabError> {
    for journal in Journal::all_below(root) {
        let maps: Vec<String> = session_disks::of(journal.target()).iter().filter_map(multipath::above).collect();
        multipath::fail_without_paths(&maps);
        kernel_mount::end_left_behind(root)?;
        take_away(journal.target(), &maps).map_err(left)?;
        journal.remove()?;
    }
    Ok(())
}

/// The error of disks that did not come.
fn no_disk(target: &str, found: usize, wanted: usize) -> LabError {
    let outcome = format!("showed {found} of {wanted} disks of {target} within {} s", SCSI_DISK_MAX.as_secs());
    LabError::Program { program: "the kernel's iSCSI initiator".to_owned(), outcome, detail: String::new() }
}
