//! Makes the handle of an object, and finds the object of a handle.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::descriptor_cache::DescriptorCache;
use crate::error::Error;
use crate::handle::{Handle, Named};
use crate::node::{Node, NodeInner};
use crate::store::{SnapshotId, Store};
use crate::volume::{Volume, VolumeInner};

impl Volume {
    /// The handle of an object: at most 56 bytes, valid over restarts and renames, and the same for each hard link.
    pub fn handle(&self, node: &Node) -> Handle {
        let inner = &node.0;
        *inner.handle.get_or_init(|| {
            let (snapshot, mut named) = (inner.store.snapshot(), inner.named());
            if snapshot != SnapshotId::LIVE {
                named.identity = inner.store.in_handle(&named.identity);
            }
            self.0.handle_key.encode(snapshot, &named)
        })
    }

    /// The object of a handle. If it is in memory, this takes one MAC and one lookup in a map.
    ///
    /// **Errors**: [`Error::BadHandle`] for a handle that this volume did not make, [`Error::Stale`] if the
    /// object or its snapshot is gone, [`Error::Busy`] while the volume searches for the object.
    pub fn resolve(&self, handle: &[u8]) -> Result<Node, Error> {
        let (snapshot, mut named) = self.0.handle_key.decode(handle).ok_or(Error::BadHandle)?;
        let store = self.0.tree(snapshot)?;
        if snapshot != SnapshotId::LIVE {
            named.identity = store.of_handle(&named.identity);
        }
        if let Some(node) = self.0.nodes.find(&named.identity) {
            node.0.used.store(true, Ordering::Relaxed);
            return Ok(node);
        }
        let _read = self.0.begin_read();
        self.0.open_by_handle(store, &named)
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
    /// The store of a tree of this volume. [`Error::Stale`] if there is no such snapshot.
    fn tree(&self, snapshot: SnapshotId) -> Result<&Arc<dyn Store>, Error> {
        if snapshot == SnapshotId::LIVE { Ok(&self.store) } else { Err(Error::Stale) }
    }

    /// The node of a handle whose object is not in memory. Opens the object, to check that it still exists.
    fn open_by_handle(&self, store: &Arc<dyn Store>, named: &Named) -> Result<Node, Error> {
        if !store.opens_by_identity() {
            return self.find_by_walk(named);
        }
        let fresh = Node(Arc::new(NodeInner::new(Arc::clone(store), *named)));
        self.make_room(DescriptorCache::make_room)?;
        let (fd, access) = self.open_node(&fresh)?;
        let node = self.nodes.intern(fresh.0);
        self.keep(&node, fd, access);
        Ok(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::volume::Config;

    #[test]
    fn a_handle_of_an_unknown_snapshot_is_stale() {
        let base = tempfile::tempdir().unwrap();
        let (dir, state_dir) = (base.path().join("vol"), base.path().join("state"));
        std::fs::create_dir(&dir).unwrap();
        let volume = Volume::open(Config { dir, state_dir, loss: None, options: Options::default() }).unwrap();
        let named = volume.root().0.named();
        let handle = volume.0.handle_key.encode(SnapshotId(7), &named);
        assert!(volume.made(handle.as_bytes()), "the filer asks the volume that made it");
        assert_eq!(volume.resolve(handle.as_bytes()), Err(Error::Stale));
        assert_eq!(volume.resolve(volume.handle(&volume.root()).as_bytes()), Ok(volume.root()));
    }
}
