//! Loop devices of this host, by util-linux's programs and by sysfs.

use super::btrfs;
use super::error::AttachError;
use super::mounts::Mount;
use super::partitions::{misaligned_partitions, partitions_of};
use super::program::output;
use super::users::{mounts_of, users_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time until a loop device is gone: udev may still have it open.
const GONE: Duration = Duration::from_secs(5);
/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// A loop device on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    /// As in `loop3`: without a directory.
    name: String,
}

impl LoopDevice {
    /// Makes a loop device with direct I/O, with logical blocks of `block_bytes`, and with its
    /// partitions.
    ///
    /// # Errors
    /// [`AttachError::Program`], [`AttachError::Failed`]; [`AttachError::Buffered`], after which the device is detached
    /// again.
    pub fn attach(file: &Path, block_bytes: u32, read_only: bool) -> Result<Self, AttachError> {
        let mut command = Command::new("losetup");
        command.args(["--direct-io=on", "--partscan", "--find", "--show", "--sector-size", &block_bytes.to_string()]);
        if read_only {
            command.arg("--read-only");
        }
        let said = output("losetup", command.arg(file))?;
        let name = said.trim().trim_start_matches("/dev/").to_owned();
        let device = Self { name };
        // If the kernel refuses direct I/O, losetup continues without it.
        if device.attribute("loop/dio")?.trim() == "1" {
            return Ok(device);
        }
        device.detach()?;
        Err(AttachError::Buffered { device: device.path() })
    }

    /// All loop devices on a file, by the path with which they were attached.
    ///
    /// # Errors
    /// [`AttachError::Read`].
    pub fn of_file(file: &Path) -> Result<Vec<Self>, AttachError> {
        let blocks = Path::new("/sys/block");
        let fault = |source| AttachError::Read { path: blocks.to_owned(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(blocks).map_err(fault)? {
            let name = entry.map_err(fault)?.file_name().to_string_lossy().into_owned();
            let device = Self { name };
            let backing = device.name.starts_with("loop").then(|| device.attribute("loop/backing_file").ok()).flatten();
            if backing.is_some_and(|backing| Path::new(backing.trim_end_matches('\n')) == file) {
                found.push(device);
            }
        }
        Ok(found)
    }

    /// Its path: `/dev/loop3`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// Partitions that do not begin at a multiple of `bytes`, with their starts in bytes.
    #[must_use]
    pub fn misaligned_partitions(&self, bytes: u64) -> Vec<(String, u64)> {
        misaligned_partitions(&self.name, bytes)
    }

    /// The mounts of its file system, or of the file system of a partition. A btrfs may be mounted by another of its
    /// devices.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        mounts_of(&self.names())
    }

    /// What uses it on this host: mounts, device-mapper and md, swap, processes that have it open.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        users_of(&self.names(), None)
    }

    /// Detaches the device, and waits until it is gone.
    ///
    /// # Errors
    /// [`AttachError::Program`], [`AttachError::Failed`]. [`AttachError::Busy`]: the device goes when its last user
    /// closes it.
    pub fn detach(&self) -> Result<(), AttachError> {
        btrfs::forget(&self.path());
        output("losetup", Command::new("losetup").arg("--detach").arg(self.path()))?;
        let is_gone = || Ok::<_, AttachError>((!self.sys("loop/backing_file").exists()).then_some(()));
        host::poll(GONE, LOOK, is_gone)?.ok_or_else(|| AttachError::Busy { device: self.path(), seconds: GONE.as_secs() })
    }

    /// Its own name, and those of its partitions.
    fn names(&self) -> Vec<String> {
        std::iter::once(self.name.clone()).chain(partitions_of(&self.name)).collect()
    }

    fn sys(&self, attribute: &str) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join(attribute)
    }

    fn attribute(&self, attribute: &str) -> Result<String, AttachError> {
        let path = self.sys(attribute);
        fs::read_to_string(&path).map_err(|source| AttachError::Read { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_loop_device_stands_on_a_file_that_does_not_exist() {
        assert_eq!(LoopDevice::of_file(Path::new("/no/such/file")).unwrap(), []);
    }
}
