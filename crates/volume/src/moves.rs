//! Taking names away and moving them: remove, rmdir, rename, link.

use std::os::fd::AsFd;

use crate::error::Error;
use crate::node::{Descriptor, Node, locked};
use crate::sys::{self, KernelHandle};
use crate::types::{Attr, Kind};
use crate::volume::{Volume, VolumeInner};

impl Volume {
    /// Removes a name that is no directory. **Durability**: durable when it returns.
    pub fn remove(&self, dir: &Node, name: &[u8]) -> Result<(), Error> {
        self.take_away(dir, name, false)
    }

    /// Removes an empty directory. **Durability**: durable when it returns.
    pub fn rmdir(&self, dir: &Node, name: &[u8]) -> Result<(), Error> {
        self.take_away(dir, name, true)
    }

    fn take_away(&self, dir: &Node, name: &[u8], directory: bool) -> Result<(), Error> {
        let volume = &*self.0;
        volume.may_change(&[dir])?;
        let mut loss = volume.write_gate();
        let descriptor = volume.directory(dir)?;
        check_old_name(volume, dir, name)?;
        let victim = volume.identity_at(&descriptor, name);
        let leaving = volume.leaving(dir, name);
        dir.0.mark_change();
        let removed = match (&mut loss, victim) {
            (Some(loss), Some(victim)) => {
                if directory && !volume.is_removable(&descriptor, name)? {
                    return Err(Error::NotEmpty);
                }
                loss.take_away((&dir.0.identity, descriptor.as_fd(), name), &victim, directory)
            }
            _ => sys::unlink_at(&*descriptor, name, directory),
        };
        dir.0.mark_change();
        if let Err(error) = removed {
            // "No such name" is an answer about the disk too: another caller's removal may still be in memory.
            if dir.0.is_dirty() {
                volume.flush(dir, true, &mut loss)?;
            }
            return Err(error.into());
        }
        volume.left(leaving);
        let flushed = volume.flush(dir, true, &mut loss);
        volume.name_gone(victim);
        flushed
    }

    /// Renames, over an existing name where the kinds allow it (RFC 1813 3.3.14).
    ///
    /// **Durability**: durable when it returns; at no moment is the object without a durable name.
    pub fn rename(&self, from_dir: &Node, from: &[u8], to_dir: &Node, to: &[u8]) -> Result<(), Error> {
        let volume = &*self.0;
        volume.may_change(&[from_dir, to_dir])?;
        let mut loss = volume.write_gate();
        let from_at = volume.directory(from_dir)?;
        let to_at = volume.directory(to_dir)?;
        check_old_name(volume, from_dir, from)?;
        check_old_name(volume, to_dir, to)?;
        let moved = volume.identity_at(&from_at, from);
        let victim = volume.identity_at(&to_at, to);
        let leaving = if victim == moved { None } else { volume.leaving(to_dir, to) };
        from_dir.0.mark_change();
        to_dir.0.mark_change();
        let renamed = match (&mut loss, moved) {
            (Some(loss), Some(moved)) => {
                if victim.is_some()
                    && sys::stat_name(&*to_at, to)?.mode & libc::S_IFMT == libc::S_IFDIR
                    && !volume.is_removable(&to_at, to)?
                {
                    return Err(Error::NotEmpty);
                }
                let source = (&from_dir.0.identity, from_at.as_fd(), from);
                loss.rename(source, (&to_dir.0.identity, to_at.as_fd(), to), &moved, victim.as_ref())
            }
            _ => sys::rename_at(&*from_at, from, &*to_at, to),
        };
        from_dir.0.mark_change();
        to_dir.0.mark_change();
        renamed.map_err(|error| match error.raw_os_error() {
            // xfs' word for a target directory that is not empty.
            Some(libc::EEXIST) => Error::NotEmpty,
            _ => Error::from(error),
        })?;
        volume.left(leaving);
        if victim != moved
            && let Some(node) = moved.and_then(|moved| volume.nodes.find(&moved))
        {
            volume.found_at(&node, to_dir, to);
            volume.search.renamed();
        }
        // The new name first: a host that logs directories one by one must not lose both.
        let mut flushed = volume.flush(to_dir, true, &mut loss);
        if flushed.is_ok() && from_dir != to_dir {
            flushed = volume.flush(from_dir, true, &mut loss);
        }
        if victim != moved {
            volume.name_gone(victim);
        }
        flushed
    }

    /// Gives a file one more name. **Durability**: durable when it returns.
    pub fn link(&self, node: &Node, dir: &Node, name: &[u8]) -> Result<Attr, Error> {
        let volume = &*self.0;
        volume.may_change(&[node, dir])?;
        let mut loss = volume.write_gate();
        if node.kind() == Kind::Directory {
            return Err(Error::IsDirectory);
        }
        let at = volume.directory(dir)?;
        check_old_name(volume, dir, name)?;
        let descriptor = volume.descriptor(node)?;
        volume.attr_of(node, &descriptor)?;
        dir.0.mark_change();
        let linked = sys::link_descriptor(&*descriptor, &*at, name);
        node.0.mark_change();
        dir.0.mark_change();
        linked?;
        if let Some(loss) = &mut loss {
            loss.name_added(&dir.0.identity, &*at, name)?;
        }
        volume.flush(node, true, &mut loss)?;
        volume.flush(dir, true, &mut loss)?;
        volume.attr_of(node, &descriptor)
    }
}

impl VolumeInner {
    /// Identity of what a name leads to; `None` when there is nothing or it can't be told.
    fn identity_at(&self, at: &Descriptor, name: &[u8]) -> Option<KernelHandle> {
        let fd = sys::open_at(at, name, libc::O_PATH, 0).ok()?;
        let stat = sys::stat(&fd).ok()?;
        self.identify.of(&fd, &stat).ok()
    }

    /// After a name was taken from an object: when it was the last, nothing of it stays in memory.
    fn name_gone(&self, victim: Option<KernelHandle>) {
        let Some(node) = victim.and_then(|victim| self.nodes.find(&victim)) else { return };
        let cached = locked(&node.0.descriptor).clone();
        match cached {
            Some(cached) if sys::stat(&*cached).is_ok_and(|stat| stat.nlink == 0) => {
                node.0.forget();
                self.search.gone(&node.0.identity);
            }
            // Another name is left, or nobody looked; where it is, the next opener finds out.
            _ => *locked(&node.0.place) = None,
        }
    }

    /// Whether rmdir would find the directory empty.
    fn is_removable(&self, at: &Descriptor, name: &[u8]) -> Result<bool, Error> {
        let fd = sys::open_at(at, name, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        self.is_empty_directory(&fd)
    }
}

/// "." and ".." can't be taken away, moved or linked.
fn check_old_name(volume: &VolumeInner, dir: &Node, name: &[u8]) -> Result<(), Error> {
    if name == b"." || name == b".." {
        return Err(Error::Invalid);
    }
    volume.check_name(dir, name)
}
