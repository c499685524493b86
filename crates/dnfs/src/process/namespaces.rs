//! The user namespaces that a process has been in, and the mapping of their ids ([`crate::user_namespace`]).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of namespaces of one process: it enters one at a time, and seldom more than one.
const NAMESPACES_MAX: usize = 4;
const UNDETERMINED: usize = usize::MAX;
const THE_MOUNTS: usize = usize::MAX - 1;

/// The namespaces of a process other than that of its mounts. A child has those of its parent.
pub(crate) struct UserNamespaces {
    entered: [OnceLock<UserNamespace>; NAMESPACES_MAX],
    /// Index of the current one, [`THE_MOUNTS`] or [`UNDETERMINED`].
    current: AtomicUsize,
    /// The namespace of the mounts, by the inode of its file. `None` if it is unknown.
    made_in: OnceLock<Option<u64>>,
}

/// A user namespace below that of the mounts.
pub(crate) struct UserNamespace {
    /// Inode number of its file.
    pub(crate) inode: u64,
    pub(crate) users: IdMap,
    pub(crate) groups: IdMap,
}

/// `/proc/self/uid_map` or `gid_map`.
pub(crate) struct IdMap(Vec<Range>);

/// One line of a map.
struct Range {
    inside: u32,
    outside: u32,
    count: u32,
}

impl UserNamespaces {
    pub(super) const fn new() -> Self {
        Self {
            entered: [const { OnceLock::new() }; NAMESPACES_MAX],
            current: AtomicUsize::new(UNDETERMINED),
            made_in: OnceLock::new(),
        }
    }

    /// The namespace of the mounts, which `read` determines at the first call.
    pub(crate) fn made_in(&self, read: impl FnOnce() -> Option<u64>) -> Option<u64> {
        *self.made_in.get_or_init(read)
    }

    /// Whether the current namespace is not determined yet.
    pub(crate) fn is_undetermined(&self) -> bool {
        self.current.load(Ordering::Acquire) == UNDETERMINED
    }

    /// Makes the namespace of the mounts the current one until [`Self::set_current`], unless another was determined
    /// before.
    pub(crate) fn begin_search(&self) {
        let _ = self.current.compare_exchange(UNDETERMINED, THE_MOUNTS, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Sets the current namespace by its index. `None`: that of the mounts.
    pub(crate) fn set_current(&self, place: Option<usize>) {
        self.current.store(place.unwrap_or(THE_MOUNTS), Ordering::Release);
    }

    /// The current namespace. `None` if it is that of the mounts.
    pub(crate) fn current(&self) -> Option<&UserNamespace> {
        self.entered.get(self.current.load(Ordering::Acquire))?.get()
    }

    /// The index of a namespace that the process has entered.
    pub(crate) fn position(&self, inode: u64) -> Option<usize> {
        self.entered.iter().position(|place| place.get().is_some_and(|namespace| namespace.inode == inode))
    }

    /// Adds a namespace and returns its index. `None` if there is no place for it.
    pub(crate) fn enter(&self, namespace: UserNamespace) -> Option<usize> {
        let inode = namespace.inode;
        let mut namespace = Some(namespace);
        self.entered.iter().position(|place| {
            if let Some(unplaced) = namespace.take() {
                namespace = place.set(unplaced).err();
            }
            place.get().is_some_and(|namespace| namespace.inode == inode)
        })
    }
}

impl IdMap {
    pub(crate) fn parse(text: &[u8]) -> Self {
        let number = |field: Option<&str>| field?.parse().ok();
        let range = |line: &str| {
            let mut fields = line.split_ascii_whitespace();
            Some(Range { inside: number(fields.next())?, outside: number(fields.next())?, count: number(fields.next())? })
        };
        Self(String::from_utf8_lossy(text).lines().filter_map(range).collect())
    }

    /// Whether the map was not written yet, or cannot be read.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number that an id inside the namespace has outside it.
    pub(crate) fn outside(&self, id: u32) -> Option<u32> {
        self.0.iter().find_map(|range| moved(id, range.inside, range.outside, range.count))
    }

    /// The number that an id outside the namespace has inside it.
    pub(crate) fn inside(&self, id: u32) -> Option<u32> {
        self.0.iter().find_map(|range| moved(id, range.outside, range.inside, range.count))
    }
}

fn moved(id: u32, from: u32, to: u32, count: u32) -> Option<u32> {
    let offset = id.checked_sub(from).filter(|offset| *offset < count)?;
    to.checked_add(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_through_a_map_both_ways_and_others_have_none() {
        let map = IdMap::parse(b"         0       1000          1\n         1     100000      65536\n");
        assert_eq!(
            (map.outside(0), map.outside(1), map.outside(65536), map.outside(65537)),
            (Some(1000), Some(100_000), Some(165_535), None)
        );
        assert_eq!((map.inside(1000), map.inside(100_005), map.inside(0), map.inside(165_536)), (Some(0), Some(6), None, None));
        let all = IdMap::parse(b"         0          0 4294967295\n");
        assert_eq!((all.outside(4_294_967_294), all.inside(65534)), (Some(4_294_967_294), Some(65534)));
    }
}
