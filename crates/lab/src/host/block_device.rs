//! A block device that the user named for a comparison: checks its contents, and creates a file system on it. Needs root.

use std::fs::{self, OpenOptions};
use std::iter::Sum;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ::host::mount_table;

use crate::error::LabError;
use crate::host::process::Launch;
use crate::limits::MKFS_MAX;

/// Label of Millrace's file systems. A device with this label is free: a killed comparison left it.
const LABEL: &str = "millrace-lab";
/// Option that permits a comparison to overwrite a device's contents.
pub(crate) const OVERWRITE: &str = "--overwrite-devices";
/// Bytes of a sector in sysfs, for every device.
const SECTOR: u64 = 512;
/// Exit code of blkid(8) if it found nothing.
const BLKID_NOTHING: i32 = 2;

/// A device that is not in use and may be overwritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockDevice {
    path: PathBuf,
    pub(crate) bytes: u64,
    counters: PathBuf,
}

/// Its reads and writes since it was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DiskStats {
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Reads, writes and flushes that have ended.
    pub(crate) requests: u64,
    /// Total milliseconds of these requests, including their time in the queue of the block layer.
    pub(crate) request_ms: u64,
}

impl Sum for DiskStats {
    fn sum<I: Iterator<Item = Self>>(each: I) -> Self {
        each.fold(Self::default(), |all, one| Self {
            read_bytes: all.read_bytes + one.read_bytes,
            written_bytes: all.written_bytes + one.written_bytes,
            requests: all.requests + one.requests,
            request_ms: all.request_ms + one.request_ms,
        })
    }
}

/// A missing program, with its package.
pub(crate) fn missing_program() -> Option<String> {
    let programs = [("mkfs.ext4", "e2fsprogs"), ("blkid", "util-linux"), ("wipefs", "util-linux")];
    let (name, package) = programs.into_iter().find(|(name, _)| !::host::has_program(name))?;
    Some(format!("{name} is not in PATH; install {package}, or add /usr/sbin to PATH"))
}

impl BlockDevice {
    /// Checks a device and refuses one that is in use, or that has contents unless `overwrite` permits overwriting them.
    /// Changes nothing.
    ///
    /// # Errors
    /// [`LabError::Missing`] with the contents, and what the user can do.
    pub(crate) fn examine(path: &Path, overwrite: bool) -> Result<Self, LabError> {
        let facts = fs::metadata(path).map_err(LabError::file("use the target", path))?;
        if !facts.file_type().is_block_device() {
            return Err(refused(path, "it is not a block device", "name a block device, such as /dev/mapper/X"));
        }
        let number = format!("{}:{}", libc::major(facts.rdev()), libc::minor(facts.rdev()));
        let system = Path::new("/sys/dev/block").join(&number);
        if let Some(user) = user_of(path, &number, &system) {
            return Err(refused(
                path,
                &format!("it is in use ({user})"),
                "name a device that nothing uses; one in use is never taken",
            ));
        }
        let size = system.join("size");
        let sectors = fs::read_to_string(&size).map_err(LabError::file("read", &size))?;
        let bytes = sectors.trim().parse::<u64>().unwrap_or(0) * SECTOR;
        if let Some(content) = content_of(path, &system)?.filter(|_| !overwrite) {
            let hint = format!("if that may be destroyed: {OVERWRITE}; else name another device");
            return Err(refused(path, &format!("it carries {content}"), &hint));
        }
        Ok(Self { path: path.to_owned(), bytes, counters: system.join("stat") })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates an ext4 file system of `bytes` bytes on it, or of its size if that is smaller.
    pub(crate) fn make_file_system(&self, bytes: u64, log: PathBuf) -> Result<(), LabError> {
        let mut command = Command::new("mkfs.ext4");
        // Everything is written now, so that nothing is written during a measurement. A single -F is not enough to make mkfs accept a
        // device that is in use meanwhile.
        command.args(["-q", "-F", "-L", LABEL, "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(&self.path);
        command.arg(format!("{}k", bytes.min(self.bytes) / 1024)).current_dir("/");
        Launch::new("mkfs.ext4", command, log).run(MKFS_MAX)
    }

    /// Removes the signature of a Millrace file system from it. Does not change other contents.
    pub(crate) fn wipe(&self) -> Result<(), LabError> {
        if signature(&self.path)?.is_none_or(|found| found != Signature::Ours) {
            return Ok(());
        }
        let output = Command::new("wipefs").arg("-a").arg(&self.path).stdin(Stdio::null()).output();
        let output = output.map_err(|source| LabError::Start { program: "wipefs".to_owned(), source })?;
        if output.status.success() {
            return Ok(());
        }
        let detail = format!("\n    {}", String::from_utf8_lossy(&output.stderr).trim());
        Err(LabError::Program { program: format!("wipefs of {}", self.path.display()), outcome: "failed".to_owned(), detail })
    }

    /// Its reads and writes until now.
    pub(crate) fn stats(&self) -> Result<DiskStats, LabError> {
        let text = fs::read_to_string(&self.counters).map_err(LabError::file("read", &self.counters))?;
        Ok(parse_stats(&text))
    }
}

/// Fields of Documentation/block/stat.rst: reads, merged, sectors, ms; writes, merged, sectors, ms; in flight, ms, ms; discards,
/// merged, sectors, ms; flushes, ms.
pub(crate) fn parse_stats(text: &str) -> DiskStats {
    let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let field = |place: usize| fields.get(place).copied().unwrap_or(0);
    DiskStats {
        read_bytes: field(2) * SECTOR,
        written_bytes: field(6) * SECTOR,
        requests: field(0) + field(4) + field(15),
        request_ms: field(3) + field(7) + field(16),
    }
}

fn refused(path: &Path, why: &str, hint: &str) -> LabError {
    LabError::Missing { what: format!("take {} for a comparison: {why}", path.display()), hint: hint.to_owned() }
}

/// The user of a device: a mount, swap, another device on it, or an exclusive user.
fn user_of(path: &Path, number: &str, system: &Path) -> Option<String> {
    let mounts = mount_table::read().unwrap_or_default();
    if let Some(mount) = mounts.iter().find(|mount| mount.device == number) {
        return Some(format!("mounted at {}", mount.directory.display()));
    }
    let holders = fs::read_dir(system.join("holders")).into_iter().flatten().flatten();
    if let Some(holder) = holders.map(|entry| entry.file_name().to_string_lossy().into_owned()).next() {
        return Some(format!("below {holder}"));
    }
    // With O_EXCL, the kernel gives a device, and a disk with its partitions, to only one user: a mount, swap, md, dm.
    let alone = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path);
    alone.err().map(|error| error.to_string())
}

/// Contents of a device, in words; `None` if it is empty or has a Millrace file system.
fn content_of(path: &Path, system: &Path) -> Result<Option<String>, LabError> {
    let entries = fs::read_dir(system).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").is_file()).count();
    if partitions > 0 {
        return Ok(Some(format!("{partitions} partitions")));
    }
    Ok(match signature(path)? {
        None | Some(Signature::Ours) => None,
        Some(Signature::Of(what)) => Some(what),
    })
}

/// Contents of a device according to its first bytes.
#[derive(Debug, PartialEq, Eq)]
enum Signature {
    Ours,
    Of(String),
}

fn signature(path: &Path) -> Result<Option<Signature>, LabError> {
    let output = Command::new("blkid").args(["-p", "-o", "export"]).arg(path).stdin(Stdio::null()).output();
    let output = output.map_err(|source| LabError::Start { program: "blkid".to_owned(), source })?;
    match output.status.code() {
        Some(BLKID_NOTHING) => Ok(None),
        Some(0) => Ok(Some(parse_signature(&String::from_utf8_lossy(&output.stdout)))),
        // Several signatures contradict each other, or the device cannot be read: it is not empty.
        _ => Ok(Some(Signature::Of("what blkid cannot tell".to_owned()))),
    }
}

fn parse_signature(text: &str) -> Signature {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    match (value("TYPE"), value("PTTYPE")) {
        (Some("ext4"), _) if value("LABEL") == Some(LABEL) => Signature::Ours,
        (Some(kind), _) => Signature::Of(value("LABEL").map_or_else(|| kind.to_owned(), |label| format!("{kind} \"{label}\""))),
        (None, Some(table)) => Signature::Of(format!("a partition table ({table})")),
        (None, None) => Signature::Of("a signature that blkid knows".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_carries_is_told_and_a_file_system_of_ours_is_free_again() {
        let of = |text: &str| parse_signature(text);
        assert_eq!(of("DEVNAME=/dev/x\nLABEL=millrace-lab\nTYPE=ext4\nUSAGE=filesystem\n"), Signature::Ours);
        assert_eq!(of("LABEL=pg\nTYPE=ext4\n"), Signature::Of("ext4 \"pg\"".into()));
        assert_eq!(of("LABEL=millrace-lab\nTYPE=xfs\n"), Signature::Of("xfs \"millrace-lab\"".into()), "ours are ext4");
        assert_eq!(of("PTTYPE=gpt\n"), Signature::Of("a partition table (gpt)".into()));
    }

    #[test]
    fn sectors_read_and_written_are_the_third_and_the_seventh_field() {
        let stats = parse_stats("   10  1  16  5  20 2  4096 7 0 9 12 0 0 0 0 3 4\n");
        let (read_bytes, written_bytes) = (16 * 512, 4096 * 512);
        assert_eq!(stats, DiskStats { read_bytes, written_bytes, requests: 10 + 20 + 3, request_ms: 5 + 7 + 4 });
        let twice: DiskStats = [stats, stats].into_iter().sum();
        assert_eq!((twice.read_bytes, twice.requests), (2 * read_bytes, 66));
        assert_eq!(parse_stats(""), DiskStats::default());
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let error = BlockDevice::examine(Path::new("/dev/null"), true).unwrap_err();
        assert!(error.to_string().contains("not a block device"), "{error}");
        assert!(BlockDevice::examine(Path::new("/dev/no-such"), false).is_err());
    }
}
