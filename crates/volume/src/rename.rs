//! Renames objects and adds names: rename, link.

use std::os::fd::AsFd;
use std::sync::RwLockWriteGuard;

use host::Unpoisoned;

use crate::creator::Judge;
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::node::Node;
use crate::quiesce::Change;
use crate::remove::check_old_name;
use crate::subject::Subject;
use crate::sys::{self, KernelHandle};
use crate::types::{Attr, Kind};
use crate::volume::{Volume, VolumeInner};
use crate::wcc::Wcc;

impl Volume {
    /// Renames, over an existing name if the kinds allow it (RFC 1813 3.3.14).
    ///
    /// **Durability**: durable when it returns. The object has a durable name at every moment.
    pub fn rename(&self, from_dir: &Node, from: &[u8], to_dir: &Node, to: &[u8]) -> Result<(), Error> {
        self.rename_if((from_dir, from), (to_dir, to), &|_| Ok(()), &|_| Ok(())).map(drop)
    }

    /// As [`Self::rename`], if `may_move` permits it for the object, and `may_replace` for an object that the new name leads to.
    ///
    /// On an exclusive volume it returns the attributes of both directories around the change.
    ///
    /// **Errors**: also those of `may_move` and `may_replace`; then nothing is renamed.
    pub fn rename_if(
        &self,
        (from_dir, from): (&Node, &[u8]),
        (to_dir, to): (&Node, &[u8]),
        may_move: &Judge<'_>,
        may_replace: &Judge<'_>,
    ) -> Result<[Option<Wcc>; 2], Error> {
        let volume = &*self.0;
        volume.may_change(&[from_dir, to_dir])?;
        let mut change = volume.begin_change();
        let from_at = volume.directory(from_dir)?;
        let to_at = volume.directory(to_dir)?;
        check_old_name(volume, from_dir, from)?;
        check_old_name(volume, to_dir, to)?;
        let (moved, victim, released, wcc) = {
            let _alone = Alone::of(from_dir, to_dir);
            let (moved, fd, stat) = volume.found_at_name(&from_at, from)?;
            may_move(&Subject::opened(volume, &fd, volume.to_attr(&stat)?))?;
            let (victim, other_victim) = match volume.found_at_name(&to_at, to) {
                Ok((victim, fd, stat)) => {
                    may_replace(&Subject::opened(volume, &fd, volume.to_attr(&stat)?))?;
                    (victim, volume.change_of_victim(&fd, &stat))
                }
                // The name does not exist, or the rename itself returns the error.
                Err(_) => (None, None),
            };
            let others = (volume.other_change_of(&fd, &stat), other_victim);
            if victim != moved {
                volume.check_not_device(victim)?;
            }
            let released = if victim == moved { None } else { volume.name_to_release(to_dir, to) };
            let source = (from_dir, &*from_at, from);
            let wcc = volume.move_name(&mut change, source, (to_dir, &*to_at, to), (moved, victim))?;
            drop(others);
            (moved, victim, released, wcc)
        };
        volume.release(released);
        if victim != moved
            && let Some(node) = moved.and_then(|moved| volume.nodes.find(&moved))
        {
            volume.found_at(&node, to_dir, to);
            volume.tree_search.renamed();
        }
        // The new name first: otherwise a host that logs each directory separately could lose both names.
        let mut flushed = volume.flush(to_dir, true, &mut change);
        if flushed.is_ok() && from_dir != to_dir {
            flushed = volume.flush(from_dir, true, &mut change);
        }
        if victim != moved {
            volume.name_gone(victim);
        }
        flushed.map(|()| wcc)
    }

    /// Adds a name to a file. On an exclusive volume it also returns the attributes of `dir` around the change.
    ///
    /// **Durability**: durable when it returns.
    pub fn link(&self, node: &Node, dir: &Node, name: &[u8]) -> Result<(Attr, Option<Wcc>), Error> {
        let volume = &*self.0;
        volume.may_change(&[node, dir])?;
        let mut change = volume.begin_change();
        if node.kind() == Kind::Directory {
            return Err(Error::IsDirectory);
        }
        let at = volume.directory(dir)?;
        check_old_name(volume, dir, name)?;
        let descriptor = volume.descriptor(node)?;
        volume.attr_of(node, &descriptor)?;
        dir.0.mark_change();
        let other = volume.other_change(node);
        let linked = volume.add_name(dir, &at, || sys::link_descriptor(&*descriptor, &*at, name));
        drop(other);
        node.0.mark_change();
        dir.0.mark_change();
        let wcc = linked?;
        if let Some(loss) = &mut change.loss {
            loss.name_added(&dir.0.identity, &*at, name)?;
        }
        volume.flush(node, true, &mut change)?;
        volume.flush(dir, true, &mut change)?;
        Ok((volume.attr_of(node, &descriptor)?, wcc))
    }
}

/// A name in an open directory.
type Place<'p> = (&'p Node, &'p Descriptor, &'p [u8]);

impl VolumeInner {
    /// Renames. The caller holds the locks of the names of both directories. Returns the attributes of both around the change.
    fn move_name(
        &self,
        change: &mut Change<'_>,
        (from_dir, from_at, from): Place<'_>,
        (to_dir, to_at, to): Place<'_>,
        (moved, victim): (Option<KernelHandle>, Option<KernelHandle>),
    ) -> Result<[Option<Wcc>; 2], Error> {
        let from_around = self.around(from_dir, from_at);
        let to_around = if from_dir == to_dir { None } else { self.around(to_dir, to_at) };
        from_dir.0.mark_change();
        to_dir.0.mark_change();
        let renamed = match (&mut change.loss, moved) {
            (Some(loss), Some(moved)) => {
                if victim.is_some()
                    && sys::stat_name(to_at, to)?.mode & libc::S_IFMT == libc::S_IFDIR
                    && !self.is_removable(to_at, to)?
                {
                    return Err(Error::NotEmpty);
                }
                let source = (&from_dir.0.identity, from_at.as_fd(), from);
                loss.rename(source, (&to_dir.0.identity, to_at.as_fd(), to), &moved, victim.as_ref())
            }
            _ => sys::rename_at(from_at, from, to_at, to),
        };
        from_dir.0.mark_change();
        to_dir.0.mark_change();
        renamed.map_err(|error| match error.raw_os_error() {
            // The error of XFS for a target directory that is not empty.
            Some(libc::EEXIST) => Error::NotEmpty,
            _ => Error::from(error),
        })?;
        let from_wcc = self.end_around(from_around, from_at);
        let to_wcc = if from_dir == to_dir { from_wcc } else { self.end_around(to_around, to_at) };
        Ok([from_wcc, to_wcc])
    }
}

/// Holds the locks of the names of two directories, which can be the same directory.
struct Alone<'d> {
    _one: RwLockWriteGuard<'d, ()>,
    _other: Option<RwLockWriteGuard<'d, ()>>,
}

impl<'d> Alone<'d> {
    /// Locks both in an order that all callers keep. Locks one directory only once.
    fn of(one: &'d Node, other: &'d Node) -> Self {
        let key = |node: &Node| (node.0.identity.kind, node.0.identity.len, node.0.identity.bytes);
        let (first, second) = if key(one) <= key(other) { (one, other) } else { (other, one) };
        let hold = |node: &'d Node| node.0.names.write().unpoisoned();
        Self { _one: hold(first), _other: (first != second).then(|| hold(second)) }
    }
}
