//! Where the objects of a volume live.
//!
//! A [`Store`] is one tree of a file system of the host. It opens objects by their identity and says which objects are its own. The volume
//! does the rest with calls of the host on descriptors that the store has opened: names relative to a directory, data, attributes. So a
//! READ or WRITE of an open file does not call its store. Each node refers to its store, and a name leads to an object of the same store
//! as its directory.
//!
//! The [`directory::Directory`] is the only store. A read-only copy of the tree at an instant (a snapshot of a btrfs subvolume) would be another one
//! of the same volume: the identities of a file system's objects are unique over all its trees.

pub(crate) mod directory;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::error::Error;
use crate::identity::Identity;
use crate::sys::{self, KernelHandle, RawEntry, RawStat};

/// A tree of a volume: the live one, or a snapshot. Part of the handles of a snapshot's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotId(pub(crate) u32);

impl SnapshotId {
    /// The tree that clients change.
    pub(crate) const LIVE: Self = Self(0);
}

/// One tree of objects.
pub(crate) trait Store: Send + Sync {
    /// Which tree of its volume it is.
    fn snapshot(&self) -> SnapshotId;

    /// The root, open for reading.
    fn root(&self) -> BorrowedFd<'_>;

    /// The attributes of the root when the store was opened. Device, mount and inode number never change.
    fn root_stat(&self) -> &RawStat;

    /// The identity of the root when the store was opened.
    fn root_identity(&self) -> &KernelHandle;

    /// How objects are identified and found.
    fn identity(&self) -> Identity;

    /// The identity of an open object.
    fn identify(&self, object: BorrowedFd<'_>, stat: &RawStat) -> io::Result<KernelHandle>;

    /// The identity of the object of a name. `None` if the object must be opened to identify it.
    ///
    /// **Errors**: [`Error::CrossDevice`] if the object is in another mount.
    fn identify_name(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<KernelHandle>, Error>;

    /// Whether an object is in this tree, and not in another mount or in a nested btrfs subvolume: two objects could have one inode
    /// number.
    fn holds(&self, stat: &RawStat) -> bool;

    /// Opens an object by its identity. `None` if the host opens objects by name only: then the volume searches for the object.
    ///
    /// **Errors**: [`Error::Stale`] if the object is gone.
    fn open(&self, identity: &KernelHandle, flags: libc::c_int) -> Option<Result<OwnedFd, Error>>;

    /// The part of an identity that a handle of version 3 contains: without the number that the host gave to the tree, because a copy of the
    /// tree that takes its place has another number.
    fn in_handle(&self, identity: &KernelHandle) -> KernelHandle;

    /// The identity of an object of this tree from the part that is in a handle.
    fn of_handle(&self, in_handle: &KernelHandle) -> KernelHandle;

    /// Makes all earlier changes of names and attributes durable. Callers that wait at the same time share the flush.
    fn flush_metadata(&self) -> io::Result<()>;
}

impl dyn Store {
    /// Whether objects are opened by identity, so that no name needs to be remembered.
    pub(crate) fn opens_by_identity(&self) -> bool {
        self.identity() == Identity::Handles
    }

    /// The inode number of a listed entry. An overlay lists other numbers than those of its objects.
    pub(crate) fn listed_fileid(&self, dir: impl AsFd, entry: &RawEntry<'_>) -> u64 {
        if self.identity() != Identity::BirthTimes {
            return entry.ino;
        }
        sys::stat_name(dir, entry.name).map_or(entry.ino, |stat| stat.ino)
    }
}
