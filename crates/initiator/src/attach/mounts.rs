//! What is mounted on this host.

use host::mount_table;
use std::fs;

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
