//! Credits the bytes of a file when its last name is removed.

use std::os::fd::OwnedFd;

use crate::node::Node;
use crate::sys::{self, RawStat};
use crate::volume::VolumeInner;

/// The file whose name is being removed.
pub(crate) struct NameToRelease {
    fd: OwnedFd,
    node: Node,
    stat: RawStat,
}

impl VolumeInner {
    /// The regular file of a name. `None` if sizes are not counted, or if the name leads to another object.
    pub(crate) fn name_to_release(&self, dir: &Node, name: &[u8]) -> Option<NameToRelease> {
        if !self.counts_sizes() {
            return None;
        }
        let at = self.directory(dir).ok()?;
        let fd = sys::open_at(&*at, name, libc::O_PATH, 0).ok()?;
        let stat = sys::stat(&fd).ok().filter(|stat| stat.mode & libc::S_IFMT == libc::S_IFREG)?;
        let node = self.node_of(&self.store, &fd, &stat, None).ok()?;
        Some(NameToRelease { fd, node, stat })
    }

    /// Called after the name was removed. Credits the bytes if it was the last name.
    pub(crate) fn release(&self, removed: Option<NameToRelease>) {
        let Some(NameToRelease { fd, node, stat }) = removed else { return };
        // The loss layer keeps the object under a name of its own.
        let kept = self.loss.is_some() && stat.nlink == 1;
        if kept || sys::stat(&fd).is_ok_and(|now| now.nlink == 0) {
            self.quota.adjust(node.0.charged.release(stat.size), 0);
        }
    }
}
