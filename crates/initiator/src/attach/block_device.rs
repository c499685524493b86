//! A LUN as a block device, made by either initiator.

use super::loop_device::LoopDevice;
use super::mounts::Mount;
use crate::kernel::KernelDevice;
use std::path::Path;

/// A LUN as a block device of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockDevice {
    /// Made by the initiator of this crate, FUSE and a loop device.
    Loop(LoopDevice),
    /// Made by the kernel's initiator.
    Kernel(KernelDevice),
}

impl BlockDevice {
    /// Its path: `/dev/loop3` or `/dev/mapper/mpatha`.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Loop(device) => device.path(),
            Self::Kernel(device) => device.path().display().to_string(),
        }
    }

    /// Whether a file of /dev is this device. With the kernel's initiator, also whether it is one
    /// of its disks, or another name of the device.
    #[must_use]
    pub fn is_at(&self, file: &Path) -> bool {
        match self {
            Self::Loop(device) => Path::new(&device.path()) == file,
            Self::Kernel(device) => device.is_at(file),
        }
    }

    /// Partitions that do not begin at a multiple of `bytes`, with their starts in bytes.
    #[must_use]
    pub fn misaligned_partitions(&self, bytes: u64) -> Vec<(String, u64)> {
        match self {
            Self::Loop(device) => device.misaligned_partitions(bytes),
            Self::Kernel(device) => device.misaligned_partitions(bytes),
        }
    }

    /// The mounts of its file system, or of the file system of a partition. A btrfs may be mounted by another of its
    /// devices.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        match self {
            Self::Loop(device) => device.mounts(),
            Self::Kernel(device) => device.mounts(),
        }
    }

    /// What uses it on this host: mounts, device-mapper and md, swap, processes that have it open.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        match self {
            Self::Loop(device) => device.users(),
            Self::Kernel(device) => device.users(),
        }
    }
}
