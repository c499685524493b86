//! Creates regular files, and opens existing ones as CREATE does.
//!
//! A new file is made without a name. It gets its owner, mode, size and times first and is linked then, so that a
//! process killed in between leaves no incomplete file. If the host does not support unnamed files, the file is
//! made under its name, and lookups by this volume wait until it is complete.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use host::Unpoisoned;

use crate::attrs::{apply, check_size};
use crate::creator::{Creator, Judge};
use crate::descriptor::{Access, Descriptor};
use crate::error::Error;
use crate::make::{NewOwner, check_new_name};
use crate::node::Node;
use crate::quiesce::Change;
use crate::subject::Subject;
use crate::sys;
use crate::types::{Attr, CreateHow, Kind, SetAttr, SetTime, Time};
use crate::volume::{Volume, VolumeInner};
use crate::wcc::Wcc;

/// Mode of a file made without one.
const FILE_MODE: u32 = 0o644;
/// Mode of an exclusively created file until its first SETATTR.
const EXCLUSIVE_MODE: u32 = 0o600;
/// Rounds in which another process makes and removes the same name, before a create fails with `Exists`.
const CREATE_ROUNDS_MAX: u32 = 8;

impl Volume {
    /// Creates a regular file, or uses the existing one if `how` allows (RFC 1813 3.3.8). `creator.may_take` is asked only if an
    /// existing file is given a size, `creator.may_add` only if a name is added.
    ///
    /// **Durability**: name, attributes and verifier are durable when it returns.
    pub fn create<'c>(
        &self,
        dir: &Node,
        name: &[u8],
        how: CreateHow,
        creator: impl Into<Creator<'c>>,
    ) -> Result<(Node, Attr), Error> {
        let creator = creator.into();
        let volume = &*self.0;
        volume.may_change(&[dir])?;
        let mut change = volume.begin_change();
        let descriptor = volume.directory(dir)?;
        check_new_name(volume, dir, name)?;
        let set = match how {
            CreateHow::Unchecked(set) | CreateHow::Guarded(set) => SetAttr { mode: set.mode.or(Some(FILE_MODE)), ..set },
            CreateHow::Exclusive(verifier) => exclusive_attr(verifier),
        };
        check_size(Kind::File, &set)?;
        for _ in 0..CREATE_ROUNDS_MAX {
            match volume.child(dir, &descriptor, name) {
                Ok((node, attr)) => {
                    let found = (node, attr);
                    return volume.take_existing(dir, found, &how, creator.may_take, &mut change);
                }
                Err(Error::NoEntry) => {}
                Err(Error::CrossDevice) => return Err(Error::Exists),
                Err(error) => return Err(error),
            }
            creator.may_add?;
            match volume.create_new(dir, &descriptor, name, &set, &creator, &mut change) {
                Err(Error::Exists) => {}
                other => return other,
            }
        }
        Err(Error::Exists)
    }
}

impl VolumeInner {
    /// Handles a name that exists. An unchecked create uses a regular file and sets its size. An exclusive create uses
    /// a file that was made with the same verifier.
    fn take_existing(
        &self,
        dir: &Node,
        (node, attr): (Node, Attr),
        how: &CreateHow,
        may_take: &Judge<'_>,
        change: &mut Change<'_>,
    ) -> Result<(Node, Attr), Error> {
        if node.kind() != Kind::File {
            return Err(Error::Exists);
        }
        match how {
            CreateHow::Guarded(_) => return Err(Error::Exists),
            CreateHow::Exclusive(verifier) => {
                let made = exclusive_attr(*verifier);
                if (SetTime::Client(attr.atime), SetTime::Client(attr.mtime)) != (made.atime, made.mtime) {
                    return Err(Error::Exists);
                }
            }
            CreateHow::Unchecked(_) => {}
        }
        // The caller that made it may not have flushed it yet, and this reply promises it too.
        if node.0.is_dirty() && matches!(how, CreateHow::Exclusive(_)) {
            self.flush(&node, true, change)?;
        }
        if dir.0.is_dirty() {
            self.flush(dir, true, change)?;
        }
        let CreateHow::Unchecked(SetAttr { size: Some(size), .. }) = how else {
            return Ok((node, attr));
        };
        self.check_writable_as_file(&node)?;
        let descriptor = self.descriptor(&node)?;
        let attrs = node.0.attr_lock.lock().unpoisoned();
        may_take(&Subject::of(self, &node, self.attr_of(&node, &descriptor)?))?;
        let sizing = self.resize(&node, &descriptor, *size)?;
        if let Some(loss) = &mut change.loss {
            loss.before_attr(&node.0.identity, &*descriptor, Some(*size))?;
        }
        let descriptor = self.writable(&node, descriptor)?;
        let other = self.other_change(&node);
        let in_flight = self.begin_buffered(&node);
        node.0.mark_change();
        let cut = sys::truncate(&*descriptor, *size);
        node.0.mark_change();
        drop((sizing, other));
        cut?;
        self.flush(&node, true, change)?;
        let attr = self.attr_of(&node, &descriptor)?;
        drop((attrs, in_flight));
        Ok((node, attr))
    }

    fn create_new(
        &self,
        dir: &Node,
        at: &Descriptor,
        name: &[u8],
        set: &SetAttr,
        creator: &Creator<'_>,
        change: &mut Change<'_>,
    ) -> Result<(Node, Attr), Error> {
        let reserved = self.reserve(set.size)?;
        let owner = self.new_owner(at, set, creator.owner)?;
        let prepared = |fd: &OwnedFd| -> Result<(), Error> {
            // Without a group, the volume is unprivileged: the host decides about the set-group-id bit.
            let set = owner.gid.map_or(*set, |gid| creator.settable(*set, gid));
            let set = SetAttr { uid: owner.uid, gid: owner.gid, ..set };
            // The mode is set after size, owner and times, because a new size or owner clears set-id bits.
            apply(fd, Kind::File, Access::ReadWrite, &SetAttr { mode: None, ..set })?;
            let wanted = set.mode.unwrap_or(FILE_MODE);
            if let Some(mode) = self.mode_to_set(at, sys::stat(fd)?.mode, wanted)? {
                sys::set_mode(fd, mode)?;
            }
            self.check_times_held(fd, &set)
        };
        dir.0.mark_change();
        // The host applies a default ACL only when it creates the file, and to this mode.
        let mode = set.mode.unwrap_or(FILE_MODE) & 0o777;
        let (dir_wcc, fd) = match self.unnamed_file(at, mode)? {
            Some(fd) => {
                prepared(&fd)?;
                (self.add_name(dir, at, || sys::link_descriptor(&fd, at, name))?, fd)
            }
            None => self.create_named(dir, at, (name, mode), &owner, prepared)?,
        };
        creator.report(dir_wcc);
        reserved.keep();
        let stat = sys::stat(&fd)?;
        let node = self.node_of(&dir.0.store, &fd, &stat, Some((dir, name)))?;
        // Marked before the directory's second mark: a caller that finds the directory flushed must find
        // the file dirty until it is flushed.
        node.0.mark_change();
        dir.0.mark_change();
        self.keep_new(&node, fd, Access::ReadWrite)?;
        if let Some(loss) = &mut change.loss {
            loss.name_added(&dir.0.identity, at, name)?;
        }
        // The file first: a name must not survive without its object (btrfs drops such names when it
        // replays its log).
        self.flush(&node, true, change)?;
        self.flush(dir, true, change)?;
        Ok((node, self.to_attr(&stat)?))
    }

    /// Makes a file without a name. `None` if the host does not support unnamed files.
    fn unnamed_file(&self, at: &Descriptor, mode: u32) -> Result<Option<OwnedFd>, Error> {
        if !self.unnamed_files.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match sys::open_at(at, b".", libc::O_TMPFILE | libc::O_RDWR | libc::O_NOATIME, mode) {
            Ok(fd) => Ok(Some(fd)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
                self.unnamed_files.store(false, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a file under its name, if the host does not support unnamed files.
    fn create_named(
        &self,
        dir: &Node,
        at: &Descriptor,
        (name, mode): (&[u8], u32),
        owner: &NewOwner,
        prepare: impl Fn(&OwnedFd) -> Result<(), Error>,
    ) -> Result<(Option<Wcc>, OwnedFd), Error> {
        let _alone = dir.0.names.write();
        let around = self.around(dir, at);
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOATIME;
        let fd = owner.make(|| sys::open_at(at, name, flags, mode))?;
        if let Err(error) = prepare(&fd) {
            self.unmake(dir, at, name, &fd)?;
            return Err(error);
        }
        Ok((self.end_around(around, at), fd))
    }

    /// Fails with [`Error::NotSupported`] if the host has rounded the times that hold an exclusive create's verifier.
    fn check_times_held(&self, fd: &OwnedFd, set: &SetAttr) -> Result<(), Error> {
        let (SetTime::Client(atime), SetTime::Client(mtime)) = (set.atime, set.mtime) else { return Ok(()) };
        if set.mode != Some(EXCLUSIVE_MODE) {
            return Ok(());
        }
        let stat = sys::stat(fd)?;
        if (stat.atime, stat.mtime) == ((atime.sec, atime.nsec), (mtime.sec, mtime.nsec)) {
            Ok(())
        } else {
            Err(Error::NotSupported)
        }
    }
}

/// The verifier of an exclusive create as times: each half is the signed seconds of one time. Every format of ext4
/// and xfs can hold these (1901 to 2038, whole seconds).
fn exclusive_attr(verifier: [u8; 8]) -> SetAttr {
    let bits = u64::from_be_bytes(verifier);
    let time = |half: u32| SetTime::Client(Time { sec: i64::from(half.cast_signed()), nsec: 0 });
    SetAttr { mode: Some(EXCLUSIVE_MODE), atime: time((bits >> 32) as u32), mtime: time(bits as u32), ..SetAttr::default() }
}
