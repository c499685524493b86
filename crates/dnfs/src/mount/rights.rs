//! The rights of the caller. The server checks each call, but open(2), access(2) and other system calls need the rights before
//! that. The client grants what the mode bits grant without a call. If they deny it, the client asks the server by ACCESS (RFC
//! 1813 3.3.4): the server may map users, have access control lists, or know more than 16 groups of a user.

use super::{Mount, Object, OpenHow};
use crate::error::Error;
use crate::file::{AccessRights, Attributes, FileHandle, FileKind, FsError};
use crate::sys::local_file::{open_array, read};

const READ: u32 = libc::R_OK as u32;
const WRITE: u32 = libc::W_OK as u32;
const EXECUTE: u32 = libc::X_OK as u32;
/// A program with these bits runs with the file's group.
const SET_GROUP_ID_RUN: u32 = libc::S_ISGID | libc::S_IXGRP;

impl Mount {
    /// Checks that the caller has the rights `wanted`, bits of access(2): R_OK, W_OK, X_OK. X_OK is the right to search a
    /// directory.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`], and the server's refusal to answer.
    pub fn check_rights(&self, object: &Object, wanted: u32) -> Result<(), Error> {
        let granted = self.mode_grants(&object.attr, wanted) || self.server_grants(&object.handle, object.attr.kind, wanted)?;
        if granted { Ok(()) } else { Err(Error::Fs(FsError::AccessDenied)) }
    }

    /// Whether the server grants the caller all of `wanted`, bits of access(2).
    ///
    /// # Errors
    /// The server's refusal to answer.
    pub fn server_grants(&self, handle: &FileHandle, kind: FileKind, wanted: u32) -> Result<bool, Error> {
        let change = AccessRights::MODIFY | AccessRights::EXTEND;
        let execute = if kind == FileKind::Directory { AccessRights::LOOKUP } else { AccessRights::EXECUTE };
        let rights = [(READ, AccessRights::READ), (WRITE, change), (EXECUTE, execute)];
        let rights = || rights.into_iter().filter(|(bit, _)| wanted & bit != 0).map(|(_, rights)| rights);
        let granted = self.client.access(handle, rights().fold(AccessRights::NONE, |all, rights| all | rights))?;
        Ok(rights().all(|rights| granted.has_any(rights)))
    }

    /// Refuses a hard link that the kernel would refuse on a local file system (`fs.protected_hardlinks`, proc_sys_fs(5)), so
    /// that no user keeps another user's file by a link. `uid` is the caller's user ID on this host.
    ///
    /// # Errors
    /// [`FsError::NotOwner`].
    pub fn check_link(&self, object: &Object, uid: u32) -> Result<(), Error> {
        let attr = &object.attr;
        if uid == 0 || uid == attr.uid || !hard_links_are_protected() {
            return Ok(());
        }
        let set_group_id = attr.mode & SET_GROUP_ID_RUN == SET_GROUP_ID_RUN;
        let harmless = attr.kind == FileKind::Regular && attr.mode & libc::S_ISUID == 0 && !set_group_id;
        let may = harmless && self.check_rights(object, READ | WRITE).is_ok();
        if may { Ok(()) } else { Err(Error::Fs(FsError::NotOwner)) }
    }

    /// Whether the server lets the caller add and remove names in a directory.
    ///
    /// # Errors
    /// The server's refusal to answer.
    pub fn may_change_names(&self, directory: &FileHandle) -> Result<bool, Error> {
        self.server_grants(directory, FileKind::Directory, WRITE)
    }

    /// Checks the rights of open(2) for an existing file. NFSv3 has no open, so a server lets the owner read and write
    /// regardless of the mode.
    pub(super) fn check_open(&self, object: &Object, how: &OpenHow) -> Result<(), Error> {
        let wanted = if how.read { READ } else { 0 } | if how.write || how.truncate { WRITE } else { 0 };
        self.check_rights(object, wanted)
    }

    /// Whether the mode grants all of `wanted`. The server may map root to another user, so root gets only the rights of others.
    fn mode_grants(&self, attr: &Attributes, wanted: u32) -> bool {
        let bits = if self.who.uid == 0 {
            attr.mode & 0o7
        } else if attr.uid == self.who.uid {
            attr.mode >> 6 & 0o7
        } else if attr.gid == self.who.gid || self.who.groups.as_slice().contains(&attr.gid) {
            attr.mode >> 3 & 0o7
        } else {
            attr.mode & 0o7
        };
        bits & wanted == wanted
    }
}

/// Whether the host protects hard links. True if the setting cannot be read.
fn hard_links_are_protected() -> bool {
    let mut digit = [0];
    let read = open_array(b"/proc/sys/fs/protected_hardlinks\0", libc::O_RDONLY, 0).and_then(|file| read(&file, &mut digit));
    read != Ok(1) || digit != *b"0"
}
