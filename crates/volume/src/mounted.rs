//! The identity of a mounted file system. Its page cache ends when its last mount ends, and a later mount has a new one.

use host::mount_table::{self, Mount};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::sys::RawStat;

/// A name for the mounted file system. It is the same in each mount namespace and for each bind mount. It changes if all mounts
/// ended and the file system was mounted again under the same boot. `None` if the host does not report it.
///
/// The name contains the inode number of the file system's directory in /sys/fs, which the kernel creates at the mount. File systems
/// without such a directory (tmpfs, FUSE, overlay) have the number of their anonymous device, which a later mount may get again.
pub(crate) fn mounted(root: &RawStat) -> Option<String> {
    let (major, minor) = root.dev;
    let Mount { kind, source, .. } = mount_table::read().ok()?.into_iter().find(|mount| mount.id == root.mount)?;
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
