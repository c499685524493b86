//! Removes names: remove, rmdir.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use host::Unpoisoned;

use crate::creator::Judge;
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::node::Node;
use crate::subject::Subject;
use crate::sys::{self, KernelHandle, RawStat};
use crate::volume::{Volume, VolumeInner};
use crate::wcc::Wcc;

impl Volume {
    /// Removes a name that is not a directory. **Durability**: durable when it returns.
    pub fn remove(&self, dir: &Node, name: &[u8]) -> Result<(), Error> {
        self.remove_if(dir, name, false, &|_| Ok(())).map(drop)
    }

    /// Removes an empty directory. **Durability**: durable when it returns.
    pub fn rmdir(&self, dir: &Node, name: &[u8]) -> Result<(), Error> {
        self.remove_if(dir, name, true, &|_| Ok(())).map(drop)
    }

    /// Removes a name, if `may_lose` permits it for the object that the name leads to. `directory`: the object must be an empty
    /// directory; else it must not be a directory.
    ///
    /// On an exclusive volume it returns the attributes of `dir` around the change.
    ///
    /// **Durability**: durable when it returns. **Errors**: that of `may_lose`; then nothing is removed.
    pub fn remove_if(&self, dir: &Node, name: &[u8], directory: bool, may_lose: &Judge<'_>) -> Result<Option<Wcc>, Error> {
        self.remove_unless_device(dir, name, directory, may_lose, true)
    }

    /// Removes the name of a file, also while it is open as a block device. The device keeps the file until it is dropped.
    ///
    /// **Durability**: durable when it returns.
    pub fn remove_device(&self, dir: &Node, name: &[u8]) -> Result<(), Error> {
        self.remove_unless_device(dir, name, false, &|_| Ok(()), false).map(drop)
    }

    fn remove_unless_device(
        &self,
        dir: &Node,
        name: &[u8],
        directory: bool,
        may_lose: &Judge<'_>,
        spares_devices: bool,
    ) -> Result<Option<Wcc>, Error> {
        let volume = &*self.0;
        volume.may_change(&[dir])?;
        let mut change = volume.begin_change();
        let descriptor = volume.directory(dir)?;
        check_old_name(volume, dir, name)?;
        let (removed, victim, released, wcc) = {
            let _alone = dir.0.names.write();
            // If the object cannot be opened, it does not exist, or the removal itself returns the error.
            let (victim, other) = match volume.found_at_name(&descriptor, name) {
                Ok((victim, fd, stat)) => {
                    may_lose(&Subject::opened(volume, &fd, volume.to_attr(&stat)?))?;
                    (victim, volume.change_of_victim(&fd, &stat))
                }
                Err(_) => (None, None),
            };
            if spares_devices {
                volume.check_not_device(victim)?;
            }
            let released = volume.name_to_release(dir, name);
            let around = volume.around(dir, &descriptor);
            dir.0.mark_change();
            let removed = match (&mut change.loss, victim) {
                (Some(loss), Some(victim)) => {
                    if directory && !volume.is_removable(&descriptor, name)? {
                        return Err(Error::NotEmpty);
                    }
                    loss.remove((&dir.0.identity, descriptor.as_fd(), name), &victim, directory)
                }
                _ => sys::unlink_at(&*descriptor, name, directory),
            };
            drop(other);
            let wcc = if removed.is_ok() { volume.end_around(around, &descriptor) } else { None };
            (removed, victim, released, wcc)
        };
        dir.0.mark_change();
        if let Err(error) = removed {
            // The error that the name does not exist must be durable too: another caller's removal may not be flushed yet.
            if dir.0.is_dirty() {
                volume.flush(dir, true, &mut change)?;
            }
            return Err(error.into());
        }
        volume.release(released);
        let flushed = volume.flush(dir, true, &mut change);
        volume.name_gone(victim);
        flushed.map(|()| wcc)
    }
}

impl VolumeInner {
    /// Identity and attributes of the object that a name leads to. The caller holds the lock of the directory's names.
    pub(crate) fn found_at_name(&self, at: &Descriptor, name: &[u8]) -> io::Result<(Option<KernelHandle>, OwnedFd, RawStat)> {
        let fd = sys::open_at(at, name, libc::O_PATH, 0)?;
        let stat = sys::stat(&fd)?;
        Ok((self.store.identify(fd.as_fd(), &stat).ok(), fd, stat))
    }

    /// Fails if the object is a file that is open as a block device.
    pub(crate) fn check_not_device(&self, victim: Option<KernelHandle>) -> Result<(), Error> {
        let node = victim.and_then(|victim| self.nodes.find(&victim));
        node.map_or(Ok(()), |node| self.check_writable_as_file(&node))
    }

    /// Called after an object has lost a name. If it was the last one, the node keeps nothing of the object.
    pub(crate) fn name_gone(&self, victim: Option<KernelHandle>) {
        let Some(node) = victim.and_then(|victim| self.nodes.find(&victim)) else { return };
        let cached = node.0.descriptor.lock().unpoisoned().clone();
        match cached {
            Some(cached) if sys::stat(&*cached).is_ok_and(|stat| stat.nlink == 0) => {
                node.0.forget();
                self.tree_search.gone(&node.0.identity);
            }
            // The object has another name, or that is not known. The next open searches for it.
            _ => *node.0.place.lock().unpoisoned() = None,
        }
    }

    /// Whether rmdir would find the directory empty.
    pub(crate) fn is_removable(&self, at: &Descriptor, name: &[u8]) -> Result<bool, Error> {
        let fd = sys::open_at(at, name, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        self.is_empty_directory(&fd)
    }
}

/// "." and ".." can't be removed, renamed or linked.
pub(crate) fn check_old_name(volume: &VolumeInner, dir: &Node, name: &[u8]) -> Result<(), Error> {
    if name == b"." || name == b".." {
        return Err(Error::Invalid);
    }
    volume.check_name(dir, name)
}
