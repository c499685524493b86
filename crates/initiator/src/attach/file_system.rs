//! The file system on a block device. The programs of the host find, make, mount and unmount it.

use super::btrfs;
use super::error::AttachError;
use super::mounts::mounts;
use super::program::output;
use super::users::processes;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A kind of file system that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// XFS.
    Xfs,
    /// ext4.
    Ext4,
    /// btrfs, striped if there are several devices.
    Btrfs,
}

/// What blkid(8) finds at the start of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The file system, or another signature: `xfs`, `LVM2_member`.
    pub kind: Option<String>,
    /// The table of partitions: `gpt`, `dos`.
    pub partitions: Option<String>,
    /// Bytes of the smallest unit that the file system writes.
    pub block_bytes: Option<u64>,
    /// Several signatures that exclude each other.
    pub is_ambiguous: bool,
}

impl FileSystem {
    /// The program that makes it.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Xfs => "mkfs.xfs",
            Self::Ext4 => "mkfs.ext4",
            Self::Btrfs => "mkfs.btrfs",
        }
    }

    /// The package that has the program.
    #[must_use]
    pub const fn package(self) -> &'static str {
        match self {
            Self::Xfs => "xfsprogs",
            Self::Ext4 => "e2fsprogs",
            Self::Btrfs => "btrfs-progs",
        }
    }

    /// Makes a file system that never writes less than a physical block. The content of the devices is lost. Their space is not
    /// freed first: a new LUN uses no space, and it can take minutes (fstrim(8) does it on the mounted file system). Only btrfs
    /// takes several devices: data and metadata are striped over them, without a copy, because the LUNs' store protects them.
    ///
    /// # Errors
    /// [`AttachError::Program`], [`AttachError::Failed`].
    pub fn make(self, devices: &[String], physical_block_bytes: u32) -> Result<(), AttachError> {
        // A page is the largest block with which each of them can be mounted.
        let unit = physical_block_bytes.clamp(512, 4096);
        let mut command = Command::new(self.program());
        match self {
            Self::Xfs => command.args(["-q", "-f", "-K", "-s", &format!("size={unit}")]),
            Self::Ext4 => command.args(["-q", "-F", "-E", "nodiscard", "-b", &unit.max(1024).to_string()]),
            Self::Btrfs => return btrfs::make(devices).map_err(in_brief),
        };
        output(self.program(), command.args(devices)).map(|_| ()).map_err(in_brief)
    }
}

/// Shortens the output of a program to its first line and the number of the others: mkfs.xfs prints its usage after
/// every error.
fn in_brief(error: AttachError) -> AttachError {
    let AttachError::Failed { program, arguments, said } = error else { return error };
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default().to_owned();
    let said = match lines.count() {
        0 => first,
        left => format!("{first} ({left} more lines: to see them, attach it without --mkfs and run {program} by hand)"),
    };
    AttachError::Failed { program, arguments, said }
}

impl Content {
    /// Examines a device.
    ///
    /// # Errors
    /// [`AttachError::Program`], [`AttachError::Failed`].
    pub fn of(device: &str) -> Result<Self, AttachError> {
        const NOTHING: i32 = 2;
        const AMBIGUOUS: i32 = 8;
        let mut command = Command::new("blkid");
        command.args(["--probe", "--output", "export", device]);
        let ended = command.output().map_err(|source| AttachError::Program { program: "blkid", source })?;
        match ended.status.code() {
            Some(0) => Ok(Self::parse(&String::from_utf8_lossy(&ended.stdout))),
            Some(NOTHING) => Ok(Self::default()),
            Some(AMBIGUOUS) => Ok(Self { is_ambiguous: true, ..Self::default() }),
            _ => output("blkid", &mut command).map(|_| Self::default()),
        }
    }

    fn parse(export: &str) -> Self {
        let value = |name: &str| export.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned);
        let block_bytes = value("BLOCK_SIZE").and_then(|text| text.parse().ok());
        Self { kind: value("TYPE"), partitions: value("PTTYPE"), block_bytes, is_ambiguous: false }
    }

    /// The content, in words. `None` if there is no content.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        match (&self.kind, &self.partitions) {
            _ if self.is_ambiguous => Some("several signatures, of which one is right".into()),
            (Some(kind), _) => Some(kind.clone()),
            (None, Some(kind)) => Some(format!("a table of partitions ({kind})")),
            (None, None) => None,
        }
    }
}

/// Mounts the file system of a device, or the btrfs of several devices, even if udev has not announced them to the
/// kernel.
///
/// # Errors
/// [`AttachError::Program`], [`AttachError::Failed`].
pub fn mount(devices: &[String], directory: &Path, read_only: bool) -> Result<(), AttachError> {
    let mut command = Command::new("mount");
    if read_only {
        command.arg("--read-only");
    }
    if devices.len() > 1 {
        let members: Vec<String> = devices.iter().map(|device| format!("device={device}")).collect();
        command.args(["--types", "btrfs", "--options", &members.join(",")]);
    }
    output("mount", command.args(devices.first()).arg(directory)).map(|_| ())
}

/// Unmounts a directory; with `lazily` also if something is open there.
///
/// # Errors
/// [`AttachError::Program`], [`AttachError::Failed`].
pub fn unmount(directory: &Path, lazily: bool) -> Result<(), AttachError> {
    let mut command = umount(directory);
    if lazily {
        command.arg("--lazy");
    }
    output("umount", &mut command).map(|_| ())
}

/// Begins to unmount a directory.
pub(super) fn start_unmount(directory: &Path) -> io::Result<Child> {
    umount(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// The command does not examine what is mounted there, which fails if the process of the mount is
/// dead.
fn umount(directory: &Path) -> Command {
    let mut command = Command::new("umount");
    command.arg("--no-canonicalize").arg(directory);
    command
}

/// Whether something is mounted at exactly this directory.
#[must_use]
pub fn is_mount(directory: &Path) -> bool {
    mounts().iter().any(|mount| mount.directory == directory)
}

/// Other processes that have something open below a directory, as `process 7 (bash)`, or whose working directory is
/// there, which the text then says.
#[must_use]
pub fn users(directory: &Path) -> Vec<String> {
    processes(|target| target.starts_with(directory), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_program_that_prints_its_usage_the_first_line_is_shown() {
        let brief = |said: &str| {
            in_brief(AttachError::Failed { program: "mkfs.xfs", arguments: "-q /dev/loop0".into(), said: said.into() })
                .to_string()
        };
        let usage = "Filesystem must be larger than 300MB.\nUsage: mkfs.xfs\n\n/* blocksize */\n";
        let told = "mkfs.xfs -q /dev/loop0: Filesystem must be larger than 300MB. \
                    (2 more lines: to see them, attach it without --mkfs and run mkfs.xfs by hand)";
        assert_eq!(brief(usage), told);
        assert_eq!(brief("no space"), "mkfs.xfs -q /dev/loop0: no space");
    }

    #[test]
    fn what_blkid_exports_is_read() {
        // blkid of util-linux 2.38.1, of an XFS made by xfsprogs 6.1.0.
        let xfs = Content::parse("DEVNAME=/dev/loop0\nUUID=e4\nBLOCK_SIZE=4096\nTYPE=xfs\n");
        assert_eq!((xfs.words(), xfs.block_bytes), (Some("xfs".into()), Some(4096)));
        let gpt = Content::parse("DEVNAME=/dev/loop0\nPTUUID=aa\nPTTYPE=gpt\n");
        assert_eq!(gpt.words(), Some("a table of partitions (gpt)".into()));
        assert_eq!(Content::default().words(), None);
    }
}
