//! Opens an object at its last known place, or where a search finds it.

use std::os::fd::{AsFd, OwnedFd};

use host::Unpoisoned;

use super::walk::walk_while_wanted;
use super::{State, Wanted};
use crate::error::Error;
use crate::handle::Named;
use crate::identity::Identity;
use crate::limits::{DEPTH_MAX, WANTED_MAX};
use crate::node::Node;
use crate::sys::{self, Listing};
use crate::types::Kind;
use crate::volume::VolumeInner;

impl VolumeInner {
    /// Opens a node where it was last seen, or where a search finds it.
    ///
    /// **Errors**: [`Error::Busy`] while the search goes on, [`Error::Stale`] if the object is gone.
    pub(crate) fn open_at_place(&self, node: &Node, flags: libc::c_int) -> Result<OwnedFd, Error> {
        for _ in 0..2 {
            let place = node.0.place.lock().unpoisoned().clone();
            if let Some(place) = place {
                self.open_ancestors(&place.parent)?;
                let parent = self.descriptor(&place.parent)?;
                // First with O_PATH, because another object under this name may be a device, which an open would affect.
                let seen = sys::open_at(&*parent, &place.name, libc::O_PATH, 0);
                if seen.is_ok_and(|fd| self.is_node(&fd, node)) {
                    let fd = sys::open_at(&*parent, &place.name, flags, 0)?;
                    if self.is_node(&fd, node) {
                        return Ok(fd);
                    }
                }
                *node.0.place.lock().unpoisoned() = None;
            }
            self.find_by_walk(&node.0.named())?;
        }
        Err(Error::Busy)
    }

    /// Opens the directories above a node, the outermost first, so that a deep node needs no deep recursion.
    fn open_ancestors(&self, node: &Node) -> Result<(), Error> {
        let mut chain = Vec::new();
        let mut at = node.clone();
        while at != self.root && at.0.descriptor.lock().unpoisoned().is_none() {
            let place = at.0.place.lock().unpoisoned().clone();
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
        let identity = sys::stat(fd).and_then(|stat| self.store.identify(fd.as_fd(), &stat));
        identity.is_ok_and(|identity| identity == node.0.identity)
    }

    /// Finds an object by its handle: in the directory of the hint, then where a walk saw its inode number.
    ///
    /// **Errors**: as [`Self::open_at_place`].
    pub(crate) fn find_by_walk(&self, named: &Named) -> Result<Node, Error> {
        if self.tree_search.state.lock().unpoisoned().gone.contains(&named.identity) {
            return Err(Error::Stale);
        }
        if let Some(node) = self.find_in(named.parent_hint, named) {
            return Ok(node);
        }
        let wanted = {
            let mut state = self.tree_search.state.lock().unpoisoned();
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
            // Another process may have moved it during the walk. It counts as gone only after a second walk.
            self.want(&mut self.tree_search.state.lock().unpoisoned(), named.fileid, true);
            return Err(Error::Busy);
        }
        self.tree_search.gone(&named.identity);
        Err(Error::Stale)
    }

    /// The object, if the directory with this inode number contains it.
    fn find_in(&self, dir: u64, named: &Named) -> Option<Node> {
        // If identities contain the birth time, an overlay may have given the root a new one by copying it up.
        let is_root =
            named.fileid == self.root.fileid() && named.parent_hint == 0 && self.store.identity() == Identity::BirthTimes;
        if is_root || named.identity == self.root.0.identity {
            return Some(self.root.clone());
        }
        let dir = self.directory_of(dir)?;
        let descriptor = self.descriptor(&dir).ok()?;
        let fd = sys::open_at(&*descriptor, b".", libc::O_RDONLY | libc::O_DIRECTORY, 0).ok()?;
        let mut listing = Listing::new(fd, 0).ok()?;
        while let Ok(Some(entry)) = listing.next_entry() {
            if entry.name == b"." || entry.name == b".." || self.store.listed_fileid(&descriptor, &entry) != named.fileid {
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

    /// The node of a directory, by the names that a walk or lookups saw from the root down to it.
    fn directory_of(&self, fileid: u64) -> Option<Node> {
        let mut names = Vec::new();
        {
            let state = self.tree_search.state.lock().unpoisoned();
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
            // Drops results that no caller has fetched.
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
