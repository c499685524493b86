//! Ids across user namespaces. A mount belongs to the user namespace in which it was made, as a kernel mount does: its calls
//! carry the numbers of that namespace. A process of a namespace below it, as `unshare --user` creates, has numbers of its own.
//!
//! `millrace exec` passes its namespace in the environment. Without the variable, or if /proc does not show the namespace, the
//! numbers of the process are used unchanged. The kernel shows a process the mapping from its namespace to the one above only.
//! So a namespace two levels below the mount's is not distinguished from one a level below.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys::{process, whole_file};

/// The environment variable: the inode of the namespace's file, `/proc/self/ns/user`.
pub const VARIABLE: &str = "MILLRACE_USER_NAMESPACE";
/// The id that a kernel shows for an id without a number in the process' namespace.
pub(crate) const UNNAMED: u32 = 65534;
/// Maximum number of namespaces of one process: it enters one at a time, and seldom more than one.
const NAMESPACES_MAX: usize = 4;
/// The kernel allows 340 lines of at most 32 bytes.
const MAP_BYTES_MAX: usize = 340 * 33;

/// One line of a map.
struct Range {
    inside: u32,
    outside: u32,
    count: u32,
}

/// `/proc/self/uid_map` or `gid_map`.
struct Map(Vec<Range>);

struct Namespace {
    inode: u64,
    users: Map,
    groups: Map,
}

static ENTERED: [OnceLock<Namespace>; NAMESPACES_MAX] = [const { OnceLock::new() }; NAMESPACES_MAX];
/// Index of the process' current namespace, or [`THE_MOUNTS`], or not determined yet.
static CURRENT: AtomicUsize = AtomicUsize::new(NOT_ASKED);
const NOT_ASKED: usize = usize::MAX;
const THE_MOUNTS: usize = usize::MAX - 1;

impl Map {
    fn parse(text: &[u8]) -> Self {
        let number = |field: Option<&str>| field?.parse().ok();
        let range = |line: &str| {
            let mut fields = line.split_ascii_whitespace();
            Some(Range { inside: number(fields.next())?, outside: number(fields.next())?, count: number(fields.next())? })
        };
        Self(String::from_utf8_lossy(text).lines().filter_map(range).collect())
    }

    fn read(path: &str) -> Self {
        Self::parse(&whole_file::read(path, MAP_BYTES_MAX).unwrap_or_default().0)
    }

    fn outside(&self, id: u32) -> Option<u32> {
        self.0.iter().find_map(|range| moved(id, range.inside, range.outside, range.count))
    }

    fn inside(&self, id: u32) -> Option<u32> {
        self.0.iter().find_map(|range| moved(id, range.outside, range.inside, range.count))
    }
}

fn moved(id: u32, from: u32, to: u32, count: u32) -> Option<u32> {
    let offset = id.checked_sub(from).filter(|offset| *offset < count)?;
    to.checked_add(offset)
}

/// Determines the current namespace of the process. An unwritten map gives no result and is read again later.
pub(crate) fn refresh() {
    // Reading the maps needs the owners of files, which calls this function.
    let _ = CURRENT.compare_exchange(NOT_ASKED, THE_MOUNTS, Ordering::AcqRel, Ordering::Acquire);
    let place = find().unwrap_or(THE_MOUNTS);
    CURRENT.store(place, Ordering::Release);
}

fn find() -> Option<usize> {
    static MADE_IN: OnceLock<Option<u64>> = OnceLock::new();
    let made_in = (*MADE_IN.get_or_init(|| std::env::var(VARIABLE).ok()?.parse().ok()))?;
    let inode = process::user_namespace().filter(|inode| *inode != made_in)?;
    let is_it = |place: &OnceLock<Namespace>| place.get().is_some_and(|namespace| namespace.inode == inode);
    if let Some(known) = ENTERED.iter().position(is_it) {
        return Some(known);
    }
    let namespace = Namespace { inode, users: Map::read("/proc/self/uid_map"), groups: Map::read("/proc/self/gid_map") };
    if namespace.users.0.is_empty() {
        return None;
    }
    let mut namespace = Some(namespace);
    ENTERED.iter().position(|place| {
        if let Some(unplaced) = namespace.take() {
            namespace = place.set(unplaced).err();
        }
        is_it(place)
    })
}

fn current() -> Option<&'static Namespace> {
    if CURRENT.load(Ordering::Acquire) == NOT_ASKED {
        refresh();
    }
    ENTERED.get(CURRENT.load(Ordering::Acquire))?.get()
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
    !Map::read("/proc/self/uid_map").0.iter().any(|range| range.outside == 0)
}

/// The inode that [`VARIABLE`] holds for mounts made by this process.
#[must_use]
pub fn of_process() -> Option<u64> {
    process::user_namespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_through_a_map_both_ways_and_others_have_none() {
        let map = Map::parse(b"         0       1000          1\n         1     100000      65536\n");
        assert_eq!(
            (map.outside(0), map.outside(1), map.outside(65536), map.outside(65537)),
            (Some(1000), Some(100_000), Some(165_535), None)
        );
        assert_eq!((map.inside(1000), map.inside(100_005), map.inside(0), map.inside(165_536)), (Some(0), Some(6), None, None));
        let all = Map::parse(b"         0          0 4294967295\n");
        assert_eq!((all.outside(4_294_967_294), all.inside(65534)), (Some(4_294_967_294), Some(65534)));
    }
}
