//! Making objects: files, directories, links, pipes, sockets, devices.
//!
//! A new file gets its owner, mode, size and times before it gets its name (an unnamed file, linked when
//! ready), so that a process killed in between leaves nothing half-made. Where the host has no unnamed
//! files it is made under its name at once.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use crate::attrs::{apply, check_size};
use crate::descriptor::{Access, Descriptor};
use crate::error::Error;
use crate::limits::LINK_BYTES_MAX;
use crate::lock::locked;
use crate::loss::LossGuard;
use crate::node::Node;
use crate::sys;
use crate::types::{Attr, CreateHow, Kind, NodeKind, Owner, SetAttr, SetTime, Time};
use crate::volume::{Volume, VolumeInner};

/// Mode of a file made without one.
const FILE_MODE: u32 = 0o644;
/// Mode of a directory made without one.
const DIRECTORY_MODE: u32 = 0o755;
/// Mode of an exclusively created file until its first SETATTR.
const EXCLUSIVE_MODE: u32 = 0o600;
/// Rounds of "exists, no: vanished" before a creator gives up on a name others fight over.
const CREATE_ROUNDS_MAX: u32 = 8;

impl Volume {
    /// Creates a regular file, or takes the existing one where `how` allows (RFC 1813 3.3.8).
    ///
    /// **Durability**: name, attributes and verifier are durable when it returns.
    pub fn create(&self, dir: &Node, name: &[u8], how: CreateHow, owner: Owner) -> Result<(Node, Attr), Error> {
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
                Ok((node, attr)) => return volume.take_existing(dir, node, attr, &how, &mut change.loss),
                Err(Error::NoEntry) => {}
                Err(Error::CrossDevice) => return Err(Error::Exists),
                Err(error) => return Err(error),
            }
            match volume.create_new(dir, &descriptor, name, &set, owner, &mut change.loss) {
                Err(Error::Exists) => {}
                other => return other,
            }
        }
        Err(Error::Exists)
    }

    /// Makes a directory. **Durability**: durable when it returns.
    pub fn mkdir(&self, dir: &Node, name: &[u8], set: &SetAttr, owner: Owner) -> Result<(Node, Attr), Error> {
        let set = SetAttr { mode: set.mode.or(Some(DIRECTORY_MODE)), ..*set };
        self.make(dir, name, Kind::Directory, set, owner, |at| sys::mkdir_at(at, name, 0o700))
    }

    /// Makes a symbolic link; the volume never follows it. **Durability**: durable when it returns.
    pub fn symlink(&self, dir: &Node, name: &[u8], target: &[u8], set: &SetAttr, owner: Owner) -> Result<(Node, Attr), Error> {
        if target.len() >= LINK_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Invalid);
        }
        let set = SetAttr { mode: None, ..*set };
        self.make(dir, name, Kind::Symlink, set, owner, |at| sys::symlink_at(target, at, name))
    }

    /// Makes a pipe, socket or device node. **Durability**: durable when it returns.
    pub fn mknod(
        &self,
        dir: &Node,
        name: &[u8],
        kind: NodeKind,
        rdev: (u32, u32),
        set: &SetAttr,
        owner: Owner,
    ) -> Result<(Node, Attr), Error> {
        let (bits, of, rdev) = match kind {
            NodeKind::Fifo => (libc::S_IFIFO, Kind::Fifo, (0, 0)),
            NodeKind::Socket => (libc::S_IFSOCK, Kind::Socket, (0, 0)),
            NodeKind::Block => (libc::S_IFBLK, Kind::Block, rdev),
            NodeKind::Character => (libc::S_IFCHR, Kind::Character, rdev),
        };
        let set = SetAttr { mode: set.mode.or(Some(FILE_MODE)), ..*set };
        self.make(dir, name, of, set, owner, |at| sys::mknod_at(at, name, bits | 0o600, rdev))
    }

    /// Makes anything but a file, under its name at once.
    fn make(
        &self,
        dir: &Node,
        name: &[u8],
        kind: Kind,
        set: SetAttr,
        owner: Owner,
        make: impl FnOnce(&Descriptor) -> std::io::Result<()>,
    ) -> Result<(Node, Attr), Error> {
        let volume = &*self.0;
        volume.may_change(&[dir])?;
        let mut change = volume.begin_change();
        let descriptor = volume.directory(dir)?;
        check_new_name(volume, dir, name)?;
        check_size(kind, &set)?;
        let mut set = volume.owned(&descriptor, set, owner)?;
        dir.0.mark_change();
        let making = dir.0.making.write();
        make(&descriptor)?;
        let flags = if kind == Kind::Directory { libc::O_RDONLY | libc::O_DIRECTORY } else { libc::O_PATH };
        let access = if kind == Kind::Directory { Access::Read } else { Access::Path };
        let prepared = sys::open_at(&*descriptor, name, flags, 0).map_err(Error::from).and_then(|fd| {
            if let (Kind::Directory, Some(mode)) = (kind, &mut set.mode) {
                // The set-group-id bit a directory inherits is not the client's to drop.
                *mode |= sys::stat(&fd)?.mode & libc::S_ISGID;
            }
            apply(&fd, kind, access, &set).map(|()| fd)
        });
        let fd = match prepared {
            Ok(fd) => fd,
            Err(error) => {
                // Nothing half-made stays.
                sys::unlink_at(&*descriptor, name, kind == Kind::Directory)?;
                dir.0.mark_change();
                return Err(error);
            }
        };
        drop(making);
        let stat = sys::stat(&fd)?;
        let node = volume.node_of(&fd, &stat, Some((dir, name)))?;
        node.0.mark_change();
        dir.0.mark_change();
        volume.keep_new(&node, fd, access)?;
        if let Some(loss) = &mut change.loss {
            loss.name_added(&dir.0.identity, &*descriptor, name)?;
        }
        volume.flush(&node, true, &mut change.loss)?;
        volume.flush(dir, true, &mut change.loss)?;
        Ok((node, volume.to_attr(&stat)?))
    }
}

impl VolumeInner {
    /// A name that exists: an unchecked create takes a file and sets its size, an exclusive one takes
    /// the file it made before.
    fn take_existing(
        &self,
        dir: &Node,
        node: Node,
        attr: Attr,
        how: &CreateHow,
        loss: &mut Option<LossGuard<'_>>,
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
            self.flush(&node, true, loss)?;
        }
        if dir.0.is_dirty() {
            self.flush(dir, true, loss)?;
        }
        let CreateHow::Unchecked(SetAttr { size: Some(size), .. }) = how else {
            return Ok((node, attr));
        };
        self.check_writable_as_file(&node)?;
        let descriptor = self.descriptor(&node)?;
        let attrs = locked(&node.0.attr_lock);
        let sizing = self.resize(&node, &descriptor, *size)?;
        if let Some(loss) = loss {
            loss.before_attr(&node.0.identity, &*descriptor, Some(*size))?;
        }
        let descriptor = self.writable(&node, descriptor)?;
        let in_flight = self.begin_buffered(&node);
        node.0.mark_change();
        let cut = sys::truncate(&*descriptor, *size);
        node.0.mark_change();
        drop(sizing);
        cut?;
        self.flush(&node, true, loss)?;
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
        owner: Owner,
        loss: &mut Option<LossGuard<'_>>,
    ) -> Result<(Node, Attr), Error> {
        let reserved = self.reserve(set.size)?;
        let set = self.owned(at, *set, owner)?;
        let prepared = |fd: &OwnedFd| -> Result<(), Error> {
            apply(fd, Kind::File, Access::ReadWrite, &set)?;
            self.check_times_held(fd, &set)
        };
        dir.0.mark_change();
        let fd = match self.unnamed_file(at)? {
            Some(fd) => {
                prepared(&fd)?;
                sys::link_descriptor(&fd, at, name)?;
                fd
            }
            None => {
                let fd = sys::open_at(at, name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOATIME, 0o600)?;
                if let Err(error) = prepared(&fd) {
                    sys::unlink_at(at, name, false)?;
                    dir.0.mark_change();
                    return Err(error);
                }
                fd
            }
        };
        reserved.keep();
        let stat = sys::stat(&fd)?;
        let node = self.node_of(&fd, &stat, Some((dir, name)))?;
        // Marked before the directory's second mark: whoever finds the name clean in a flushed
        // directory must find the file dirty until it is flushed.
        node.0.mark_change();
        dir.0.mark_change();
        self.keep_new(&node, fd, Access::ReadWrite)?;
        if let Some(loss) = loss {
            loss.name_added(&dir.0.identity, at, name)?;
        }
        // The file first: a name that survives must not lead to an object that did not (btrfs drops
        // such names when it replays its log).
        self.flush(&node, true, loss)?;
        self.flush(dir, true, loss)?;
        Ok((node, self.to_attr(&stat)?))
    }

    /// A file without a name yet; `None` where the host has none.
    fn unnamed_file(&self, at: &Descriptor) -> Result<Option<OwnedFd>, Error> {
        if !self.unnamed_files.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match sys::open_at(at, b".", libc::O_TMPFILE | libc::O_RDWR | libc::O_NOATIME, 0o600) {
            Ok(fd) => Ok(Some(fd)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
                self.unnamed_files.store(false, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds the owner to what is set on a new object. An unprivileged volume makes objects of its own
    /// user only; the group is then left to the host unless the client named it.
    fn owned(&self, at: &Descriptor, set: SetAttr, owner: Owner) -> Result<SetAttr, Error> {
        let uid = set.uid.unwrap_or(owner.uid);
        if self.uid != 0 {
            return if uid == self.uid { Ok(SetAttr { uid: None, ..set }) } else { Err(Error::NotPermitted) };
        }
        // In a set-group-id directory the host has given the object the directory's group.
        let inherits = sys::stat(at)?.mode & libc::S_ISGID != 0;
        let gid = set.gid.or(if inherits { None } else { Some(owner.gid) });
        Ok(SetAttr { uid: Some(uid), gid, ..set })
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

/// "." and ".." exist in each directory.
fn check_new_name(volume: &VolumeInner, dir: &Node, name: &[u8]) -> Result<(), Error> {
    if name == b"." || name == b".." {
        return Err(Error::Exists);
    }
    match volume.check_name(dir, name) {
        // The one name that is hidden: it is there, whatever lookup says.
        Err(Error::NoEntry) => Err(Error::Exists),
        other => other,
    }
}
