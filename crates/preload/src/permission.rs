//! Permission as the mode bits say; the server has the last word on every call.

use crate::outcome::Out;
use crate::raw;
use dnfs::file::{Attributes, FileKind};
use dnfs::user_namespace::{group_inside, group_outside, user_outside};
use libc::c_int;

/// Groups of AUTH_SYS that we look at.
const GROUPS_MAX: usize = 64;
/// A program with these bits runs as the file's group.
const SET_GROUP_ID_RUN: u32 = libc::S_ISGID | libc::S_IXGRP;

/// Whether the process may do `wanted` (R_OK, W_OK, X_OK), as its effective or real user.
///
/// # Errors
/// EACCES.
pub(crate) fn check(attr: &Attributes, wanted: c_int, effective: bool) -> Result<(), Out> {
    let (uid, gid) = if effective { (raw::geteuid(), raw::getegid()) } else { (raw::getuid(), raw::getgid()) };
    let (uid, gid) = (user_outside(uid).unwrap_or(uid), group_outside(gid).unwrap_or(gid));
    let wanted = wanted as u32 & 7;
    if uid == 0 {
        // Root may all, but execute only what somebody may execute.
        let executable = attr.kind == FileKind::Directory || attr.mode & 0o111 != 0;
        return if wanted & 1 == 0 || executable { Ok(()) } else { Err(Out::Errno(libc::EACCES)) };
    }
    let mut groups = [0u32; GROUPS_MAX];
    let shift = if uid == attr.uid {
        6
    } else if gid == attr.gid || raw::getgroups(&mut groups).contains(&group_inside(attr.gid)) {
        3
    } else {
        0
    };
    if attr.mode >> shift & wanted == wanted { Ok(()) } else { Err(Out::Errno(libc::EACCES)) }
}

/// Whether the process may give a file of this kind another name: a kernel client asks the host's own rule before the server
/// (`fs.protected_hardlinks`, proc_sys_fs(5)), so that nobody gets hold of another user's file by a link.
///
/// # Errors
/// EPERM.
pub(crate) fn check_link(attr: &Attributes) -> Result<(), Out> {
    let uid = raw::geteuid();
    let uid = user_outside(uid).unwrap_or(uid);
    if uid == 0 || uid == attr.uid || !hard_links_are_protected() {
        return Ok(());
    }
    let set_group_id = attr.mode & SET_GROUP_ID_RUN == SET_GROUP_ID_RUN;
    let harmless = attr.kind == FileKind::Regular && attr.mode & libc::S_ISUID == 0 && !set_group_id;
    if harmless && check(attr, libc::R_OK | libc::W_OK, true).is_ok() { Ok(()) } else { Err(Out::Errno(libc::EPERM)) }
}

/// What the host is set to; protected where it does not say.
fn hard_links_are_protected() -> bool {
    let Ok(fd) = raw::open(c"/proc/sys/fs/protected_hardlinks", libc::O_RDONLY | libc::O_CLOEXEC, 0) else { return true };
    let mut digit = [0];
    let read = raw::read(fd, &mut digit);
    let _ = raw::close(fd);
    read.is_err() || digit != *b"0"
}
