//! Lookups, listings of directories, and targets of links.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use host::Unpoisoned;

use crate::descriptor::{Access, Descriptor};
use crate::devices_directory::DEVICES;
use crate::error::Error;
use crate::handle::Named;
use crate::limits::{DEPTH_MAX, LINK_BYTES_MAX, NAME_BYTES_MAX};
use crate::node::{Node, NodeInner, Place};
use crate::store::Store;
use crate::sys::{self, Listing, RawStat};
use crate::types::{Attr, DirEntry, Kind};
use crate::volume::{Volume, VolumeInner};

impl Volume {
    /// Looks a name up. "." is the directory, ".." is its parent. The parent of the root is the root.
    ///
    /// **Errors**: [`Error::CrossDevice`] for a mount point: it is listed but not entered. See [`Volume::crossing`] and
    /// [`Volume::set_mount_points`].
    pub fn lookup(&self, dir: &Node, name: &[u8]) -> Result<(Node, Attr), Error> {
        let _read = self.0.begin_read();
        let descriptor = self.0.directory(dir)?;
        match name {
            b"." => Ok((dir.clone(), self.0.attr_of(dir, &descriptor)?)),
            b".." => self.0.parent(dir, &descriptor),
            _ => {
                self.0.check_name(dir, name)?;
                let found = self.0.child(dir, &descriptor, name)?;
                // The name leads to an object of this volume, so the object is the directory that was covered.
                if self.0.mount_points.covers(dir.fileid(), name) { Err(Error::CrossDevice) } else { Ok(found) }
            }
        }
    }

    /// The target of a symbolic link, unchanged. The volume itself never follows a link.
    pub fn read_link(&self, node: &Node) -> Result<Vec<u8>, Error> {
        let _read = self.0.begin_read();
        if node.kind() != Kind::Symlink {
            return Err(Error::Invalid);
        }
        let descriptor = self.0.descriptor(node)?;
        let mut target = vec![0; LINK_BYTES_MAX];
        let bytes = sys::read_link(&*descriptor, &mut target)?;
        target.truncate(bytes);
        Ok(target)
    }

    /// Lists a directory from the entry after `cookie` (0: from the start), with "." and "..", until `visit`
    /// returns false. Returns whether it reached the end. Cookies are those of the host. They stay valid while
    /// entries are added and removed, and over restarts.
    pub fn read_dir(&self, dir: &Node, cookie: u64, visit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result<bool, Error> {
        let _read = self.0.begin_read();
        let descriptor = self.0.directory(dir)?;
        self.0.attr_of(dir, &descriptor)?;
        let cookie = i64::try_from(cookie).map_err(|_| Error::Invalid)?;
        // A separate open file description, so that no other call changes its offset.
        let fd = sys::open_at(&*descriptor, b".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        let mut listing = Listing::new(fd, cookie)?;
        let at_root = dir.is_root();
        while let Some(entry) = listing.next_entry()? {
            if at_root && self.0.is_hidden(entry.name) {
                continue;
            }
            let fileid = match entry.name {
                b".." if at_root => dir.fileid(),
                _ => dir.0.store.listed_fileid(&descriptor, &entry),
            };
            if !visit(&DirEntry { fileid, name: entry.name, cookie: entry.next.cast_unsigned() }) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl VolumeInner {
    /// Refuses names that no entry can have, and hidden names.
    pub(crate) fn check_name(&self, dir: &Node, name: &[u8]) -> Result<(), Error> {
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            return Err(Error::Invalid);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        if dir.is_root() && self.is_hidden(name) {
            return Err(Error::NoEntry);
        }
        Ok(())
    }

    /// Whether the name, in the root, is not part of the served tree: the directories of the loss layer and of block devices.
    pub(crate) fn is_hidden(&self, name: &[u8]) -> bool {
        name == DEVICES || self.is_limbo(name)
    }

    /// Whether the name, in the root, is the loss layer's own directory, while the layer is on. Its objects count as removed.
    pub(crate) fn is_limbo(&self, name: &[u8]) -> bool {
        self.loss.is_some() && name == crate::loss::LIMBO
    }

    /// The object of a name. `dir` and `descriptor` are the same directory.
    pub(crate) fn child(&self, dir: &Node, descriptor: &Descriptor, name: &[u8]) -> Result<(Node, Attr), Error> {
        // Waits while another call makes an object here that is not complete yet.
        let _whole = dir.0.names.read();
        // A known object costs two system calls and no new descriptor.
        let known = dir.0.store.identify_name(descriptor.as_fd(), name)?.and_then(|identity| self.nodes.find(&identity));
        if let Some(node) = known {
            let cached = node.0.descriptor.lock().unpoisoned().clone();
            if let Some(cached) = cached {
                node.0.used.store(true, std::sync::atomic::Ordering::Relaxed);
                let attr = self.attr_of(&node, &cached)?;
                return Ok((node, attr));
            }
        }
        let fd = sys::open_at(descriptor, name, libc::O_PATH, 0)?;
        let stat = sys::stat(&fd)?;
        let node = self.node_of(&dir.0.store, &fd, &stat, Some((dir, name)))?;
        Ok((node, self.to_attr(&stat)?))
    }

    /// The node of an open object of this store. `found`: the directory and name of the object, which are noted.
    pub(crate) fn node_of(
        &self,
        store: &Arc<dyn Store>,
        fd: &OwnedFd,
        stat: &RawStat,
        found: Option<(&Node, &[u8])>,
    ) -> Result<Node, Error> {
        if !store.holds(stat) {
            return Err(Error::CrossDevice);
        }
        let identity = store.identify(fd.as_fd(), stat)?;
        let node = match self.nodes.find(&identity) {
            Some(node) => node,
            None => {
                let kind = Kind::of_mode(stat.mode).ok_or(Error::BadType)?;
                let hint = found.filter(|_| !store.opens_by_identity()).map_or(0, |(dir, _)| dir.fileid());
                let named = Named { identity, kind, fileid: stat.ino, parent_hint: hint };
                self.nodes.intern(Arc::new(NodeInner::new(Arc::clone(store), named)))
            }
        };
        if let Some((dir, name)) = found {
            self.found_at(&node, dir, name);
        }
        Ok(node)
    }

    /// Notes where an object is, if the host does not open objects by handle.
    pub(crate) fn found_at(&self, node: &Node, dir: &Node, name: &[u8]) {
        if node.0.store.opens_by_identity() || node.is_root() {
            return;
        }
        *node.0.place.lock().unpoisoned() = Some(Place { parent: dir.clone(), name: name.into() });
        self.tree_search.seen(node, dir, name);
    }

    /// The parent of a directory. The parent of the root is the root.
    fn parent(&self, dir: &Node, descriptor: &Descriptor) -> Result<(Node, Attr), Error> {
        if dir.is_root() {
            return Ok((dir.clone(), self.attr_of(dir, descriptor)?));
        }
        let known = dir.0.place.lock().unpoisoned().as_ref().map(|place| place.parent.clone());
        let fd = sys::open_at(descriptor, b"..", libc::O_PATH | libc::O_DIRECTORY, 0)?;
        let stat = sys::stat(&fd)?;
        if let Some(parent) = known
            && parent.fileid() == stat.ino
        {
            return Ok((parent, self.to_attr(&stat)?));
        }
        // A directory that the host moved out of the volume has no parent here.
        let store = &dir.0.store;
        below_root(&**store, &fd)?;
        let node = self.node_of(store, &fd, &stat, None)?;
        Ok((node, self.to_attr(&stat)?))
    }

    /// Whether a directory has no entries except "." and "..".
    pub(crate) fn is_empty_directory(&self, dir: impl AsFd) -> Result<bool, Error> {
        let fd = sys::open_at(dir, b".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        let mut listing = Listing::new(fd, 0)?;
        while let Some(entry) = listing.next_entry()? {
            if entry.name != b"." && entry.name != b".." {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps the descriptor with which a new object was made, if the cache has space.
    pub(crate) fn keep_new(&self, node: &Node, fd: OwnedFd, access: Access) -> Result<(), Error> {
        if self.descriptors.make_room().is_none() {
            self.keep(node, fd, access);
        }
        Ok(())
    }
}

/// Fails with [`Error::Stale`] unless the open directory is the root of this store or below it.
pub(crate) fn below_root(store: &dyn Store, fd: &OwnedFd) -> Result<(), Error> {
    let root = store.root_stat();
    let mut stat = sys::stat(fd)?;
    let mut at: Option<OwnedFd> = None;
    for _ in 0..DEPTH_MAX {
        if (stat.dev, stat.ino, stat.mount) == (root.dev, root.ino, root.mount) {
            return Ok(());
        }
        let here = at.as_ref().unwrap_or(fd).as_fd();
        let up = sys::open_at(here, b"..", libc::O_PATH | libc::O_DIRECTORY, 0)?;
        let above = sys::stat(&up)?;
        if (above.dev, above.ino) == (stat.dev, stat.ino) {
            break;
        }
        stat = above;
        at = Some(up);
    }
    Err(Error::Stale)
}
