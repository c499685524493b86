//! Permission of calls that look for it before they do anything: by the mode bits, then by the server (`Mount::check_rights`).

use crate::credentials;
use crate::mounts::Mounted;
use crate::outcome::Out;
use crate::raw;
use dnfs::Credentials;
use dnfs::file::FileKind;
use dnfs::mount::{Mount, Object};
use dnfs::user_namespace::{group_outside, user_outside};
use libc::c_int;

/// A program with these bits runs as the file's group.
const SET_GROUP_ID_RUN: u32 = libc::S_ISGID | libc::S_IXGRP;

/// Rights that open(2) needs with these flags, as bits of access(2).
pub(crate) const fn of_open(flags: c_int) -> u32 {
    let rights = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => libc::R_OK,
        libc::O_WRONLY => libc::W_OK,
        _ => libc::R_OK | libc::W_OK,
    };
    (if flags & libc::O_TRUNC == 0 { rights } else { rights | libc::W_OK }) as u32
}

/// access(2): whether the process may do `wanted` as its effective, else as its real user.
///
/// # Errors
/// EACCES, and what keeps the server from being asked.
pub(crate) fn check_access(
    mounted: &'static Mounted,
    mount: &Mount,
    object: &Object,
    wanted: u32,
    effective: bool,
) -> Result<(), Out> {
    let (uid, gid) = (raw::getuid(), raw::getgid());
    if effective || (uid, gid) == (raw::geteuid(), raw::getegid()) {
        return Ok(mount.check_rights(object, wanted)?);
    }
    let (uid, gid) = (user_outside(uid).unwrap_or(uid), group_outside(gid).unwrap_or(gid));
    let real = credentials::number_of(&Credentials { uid, gid, ..Credentials::of_process() }).ok_or(Out::Errno(libc::EACCES))?;
    Ok(mounted.attach_as(real)?.check_rights(object, wanted)?)
}

/// Whether the process may give a file another name: a kernel client asks the host's own rule before the server
/// (`fs.protected_hardlinks`, proc_sys_fs(5)), so that nobody gets hold of another user's file by a link.
///
/// # Errors
/// EPERM.
pub(crate) fn check_link(mount: &Mount, object: &Object) -> Result<(), Out> {
    let (uid, attr) = (raw::geteuid(), &object.attr);
    let uid = user_outside(uid).unwrap_or(uid);
    if uid == 0 || uid == attr.uid || !hard_links_are_protected() {
        return Ok(());
    }
    let set_group_id = attr.mode & SET_GROUP_ID_RUN == SET_GROUP_ID_RUN;
    let harmless = attr.kind == FileKind::Regular && attr.mode & libc::S_ISUID == 0 && !set_group_id;
    let both = (libc::R_OK | libc::W_OK) as u32;
    if harmless && mount.check_rights(object, both).is_ok() { Ok(()) } else { Err(Out::Errno(libc::EPERM)) }
}

/// What the host is set to; protected where it does not say.
fn hard_links_are_protected() -> bool {
    let Ok(fd) = raw::open(c"/proc/sys/fs/protected_hardlinks", libc::O_RDONLY | libc::O_CLOEXEC, 0) else { return true };
    let mut digit = [0];
    let read = raw::read(fd, &mut digit);
    let _ = raw::close(fd);
    read.is_err() || digit != *b"0"
}
