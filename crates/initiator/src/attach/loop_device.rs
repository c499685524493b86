//! Loop devices of this host: by util-linux's programs, and by what sysfs says.

use super::btrfs;
use super::error::AttachError;
use super::mounts::{Mounted, mounted_apart, mounts};
use super::users::{has_first_word, processes};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

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
    /// Makes one with direct I/O, with logical blocks of so many bytes, and with its partitions.
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

    /// Major and minor numbers of it and of its partitions.
    fn numbers(&self) -> Vec<String> {
        let own = self.attribute("dev").ok();
        let parts = self.partitions().into_iter().map(|name| self.attribute(&format!("{name}/dev")).ok());
        std::iter::once(own).chain(parts).flatten().map(|text| text.trim().to_owned()).collect()
    }

    /// Partitions that do not begin at a multiple of so many bytes, and where they do.
    #[must_use]
    pub fn misaligned_partitions(&self, bytes: u64) -> Vec<(String, u64)> {
        let start = |name: &String| self.attribute(&format!("{name}/start")).ok()?.trim().parse::<u64>().ok();
        // In units of 512 bytes, whatever the block is.
        let starts = self.partitions().into_iter().filter_map(|name| start(&name).map(|start| (name, start.saturating_mul(512))));
        starts.filter(|(_, start)| !start.is_multiple_of(bytes.max(1))).collect()
    }

    /// Where its file system, or that of a partition, is mounted; of btrfs also by another of its devices.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mounted> {
        let (numbers, names, btrfs) = (self.numbers(), self.names(), btrfs::mounted());
        let stands_here = |mount: &Mounted| {
            numbers.contains(&mount.device) || btrfs::devices_below(mount, &btrfs).iter().any(|name| names.contains(name))
        };
        mounts().into_iter().filter(stands_here).collect()
    }

    /// What of this host uses it: mounts, device-mapper and md, swap, processes that have it open.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        let nodes: Vec<String> = self.names().iter().map(|name| format!("/dev/{name}")).collect();
        let mounted = self.mounts();
        let mut users: Vec<String> = mounted.iter().map(|mount| format!("a mount at {}", mount.directory.display())).collect();
        users.extend(mounted_apart(&self.numbers()));
        if mounted.is_empty() {
            let names = self.names();
            let of_others = btrfs::mounted().into_iter().find(|(_, devices)| devices.iter().any(|name| names.contains(name)));
            users.extend(of_others.map(|(uuid, _)| format!("btrfs {uuid}, mounted in another mount namespace")));
        }
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        users.extend(nodes.iter().filter(|node| has_first_word(&swaps, node)).map(|node| format!("swap on {node}")));
        for holder in fs::read_dir(self.sys("holders")).into_iter().flatten().flatten() {
            users.push(format!("block device {}", holder.file_name().to_string_lossy()));
        }
        users.extend(processes(|target| nodes.iter().any(|node| target == Path::new(node))));
        users
    }

    /// Detaches it, and waits until it is gone.
    ///
    /// # Errors
    /// [`AttachError::Program`], [`AttachError::Failed`], [`AttachError::Busy`]: it goes when its last user closes it.
    pub fn detach(&self) -> Result<(), AttachError> {
        btrfs::forget(&self.path());
        output("losetup", Command::new("losetup").arg("--detach").arg(self.path()))?;
        let limit = Instant::now() + GONE;
        while self.sys("loop/backing_file").exists() {
            if Instant::now() >= limit {
                return Err(AttachError::Busy { device: self.path(), seconds: GONE.as_secs() });
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Its own name, and those of its partitions.
    fn names(&self) -> Vec<String> {
        std::iter::once(self.name.clone()).chain(self.partitions()).collect()
    }

    fn partitions(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sys("")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('p'))).collect()
    }

    fn sys(&self, attribute: &str) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join(attribute)
    }

    fn attribute(&self, attribute: &str) -> Result<String, AttachError> {
        let path = self.sys(attribute);
        fs::read_to_string(&path).map_err(|source| AttachError::Read { path, source })
    }
}

/// Runs a program of the host to its end, without a stdin unless it was given one; what it printed.
pub(super) fn output(program: &'static str, command: &mut Command) -> Result<String, AttachError> {
    let ended = command.output().map_err(|source| AttachError::Program { program, source })?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let arguments: Vec<String> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    let said = if said.is_empty() { ended.status.to_string() } else { said };
    Err(AttachError::Failed { program, arguments: arguments.join(" "), said })
}

/// Whether this is a loop device, or a partition of one, on a file of a FUSE file system whose process has died.
pub(super) fn is_dead(source: &str) -> bool {
    let Some(rest) = source.strip_prefix("/dev/loop") else { return false };
    let number = rest.split('p').next().unwrap_or_default();
    let device = LoopDevice { name: format!("loop{number}") };
    let file = device.attribute("loop/backing_file").unwrap_or_default();
    fs::metadata(file.trim_end_matches('\n')).is_err_and(|error| error.kind() == io::ErrorKind::NotConnected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_loop_device_stands_on_a_file_that_does_not_exist() {
        assert_eq!(LoopDevice::of_file(Path::new("/no/such/file")).unwrap(), []);
    }
}
