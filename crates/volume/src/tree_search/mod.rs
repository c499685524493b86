//! Finding objects by name where the host does not open them by identity.
//!
//! Each node remembers where it was last seen (a parent node and a name). An object that is not there
//! any more, or of which only a handle is known, is looked for in the directory its handle hints at, then by a
//! walk over the whole volume in a thread of its own; callers get [`Error::Busy`](crate::Error::Busy)
//! until the walk has ended, and only then that the object is gone. What is found by name is trusted
//! only when its identity is the one looked for.

mod open;
mod walk;

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use crate::limits::{DIRECTORIES_MAX, GONE_MAX};
use crate::lock::locked;
use crate::node::Node;
use crate::sys::KernelHandle;
use crate::types::Kind;

/// Where an inode number was seen: the directory's inode number and the name.
pub(super) type Seen = (u64, Box<[u8]>);

/// Where objects were seen, and the walk that finds others.
#[derive(Default)]
pub(crate) struct TreeSearch {
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// Directories of the volume as a walk or a lookup saw them.
    pub(super) directories: HashMap<u64, Seen>,
    /// Objects looked for, by inode number.
    pub(super) wanted: HashMap<u64, Wanted>,
    /// Objects that a whole walk did not find.
    pub(super) gone: HashSet<KernelHandle>,
    pub(super) walking: bool,
    pub(super) walks_begun: u64,
    pub(super) walks_ended: u64,
    /// Renames by this process: a walk over moving names starts again.
    pub(super) renames: u64,
}

pub(super) struct Wanted {
    /// The first walk that began after the object was looked for.
    pub(super) walk: u64,
    /// A walk before it did not find the object.
    pub(super) missed: bool,
    pub(super) places: Vec<Seen>,
}

impl TreeSearch {
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

    /// The object's last name was removed.
    pub(crate) fn gone(&self, identity: &KernelHandle) {
        let mut state = locked(&self.state);
        if state.gone.len() >= GONE_MAX {
            state.gone.clear();
        }
        state.gone.insert(*identity);
    }

    /// No place that was seen is to be trusted any more.
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
    pub(super) fn drop_old_answers(&mut self) {
        let ended = self.walks_ended;
        self.wanted.retain(|_, wanted| wanted.walk > ended);
    }
}
