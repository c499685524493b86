//! btrfs over several block devices: the superblock of a member, the devices that are mounted together, and files that are
//! updated in place.

use super::error::AttachError;
use super::mounts::is_dead;
use super::mounts::{Mount, mounts};
use super::program::output;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Offset of the first superblock, independent of the block size (BTRFS_SUPER_INFO_OFFSET).
const SUPERBLOCK: u64 = 64 << 10;
/// How much of it is read: up to the end of the device's own item.
const SUPERBLOCK_BYTES: usize = 0xc9 + 98;
const MAGIC: &[u8] = b"_BHRfS_M";
/// Has a directory for each file system that is mounted on this host, in any mount namespace.
const MOUNTED: &str = "/sys/fs/btrfs";

/// A block device that is a part of a btrfs file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// UUID of the file system, as blkid has it.
    pub file_system: String,
    /// Number of the device in it, from 1.
    pub number: u64,
    /// Number of devices in it.
    pub devices: u64,
}

impl Member {
    /// Examines a device. `None` if it has no btrfs.
    ///
    /// # Errors
    /// [`AttachError::Read`].
    pub fn of(device: &str) -> Result<Option<Self>, AttachError> {
        let fault = |source| AttachError::Read { path: device.into(), source };
        let mut bytes = [0; SUPERBLOCK_BYTES];
        match File::open(device).map_err(fault)?.read_exact_at(&mut bytes, SUPERBLOCK) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            read => read.map_err(fault).map(|()| Self::parse(&bytes)),
        }
    }

    /// Decodes a superblock. Source: struct btrfs_super_block and struct btrfs_dev_item of linux/btrfs_tree.h, little
    /// endian.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        if bytes.get(0x40..0x48)? != MAGIC {
            return None;
        }
        Some(Self { file_system: uuid(bytes.get(0x20..0x30)?), number: number(0xc9)?, devices: number(0x88)? })
    }
}

fn uuid(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Makes a btrfs on all devices, striped if there are several.
pub(super) fn make(devices: &[String]) -> Result<(), AttachError> {
    let profile = if devices.len() > 1 { "raid0" } else { "single" };
    // Every kernel mounts sectors of 4096 bytes, but not every kernel mounts smaller ones.
    let options = ["-q", "-f", "-K", "-s", "4096", "-d", profile, "-m", profile];
    let made = output("mkfs.btrfs", Command::new("mkfs.btrfs").args(options).args(devices)).map(|_| ());
    let dead: Vec<Mount> = mounts().into_iter().filter(|mount| is_dead(&mount.source)).collect();
    if made.is_ok() || dead.is_empty() {
        return made;
    }
    // mkfs.btrfs examines the file below each loop device that is mounted, and fails at a file whose process has died. So it runs
    // in a mount namespace of its own, where those are not mounted.
    const HIDE: &str =
        "while [ \"$1\" != -- ]; do umount --lazy --no-canonicalize \"$1\"; shift; done; shift; exec mkfs.btrfs \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "slave", "sh", "-c", HIDE, "sh"]).args(dead.iter().map(|mount| &mount.directory));
    output("unshare", command.arg("--").args(options).args(devices)).map(|_| ()).or(made)
}

/// Makes new files below a directory updated in place (FS_NOCOW_FL, `chattr +C`). They are not copied on write, so that a
/// database's files do not fragment, and have no checksums of btrfs.
///
/// # Errors
/// [`AttachError::InPlace`].
pub fn update_in_place(directory: &Path) -> Result<(), AttachError> {
    let set = || {
        let open = File::open(directory)?;
        let flags = ioctl_getflags(&open)?;
        Ok(ioctl_setflags(&open, flags | IFlags::NOCOW)?)
    };
    set().map_err(|source| AttachError::InPlace { directory: directory.to_owned(), source })
}

/// Makes the kernel forget the device as a member of an unmounted file system: another device will soon
/// have its number. Does nothing without btrfs-progs: the kernel then notices when it examines the device again.
pub(crate) fn forget(device: &str) {
    if Path::new(MOUNTED).exists() {
        let mut command = Command::new("btrfs");
        command.args(["device", "scan", "--forget", device]);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// The UUID and the devices of each file system that is mounted, in any mount namespace. Devices are named as in
/// `loop3`.
pub(super) fn mounted() -> Vec<(String, Vec<String>)> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let all = names(Path::new(MOUNTED)).into_iter().map(|uuid| {
        let devices = names(&Path::new(MOUNTED).join(&uuid).join("devices"));
        (uuid, devices)
    });
    all.filter(|(_, devices)| !devices.is_empty()).collect()
}

/// The devices below a mount. The mount names one of them, and has a device number of its own.
pub(super) fn devices_below(mount: &Mount, all: &[(String, Vec<String>)]) -> Vec<String> {
    if mount.kind != "btrfs" {
        return Vec::new();
    }
    // A mount by a link, as below /dev/disk, belongs to the device to which the link leads.
    let source = fs::canonicalize(&mount.source).unwrap_or_else(|_| mount.source.clone().into());
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    all.iter().find(|(_, devices)| devices.contains(&name)).map_or_else(|| vec![name], |(_, devices)| devices.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_says_which_of_how_many_devices_it_is_on() {
        // The second of three devices, made by mkfs.btrfs of btrfs-progs 6.2, as far as the
        // superblock is read.
        let mut bytes = [0; SUPERBLOCK_BYTES];
        assert_eq!(Member::parse(&bytes), None);
        let uuid = [0x53, 0x5f, 0x65, 0x54, 0x4c, 0x94, 0x49, 0x47, 0x9e, 0xd2, 0xb2, 0xa9, 0x83, 0xa7, 0x89, 0x62];
        bytes[0x20..0x30].copy_from_slice(&uuid);
        bytes[0x40..0x48].copy_from_slice(MAGIC);
        (bytes[0x88], bytes[0xc9]) = (3, 2);
        let file_system = "535f6554-4c94-4947-9ed2-b2a983a78962".to_owned();
        assert_eq!(Member::parse(&bytes), Some(Member { file_system, number: 2, devices: 3 }));
    }

    #[test]
    fn a_mount_of_btrfs_stands_on_all_devices_of_its_file_system() {
        let of = |kind: &str, source: &str| {
            let line = format!("36 35 0:41 / /srv rw - {kind} {source} rw");
            host::mount_table::parse_line(line.as_bytes()).unwrap()
        };
        let all =
            [("one".to_owned(), vec!["loop1".to_owned(), "loop2".to_owned()]), ("two".to_owned(), vec!["loop3".to_owned()])];
        assert_eq!(devices_below(&of("btrfs", "/dev/loop2"), &all), ["loop1", "loop2"]);
        assert_eq!(devices_below(&of("btrfs", "/dev/loop9"), &all), ["loop9"]);
        assert_eq!(devices_below(&of("tmpfs", "/dev/loop2"), &all), Vec::<String>::new());
    }
}
