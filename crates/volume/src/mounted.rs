//! The identity of a mounted file system. Its page cache ends when its last mount ends, and a later mount has a new one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::sys::RawStat;

/// A name for the mounted file system. It is the same in each mount namespace and for each bind mount. It changes if all mounts ended and
/// the file system was mounted again under the same boot. `None` if the host does not report it.
///
/// The name contains the inode number of the file system's directory in /sys/fs, which the kernel creates at the mount. File systems
/// without such a directory (tmpfs, FUSE, overlay) have the number of their anonymous device, which a later mount may get again.
pub(crate) fn mounted(root: &RawStat) -> Option<String> {
    let (major, minor) = root.dev;
    let (kind, source) = mount_of(&fs::read_to_string("/proc/self/mountinfo").ok()?, root.mount)?;
    let device = match major {
        0 => fs::canonicalize(&source).ok(),
        _ => fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok(),
    };
    let entry = device.and_then(|device| entry(&Path::new("/sys/fs").join(&kind), device.file_name()?.to_str()?));
    match entry {
        Some(entry) => Some(format!("{kind}:{}", fs::metadata(entry).ok()?.ino())),
        None if major == 0 => Some(format!("{kind}:device-{minor}")),
        None => None,
    }
}

/// Type and source of the mount with this id in the text of mountinfo (proc_pid_mountinfo(5)).
fn mount_of(mountinfo: &str, mount: u64) -> Option<(String, PathBuf)> {
    let line = mountinfo.lines().find(|line| line.split(' ').next().is_some_and(|id| id.parse() == Ok(mount)))?;
    let (_, rest) = line.split_once(" - ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.into()))
}

/// The directory of the file system on this device: the one with the device's name, or the one that lists the device (btrfs).
fn entry(of_kind: &Path, device: &str) -> Option<PathBuf> {
    let named = of_kind.join(device);
    if named.is_dir() {
        return Some(named);
    }
    let mut all = fs::read_dir(of_kind).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    all.find(|entry| entry.join("devices").join(device).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_id() {
        let text = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
                    212 21 0:45 /vol /mnt/a\\040b rw - btrfs /dev/mapper/x rw,subvol=/vol\n";
        assert_eq!(mount_of(text, 212), Some(("btrfs".to_owned(), "/dev/mapper/x".into())));
        assert_eq!(mount_of(text, 2), None);
    }

    #[test]
    fn the_entry_of_a_device_is_named_by_it_or_lists_it() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("features")).unwrap();
        fs::create_dir_all(base.path().join("dm-0")).unwrap();
        fs::create_dir_all(base.path().join("uuid/devices/loop3")).unwrap();
        assert_eq!(entry(base.path(), "dm-0"), Some(base.path().join("dm-0")));
        assert_eq!(entry(base.path(), "loop3"), Some(base.path().join("uuid")));
        assert_eq!(entry(base.path(), "loop4"), None);
    }
}
