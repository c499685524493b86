//! Checks the rights for a call before the call has any effect: by the mode bits, then by the
//! server (`Mount::check_rights`).

use crate::credentials;
use crate::mounts::Mounted;
use crate::outcome::Out;
use crate::raw;
use dnfs::Credentials;
use dnfs::mount::{Mount, Object};
use dnfs::user_namespace::{group_outside, user_outside};
use libc::c_int;

/// Rights that open(2) needs with these flags, as bits of access(2).
pub(crate) const fn of_open(flags: c_int) -> u32 {
    let rights = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => libc::R_OK,
        libc::O_WRONLY => libc::W_OK,
        _ => libc::R_OK | libc::W_OK,
    };
    (if flags & libc::O_TRUNC == 0 { rights } else { rights | libc::W_OK }) as u32
}

/// access(2): checks the rights `wanted` for the process' effective or real user.
///
/// # Errors
/// EACCES, and the errors of ACCESS.
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

/// Whether the host's rule allows the process to give a file another name ([`Mount::check_link`]).
///
/// # Errors
/// EPERM if not.
pub(crate) fn check_link(mount: &Mount, object: &Object) -> Result<(), Out> {
    let uid = raw::geteuid();
    Ok(mount.check_link(object, user_outside(uid).unwrap_or(uid))?)
}
