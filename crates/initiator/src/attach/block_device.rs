//! A LUN as a block device, whichever initiator made it one.

use super::loop_device::LoopDevice;
use super::mounts::Mount;
use crate::kernel::KernelDevice;
use std::path::Path;

/// A LUN as a block device of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockDevice {
    /// By the initiator of this crate, FUSE and a loop device.
    Loop(LoopDevice),
    /// By the kernel's initiator.
    Kernel(KernelDevice),
}

impl BlockDevice {
    /// As in `/dev/loop3` and `/dev/mapper/mpatha`.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Loop(device) => device.path(),
            Self::Kernel(device) => device.path().display().to_string(),
        }
    }

    /// Whether a file of /dev is it; of the kernel's also one of its disks, or another name of it.
    #[must_use]
    pub fn is_at(&self, file: &Path) -> bool {
        match self {
            Self::Loop(device) => Path::new(&device.path()) == file,
            Self::Kernel(device) => device.is_at(file),
        }
    }

    /// Partitions that do not begin at a multiple of that many bytes, and where they do.
    #[must_use]
    pub fn misaligned_partitions(&self, bytes: u64) -> Vec<(String, u64)> {
        match self {
            Self::Loop(device) => device.misaligned_partitions(bytes),
            Self::Kernel(device) => device.misaligned_partitions(bytes),
        }
    }

    /// Where its file system, or that of a partition, is mounted; of btrfs also by another of its devices.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        match self {
            Self::Loop(device) => device.mounts(),
            Self::Kernel(device) => device.mounts(),
        }
    }

    /// What of this host uses it: mounts, device-mapper and md, swap, processes that have it open.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        match self {
            Self::Loop(device) => device.users(),
            Self::Kernel(device) => device.users(),
        }
    }
}
