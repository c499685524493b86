//! Makes the handle of an object, and finds the object of a handle.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::descriptor_cache::DescriptorCache;
use crate::error::Error;
use crate::handle::{Handle, Named};
use crate::node::{Node, NodeInner};
use crate::volume::{Volume, VolumeInner};

impl Volume {
    /// The handle of an object: at most 56 bytes, valid over restarts and renames, and the same for each hard link.
    pub fn handle(&self, node: &Node) -> Handle {
        let inner = &node.0;
        *inner.handle.get_or_init(|| self.0.handle_key.encode(&inner.named()))
    }

    /// The object of a handle. If it is in memory, this takes one MAC and one lookup in a map.
    ///
    /// **Errors**: [`Error::BadHandle`] for a handle that this volume did not make, [`Error::Stale`] if the
    /// object is gone, [`Error::Busy`] while the volume searches for it.
    pub fn resolve(&self, handle: &[u8]) -> Result<Node, Error> {
        let named = self.0.handle_key.decode(handle).ok_or(Error::BadHandle)?;
        if let Some(node) = self.0.nodes.find(&named.identity) {
            node.0.used.store(true, Ordering::Relaxed);
            return Ok(node);
        }
        let _read = self.0.begin_read();
        self.0.open_by_handle(&named)
    }

    /// The tag in all handles of this volume (see [`crate::handle_tag`]). Other volumes may have the same one.
    pub fn tag(&self) -> u8 {
        self.0.handle_key.tag()
    }

    /// Whether this volume made the handle. Its object may be gone.
    pub fn made(&self, handle: &[u8]) -> bool {
        self.0.handle_key.made(handle)
    }
}

impl VolumeInner {
    /// The node of a handle whose object is not in memory. Opens the object, to check that it still exists.
    fn open_by_handle(&self, named: &Named) -> Result<Node, Error> {
        if !self.store.opens_by_identity() {
            return self.find_by_walk(named);
        }
        let fresh = Node(Arc::new(NodeInner::new(Arc::clone(&self.store), *named)));
        self.make_room(DescriptorCache::make_room)?;
        let (fd, access) = self.open_node(&fresh)?;
        let node = self.nodes.intern(fresh.0);
        self.keep(&node, fd, access);
        Ok(node)
    }
}
