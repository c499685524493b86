//! The descriptor of an object. It is opened when it is needed, and kept while the cache has space.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use host::Unpoisoned;

use crate::descriptor::{Access, Descriptor};
use crate::descriptor_cache::DescriptorCache;
use crate::error::Error;
use crate::identity;
use crate::node::{Node, NodeInner};
use crate::options::ReadAhead;
use crate::sys;
use crate::types::Kind;
use crate::volume::VolumeInner;

impl VolumeInner {
    /// The node's descriptor. Opens the object if the node has no descriptor.
    pub(crate) fn descriptor(&self, node: &Node) -> Result<Arc<Descriptor>, Error> {
        let inner = &node.0;
        if let Some(descriptor) = &*inner.descriptor.lock().unpoisoned() {
            inner.used.store(true, Ordering::Relaxed);
            return Ok(descriptor.clone());
        }
        self.make_room(DescriptorCache::make_room)?;
        let (fd, access) = match self.open_node(node) {
            Err(Error::Io(libc::EMFILE | libc::ENFILE)) => {
                self.make_room(DescriptorCache::make_room_now)?;
                self.open_node(node)?
            }
            other => other?,
        };
        Ok(self.keep(node, fd, access))
    }

    /// Makes room for another descriptor. If all descriptors of this volume need a flush, flushes one node first.
    pub(crate) fn make_room(&self, make: impl Fn(&DescriptorCache) -> Option<Arc<NodeInner>>) -> Result<(), Error> {
        if let Some(dirty) = make(&self.descriptors) {
            self.flush_node(&Node(dirty), false)?;
            make(&self.descriptors);
        }
        Ok(())
    }

    /// Keeps a descriptor in the node. If another caller has stored one meanwhile, returns that one instead.
    pub(crate) fn keep(&self, node: &Node, fd: OwnedFd, access: Access) -> Arc<Descriptor> {
        let inner = &node.0;
        let mut slot = inner.descriptor.lock().unpoisoned();
        inner.used.store(true, Ordering::Relaxed);
        if let Some(descriptor) = &*slot {
            return descriptor.clone();
        }
        if self.options.read_ahead == ReadAhead::Minimal && inner.kind == Kind::File {
            // Only advice: the data is the same if the store ignores it.
            let _ = sys::read_nothing_ahead(&fd);
        }
        let descriptor = Arc::new(Descriptor::new(fd, access, self.descriptors.count()));
        *slot = Some(descriptor.clone());
        drop(slot);
        self.descriptors.opened(inner);
        descriptor
    }

    /// Opens the object by its handle or by its name, with the most access that the host permits.
    pub(crate) fn open_node(&self, node: &Node) -> Result<(OwnedFd, Access), Error> {
        identity::open_as_allowed(node.0.kind, |flags| {
            let store = &node.0.store;
            if node.is_root() {
                return sys::open_at(store.root(), b".", flags, 0).map_err(Error::from);
            }
            store.open(&node.0.identity, flags).unwrap_or_else(|| self.open_at_place(node, flags))
        })
    }

    /// A directory's descriptor. [`Error::NotDirectory`] for other kinds.
    pub(crate) fn directory(&self, node: &Node) -> Result<Arc<Descriptor>, Error> {
        if node.kind() != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        self.descriptor(node)
    }
}
