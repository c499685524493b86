//! Nodes: the numbers that the kernel uses for objects. Each is for one handle of the server, and is never reused.

use crate::open_file::OpenFile;
use crate::protocol::ROOT;
use dnfs::FileHandle;
use host::Unpoisoned;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(crate) struct Nodes(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    by_number: HashMap<u64, Node>,
    by_handle: HashMap<FileHandle, u64>,
    last: u64,
}

#[derive(Debug)]
struct Node {
    handle: FileHandle,
    /// Number of replies that contained it, minus those that the kernel has forgotten.
    lookups: u64,
    /// The name by which it may be a WAL index of SQLite.
    wal_index: Option<(FileHandle, Vec<u8>)>,
    /// Open files, from which its attributes are known without a call.
    open: Vec<Arc<OpenFile>>,
}

impl Nodes {
    pub(crate) fn new(root: FileHandle) -> Self {
        let node = Node { handle: root, lookups: 1, wal_index: None, open: Vec::new() };
        Self(Mutex::new(Inner { by_number: HashMap::from([(ROOT, node)]), by_handle: HashMap::from([(root, ROOT)]), last: ROOT }))
    }

    /// The handle of a node.
    ///
    /// # Errors
    /// ESTALE if no reply contained it.
    pub(crate) fn handle(&self, node: u64) -> Result<FileHandle, Errno> {
        self.0.lock().unpoisoned().by_number.get(&node).map(|node| node.handle).ok_or(Errno::STALE)
    }

    /// Makes the directory of this handle the root.
    pub(crate) fn replace_root(&self, root: FileHandle) {
        let mut inner = self.0.lock().unpoisoned();
        let Some(node) = inner.by_number.get_mut(&ROOT) else { return };
        node.open.clear();
        let old = std::mem::replace(&mut node.handle, root);
        inner.by_handle.remove(&old);
        inner.by_handle.insert(root, ROOT);
    }

    /// The node of an object for a reply to the kernel. Counts the reply.
    pub(crate) fn number_for_reply(&self, handle: &FileHandle) -> u64 {
        let mut inner = self.0.lock().unpoisoned();
        if let Some(number) = inner.by_handle.get(handle).copied()
            && let Some(node) = inner.by_number.get_mut(&number)
        {
            node.lookups += 1;
            return number;
        }
        inner.last += 1;
        let number = inner.last;
        inner.by_number.insert(number, Node { handle: *handle, lookups: 1, wal_index: None, open: Vec::new() });
        inner.by_handle.insert(*handle, number);
        number
    }

    /// Notes that the kernel has forgotten `count` replies.
    pub(crate) fn forget(&self, number: u64, count: u64) {
        let mut inner = self.0.lock().unpoisoned();
        let Some(node) = inner.by_number.get_mut(&number).filter(|_| number != ROOT) else { return };
        node.lookups = node.lookups.saturating_sub(count);
        if node.lookups == 0
            && let Some(node) = inner.by_number.remove(&number)
        {
            inner.by_handle.remove(&node.handle);
        }
    }

    /// Notes that a node was found by the name of a WAL index.
    pub(crate) fn note_wal_index(&self, number: u64, directory: FileHandle, name: &[u8]) {
        if let Some(node) = self.0.lock().unpoisoned().by_number.get_mut(&number) {
            node.wal_index = Some((directory, name.to_vec()));
        }
    }

    /// Directory and name by which a node may be a WAL index.
    pub(crate) fn wal_index(&self, number: u64) -> Option<(FileHandle, Vec<u8>)> {
        self.0.lock().unpoisoned().by_number.get(&number)?.wal_index.clone()
    }

    /// Notes that the file of a node was opened.
    pub(crate) fn opened(&self, number: u64, file: &Arc<OpenFile>) {
        if let Some(node) = self.0.lock().unpoisoned().by_number.get_mut(&number) {
            node.open.push(Arc::clone(file));
        }
    }

    /// Notes that the file of a node was closed.
    pub(crate) fn closed(&self, number: u64, file: &Arc<OpenFile>) {
        if let Some(node) = self.0.lock().unpoisoned().by_number.get_mut(&number) {
            node.open.retain(|other| !Arc::ptr_eq(other, file));
        }
    }

    /// An open file of a node.
    pub(crate) fn open_file(&self, number: u64) -> Option<Arc<OpenFile>> {
        self.0.lock().unpoisoned().by_number.get(&number)?.open.first().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_lives_until_each_answer_is_forgotten_and_its_number_does_not_come_back() {
        let handle = |byte| FileHandle::new(&[byte; 4]).unwrap();
        let nodes = Nodes::new(handle(0));
        let number = nodes.number_for_reply(&handle(1));
        assert_eq!(nodes.number_for_reply(&handle(1)), number);
        nodes.forget(number, 1);
        assert_eq!(nodes.handle(number), Ok(handle(1)));
        nodes.forget(number, 1);
        assert_eq!(nodes.handle(number), Err(Errno::STALE));
        assert_ne!(nodes.number_for_reply(&handle(1)), number);
        nodes.forget(ROOT, 9);
        assert_eq!(nodes.handle(ROOT), Ok(handle(0)));
        assert_eq!(nodes.number_for_reply(&handle(0)), ROOT);
    }
}
