//! Finds objects by name if the host does not open them by handle.
//!
//! Each node remembers where it was last seen (a parent node and a name). If the object is not there any more, or
//! if only its handle is known, the volume searches the directory that the handle hints at. Then a thread walks
//! the whole volume, and callers get [`Error::Busy`](crate::Error::Busy) until the walk has ended. If a second walk does
//! not find the object either, it is gone. An object found by name is used only if it has the identity searched for.

mod open;
mod walk;

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use host::Unpoisoned;

use crate::limits::{DIRECTORIES_MAX, GONE_MAX};
use crate::node::Node;
use crate::sys::KernelHandle;
use crate::types::Kind;

/// Where an inode number was seen: the directory's inode number and the name.
pub(super) type Seen = (u64, Box<[u8]>);

/// Where directories were seen, and the state of the walks.
#[derive(Default)]
pub(crate) struct TreeSearch {
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// Where a walk or a lookup saw the directories of the volume, by inode number.
    pub(super) directories: HashMap<u64, Seen>,
    /// Objects searched for, by inode number.
    pub(super) wanted: HashMap<u64, Wanted>,
    /// Objects that are gone: removed by this volume, or not found by walks.
    pub(super) gone: HashSet<KernelHandle>,
    pub(super) walking: bool,
    pub(super) walks_begun: u64,
    pub(super) walks_ended: u64,
    /// Number of renames by this process. A walk during a rename is made again.
    pub(super) renames: u64,
}

pub(super) struct Wanted {
    /// Number of the first walk that begins after the object was requested.
    pub(super) walk: u64,
    /// An earlier walk did not find the object.
    pub(super) missed: bool,
    pub(super) places: Vec<Seen>,
}

impl TreeSearch {
    /// Called when an object was found under a name.
    pub(crate) fn seen(&self, node: &Node, dir: &Node, name: &[u8]) {
        let mut state = self.state.lock().unpoisoned();
        state.gone.remove(&node.0.identity);
        state.wanted.remove(&node.fileid());
        if node.kind() == Kind::Directory && state.directories.len() < DIRECTORIES_MAX {
            state.directories.insert(node.fileid(), (dir.fileid(), name.into()));
        }
    }

    /// Called after a rename: the current walk may have missed the object.
    pub(crate) fn renamed(&self) {
        let mut state = self.state.lock().unpoisoned();
        state.renames += 1;
        state.drop_old_answers();
    }

    /// Notes that an object is gone.
    pub(crate) fn gone(&self, identity: &KernelHandle) {
        let mut state = self.state.lock().unpoisoned();
        if state.gone.len() >= GONE_MAX {
            state.gone.clear();
        }
        state.gone.insert(*identity);
    }

    /// Forgets where objects were seen, after a simulated power cut.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock().unpoisoned();
        state.directories.clear();
        state.gone.clear();
        state.renames += 1;
        state.drop_old_answers();
    }
}

impl State {
    /// Drops the results of walks that have ended, because they may be out of date.
    pub(super) fn drop_old_answers(&mut self) {
        let ended = self.walks_ended;
        self.wanted.retain(|_, wanted| wanted.walk > ended);
    }
}
