//! What is mounted on this host.

use host::mount_table;
use std::{fs, io};

pub use host::mount_table::Mount;

/// The mounts of this process' mount namespace, in the order in which they were made.
#[must_use]
pub fn mounts() -> Vec<Mount> {
    mount_table::read().unwrap_or_default()
}

/// Mounts of these devices in other mount namespaces that unmounting here does not end: copies without propagation
/// (mount_namespaces(7)), as `unshare --mount` and some containers make of what is mounted when they start.
pub(super) fn mounted_apart(devices: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (process, table) in mount_table::of_other_namespaces() {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        let apart = table.iter().filter(|mount| !mount.is_propagated && devices.contains(&mount.device));
        found.extend(apart.map(|mount| {
            let directory = mount.directory.display();
            format!("a mount at {directory} in the mount namespace of process {process} ({})", name.trim())
        }));
    }
    found
}

/// Whether this is a loop device, or a partition of one, on a file of a FUSE file system whose process has died.
pub(super) fn is_dead(source: &str) -> bool {
    let Some(rest) = source.strip_prefix("/dev/loop") else { return false };
    let number = rest.split('p').next().unwrap_or_default();
    let file = fs::read_to_string(format!("/sys/block/loop{number}/loop/backing_file")).unwrap_or_default();
    fs::metadata(file.trim_end_matches('\n')).is_err_and(|error| error.kind() == io::ErrorKind::NotConnected)
}
