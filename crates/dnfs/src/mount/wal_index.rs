//! SQLite's WAL index: a file beside the database that its processes map shared and lock. It contains nothing that must survive
//! a crash.
//!
//! NFS cannot back a shared mapping. Programs under the preload library map a file in the runtime directory instead. For a FUSE
//! mount the kernel maps its own pages, different ones for each mount. Two of these at once would be two indexes of one log, and
//! each side would overwrite what the other committed. So only one *side* at a time has the index: the library, or one FUSE
//! mount. The side locks the file in the runtime directory while one of its programs has the index open. An open by another side
//! fails.

use std::ffi::CString;
use std::fmt;
use std::hash::Hasher;
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use super::{Entry, Mount, Object};
use crate::file::{FileHandle, FileKind};
use crate::process::this_process;
use crate::sys::range_lock::{conflict, set_range};

const SUFFIX: &[u8] = b"-shm";
/// The first bytes of a database (SQLite's "Database File Format", 1.3).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Prefix of the file's name in the runtime directory.
const PREFIX: &[u8] = b"/wal-";
/// The byte that the side locks, beyond those that SQLite locks. The library's programs share the lock; a FUSE mount locks it
/// exclusively.
const SIDE: i64 = 1 << 61;
/// A process locks the byte at this offset plus its process id.
const PROCESSES: i64 = SIDE + 1;

/// How programs use a WAL index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalIndexSide {
    /// The preload library; all programs under it are one side.
    Library,
    /// One FUSE mount.
    FuseMount,
}

/// Another side has the WAL index open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalIndexInUse {
    side: WalIndexSide,
    /// A process of that side, if it is known.
    pid: Option<i64>,
}

impl fmt::Display for WalIndexInUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        match self.side {
            WalIndexSide::Library => write!(out, "a program under `millrace exec`{process} has this database open in WAL mode")?,
            WalIndexSide::FuseMount => {
                write!(out, "a program has this database open in WAL mode through another `millrace mount`{process}")?;
            }
        }
        write!(out, "; use one path for all programs, or `PRAGMA journal_mode=DELETE`")
    }
}

impl Mount {
    /// The path of the file in the runtime directory that replaces the WAL index `name` in `directory`. `None` if there is no
    /// database beside it. Asks the server for the database.
    #[must_use]
    pub fn wal_index(&self, directory: &FileHandle, name: &[u8]) -> Option<CString> {
        let database = name.strip_suffix(SUFFIX).filter(|database| !database.is_empty())?;
        let object = self.look_up(directory, database).ok()?;
        if object.attr.kind != FileKind::Regular || !self.is_database(&object) {
            return None;
        }
        // The name is made from the database's handle: each name of the database leads to the same index, and another database to
        // another one.
        let mut hash = fnv::FnvHasher::default();
        hash.write(object.handle.as_bytes());
        let mut path = self.runtime_dir().as_os_str().as_bytes().to_vec();
        path.extend_from_slice(PREFIX);
        path.extend_from_slice(format!("{:016x}", hash.finish()).as_bytes());
        CString::new(path).ok()
    }

    /// As [`Self::wal_index`], for what a walk found.
    #[must_use]
    pub fn wal_index_of(&self, entry: &Entry) -> Option<CString> {
        let is_other = entry.must_be_directory || entry.object.is_some_and(|object| object.attr.kind != FileKind::Regular);
        if is_other { None } else { self.wal_index(&entry.parent, &entry.name) }
    }

    fn is_database(&self, object: &Object) -> bool {
        let mut begin = [0; MAGIC.len()];
        let read = self.client.read(&object.handle, 0, &mut [IoSliceMut::new(&mut begin)]);
        read.is_ok_and(|done| done.bytes == MAGIC.len()) && begin == *MAGIC
    }
}

/// Whether a file of this name is a WAL index if a database is beside it.
#[must_use]
pub fn is_wal_index_name(name: &[u8]) -> bool {
    name.len() > SUFFIX.len() && name.ends_with(SUFFIX)
}

/// Whether a path below the runtime directory is one that [`Mount::wal_index`] returned.
#[must_use]
pub fn is_wal_index_path(path: &[u8]) -> bool {
    path.iter().rposition(|byte| *byte == b'/').is_some_and(|slash| path[slash..].starts_with(PREFIX))
}

/// Claims the WAL index for a side until the open file description is closed; dup, fork and exec keep it open. The library needs
/// it open for reading, a FUSE mount for writing too.
///
/// # Errors
/// [`WalIndexInUse`].
pub fn claim_wal_index(index: BorrowedFd<'_>, side: WalIndexSide) -> Result<(), WalIndexInUse> {
    let kind = if side == WalIndexSide::Library { libc::F_RDLCK } else { libc::F_WRLCK };
    if !set_range(index, kind, SIDE, 1).unwrap_or(false) {
        return Err(in_use(index));
    }
    // Only the message uses this lock. Without it the message names no process.
    let _ = set_range(index, libc::F_RDLCK, PROCESSES + i64::from(this_process().identity.process_id()), 1);
    Ok(())
}

fn in_use(index: BorrowedFd<'_>) -> WalIndexInUse {
    let is_alone = matches!(conflict(index, libc::F_RDLCK, SIDE, 1), Ok(Some(_)));
    let process = conflict(index, libc::F_WRLCK, PROCESSES, 0).ok().flatten();
    WalIndexInUse {
        side: if is_alone { WalIndexSide::FuseMount } else { WalIndexSide::Library },
        pid: process.map(|lock| lock.l_start - PROCESSES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd as _;

    #[test]
    fn programs_under_the_library_share_an_index_and_a_fuse_mount_has_it_alone() {
        let place = crate::segment::tests::tempdir::TempDir::new();
        let path = std::path::Path::new(place.path()).join("wal-1");
        let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let (one, two, other) = (open(), open(), open());
        let pid = Some(i64::from(std::process::id()));
        claim_wal_index(one.as_fd(), WalIndexSide::Library).unwrap();
        claim_wal_index(two.as_fd(), WalIndexSide::Library).unwrap();
        let refused = claim_wal_index(other.as_fd(), WalIndexSide::FuseMount).unwrap_err();
        assert_eq!(refused, WalIndexInUse { side: WalIndexSide::Library, pid });
        drop((one, two));
        claim_wal_index(other.as_fd(), WalIndexSide::FuseMount).unwrap();
        for side in [WalIndexSide::Library, WalIndexSide::FuseMount] {
            let refused = claim_wal_index(open().as_fd(), side).unwrap_err();
            assert_eq!(refused, WalIndexInUse { side: WalIndexSide::FuseMount, pid });
        }
    }
}
