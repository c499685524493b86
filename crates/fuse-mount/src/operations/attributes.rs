//! Attributes, access checks, and the free space of the file system.

use super::{Answer, Operations};
use crate::open_file::errno;
use crate::protocol::reply;
use crate::protocol::request::{Header, SetAttributes, Time};
use dnfs::file::{Attributes, FileKind, FileTime, SetTime};
use dnfs::mount::{Entry, Mount, Target};
use rustix::io::Errno;

impl Operations {
    /// Attributes. For a file that any process has open, the mount may know them without a call.
    pub(super) fn attributes(&self, header: &Header, handle: Option<u64>, looked_up: Option<Entry>) -> Result<Answer, Errno> {
        let attributes = match handle.map(|handle| self.handles.file(handle)) {
            Some(Ok(file)) => file.attributes()?,
            _ => self.attributes_of(header, looked_up)?,
        };
        Ok(reply::attributes(&self.inode_numbers.of(attributes)).into())
    }

    fn attributes_of(&self, header: &Header, looked_up: Option<Entry>) -> Result<Attributes, Errno> {
        if let Some(file) = self.nodes.open_file(header.node) {
            return file.mount().attr(file.file()).map_err(|error| errno(&error));
        }
        let (mount, entry) = self.object_at(header, looked_up)?;
        mount.stat(&entry).map_err(|error| errno(&error))
    }

    pub(super) fn set_attributes(&self, header: &Header, set: &SetAttributes, looked_up: Option<Entry>) -> Result<Answer, Errno> {
        let file = set.handle.and_then(|handle| self.handles.file(handle).ok());
        let mut change = of_kernel(set);
        if let Some(file) = file.as_ref().filter(|_| set.size.is_some()) {
            // ftruncate(2) uses the rights of the user that opened the file.
            file.truncate(change.size.take().unwrap_or_default())?;
        }
        if change != dnfs::SetAttributes::default() {
            let (mount, entry) = self.object_at(header, looked_up)?;
            if let Some(object) = entry.object.as_ref().filter(|_| set.size.is_some() && file.is_none()) {
                // truncate(2): the server allows it to an owner regardless of the mode, because of ftruncate(2).
                mount.check_rights(object, libc::W_OK as u32).map_err(|error| errno(&error))?;
            }
            mount.set_attr(Target::Entry(&entry), &change).map_err(|error| errno(&error))?;
        }
        Ok(reply::attributes(&self.inode_numbers.of(self.attributes_of(header, None)?)).into())
    }

    /// access(2) and chdir(2). The server decides (RFC 1813 3.3.4).
    pub(super) fn access(&self, header: &Header, mask: u32, looked_up: Option<Entry>) -> Result<Answer, Errno> {
        let (mount, entry) = self.object_at(header, looked_up)?;
        let kind = mount.stat(&entry).map_err(|error| errno(&error))?.kind;
        permit(&mount, &self.nodes.handle(header.node)?, kind, mask.cast_signed())?;
        Ok(Answer::default())
    }

    pub(super) fn statistics(&self, header: &Header) -> Result<Answer, Errno> {
        let (mount, handle) = self.at(header)?;
        let space = mount.fsstat(&handle).map_err(|error| errno(&error))?;
        Ok(reply::statistics(&space).into())
    }
}

/// Checks with the server whether the caller has these rights, which are bits of access(2).
///
/// # Errors
/// EACCES.
pub(super) fn permit(mount: &Mount, handle: &dnfs::FileHandle, kind: FileKind, wanted: i32) -> Result<(), Errno> {
    let granted = mount.server_grants(handle, kind, wanted.cast_unsigned()).map_err(|error| errno(&error))?;
    if granted { Ok(()) } else { Err(Errno::ACCESS) }
}

fn of_kernel(set: &SetAttributes) -> dnfs::SetAttributes {
    let time = |time| match time {
        Time::Keep => SetTime::Keep,
        Time::Now => SetTime::Now,
        Time::To { seconds, nanoseconds } => SetTime::To(FileTime { seconds, nanoseconds }),
    };
    let (atime, mtime) = (time(set.atime), time(set.mtime));
    dnfs::SetAttributes { mode: set.mode, uid: set.uid, gid: set.gid, size: set.size, atime, mtime }
}
