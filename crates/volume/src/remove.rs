//! Removing names: remove, rmdir.

use std::io;
use std::os::fd::AsFd;

use crate::creator::Judge;
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::lock::locked;
use crate::node::Node;
use crate::sys::{self, KernelHandle, RawStat};
use crate::volume::{Volume, VolumeInner};

impl Volume {
    /// Removes a name that is no directory. **Durability**: durable when it returns.
    pub fn remove(&self, dir: &Node, name: &[u8]) -> Result<(), Error> {
        self.remove_if(dir, name, false, &|_| Ok(()))
    }

    /// Removes an empty directory. **Durability**: durable when it returns.
    pub fn rmdir(&self, dir: &Node, name: &[u8]) -> Result<(), Error> {
        self.remove_if(dir, name, true, &|_| Ok(()))
    }

    /// Removes a name, of an empty directory or of anything else, if the object it leads to at that moment may lose it.
    ///
    /// **Durability**: durable when it returns. **Errors**: that of `may_lose`; then nothing is removed.
    pub fn remove_if(&self, dir: &Node, name: &[u8], directory: bool, may_lose: &Judge<'_>) -> Result<(), Error> {
        self.remove_unless_device(dir, name, directory, may_lose, true)
    }

    /// Removes the name of a file also while a block device is open on it: the device keeps the file until it is dropped.
    ///
    /// **Durability**: durable when it returns.
    pub fn remove_device(&self, dir: &Node, name: &[u8]) -> Result<(), Error> {
        self.remove_unless_device(dir, name, false, &|_| Ok(()), false)
    }

    fn remove_unless_device(
        &self,
        dir: &Node,
        name: &[u8],
        directory: bool,
        may_lose: &Judge<'_>,
        spares_devices: bool,
    ) -> Result<(), Error> {
        let volume = &*self.0;
        volume.may_change(&[dir])?;
        let mut change = volume.begin_change();
        let descriptor = volume.directory(dir)?;
        check_old_name(volume, dir, name)?;
        let (removed, victim, released) = {
            let _alone = dir.0.names.write();
            let (victim, stat) = match volume.found_at_name(&descriptor, name) {
                Ok((victim, stat)) => (victim, Some(stat)),
                Err(_) => (None, None),
            };
            // What can't be looked at has no name to lose, or the host says why.
            if let Some(stat) = stat {
                may_lose(&volume.to_attr(&stat)?)?;
            }
            if spares_devices {
                volume.check_not_device(victim)?;
            }
            let released = volume.name_to_release(dir, name);
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
            (removed, victim, released)
        };
        dir.0.mark_change();
        if let Err(error) = removed {
            // "No such name" is an answer about the disk too: another caller's removal may still be in memory.
            if dir.0.is_dirty() {
                volume.flush(dir, true, &mut change.loss)?;
            }
            return Err(error.into());
        }
        volume.release(released);
        let flushed = volume.flush(dir, true, &mut change.loss);
        volume.name_gone(victim);
        flushed
    }
}

impl VolumeInner {
    /// Identity and attributes of what a name leads to. The directory's names are held by the caller.
    pub(crate) fn found_at_name(&self, at: &Descriptor, name: &[u8]) -> io::Result<(Option<KernelHandle>, RawStat)> {
        let fd = sys::open_at(at, name, libc::O_PATH, 0)?;
        let stat = sys::stat(&fd)?;
        Ok((self.identify.of(&fd, &stat).ok(), stat))
    }

    /// Refuses to take a name from a file on which a block device is open.
    pub(crate) fn check_not_device(&self, victim: Option<KernelHandle>) -> Result<(), Error> {
        let node = victim.and_then(|victim| self.nodes.find(&victim));
        node.map_or(Ok(()), |node| self.check_writable_as_file(&node))
    }

    /// After a name was taken from an object: when it was the last, nothing of it stays in memory.
    pub(crate) fn name_gone(&self, victim: Option<KernelHandle>) {
        let Some(node) = victim.and_then(|victim| self.nodes.find(&victim)) else { return };
        let cached = locked(&node.0.descriptor).clone();
        match cached {
            Some(cached) if sys::stat(&*cached).is_ok_and(|stat| stat.nlink == 0) => {
                node.0.forget();
                self.tree_search.gone(&node.0.identity);
            }
            // Another name is left, or that is not known; where it is, the next opener finds out.
            _ => *locked(&node.0.place) = None,
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
