//! btrfs (ioctl-btrfs(2)): commits the current transaction (BTRFS_IOC_START_SYNC, BTRFS_IOC_WAIT_SYNC), and finds subvolumes
//! (BTRFS_IOC_GET_SUBVOL_ROOTREF, BTRFS_IOC_INO_LOOKUP_USER; Linux 4.18).

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};

const START_SYNC: Opcode = opcode::read::<u64>(0x94, 24);
const WAIT_SYNC: Opcode = opcode::write::<u64>(0x94, 22);

/// Makes all earlier changes of names and attributes of the file system durable, with the data extents that belong to them. Other data
/// stays in the page cache, unless the file system is mounted with `flushoncommit`.
pub(crate) fn commit_transaction(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: the opcode stores one u64, the number of the transaction, at the address that it gets.
    let start = unsafe { Getter::<START_SYNC, u64>::new() };
    // SAFETY: the opcode is the one of this pattern; the descriptor is open.
    let transaction = unsafe { ioctl(&fd, start) }?;
    // SAFETY: the opcode reads one u64.
    let wait = unsafe { Setter::<WAIT_SYNC, u64>::new(transaction) };
    // SAFETY: as above.
    Ok(unsafe { ioctl(&fd, wait) }?)
}

/// `struct btrfs_ioctl_get_subvol_rootref_args`.
#[repr(C)]
struct References {
    least: u64,
    /// Each: the number of a subvolume, and the inode number of its parent directory.
    found: [[u64; 2]; 255],
    count: u8,
    _rest: [u8; 7],
}

/// `struct btrfs_ioctl_ino_lookup_user_args`.
#[repr(C)]
struct Named {
    directory: u64,
    subvolume: u64,
    name: [u8; 256],
    path: [u8; 3824],
}

const REFERENCES: Opcode = opcode::read_write::<References>(0x94, 61);
const NAMED: Opcode = opcode::read_write::<Named>(0x94, 62);

/// The subvolumes below a directory, as relative paths. Subvolumes inside other subvolumes are left out.
pub(crate) fn subvolumes_below(dir: impl AsFd) -> io::Result<Vec<PathBuf>> {
    let mut references = References { least: 0, found: [[0; 2]; 255], count: 0, _rest: [0; 7] };
    let mut paths = Vec::new();
    loop {
        // SAFETY: the opcode reads and writes one struct of this layout.
        let search = unsafe { Updater::<REFERENCES, References>::new(&mut references) };
        // SAFETY: the opcode is the one of this pattern; the descriptor is open.
        let is_all = match unsafe { ioctl(&dir, search) } {
            Ok(()) => true,
            Err(Errno::OVERFLOW) => false,
            Err(error) => return Err(error.into()),
        };
        let found = references.found.get(..usize::from(references.count)).unwrap_or_default();
        paths.extend(found.iter().filter_map(|[subvolume, directory]| path_of(&dir, *subvolume, *directory)));
        // The kernel has set the lowest number for the next search.
        if is_all {
            return Ok(paths);
        }
    }
}

/// The path of a subvolume relative to a directory above it. `None` if the subvolume is not below it.
fn path_of(dir: impl AsFd, subvolume: u64, directory: u64) -> Option<PathBuf> {
    let mut named = Named { directory, subvolume, name: [0; 256], path: [0; 3824] };
    // SAFETY: the opcode reads and writes one struct of this layout.
    let look = unsafe { Updater::<NAMED, Named>::new(&mut named) };
    // SAFETY: the opcode is the one of this pattern; the descriptor is open.
    unsafe { ioctl(&dir, look) }.ok()?;
    let text = |bytes: &[u8]| bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    Some(Path::new(OsStr::from_bytes(&text(&named.path))).join(OsStr::from_bytes(&text(&named.name))))
}
