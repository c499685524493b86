//! Reads and sets attributes, and reports the free space of the store.

use std::os::fd::AsFd;
use std::sync::Arc;

use host::Unpoisoned;
use rustix::fs::StatVfsMountFlags;

use crate::descriptor::{Access, Descriptor};
use crate::error::Error;
use crate::limits::OFFSET_MAX;
use crate::node::Node;
use crate::quiesce::Change;
use crate::store::SnapshotId;
use crate::sys::{self, RawStat, RawTime};
use crate::types::{Attr, FsStat, Kind, SetAttr, SetTime, Time};
use crate::volume::{Volume, VolumeInner};
use crate::wcc::Wcc;

impl Volume {
    /// The attributes, by one statx on the cached descriptor.
    pub fn attr(&self, node: &Node) -> Result<Attr, Error> {
        let _read = self.0.begin_read();
        let descriptor = self.0.descriptor(node)?;
        self.0.attr_of(node, &descriptor)
    }

    /// The attributes with zeros for the times, because on some hosts reading the times makes the next stable write slower. The times
    /// are read if the object's ACL is in use, because the ACL is cached by the ctime.
    pub fn attr_untimed(&self, node: &Node) -> Result<Attr, Error> {
        if node.0.acl.is_asked_for() {
            return self.attr(node);
        }
        let _read = self.0.begin_read();
        let descriptor = self.0.descriptor(node)?;
        self.0.attr_from(node, &sys::stat_untimed(&*descriptor)?)
    }

    /// Attributes for the reply to a durable write. `None` while reading them would slow down the next write and no client seems to
    /// need them.
    pub fn attr_after_stable_write(&self, node: &Node) -> Option<Attr> {
        if self.0.multigrain_times && !node.0.times.include() {
            return None;
        }
        self.attr(node).ok()
    }

    /// Called when a client requests only the attributes of a file.
    pub fn attr_asked(&self, node: &Node) {
        node.0.times.requested();
    }

    /// Sets attributes. With a guard: only if the ctime equals it (RFC 1813 3.3.2).
    ///
    /// **Durability**: durable when it returns. **Errors**: [`Error::NotSync`] if the guard does not
    /// match. After other errors, some of the attributes may have been set.
    pub fn set_attr(&self, node: &Node, set: &SetAttr, guard_ctime: Option<Time>) -> Result<Attr, Error> {
        self.set_attr_if(node, guard_ctime, &|_| Ok(*set)).map(|wcc| wcc.after)
    }

    /// As [`Self::set_attr`], but `decide` chooses what to set by the current attributes. This volume makes no other change of the
    /// attributes in between.
    ///
    /// **Errors**: also that of `decide`; then nothing is set.
    pub fn set_attr_if(
        &self,
        node: &Node,
        guard_ctime: Option<Time>,
        decide: &dyn Fn(&Attr) -> Result<SetAttr, Error>,
    ) -> Result<Wcc, Error> {
        self.0.may_change(&[node])?;
        let mut change = self.0.begin_change();
        self.0.set_attr(&mut change, node, guard_ctime, &|now| {
            let set = decide(now)?;
            if set.size.is_some() && node.kind() == Kind::File {
                self.0.check_writable_as_file(node)?;
            }
            Ok(set)
        })
    }

    /// Clears the set-id bits of a file before a write by another user than root, which clears them too. Otherwise the data could be
    /// on disk after a power cut, but not the mode. An unprivileged volume leaves it to the host.
    ///
    /// **Durability**: durable when it returns.
    pub fn clear_set_id(&self, node: &Node) -> Result<(), Error> {
        let volume = &*self.0;
        if volume.uid != 0 {
            return Ok(());
        }
        volume.may_change(&[node])?;
        let mut change = volume.begin_change();
        let descriptor = volume.descriptor(node)?;
        let _attrs = node.0.attr_lock.lock().unpoisoned();
        if let Some(loss) = &mut change.loss {
            loss.before_attr(&node.0.identity, &*descriptor, None)?;
        }
        node.0.mark_change();
        // A chown that keeps owner and group: the host itself clears the bits of the current mode.
        let other = volume.other_change(node);
        let cleared = sys::chown(&*descriptor, None, None);
        drop(other);
        node.0.mark_change();
        cleared?;
        volume.flush(node, true, &mut change)
    }

    /// Free space and limits of the store.
    pub fn fs_stat(&self) -> Result<FsStat, Error> {
        let s = sys::fs_stat(self.0.store.root())?;
        let unit = s.f_frsize;
        Ok(self.0.within_quota(FsStat {
            total_bytes: s.f_blocks.saturating_mul(unit),
            free_bytes: s.f_bfree.saturating_mul(unit),
            available_bytes: s.f_bavail.saturating_mul(unit),
            total_files: s.f_files,
            free_files: s.f_ffree,
            available_files: s.f_favail,
            name_bytes_max: u32::try_from(s.f_namemax).unwrap_or(255),
            // The limit of ext4. xfs and btrfs allow more.
            links_max: 65_000,
            read_only: s.f_flag.contains(StatVfsMountFlags::RDONLY),
        }))
    }
}

impl VolumeInner {
    /// Sets attributes of an object, also of a file that is open as a block device.
    pub(crate) fn set_attr(
        &self,
        change: &mut Change<'_>,
        node: &Node,
        guard_ctime: Option<Time>,
        decide: &dyn Fn(&Attr) -> Result<SetAttr, Error>,
    ) -> Result<Wcc, Error> {
        let descriptor = self.descriptor(node)?;
        let _attrs = node.0.attr_lock.lock().unpoisoned();
        let names_too = self.options.exclusive && node.kind() == Kind::Directory;
        let names = names_too.then(|| node.0.names.write().unpoisoned());
        let around = self.around(node, &descriptor);
        let now = around.as_ref().map_or_else(|| self.attr_of(node, &descriptor), |around| Ok(around.before))?;
        let set = &decide(&now)?;
        if guard_ctime.is_some_and(|guard| guard != now.ctime) {
            return Err(Error::NotSync);
        }
        if set.is_empty() {
            return Ok(Wcc { before: None, after: now });
        }
        check_size(node.kind(), set)?;
        let sizing = match set.size {
            Some(size) => self.resize(node, &descriptor, size)?,
            None => None,
        };
        if let Some(loss) = &mut change.loss {
            loss.before_attr(&node.0.identity, &*descriptor, set.size)?;
        }
        node.0.mark_change();
        // A truncation inside a page makes the page dirty.
        let _in_flight = set.size.is_some().then(|| self.begin_buffered(node));
        let descriptor = if set.size.is_some() { self.writable(node, descriptor)? } else { descriptor };
        let result = apply(&*descriptor, node.kind(), descriptor.access, set);
        let wcc = if result.is_ok() { self.end_around(around, &descriptor) } else { None };
        node.0.mark_change();
        drop((sizing, names));
        // After a failure too: a client can see what was set before it, so that must be durable.
        self.flush(node, true, change)?;
        result?;
        let after = || self.attr_of(node, &descriptor).map(|after| Wcc { before: None, after });
        wcc.map_or_else(after, Ok)
    }

    /// The attributes by an open descriptor. [`Error::Stale`] if the object has no name any more.
    pub(crate) fn attr_of(&self, node: &Node, descriptor: &Descriptor) -> Result<Attr, Error> {
        self.attr_from(node, &sys::stat(descriptor)?)
    }

    fn attr_from(&self, node: &Node, stat: &RawStat) -> Result<Attr, Error> {
        if stat.nlink == 0 {
            node.0.forget();
            return Err(Error::Stale);
        }
        self.to_attr(stat)
    }

    /// Converts the host's attributes.
    pub(crate) fn to_attr(&self, stat: &RawStat) -> Result<Attr, Error> {
        let time = |(sec, nsec): (i64, u32)| Time { sec, nsec };
        Ok(Attr {
            kind: Kind::of_mode(stat.mode).ok_or(Error::BadType)?,
            mode: stat.mode & 0o7777,
            nlink: stat.nlink,
            uid: stat.uid,
            gid: stat.gid,
            size: stat.size,
            used: stat.blocks.saturating_mul(512),
            rdev: stat.rdev,
            fsid: self.fsid,
            fileid: stat.ino,
            atime: time(stat.atime),
            mtime: time(stat.mtime),
            ctime: time(stat.ctime),
        })
    }

    /// A descriptor of the file for writing. Opens the file again if the cached descriptor cannot write.
    pub(crate) fn writable(&self, node: &Node, descriptor: Arc<Descriptor>) -> Result<Arc<Descriptor>, Error> {
        if descriptor.access == Access::ReadWrite {
            return Ok(descriptor);
        }
        // The file was busy, read-only or not permitted when it was opened. That may have changed.
        *node.0.descriptor.lock().unpoisoned() = None;
        let descriptor = self.descriptor(node)?;
        if descriptor.access == Access::ReadWrite {
            return Ok(descriptor);
        }
        let store = &node.0.store;
        let is_read_only =
            store.snapshot() != SnapshotId::LIVE || sys::fs_stat(store.root())?.f_flag.contains(StatVfsMountFlags::RDONLY);
        Err(if is_read_only { Error::ReadOnly } else { Error::Access })
    }
}

/// Refuses a size for an object that is not a regular file, and a size beyond the largest offset.
pub(crate) fn check_size(kind: Kind, set: &SetAttr) -> Result<(), Error> {
    match (set.size, kind) {
        (None, _) => Ok(()),
        (Some(size), Kind::File) if size > OFFSET_MAX => Err(Error::TooBig),
        (Some(_), Kind::File) => Ok(()),
        (Some(_), Kind::Directory) => Err(Error::IsDirectory),
        (Some(_), _) => Err(Error::Invalid),
    }
}

/// Sets attributes in an order in which no step undoes another. A new size or owner clears set-id bits, so the
/// mode is set after them. All of these change the times, so the times are set last.
pub(crate) fn apply(fd: impl AsFd, kind: Kind, access: Access, set: &SetAttr) -> Result<(), Error> {
    if let Some(size) = set.size {
        sys::truncate(&fd, size)?;
    }
    if set.uid.is_some() || set.gid.is_some() {
        sys::chown(&fd, set.uid, set.gid)?;
    }
    if let Some(mode) = set.mode {
        let mode = mode & 0o7777;
        match (kind, access) {
            // A link has no mode of its own on Linux.
            (Kind::Symlink, _) => {}
            (_, Access::Path) => sys::proc_chmod(&fd, mode)?,
            _ => sys::set_mode(&fd, mode)?,
        }
    }
    if set.atime != SetTime::DontChange || set.mtime != SetTime::DontChange {
        sys::set_times(&fd, raw_time(set.atime), raw_time(set.mtime))?;
    }
    Ok(())
}

fn raw_time(time: SetTime) -> RawTime {
    match time {
        SetTime::DontChange => RawTime::Omit,
        SetTime::ServerTime => RawTime::Now,
        SetTime::Client(Time { sec, nsec }) => RawTime::At { sec, nsec },
    }
}
