//! Ids across user namespaces. A mount belongs to the user namespace in which it was made, as a kernel mount does: its calls
//! carry the numbers of that namespace. A process of a namespace below it, as `unshare --user` creates, has numbers of its own.
//!
//! `millrace exec` passes its namespace in the environment. Without the variable, or if /proc does not show the namespace, the
//! numbers of the process are used unchanged. The kernel shows a process only the mapping from its namespace to the one above.
//! So a namespace two levels below the mount's is not distinguished from one a level below.

use crate::process::{IdMap, UserNamespace, this_process};
use crate::sys::whole_file;

/// The environment variable: the inode of the namespace's file, `/proc/self/ns/user`.
pub const VARIABLE: &str = "MILLRACE_USER_NAMESPACE";
/// The id that a kernel shows for an id without a number in the process' namespace.
pub(crate) const UNNAMED: u32 = 65534;
/// The kernel allows 340 lines of at most 32 bytes.
const MAP_BYTES_MAX: usize = 340 * 33;

/// Determines the current namespace of the process. An unwritten map gives no result and is read again later.
pub(crate) fn refresh() {
    let namespaces = &this_process().user_namespaces;
    // Reading the maps needs the owners of files, which calls this function.
    namespaces.begin_search();
    namespaces.set_current(find());
}

fn find() -> Option<usize> {
    let namespaces = &this_process().user_namespaces;
    let made_in = namespaces.made_in(|| std::env::var(VARIABLE).ok()?.parse().ok())?;
    let inode = of_process().filter(|inode| *inode != made_in)?;
    if let Some(known) = namespaces.position(inode) {
        return Some(known);
    }
    let namespace = UserNamespace { inode, users: read("/proc/self/uid_map"), groups: read("/proc/self/gid_map") };
    if namespace.users.is_empty() { None } else { namespaces.enter(namespace) }
}

fn read(map: &str) -> IdMap {
    IdMap::parse(&whole_file::read(map, MAP_BYTES_MAX).unwrap_or_default().0)
}

fn current() -> Option<&'static UserNamespace> {
    let namespaces = &this_process().user_namespaces;
    if namespaces.is_undetermined() {
        refresh();
    }
    namespaces.current()
}

/// The mount's number for a user of this process' namespace. `None` if it has no number.
#[must_use]
pub fn user_outside(uid: u32) -> Option<u32> {
    current().map_or(Some(uid), |namespace| namespace.users.outside(uid))
}

/// The mount's number for a group of this process' namespace. `None` if it has no number.
#[must_use]
pub fn group_outside(gid: u32) -> Option<u32> {
    current().map_or(Some(gid), |namespace| namespace.groups.outside(gid))
}

/// The number in this process' namespace of the user that the mount calls `uid`.
#[must_use]
pub fn user_inside(uid: u32) -> u32 {
    current().map_or(uid, |namespace| namespace.users.inside(uid).unwrap_or(UNNAMED))
}

/// The number in this process' namespace of the group that the mount calls `gid`.
#[must_use]
pub fn group_inside(gid: u32) -> u32 {
    current().map_or(gid, |namespace| namespace.groups.inside(gid).unwrap_or(UNNAMED))
}

/// Whether the kernel shows this process the overflow number instead of root's: the host's root has no number in its namespace.
pub(crate) fn hides_root() -> bool {
    read("/proc/self/uid_map").inside(0).is_none()
}

/// The inode that [`VARIABLE`] holds for mounts made by this process.
#[must_use]
pub fn of_process() -> Option<u64> {
    rustix::fs::stat(c"/proc/self/ns/user").ok().map(|found| found.st_ino)
}
