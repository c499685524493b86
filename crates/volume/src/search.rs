//! Finding objects by name where the host does not open them by identity.
//!
//! Each node remembers where it was last seen (a parent node and a name). An object that is not there
//! any more, or that only a handle names, is looked for in the directory its handle hints at, then by a
//! walk over the whole volume in a thread of its own; callers are told to come back ([`Error::Busy`])
//! until the walk has ended, and only then that the object is gone. What is found by name is believed
//! only when its identity is the one looked for.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};

use crate::error::Error;
use crate::handle::Named;
use crate::identity::Identify;
use crate::limits::{DEPTH_MAX, DIRECTORIES_MAX, GONE_MAX, WALK_REPEATS_MAX, WANTED_MAX};
use crate::node::{Node, locked};
use crate::sys::{self, KernelHandle, Listing};
use crate::types::Kind;
use crate::volume::VolumeInner;

/// Where an inode number was seen: the directory's inode number and the name.
type Seen = (u64, Box<[u8]>);

/// What is known of places, and the walk.
#[derive(Default)]
pub(crate) struct Search {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Directories of the volume as a walk or a lookup saw them.
    directories: HashMap<u64, Seen>,
    /// Objects looked for, by inode number.
    wanted: HashMap<u64, Wanted>,
    /// Objects that a whole walk did not find.
    gone: HashSet<KernelHandle>,
    walking: bool,
    walks_begun: u64,
    walks_ended: u64,
    /// Renames by this process: a walk over moving names starts again.
    renames: u64,
}

struct Wanted {
    /// The first walk that began after the object was asked for.
    walk: u64,
    /// A walk before it did not find the object.
    missed: bool,
    places: Vec<Seen>,
}

impl Search {
    /// The object was seen: it is not gone.
    pub(crate) fn seen(&self, node: &Node, dir: &Node, name: &[u8]) {
        let mut state = locked(&self.state);
        state.gone.remove(&node.0.identity);
        state.wanted.remove(&node.fileid());
        if node.kind() == Kind::Directory && state.directories.len() < DIRECTORIES_MAX {
            state.directories.insert(node.fileid(), (dir.fileid(), name.into()));
        }
    }

    /// A name moved: a walk that runs may have missed it.
    pub(crate) fn renamed(&self) {
        let mut state = locked(&self.state);
        state.renames += 1;
        state.drop_old_answers();
    }

    /// The object's last name was taken away.
    pub(crate) fn gone(&self, identity: &KernelHandle) {
        let mut state = locked(&self.state);
        if state.gone.len() >= GONE_MAX {
            state.gone.clear();
        }
        state.gone.insert(*identity);
    }

    /// Nothing that was known of places holds any more.
    pub(crate) fn forget(&self) {
        let mut state = locked(&self.state);
        state.directories.clear();
        state.gone.clear();
        state.renames += 1;
        state.drop_old_answers();
    }
}

impl State {
    /// What ended walks saw may not hold any more.
    fn drop_old_answers(&mut self) {
        let ended = self.walks_ended;
        self.wanted.retain(|_, wanted| wanted.walk > ended);
    }
}

impl VolumeInner {
    /// Opens a node where it was last seen, or where it is found.
    pub(crate) fn open_at_place(&self, node: &Node, flags: libc::c_int) -> Result<OwnedFd, Error> {
        for _ in 0..2 {
            let place = locked(&node.0.place).clone();
            if let Some(place) = place {
                self.open_ancestors(&place.parent)?;
                let parent = self.descriptor(&place.parent)?;
                // First without touching the object: what took its place may be a device.
                let seen = sys::open_at(&*parent, &place.name, libc::O_PATH, 0);
                if seen.is_ok_and(|fd| self.is_node(&fd, node)) {
                    let fd = sys::open_at(&*parent, &place.name, flags, 0)?;
                    if self.is_node(&fd, node) {
                        return Ok(fd);
                    }
                }
                *locked(&node.0.place) = None;
            }
            self.find_by_walk(&Named {
                identity: node.0.identity,
                kind: node.0.kind,
                fileid: node.0.fileid,
                parent_hint: node.0.parent_hint,
            })?;
        }
        Err(Error::Busy)
    }

    /// Opens the chain of directories above a node from the top, so that a deep one needs no deep stack.
    fn open_ancestors(&self, node: &Node) -> Result<(), Error> {
        let mut chain = Vec::new();
        let mut at = node.clone();
        while at != self.root && locked(&at.0.descriptor).is_none() {
            let place = locked(&at.0.place).clone();
            chain.push(at);
            let Some(place) = place else { break };
            at = place.parent;
            if chain.len() > DEPTH_MAX {
                return Err(Error::NameTooLong);
            }
        }
        for above in chain.iter().rev() {
            self.descriptor(above)?;
        }
        Ok(())
    }

    fn is_node(&self, fd: &OwnedFd, node: &Node) -> bool {
        let identity = sys::stat(fd).and_then(|stat| self.identify.of(fd, &stat));
        identity.is_ok_and(|identity| identity == node.0.identity)
    }

    /// Finds an object of which only the handle is known: in memory, by its hint, by what a walk saw.
    pub(crate) fn find_by_walk(&self, named: &Named) -> Result<Node, Error> {
        if locked(&self.search.state).gone.contains(&named.identity) {
            return Err(Error::Stale);
        }
        if let Some(node) = self.find_in(named.parent_hint, named) {
            return Ok(node);
        }
        let wanted = {
            let mut state = locked(&self.search.state);
            let ended = state.walks_ended;
            match state.wanted.get(&named.fileid) {
                Some(wanted) if wanted.walk <= ended => state.wanted.remove(&named.fileid),
                Some(_) => return Err(Error::Busy),
                None => {
                    self.want(&mut state, named.fileid, false);
                    return Err(Error::Busy);
                }
            }
        };
        let Some(wanted) = wanted else { return Err(Error::Busy) };
        for (dir, _) in wanted.places {
            if let Some(node) = self.find_in(dir, named) {
                return Ok(node);
            }
        }
        if !wanted.missed {
            // The host may have moved it while the walk ran or since: gone is said after a second look.
            self.want(&mut locked(&self.search.state), named.fileid, true);
            return Err(Error::Busy);
        }
        self.search.gone(&named.identity);
        Err(Error::Stale)
    }

    /// The object in a directory of which the inode number is known.
    fn find_in(&self, dir: u64, named: &Named) -> Option<Node> {
        // Where identity is birth, an overlay may have given the root a new one by copying it up.
        let is_root = named.fileid == self.root.fileid() && named.parent_hint == 0 && self.identify == Identify::Birth;
        if is_root || named.identity == self.root.0.identity {
            return Some(self.root.clone());
        }
        let dir = self.directory_of(dir)?;
        let descriptor = self.descriptor(&dir).ok()?;
        let fd = sys::open_at(&*descriptor, b".", libc::O_RDONLY | libc::O_DIRECTORY, 0).ok()?;
        let mut listing = Listing::new(fd, 0).ok()?;
        while let Ok(Some(entry)) = listing.next_entry() {
            if entry.name == b"." || entry.name == b".." || self.listed_fileid(&descriptor, &entry) != named.fileid {
                continue;
            }
            if let Ok((node, _)) = self.child(&dir, &descriptor, entry.name)
                && node.0.identity == named.identity
            {
                return Some(node);
            }
        }
        None
    }

    /// The node of a directory, by the names a walk or lookups saw from the root down to it.
    fn directory_of(&self, fileid: u64) -> Option<Node> {
        let mut names = Vec::new();
        {
            let state = locked(&self.search.state);
            let mut at = fileid;
            while at != self.root.fileid() {
                let (parent, name) = state.directories.get(&at)?;
                names.push((at, name.clone()));
                at = *parent;
                if names.len() > DEPTH_MAX {
                    return None;
                }
            }
        }
        let mut node = self.root.clone();
        for (fileid, name) in names.iter().rev() {
            let descriptor = self.descriptor(&node).ok()?;
            let (child, _) = self.child(&node, &descriptor, name).ok()?;
            if child.fileid() != *fileid || child.kind() != Kind::Directory {
                return None;
            }
            node = child;
        }
        Some(node)
    }

    fn want(&self, state: &mut State, fileid: u64, missed: bool) {
        if state.wanted.len() >= WANTED_MAX {
            // Answers nobody came back for.
            state.drop_old_answers();
            if state.wanted.len() >= WANTED_MAX {
                return;
            }
        }
        let walk = state.walks_begun + 1;
        state.wanted.insert(fileid, Wanted { walk, missed, places: Vec::new() });
        if !state.walking {
            let me = self.me.clone();
            let thread = std::thread::Builder::new().name("volume-walk".into()).spawn(move || walk_while_wanted(&me));
            state.walking = thread.is_ok();
        }
    }
}

/// Walks until nobody waits for a walk any more. The volume may be dropped meanwhile.
fn walk_while_wanted(volume: &Weak<VolumeInner>) {
    while let Some(inner) = volume.upgrade() {
        {
            let mut state = locked(&inner.search.state);
            let ended = state.walks_ended;
            if !state.wanted.values().any(|wanted| wanted.walk > ended) {
                state.walking = false;
                return;
            }
            state.walks_begun += 1;
        }
        for _ in 0..WALK_REPEATS_MAX {
            let renames = locked(&inner.search.state).renames;
            // A directory that can't be read hides what is in it: as good as gone to this volume.
            let _ = walk(&inner);
            if locked(&inner.search.state).renames == renames {
                break;
            }
        }
        let mut state = locked(&inner.search.state);
        state.walks_ended = state.walks_begun;
    }
}

/// Lists every directory once, in order of distance from the root.
fn walk(volume: &Arc<VolumeInner>) -> io::Result<()> {
    // (index of the directory above, name, inode number); the root first.
    let mut tree: Vec<(usize, Box<[u8]>, u64)> = vec![(0, b".".as_slice().into(), volume.root.fileid())];
    let mut at = 0;
    while at < tree.len() && tree.len() < DIRECTORIES_MAX && Arc::strong_count(volume) > 1 {
        let dir = tree[at].2;
        if let Ok(fd) = open_below(&volume.root_fd, &tree, at) {
            let below = list_one(volume, fd, dir, at == 0)?;
            tree.extend(below.into_iter().map(|(name, ino)| (at, name, ino)));
        }
        at += 1;
    }
    Ok(())
}

/// Notes wanted objects and directories of one directory; gives the directories.
fn list_one(volume: &VolumeInner, fd: OwnedFd, dir: u64, root: bool) -> io::Result<Vec<(Box<[u8]>, u64)>> {
    let names = fd.as_fd().try_clone_to_owned()?;
    let mut listing = Listing::new(fd, 0)?;
    let mut below = Vec::new();
    while let Some(entry) = listing.next_entry()? {
        if entry.name == b"." || entry.name == b".." || (root && volume.is_hidden(entry.name)) {
            continue;
        }
        let is_directory = match entry.kind {
            libc::DT_DIR => true,
            libc::DT_UNKNOWN => {
                sys::stat_name(&names, entry.name).is_ok_and(|stat| Kind::of_mode(stat.mode) == Some(Kind::Directory))
            }
            _ => false,
        };
        let fileid = volume.listed_fileid(&names, &entry);
        let mut state = locked(&volume.search.state);
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

/// Opens the directory at an index of the tree, step by step.
fn open_below(root: &OwnedFd, tree: &[(usize, Box<[u8]>, u64)], index: usize) -> io::Result<OwnedFd> {
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
