//! Permission as the mode bits say; the server has the last word on every call.

use crate::outcome::Out;
use crate::raw;
use dnfs::file::{Attributes, FileKind};
use libc::c_int;

/// Groups of AUTH_SYS that we look at.
const GROUPS_MAX: usize = 64;

/// Whether the process may do `wanted` (R_OK, W_OK, X_OK), as its effective or real user.
///
/// # Errors
/// EACCES.
pub(crate) fn check(attr: &Attributes, wanted: c_int, effective: bool) -> Result<(), Out> {
    let (uid, gid) = if effective { (raw::geteuid(), raw::getegid()) } else { (raw::getuid(), raw::getgid()) };
    let wanted = wanted as u32 & 7;
    if uid == 0 {
        // Root may all, but execute only what somebody may execute.
        let executable = attr.kind == FileKind::Directory || attr.mode & 0o111 != 0;
        return if wanted & 1 == 0 || executable { Ok(()) } else { Err(Out::Errno(libc::EACCES)) };
    }
    let mut groups = [0u32; GROUPS_MAX];
    let shift = if uid == attr.uid {
        6
    } else if gid == attr.gid || raw::getgroups(&mut groups).contains(&attr.gid) {
        3
    } else {
        0
    };
    if attr.mode >> shift & wanted == wanted { Ok(()) } else { Err(Out::Errno(libc::EACCES)) }
}
