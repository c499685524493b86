//! The record of a LUN that open-iscsi attached, and its current state.

use initiator::kernel::{Disk, KernelDevice, is_logged_in};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The attachment of a LUN by open-iscsi.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kernel {
    /// The name of the target.
    pub(super) target: String,
    /// The number of the LUN.
    pub(super) lun: u16,
    pub(super) sessions: Vec<KernelSession>,
    /// The uuid of the multipath device.
    pub(super) map: Option<String>,
}

/// A session that an `attach` made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KernelSession {
    pub(super) portal: SocketAddr,
    /// The kernel's number of the session; `None` before the session exists.
    pub(super) number: Option<u32>,
}

/// The current state of a path.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KernelPath {
    pub(super) portal: SocketAddr,
    /// up, down
    pub(super) state: &'static str,
    /// The kernel's number of its session.
    session: Option<u32>,
    /// Such as `sda`.
    disk: Option<String>,
}

impl Kernel {
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.sessions.iter().filter_map(|session| session.number).collect()
    }

    /// The device, if it exists now.
    pub(super) fn device(&self) -> Option<KernelDevice> {
        KernelDevice::find(self.lun, &self.numbers(), self.map.as_deref())
    }

    /// Whether it has a disk. A multipath device without a disk cannot do I/O.
    pub(super) fn is_alive(&self) -> bool {
        self.device().is_some_and(|device| !device.disks().is_empty())
    }

    /// `dm-multipath`, or `scsi-disk` without a multipath device.
    pub(super) const fn kind(&self) -> &'static str {
        if self.map.is_some() { "dm-multipath" } else { "scsi-disk" }
    }

    /// The current state of its paths.
    pub(super) fn paths(&self) -> Vec<KernelPath> {
        let device = self.device();
        let disks = device.as_ref().map(KernelDevice::disks).unwrap_or_default();
        let path = |session: &KernelSession| {
            let disk = disks.iter().find(|disk| Some(disk.session) == session.number);
            let is_up = session.number.is_some_and(is_logged_in) && disk.is_some_and(Disk::is_running);
            KernelPath {
                portal: session.portal,
                state: if is_up { "up" } else { "down" },
                session: session.number,
                disk: disk.map(|disk| disk.name.clone()),
            }
        };
        self.sessions.iter().map(path).collect()
    }
}
