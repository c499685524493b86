//! The walk over the whole volume.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use host::Unpoisoned;

use crate::limits::{DIRECTORIES_MAX, WALK_REPEATS_MAX};
use crate::sys::{self, Listing};
use crate::types::Kind;
use crate::volume::VolumeInner;

/// Walks until no object is searched for any more. The volume may be dropped meanwhile.
pub(super) fn walk_while_wanted(volume: &Weak<VolumeInner>) {
    while let Some(inner) = volume.upgrade() {
        {
            let mut state = inner.tree_search.state.lock().unpoisoned();
            let ended = state.walks_ended;
            if !state.wanted.values().any(|wanted| wanted.walk > ended) {
                state.walking = false;
                return;
            }
            state.walks_begun += 1;
        }
        for _ in 0..WALK_REPEATS_MAX {
            let renames = inner.tree_search.state.lock().unpoisoned().renames;
            // Objects in a directory that cannot be read are not found, and so count as gone.
            let _ = walk(&inner);
            if inner.tree_search.state.lock().unpoisoned().renames == renames {
                break;
            }
        }
        let mut state = inner.tree_search.state.lock().unpoisoned();
        state.walks_ended = state.walks_begun;
    }
}

/// Lists every directory once, breadth first.
fn walk(volume: &Arc<VolumeInner>) -> io::Result<()> {
    // Index of the parent directory, name, inode number. The root is the first.
    let mut tree: Vec<(usize, Box<[u8]>, u64)> = vec![(0, b".".as_slice().into(), volume.root.fileid())];
    let mut at = 0;
    while at < tree.len() && tree.len() < DIRECTORIES_MAX && Arc::strong_count(volume) > 1 {
        let dir = tree[at].2;
        if let Ok(fd) = open_below(volume.store.root(), &tree, at) {
            let below = list_one(volume, fd, dir, at == 0)?;
            tree.extend(below.into_iter().map(|(name, ino)| (at, name, ino)));
        }
        at += 1;
    }
    Ok(())
}

/// Notes the wanted objects and the directories in one directory. Returns the directories.
fn list_one(volume: &VolumeInner, fd: OwnedFd, dir: u64, root: bool) -> io::Result<Vec<(Box<[u8]>, u64)>> {
    let names = fd.as_fd().try_clone_to_owned()?;
    let mut listing = Listing::new(fd, 0)?;
    let mut below = Vec::new();
    while let Some(entry) = listing.next_entry()? {
        if entry.name == b"." || entry.name == b".." || (root && volume.is_limbo(entry.name)) {
            continue;
        }
        let is_directory = match entry.kind {
            libc::DT_DIR => true,
            libc::DT_UNKNOWN => {
                sys::stat_name(&names, entry.name).is_ok_and(|stat| Kind::of_mode(stat.mode) == Some(Kind::Directory))
            }
            _ => false,
        };
        let fileid = volume.store.listed_fileid(&names, &entry);
        let mut state = volume.tree_search.state.lock().unpoisoned();
        if let Some(wanted) = state.wanted.get_mut(&fileid)
            && !wanted.places.iter().any(|(seen, _)| *seen == dir)
        {
            wanted.places.push((dir, entry.name.into()));
        }
        if is_directory {
            below.push((entry.name.into(), fileid));
            if state.directories.len() < DIRECTORIES_MAX {
                state.directories.insert(fileid, (dir, entry.name.into()));
            }
        }
    }
    Ok(below)
}

/// Opens the directory at an index of the tree, one component at a time.
fn open_below(root: BorrowedFd<'_>, tree: &[(usize, Box<[u8]>, u64)], index: usize) -> io::Result<OwnedFd> {
    let mut names = Vec::new();
    let mut at = index;
    while at != 0 {
        names.push(&tree[at].1);
        at = tree[at].0;
    }
    let mut fd = sys::open_at(root, b".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    for name in names.iter().rev() {
        fd = sys::open_at(&fd, name, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    }
    Ok(fd)
}
