//! Making directories, links, pipes, sockets and devices.
//!
//! The host has no unnamed ones: each is made under its name, and belongs to its owner from that moment on (the thread acts as the
//! owner meanwhile), so that nothing has to be given away by name. A process killed behind that leaves an object of its owner,
//! as a kernel's server does. Names of the directory do not change, as far as this volume changes them, until the object is open and
//! whole. Somebody on the host may still put another object in its place: what is found is compared with what was made, and left
//! alone if it differs.

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
/// What a client may ask for of a new directory: the host takes the set-group-id bit from the directory above, and from nowhere
/// else (vfs_mkdir).
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

    /// Makes anything but a file; `make` is given the permission bits.
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

    /// The same under any name.
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
            // Bits beyond the permissions come when it is known what the object is.
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
                // Nothing half-made stays.
                volume.unmake(dir, &descriptor, name, &fd)?;
                return Err(error);
            }
            let stat = if rest.is_empty() { stat } else { sys::stat(&fd)? };
            creator.report(volume.end_around(around, &descriptor));
            (fd, stat, access)
        };
        let node = volume.node_of(&fd, &stat, Some((dir, name)))?;
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

/// Who a new object is made as, and its group where the host's choice is not the one that is wanted.
pub(crate) struct NewOwner {
    /// To be set; `None` leaves the volume's own.
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

impl NewOwner {
    /// Makes a name as this owner.
    pub(crate) fn make<T>(&self, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match (self.uid, self.gid) {
            (Some(uid), Some(gid)) if (uid, gid) != (0, 0) => sys::as_owner(uid, gid, make),
            _ => make(),
        }
    }

    /// The attributes of what was found under the name, if it can be what was made there: an object of its owner with one name.
    fn recognise(&self, fd: &OwnedFd, kind: Kind, own_uid: u32) -> Result<RawStat, Error> {
        let stat = sys::stat(fd)?;
        let names = if kind == Kind::Directory { stat.nlink <= 2 } else { stat.nlink == 1 };
        let is_new = Kind::of_mode(stat.mode) == Some(kind) && names && stat.uid == self.uid.unwrap_or(own_uid);
        // Somebody on the host took it away: as if that had come a moment later.
        if is_new { Ok(stat) } else { Err(Error::NoEntry) }
    }

    /// What the host did not do as wanted when it made the object.
    fn rest(&self, kind: Kind, made: &RawStat, set: &SetAttr) -> SetAttr {
        // The set-group-id bit a directory inherits is not the client's to drop.
        let inherited = if kind == Kind::Directory { made.mode & libc::S_ISGID } else { 0 };
        let gid = self.gid.filter(|gid| *gid != made.gid);
        // Another group would clear set-id bits: the mode comes behind it.
        let mode = set.mode.map(|mode| mode & 0o7777 | inherited);
        let mode = mode.filter(|mode| gid.is_some() || *mode != made.mode & 0o7777);
        SetAttr { uid: None, gid, mode, ..*set }
    }
}

impl VolumeInner {
    /// Who a new object belongs to. An unprivileged volume makes objects of its own user only; the group is then left to the host
    /// unless the client named it.
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

    /// Opens what was just made.
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

    /// Takes the name of an object away that could not be finished, unless it leads to another one by now.
    pub(crate) fn unmake(&self, dir: &Node, at: &Descriptor, name: &[u8], fd: &OwnedFd) -> Result<(), Error> {
        let (made, found) = (sys::stat(fd)?, sys::stat_name(at, name)?);
        if (made.dev, made.ino) == (found.dev, found.ino) {
            sys::unlink_at(at, name, Kind::of_mode(made.mode) == Some(Kind::Directory))?;
        }
        dir.0.mark_change();
        Ok(())
    }
}

/// "." and ".." exist in each directory.
pub(crate) fn check_new_name(volume: &VolumeInner, dir: &Node, name: &[u8]) -> Result<(), Error> {
    if name == b"." || name == b".." {
        return Err(Error::Exists);
    }
    match volume.check_name(dir, name) {
        // The one name that is hidden: it is there, whatever lookup says.
        Err(Error::NoEntry) => Err(Error::Exists),
        other => other,
    }
}
