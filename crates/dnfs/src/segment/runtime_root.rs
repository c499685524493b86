//! The directory below which each export has its runtime directory, and who may use it (docs/design/012-users.md).
//!
//! `/dev/shm/millrace-<uid>` first: every process of the user finds the same, whatever its environment. Only where there
//! is no such directory, `$XDG_RUNTIME_DIR/millrace`: a service and a login shell may disagree about that variable, and
//! two segments are two hosts. `MILLRACE_RUNTIME_DIR` overrides both.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::error::{SegmentError, local};
use crate::sys::access_list::{has_default, set_default};
use crate::sys::fd::Fd;
use crate::sys::local_file::{CPath, Errno, Owner, change_group, change_mode, mkdir, open, rename, rmdir, stat};
use crate::sys::process::{effective_gid, effective_uid, groups};
use crate::sys::random::random;

/// Permissions of a directory that a group shares, and of what is made in it.
const GROUP_RIGHTS: u32 = 0o770;

/// The directory every [`crate::mount::Mount::runtime_dir`] of this process lies below: that of the user it had when it first
/// asked. Asks no server.
#[must_use]
pub fn runtime_root() -> PathBuf {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(root_of_environment).clone()
}

fn root_of_environment() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = named("MILLRACE_RUNTIME_DIR") {
        return named;
    }
    let shared = open(&CPath::new(b"/dev/shm"), libc::O_RDONLY | libc::O_DIRECTORY, 0).is_ok();
    match named("XDG_RUNTIME_DIR") {
        Some(session) if !shared => session.join("millrace"),
        _ => PathBuf::from(format!("/dev/shm/millrace-{}", effective_uid())),
    }
}

/// The directory that the members of a group share, `/dev/shm/millrace-group-<gid>`: made if missing, and refused unless it is the
/// group's.
///
/// # Errors
/// [`SegmentError::Directory`] when somebody else has the name; the kernel's, EPERM for a group this user is not in.
pub fn group_runtime_root(gid: u32) -> Result<PathBuf, SegmentError> {
    let path = PathBuf::from(format!("/dev/shm/millrace-group-{gid}"));
    let place = CPath::new(path.as_os_str().as_bytes());
    if matches!(open(&place, libc::O_RDONLY | libc::O_DIRECTORY, 0), Err(Errno(libc::ENOENT))) {
        make_for_group(&place, gid).map_err(local("make the group's runtime directory"))?;
    }
    let found = examine(&place)?;
    let is_of_group = found.gid == gid && is_shared(&found);
    if is_of_group { Ok(path) } else { Err(SegmentError::Directory("it is not of that group, or its mode is not 2770")) }
}

/// It appears under its name with all rights, or not at all.
fn make_for_group(place: &CPath, gid: u32) -> Result<(), Errno> {
    let fresh = CPath::new(format!("/dev/shm/.millrace-group-{gid}.{:016x}", random()).as_bytes());
    mkdir(&fresh, 0o700)?;
    let made = open(&fresh, libc::O_RDONLY | libc::O_DIRECTORY, 0).and_then(|fd| {
        change_group(&fd, gid)?;
        set_default(&fd, GROUP_RIGHTS)?;
        change_mode(&fd, libc::S_ISGID | GROUP_RIGHTS)
    });
    match made.and_then(|()| rename(&fresh, place)) {
        Err(errno) => {
            let _ = rmdir(&fresh);
            // Somebody was faster, if that is why.
            if matches!(errno, Errno(libc::EEXIST | libc::ENOTEMPTY | libc::EPERM)) && open(place, libc::O_PATH, 0).is_ok() {
                return Ok(());
            }
            Err(errno)
        }
        done => done,
    }
}

/// Whose directory it is, and whether others may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// Its owner's uid, which is part of the identity of what lies below.
    pub(crate) owner: u32,
    /// Others than its owner may use it.
    pub(crate) is_shared: bool,
}

impl Sharing {
    /// Of the directory at `base`, made if missing for this user alone; refused unless this process may trust it.
    pub(crate) fn of(base: &[u8]) -> Result<Self, SegmentError> {
        let path = CPath::new(base);
        match mkdir(&path, 0o700) {
            Ok(()) | Err(Errno(libc::EEXIST)) => {}
            Err(errno) => return Err(local("make the runtime directory")(errno)),
        }
        let found = examine(&path)?;
        let me = effective_uid();
        let is_member = found.uid == me || me == 0 || found.gid == effective_gid() || groups().contains(&found.gid);
        match (is_shared(&found), found.mode & 0o077) {
            (true, _) if is_member => Ok(Self { owner: found.uid, is_shared: true }),
            (false, 0) if found.uid == me => Ok(Self { owner: me, is_shared: false }),
            (false, 1..) => {
                Err(SegmentError::Directory("others may enter it: its mode must be 0700, or 2770 for the users of a group"))
            }
            _ => Err(SegmentError::Directory(OF_ANOTHER)),
        }
    }

    /// Of the directory at `base` if it is there, as anybody sees it.
    pub(crate) fn seen(base: &Path) -> Option<Self> {
        let found = examine(&CPath::new(base.as_os_str().as_bytes())).ok()?;
        Some(Self { owner: found.uid, is_shared: is_shared(&found) })
    }
}

/// Why a user may not use a directory; the hint of the error names what helps.
pub(crate) const OF_ANOTHER: &str = "it belongs to another user";

/// The group may do everything, others nothing.
const fn is_shared(found: &Owner) -> bool {
    found.mode & 0o7777 == libc::S_ISGID | GROUP_RIGHTS
}

fn examine(path: &CPath) -> Result<Owner, SegmentError> {
    let found = open(path, libc::O_RDONLY | libc::O_DIRECTORY, 0).and_then(|fd| stat(&fd));
    found.map_err(|errno| match errno {
        Errno(libc::EACCES) => SegmentError::Directory(OF_ANOTHER),
        other => local("open the runtime directory")(other),
    })
}

/// Has what is made in a shared directory belong to all who share it, whatever their umask: what the directory above says, else
/// its group.
pub(super) fn share_what_is_made_in(fd: &Fd) -> Result<(), Errno> {
    if !has_default(fd)? {
        set_default(fd, GROUP_RIGHTS)?;
        change_mode(fd, libc::S_ISGID | GROUP_RIGHTS)?;
    }
    Ok(())
}
