//! Changes of a volume that is `exclusive`, with the attributes around them ([`Wcc`]).

use std::io;
use std::os::fd::OwnedFd;

use host::Unpoisoned;

use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::node::Node;
use crate::sys::RawStat;
use crate::types::{Attr, Kind};
use crate::volume::VolumeInner;
use crate::wcc::{Watch, Wcc};

/// A change under the lock.
pub(crate) struct Around<'n> {
    node: &'n Node,
    started: Watch,
    certain: Watch,
    pub(crate) before: Attr,
}

/// A change of an object without its lock. It ends when this is dropped.
pub(crate) struct Other(Node);

impl Drop for Other {
    fn drop(&mut self) {
        self.0.0.wcc_state().end_other();
    }
}

impl VolumeInner {
    /// Begins a change of an object whose lock the caller holds. `None` if the volume is not
    /// exclusive or the attributes cannot be read.
    pub(crate) fn around<'n>(&self, node: &'n Node, descriptor: &Descriptor) -> Option<Around<'n>> {
        if !self.options.exclusive {
            return None;
        }
        let state = node.0.wcc_state();
        let started = state.watch();
        let before = self.attr_of(node, descriptor).ok()?;
        let certain = state.begin(started, &before, self.multigrain_times);
        Some(Around { node, started, certain, before })
    }

    /// Ends the change. The caller still holds the lock.
    pub(crate) fn end_around(&self, around: Option<Around<'_>>, descriptor: &Descriptor) -> Option<Wcc> {
        let Around { node, started, certain, before } = around?;
        let after = self.attr_of(node, descriptor).ok()?;
        Some(node.0.wcc_state().end(started, certain, before, after))
    }

    /// Begins a change without the lock. `None` unless the volume is exclusive.
    pub(crate) fn other_change(&self, node: &Node) -> Option<Other> {
        if !self.options.exclusive {
            return None;
        }
        node.0.wcc_state().begin_other();
        Some(Other(node.clone()))
    }

    /// Begins a change without the lock of an open object, whose node may not be in memory. The
    /// caller holds the lock of its directory's names.
    pub(crate) fn other_change_of(&self, fd: &OwnedFd, stat: &RawStat) -> Option<Other> {
        if !self.options.exclusive {
            return None;
        }
        self.node_of(&self.store, fd, stat, None).ok().and_then(|node| self.other_change(&node))
    }

    /// Begins a change without the lock of an object that loses a name. If that is its last name,
    /// the change is not counted, because no attributes are compared later.
    pub(crate) fn change_of_victim(&self, fd: &OwnedFd, stat: &RawStat) -> Option<Other> {
        let stays = Kind::of_mode(stat.mode) != Some(Kind::Directory) && stat.nlink > 1;
        if stays { self.other_change_of(fd, stat) } else { None }
    }

    /// Adds a name to a directory in a single step.
    pub(crate) fn add_name(
        &self,
        dir: &Node,
        at: &Descriptor,
        add: impl FnOnce() -> io::Result<()>,
    ) -> Result<Option<Wcc>, Error> {
        if !self.options.exclusive {
            let _added = dir.0.names.read();
            add()?;
            return Ok(None);
        }
        let _alone = dir.0.names.write().unpoisoned();
        let around = self.around(dir, at);
        add()?;
        Ok(self.end_around(around, at))
    }
}
