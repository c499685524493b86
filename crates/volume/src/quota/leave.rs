//! Giving the bytes of a file back with its last name.

use std::os::fd::OwnedFd;

use crate::node::Node;
use crate::sys::{self, RawStat};
use crate::volume::VolumeInner;

/// What a call takes a name from, while it does.
pub(crate) struct Leaving {
    fd: OwnedFd,
    node: Node,
    stat: RawStat,
}

impl VolumeInner {
    /// What a name leads to, when its bytes may be given back with it.
    pub(crate) fn leaving(&self, dir: &Node, name: &[u8]) -> Option<Leaving> {
        if !self.counts_sizes() {
            return None;
        }
        let at = self.directory(dir).ok()?;
        let fd = sys::open_at(&*at, name, libc::O_PATH, 0).ok()?;
        let stat = sys::stat(&fd).ok().filter(|stat| stat.mode & libc::S_IFMT == libc::S_IFREG)?;
        let node = self.node_of(&fd, &stat, None).ok()?;
        Some(Leaving { fd, node, stat })
    }

    /// After the name was taken: gives the bytes back if it was the last one.
    pub(crate) fn left(&self, leaving: Option<Leaving>) {
        let Some(Leaving { fd, node, stat }) = leaving else { return };
        // The loss layer keeps the object under a name of its own.
        let kept = self.loss.is_some() && stat.nlink == 1;
        if kept || sys::stat(&fd).is_ok_and(|now| now.nlink == 0) {
            self.quota.move_charge(node.0.charged.leave(stat.size), 0);
        }
    }
}
