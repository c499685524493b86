//! Loop devices of this host: by util-linux's programs, and by what sysfs says.

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

/// A loop device has this long to go: udev may still look at it.
const GONE: Duration = Duration::from_secs(5);
/// The pause between two looks at it.
const LOOK: Duration = Duration::from_millis(20);

/// A loop device that stands on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    /// As in `loop3`.
    name: String,
}

impl LoopDevice {
    /// Makes one with direct I/O, with logical blocks of that many bytes, and with its partitions.
    ///
    /// # Errors
    /// [`AttachError::Program`], [`AttachError::Failed`]; [`AttachError::Buffered`], and there is none left then.
    pub fn attach(file: &Path, block_bytes: u32, read_only: bool) -> Result<Self, AttachError> {
        let mut command = Command::new("losetup");
        command.args(["--direct-io=on", "--partscan", "--find", "--show", "--sector-size", &block_bytes.to_string()]);
        if read_only {
            command.arg("--read-only");
        }
        let said = output("losetup", command.arg(file))?;
        let name = said.trim().trim_start_matches("/dev/").to_owned();
        let device = Self { name };
        // losetup goes on without it where the kernel refuses.
        if device.attribute("loop/dio")?.trim() == "1" {
            return Ok(device);
        }
        device.detach()?;
        Err(AttachError::Buffered { device: device.path() })
    }

    /// All that stand on a file, by the path that it was attached by.
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

    /// As in `/dev/loop3`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// Partitions that do not begin at a multiple of that many bytes, and where they do.
    #[must_use]
    pub fn misaligned_partitions(&self, bytes: u64) -> Vec<(String, u64)> {
        misaligned_partitions(&self.name, bytes)
    }

    /// Where its file system, or that of a partition, is mounted; of btrfs also by another of its devices.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        mounts_of(&self.names())
    }

    /// What of this host uses it: mounts, device-mapper and md, swap, processes that have it open.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        users_of(&self.names(), None)
    }

    /// Detaches it, and waits until it is gone.
    ///
    /// # Errors
    /// [`AttachError::Program`], [`AttachError::Failed`], [`AttachError::Busy`]: it goes when its last user closes it.
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
