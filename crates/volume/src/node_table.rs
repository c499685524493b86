//! The table of nodes, by identity.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use host::Unpoisoned;

use crate::limits::{NODE_SHARDS, NODES_MAX};
use crate::node::{Node, NodeInner};
use crate::sys::KernelHandle;

/// One part of the table.
type Shard = HashMap<KernelHandle, Arc<NodeInner>, BuildHasherDefault<Mixed>>;

/// A hasher that uses [`KernelHandle::mix`] as the hash.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, mixed: u64) {
        self.0 = mixed;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// All nodes in memory, by identity. A full table drops nodes that no caller holds, those not used recently first.
pub(crate) struct NodeTable {
    shards: Vec<Mutex<Shard>>,
}

impl NodeTable {
    pub(crate) fn new() -> Self {
        Self { shards: (0..NODE_SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, identity: &KernelHandle) -> &Mutex<Shard> {
        // The high bits, because the map inside a shard uses the low ones.
        &self.shards[(identity.mix() >> 32) as usize % NODE_SHARDS]
    }

    pub(crate) fn find(&self, identity: &KernelHandle) -> Option<Node> {
        self.shard(identity).lock().unpoisoned().get(identity).map(|inner| Node(inner.clone()))
    }

    /// The node with the identity of `fresh`: the one in the table if there is one, else `fresh`, which is added.
    pub(crate) fn intern(&self, fresh: Arc<NodeInner>) -> Node {
        let mut shard = self.shard(&fresh.identity).lock().unpoisoned();
        if let Some(inner) = shard.get(&fresh.identity) {
            return Node(inner.clone());
        }
        if shard.len() >= NODES_MAX / NODE_SHARDS {
            evict(&mut shard);
        }
        shard.insert(fresh.identity, fresh.clone());
        Node(fresh)
    }

    /// Visits each node.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Arc<NodeInner>)) {
        for shard in &self.shards {
            shard.lock().unpoisoned().values().for_each(&mut visit);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unpoisoned().len()).sum()
    }
}

/// Drops nodes that no caller holds, that have no change to flush, and that were not used since the last pass.
/// If there are none, drops used ones too. Nodes in use can exceed the limit: the number of calls limits them.
fn evict(shard: &mut Shard) {
    let full = shard.len();
    let idle = |inner: &Arc<NodeInner>| Arc::strong_count(inner) == 1 && !inner.is_dirty();
    shard.retain(|_, inner| !idle(inner) || inner.used.swap(false, Ordering::Relaxed));
    if shard.len() == full {
        shard.retain(|_, inner| !idle(inner));
    }
}
