//! Making directories, links, pipes, sockets and devices.
//!
//! The host cannot make these without a name. Each is made under its name by a thread that acts as the owner, so that it has its
//! owner from the start and needs no chown by name. If the process is killed after that, an object of the right owner remains, as
//! with the kernel's server. This volume changes no other name of the directory until the object is open and has its attributes.
//! Another process on the host may still replace the object: the volume compares what it finds with what it made, and leaves a
//! different object alone.

use std::io;
use std::os::fd::OwnedFd;

use crate::attrs::{apply, check_size};
use crate::creator::Creator;
use crate::descriptor::{Access, Descriptor};
use crate::error::Error;
use crate::limits::LINK_BYTES_MAX;
use crate::node::Node;
use crate::sys::{self, RawStat};
use crate::types::{Attr, Kind, NodeKind, Owner, SetAttr};
use crate::volume::{Volume, VolumeInner};

/// Mode of a directory made without one.
const DIRECTORY_MODE: u32 = 0o755;
/// Mode of a pipe, socket or device made without one.
const NODE_MODE: u32 = 0o644;
/// The mode bits that a client may request for a new directory. The host takes the set-group-id bit only from the parent
/// directory (vfs_mkdir).
const DIRECTORY_BITS: u32 = 0o1777;

impl Volume {
    /// Makes a directory. **Durability**: durable when it returns.
    pub fn mkdir<'c>(
        &self,
        dir: &Node,
        name: &[u8],
        set: &SetAttr,
        creator: impl Into<Creator<'c>>,
    ) -> Result<(Node, Attr), Error> {
        let mode = set.mode.unwrap_or(DIRECTORY_MODE) & DIRECTORY_BITS;
        let set = SetAttr { mode: Some(mode), ..*set };
        self.make(dir, name, Kind::Directory, set, &creator.into(), |at, mode| sys::mkdir_at(at, name, mode))
    }

    /// Makes a symbolic link; the volume never follows it. **Durability**: durable when it returns.
    pub fn symlink<'c>(
        &self,
        dir: &Node,
        name: &[u8],
        target: &[u8],
        set: &SetAttr,
        creator: impl Into<Creator<'c>>,
    ) -> Result<(Node, Attr), Error> {
        if target.len() >= LINK_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Invalid);
        }
        let set = SetAttr { mode: None, ..*set };
        self.make(dir, name, Kind::Symlink, set, &creator.into(), |at, _| sys::symlink_at(target, at, name))
    }

    /// Makes a pipe, socket or device node. **Durability**: durable when it returns.
    pub fn mknod<'c>(
        &self,
        dir: &Node,
        name: &[u8],
        kind: NodeKind,
        rdev: (u32, u32),
        set: &SetAttr,
        creator: impl Into<Creator<'c>>,
    ) -> Result<(Node, Attr), Error> {
        let (bits, of, rdev) = match kind {
            NodeKind::Fifo => (libc::S_IFIFO, Kind::Fifo, (0, 0)),
            NodeKind::Socket => (libc::S_IFSOCK, Kind::Socket, (0, 0)),
            NodeKind::Block => (libc::S_IFBLK, Kind::Block, rdev),
            NodeKind::Character => (libc::S_IFCHR, Kind::Character, rdev),
        };
        let set = SetAttr { mode: set.mode.or(Some(NODE_MODE)), ..*set };
        self.make(dir, name, of, set, &creator.into(), |at, mode| sys::mknod_at(at, name, bits | mode, rdev))
    }

    /// Makes any object except a regular file. `make` receives the permission bits.
    fn make(
        &self,
        dir: &Node,
        name: &[u8],
        kind: Kind,
        set: SetAttr,
        creator: &Creator<'_>,
        make: impl FnOnce(&Descriptor, u32) -> io::Result<()>,
    ) -> Result<(Node, Attr), Error> {
        check_new_name(&self.0, dir, name)?;
        self.make_hidden_too(dir, name, kind, set, creator, make)
    }

    /// As [`Self::make`], also under a name that clients cannot use.
    pub(crate) fn make_hidden_too(
        &self,
        dir: &Node,
        name: &[u8],
        kind: Kind,
        set: SetAttr,
        creator: &Creator<'_>,
        make: impl FnOnce(&Descriptor, u32) -> io::Result<()>,
    ) -> Result<(Node, Attr), Error> {
        let volume = &*self.0;
        volume.may_change(&[dir])?;
        let mut change = volume.begin_change();
        let descriptor = volume.directory(dir)?;
        check_size(kind, &set)?;
        creator.may_add?;
        let owner = volume.new_owner(&descriptor, &set, creator.owner)?;
        dir.0.mark_change();
        let (fd, stat, access) = {
            let _alone = dir.0.names.write();
            let around = volume.around(dir, &descriptor);
            // The set-id and sticky bits follow when it is known what object is there.
            owner.make(|| make(&descriptor, set.mode.unwrap_or(0) & 0o777))?;
            let (fd, access) = volume.open_made(&descriptor, name, kind)?;
            let stat = owner.recognise(&fd, kind, volume.uid)?;
            let mut rest = owner.rest(kind, &stat, &creator.settable(set, owner.gid.unwrap_or(stat.gid)));
            if let Some(wanted) = rest.mode {
                rest.mode = volume.mode_to_set(&descriptor, stat.mode, wanted)?.or(rest.gid.map(|_| stat.mode & 0o7777));
            }
            if access == Access::Read && !rest.is_empty() && !volume.is_empty_directory(&fd)? {
                return Err(Error::NoEntry);
            }
            if let Err(error) = apply(&fd, kind, access, &rest) {
                // No object without its attributes stays.
                volume.unmake(dir, &descriptor, name, &fd)?;
                return Err(error);
            }
            let stat = if rest.is_empty() { stat } else { sys::stat(&fd)? };
            creator.report(volume.end_around(around, &descriptor));
            (fd, stat, access)
        };
        let node = volume.node_of(&dir.0.store, &fd, &stat, Some((dir, name)))?;
        node.0.mark_change();
        dir.0.mark_change();
        volume.keep_new(&node, fd, access)?;
        if let Some(loss) = &mut change.loss {
            loss.name_added(&dir.0.identity, &*descriptor, name)?;
        }
        volume.flush(&node, true, &mut change)?;
        volume.flush(dir, true, &mut change)?;
        Ok((node, volume.to_attr(&stat)?))
    }
}

/// The owner and group that a new object must get.
pub(crate) struct NewOwner {
    /// `None` leaves the user of this process.
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

impl NewOwner {
    /// Calls `make` as this owner, if it is another one than root.
    pub(crate) fn make<T>(&self, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match (self.uid, self.gid) {
            (Some(uid), Some(gid)) if (uid, gid) != (0, 0) => sys::as_owner(uid, gid, make),
            _ => make(),
        }
    }

    /// The attributes of the object found under the name, if it can be the one that was made: its kind, its owner, and one name.
    ///
    /// **Errors**: [`Error::NoEntry`] for another object.
    fn recognise(&self, fd: &OwnedFd, kind: Kind, own_uid: u32) -> Result<RawStat, Error> {
        let stat = sys::stat(fd)?;
        let names = if kind == Kind::Directory { stat.nlink <= 2 } else { stat.nlink == 1 };
        let is_new = Kind::of_mode(stat.mode) == Some(kind) && names && stat.uid == self.uid.unwrap_or(own_uid);
        // Another process on the host has replaced it: as if the new object had been removed after this call.
        if is_new { Ok(stat) } else { Err(Error::NoEntry) }
    }

    /// The attributes that the object still lacks after the host made it.
    fn rest(&self, kind: Kind, made: &RawStat, set: &SetAttr) -> SetAttr {
        // A client cannot clear the set-group-id bit that a directory inherits.
        let inherited = if kind == Kind::Directory { made.mode & libc::S_ISGID } else { 0 };
        let gid = self.gid.filter(|gid| *gid != made.gid);
        // A change of the group clears set-id bits, so the mode is set too.
        let mode = set.mode.map(|mode| mode & 0o7777 | inherited);
        let mode = mode.filter(|mode| gid.is_some() || *mode != made.mode & 0o7777);
        SetAttr { uid: None, gid, mode, ..*set }
    }
}

impl VolumeInner {
    /// The owner of a new object. An unprivileged volume makes objects of its own user only; it leaves the group to the host
    /// unless the client named one.
    ///
    /// **Errors**: [`Error::NotPermitted`] for another user on an unprivileged volume.
    pub(crate) fn new_owner(&self, at: &Descriptor, set: &SetAttr, owner: Owner) -> Result<NewOwner, Error> {
        let uid = set.uid.unwrap_or(owner.uid);
        if self.uid != 0 {
            return if uid == self.uid { Ok(NewOwner { uid: None, gid: set.gid }) } else { Err(Error::NotPermitted) };
        }
        // In a set-group-id directory an object gets the directory's group.
        let above = sys::stat(at)?;
        let inherits = above.mode & libc::S_ISGID != 0;
        let gid = set.gid.unwrap_or(if inherits { above.gid } else { owner.gid });
        Ok(NewOwner { uid: Some(uid), gid: Some(gid) })
    }

    /// Opens the object that was just made.
    fn open_made(&self, at: &Descriptor, name: &[u8], kind: Kind) -> Result<(OwnedFd, Access), Error> {
        if kind == Kind::Directory {
            // Its owner may have no right to read it.
            match sys::open_at(at, name, libc::O_RDONLY | libc::O_DIRECTORY, 0) {
                Ok(fd) => return Ok((fd, Access::Read)),
                Err(error) if error.raw_os_error() == Some(libc::EACCES) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok((sys::open_at(at, name, libc::O_PATH, 0)?, Access::Path))
    }

    /// Removes the name of an object that could not be completed, unless the name now leads to another object.
    pub(crate) fn unmake(&self, dir: &Node, at: &Descriptor, name: &[u8], fd: &OwnedFd) -> Result<(), Error> {
        let (made, found) = (sys::stat(fd)?, sys::stat_name(at, name)?);
        if (made.dev, made.ino) == (found.dev, found.ino) {
            sys::unlink_at(at, name, Kind::of_mode(made.mode) == Some(Kind::Directory))?;
        }
        dir.0.mark_change();
        Ok(())
    }
}

/// Checks the name of a new object. "." and ".." exist in each directory.
pub(crate) fn check_new_name(volume: &VolumeInner, dir: &Node, name: &[u8]) -> Result<(), Error> {
    if name == b"." || name == b".." {
        return Err(Error::Exists);
    }
    match volume.check_name(dir, name) {
        // The hidden name exists, although lookup does not find it.
        Err(Error::NoEntry) => Err(Error::Exists),
        other => other,
    }
}
