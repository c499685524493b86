//! The initiator that attaches the LUNs of a part, and the attached disks.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::attached_lun::{AttachedLun, LunHost};
use super::open_iscsi::{KernelLun, LunOrder};
use super::settings::{IscsiClient, IscsiSettings};
use crate::error::LabError;
use crate::host::block_device::DiskStats;
use crate::paths::filer::Filer;
use crate::placement::workdir::WorkDir;

/// An initiator of this host.
pub(super) enum Client {
    Kernel { root: PathBuf },
    Ours(LunHost),
}

/// The order to attach LUNs.
pub(super) struct AttachOrder<'a> {
    pub(super) filer: &'a Filer,
    /// LUNs of one file system, numbered from 0.
    pub(super) luns: u32,
    pub(super) mount: &'a Path,
    pub(super) settings: &'a IscsiSettings,
    /// Size in bytes of a new file system; `None` to use the existing one.
    pub(super) make_bytes: Option<u64>,
    pub(super) log: PathBuf,
}

/// LUNs that are mounted as one file system. Dropping it detaches them at once.
pub(super) enum Attached {
    Kernel(KernelLun),
    Ours(AttachedLun),
}

impl Client {
    pub(super) fn new(client: IscsiClient, program: &Path, work: &WorkDir) -> Result<Self, LabError> {
        Ok(match client {
            IscsiClient::OpenIscsi => Self::Kernel { root: work.root().to_owned() },
            IscsiClient::Millrace => Self::Ours(LunHost::new(program.to_owned(), work.root())?),
        })
    }

    /// The kind of initiator.
    pub(super) fn kind(&self) -> IscsiClient {
        match self {
            Self::Kernel { .. } => IscsiClient::OpenIscsi,
            Self::Ours(_) => IscsiClient::Millrace,
        }
    }

    pub(super) fn attach(&self, order: AttachOrder<'_>) -> Result<Attached, LabError> {
        // A URL without a LUN, which ends with the name of the target.
        let url: String = order.filer.reported("iscsi").unwrap_or_default();
        let target = url.rsplit('/').next().filter(|name| !name.is_empty());
        let target = target.ok_or_else(|| LabError::Filer { what: "its iSCSI target", detail: "it has none".to_owned() })?;
        // In the order of their portal groups.
        let portals: Vec<SocketAddr> = order.filer.reported("portals").unwrap_or_default();
        match self {
            Self::Kernel { root } => {
                // Each portal of a filer is a portal group, in their order (RFC 7143 4.2.3).
                let portals: Vec<_> = portals.iter().copied().zip(1..).collect();
                let order = LunOrder {
                    target,
                    portals: &portals,
                    depth: order.settings.depth,
                    mount: order.mount,
                    make_bytes: order.make_bytes,
                    root,
                    log: order.log,
                };
                KernelLun::attach(&order).map(Attached::Kernel)
            }
            Self::Ours(host) => {
                let portals: Vec<String> = portals.iter().map(ToString::to_string).collect();
                let urls: Vec<String> =
                    (0..order.luns).map(|number| format!("iscsi://{}/{target}/{number}", portals.join(","))).collect();
                let mut options = order.settings.attach_options();
                if order.make_bytes.is_some() {
                    options.extend(["--mkfs", if order.luns > 1 { "btrfs" } else { "ext4" }].map(str::to_owned));
                }
                host.attach(&urls, order.mount, &options, order.log).map(Attached::Ours)
            }
        }
    }
}

impl Attached {
    /// Millrace's processes that serve the LUNs to the kernel.
    pub(super) fn pids(&self) -> &[u32] {
        match self {
            Self::Kernel(_) => &[],
            Self::Ours(lun) => lun.pids(),
        }
    }

    /// An error if one of these processes has ended.
    pub(super) fn expect_alive(&self) -> Result<(), LabError> {
        match self {
            Self::Kernel(_) => Ok(()),
            Self::Ours(lun) => lun.expect_alive(),
        }
    }

    /// Traffic of its disks.
    pub(super) fn disk_stats(&self) -> Result<DiskStats, LabError> {
        match self {
            Self::Kernel(lun) => lun.stats(),
            Self::Ours(lun) => lun.stats(),
        }
    }

    /// Number of paths; `None` if the kernel does not have a disk for each path.
    pub(super) fn paths(&self) -> Option<u32> {
        match self {
            Self::Kernel(lun) => Some(u32::try_from(lun.paths()).unwrap_or(1)),
            Self::Ours(_) => None,
        }
    }

    /// Unmounts the file system and detaches the disks.
    ///
    /// Durability: data written to the file system are on the LUNs and flushed when it returns.
    pub(super) fn detach(self) -> Result<(), LabError> {
        match self {
            Self::Kernel(lun) => lun.detach(),
            Self::Ours(lun) => lun.detach(),
        }
    }
}
