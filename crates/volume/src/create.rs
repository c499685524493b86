//! Making files, and taking existing ones.
//!
//! A new file gets its owner, mode, size and times before it gets its name (an unnamed file, linked when
//! ready), so that a process killed in between leaves nothing half-made. Where the host has no unnamed
//! files it is made under its name at once, found by nobody before it is whole.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use crate::acl::Subject;
use crate::attrs::{apply, check_size};
use crate::creator::{Creator, Judge};
use crate::descriptor::{Access, Descriptor};
use crate::error::Error;
use crate::lock::locked;
use crate::make::{NewOwner, check_new_name};
use crate::node::Node;
use crate::quiesce::Change;
use crate::sys;
use crate::types::{Attr, CreateHow, Kind, SetAttr, SetTime, Time};
use crate::volume::{Volume, VolumeInner};
use crate::wcc::Wcc;

/// Mode of a file made without one.
const FILE_MODE: u32 = 0o644;
/// Mode of an exclusively created file until its first SETATTR.
const EXCLUSIVE_MODE: u32 = 0o600;
/// Rounds of "exists, no: vanished" before a creator gives up on a name others fight over.
const CREATE_ROUNDS_MAX: u32 = 8;

impl Volume {
    /// Creates a regular file, or takes the existing one where `how` allows (RFC 1813 3.3.8). What the creator may do is judged
    /// on the file that is then cut, and where a name is added.
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
    /// A name that exists: an unchecked create takes a file and sets its size, an exclusive one takes
    /// the file it made before.
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
        // The one who made it may not have flushed it yet; this answer promises it too.
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
        let attrs = locked(&node.0.attr_lock);
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
            // Without a group to set there is no privilege: the host decides.
            let set = owner.gid.map_or(*set, |gid| creator.settable(*set, gid));
            let set = SetAttr { uid: owner.uid, gid: owner.gid, ..set };
            // The mode is set after size and owner, because these clear set-id bits of the mode. Only the times are set later.
            apply(fd, Kind::File, Access::ReadWrite, &SetAttr { mode: None, ..set })?;
            let wanted = set.mode.unwrap_or(FILE_MODE);
            if let Some(mode) = self.mode_to_set(at, sys::stat(fd)?.mode, wanted)? {
                sys::set_mode(fd, mode)?;
            }
            self.check_times_held(fd, &set)
        };
        dir.0.mark_change();
        // The host applies a default ACL to this mode, and only at the creation.
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
        let node = self.node_of(&fd, &stat, Some((dir, name)))?;
        // Marked before the directory's second mark: whoever finds the name clean in a flushed
        // directory must find the file dirty until it is flushed.
        node.0.mark_change();
        dir.0.mark_change();
        self.keep_new(&node, fd, Access::ReadWrite)?;
        if let Some(loss) = &mut change.loss {
            loss.name_added(&dir.0.identity, at, name)?;
        }
        // The file first: a name that survives must not lead to an object that did not (btrfs drops
        // such names when it replays its log).
        self.flush(&node, true, change)?;
        self.flush(dir, true, change)?;
        Ok((node, self.to_attr(&stat)?))
    }

    /// A file without a name yet. `None` if the host does not support unnamed files.
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

    /// A file under its name at once, where the host has no unnamed ones.
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

    /// A host that rounds times can't keep an exclusive create's verifier: say so, don't lose bits.
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

/// The eight bytes of an exclusive create as times: each half is the seconds of one, signed (1901 to 2038,
/// whole seconds: what every format of ext4 and xfs holds).
fn exclusive_attr(verifier: [u8; 8]) -> SetAttr {
    let bits = u64::from_be_bytes(verifier);
    let time = |half: u32| SetTime::Client(Time { sec: i64::from(half.cast_signed()), nsec: 0 });
    SetAttr { mode: Some(EXCLUSIVE_MODE), atime: time((bits >> 32) as u32), mtime: time(bits as u32), ..SetAttr::default() }
}
