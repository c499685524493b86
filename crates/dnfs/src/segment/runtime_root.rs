//! The directory below which each export has its runtime directory, and who may use it (docs/design/012-users.md).
//!
//! The default depends on the user only, so that all processes of a user find the same directory. Root's is `/run/millrace` if
//! `/run` is in memory, since only root makes names there. That of other users is `/dev/shm/millrace-<uid>`.
//! `$XDG_RUNTIME_DIR/millrace` is used only if there is no `/dev/shm`: a service and a login shell may have different values of
//! that variable, and would then share nothing. `MILLRACE_RUNTIME_DIR` overrides the default.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::{SegmentError, local};
use super::trust::{GROUP_RIGHTS, Sharing};
use super::untrusted::{Distrust, Untrusted};
use crate::process::{RuntimeRoot, this_process};
use crate::sys::access_list::{has_default, set_default};
use crate::sys::fd::Fd;
use crate::sys::local_file::{
    CPath, Errno, change_group, change_mode, is_in_memory, mkdir, open, open_followed, rename, rmdir, stat,
};
use crate::sys::process::effective_uid;
use crate::sys::random::random;

/// The environment variable that names the directory.
pub const VARIABLE: &str = "MILLRACE_RUNTIME_DIR";

/// The directory above every [`crate::mount::Mount::runtime_dir`] of this process, as determined for its user at the first
/// call. Sends no call, and does not check whether this process may use the directory.
#[must_use]
pub fn runtime_root() -> PathBuf {
    root().path.clone()
}

/// Whether there is a runtime directory at `path`.
///
/// # Errors
/// [`SegmentError::Directory`] if it exists and this user may not trust it.
pub fn has_runtime_root(path: &Path) -> Result<bool, SegmentError> {
    match trusted(path.as_os_str().as_bytes()) {
        Ok(_) => Ok(true),
        Err(SegmentError::Local { errno: libc::ENOENT, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Creates the runtime directory at `path` if it is missing.
///
/// # Errors
/// [`SegmentError::Directory`] if this user may not trust it; the kernel's if it cannot be created.
pub fn make_runtime_root(path: &Path) -> Result<(), SegmentError> {
    sharing_of(path.as_os_str().as_bytes()).map(|_| ())
}

fn root() -> &'static RuntimeRoot {
    this_process().runtime_root.get_or_init(root_of_environment)
}

fn root_of_environment() -> RuntimeRoot {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable(VARIABLE) {
        return RuntimeRoot { path: path.components().collect(), is_named: true };
    }
    let uid = effective_uid();
    let shared = open(&CPath::new(b"/dev/shm"), libc::O_RDONLY | libc::O_DIRECTORY, 0).is_ok();
    let path = match variable("XDG_RUNTIME_DIR") {
        _ if uid == 0 && runs_in_memory() => PathBuf::from("/run/millrace"),
        Some(session) if !shared => session.join("millrace"),
        _ => PathBuf::from(format!("/dev/shm/millrace-{uid}")),
    };
    RuntimeRoot { path, is_named: false }
}

/// Whether it is the default directory of this user.
pub(crate) fn is_default_root(path: &Path) -> bool {
    !root().is_named && root().path == path
}

/// Whether `/run` is a tmpfs of root.
fn runs_in_memory() -> bool {
    let run = open_followed(&CPath::new(b"/run"), libc::O_RDONLY | libc::O_DIRECTORY, 0);
    run.is_ok_and(|run| is_in_memory(&run) && stat(&run).is_ok_and(|found| found.uid == 0))
}

/// Returns how the directory at `base` is shared. Creates it, for this user only, if it is missing. Fails unless this process
/// may trust it.
pub(crate) fn sharing_of(base: &[u8]) -> Result<Sharing, SegmentError> {
    if base.first() != Some(&b'/') {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(base));
        return Err(SegmentError::Directory(Untrusted { path, why: Distrust::Path }.into()));
    }
    match mkdir(&CPath::new(base), 0o700) {
        Ok(()) | Err(Errno(libc::EEXIST)) => trusted(base),
        Err(Errno(errno)) => {
            Err(SegmentError::NoRuntimeDirectory { path: Path::new(std::ffi::OsStr::from_bytes(base)).to_owned(), errno })
        }
    }
}

/// As [`sharing_of`], but does not create the directory.
pub(crate) fn trusted(base: &[u8]) -> Result<Sharing, SegmentError> {
    let (root, base) = (root(), Path::new(std::ffi::OsStr::from_bytes(base)));
    Sharing::of_trusted(base, root.is_named || root.path != base)
}

/// The directory that the members of a group share, `/dev/shm/millrace-group-<gid>`. Root creates it if it is missing. Refused
/// unless it belongs to the group.
///
/// # Errors
/// [`SegmentError::Directory`] if another user's directory has the name, or if it is missing and this user is not root; the
/// kernel's if it cannot be created.
pub fn group_runtime_root(gid: u32) -> Result<PathBuf, SegmentError> {
    let path = group_runtime_path(gid);
    let place = CPath::new(path.as_os_str().as_bytes());
    if matches!(open(&place, libc::O_PATH, 0), Err(Errno(libc::ENOENT))) {
        if effective_uid() != 0 {
            return Err(SegmentError::Directory(Untrusted { path, why: Distrust::GroupsMissing }.into()));
        }
        make_for_group(&place, gid).map_err(local("make the group's runtime directory"))?;
    }
    let sharing = Sharing::of_trusted(&path, true)?;
    if sharing.is_shared && sharing.group == gid {
        return Ok(path);
    }
    Err(SegmentError::Directory(Untrusted { path, why: Distrust::NotOfGroup(gid) }.into()))
}

/// The path of a group's runtime directory, which may be missing.
#[must_use]
pub fn group_runtime_path(gid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/millrace-group-{gid}"))
}

/// Creates the group's directory. It appears under its name with all rights or not at all.
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
            // Another process may have been faster.
            if matches!(errno, Errno(libc::EEXIST | libc::ENOTEMPTY | libc::EPERM)) && open(place, libc::O_PATH, 0).is_ok() {
                return Ok(());
            }
            Err(errno)
        }
        done => done,
    }
}

/// Makes what is created in a shared directory belong to all that share it, independent of their umask: by the default access
/// list of the directory above, else by its group.
pub(super) fn share_what_is_made_in(fd: &Fd) -> Result<(), Errno> {
    if !has_default(fd)? {
        set_default(fd, GROUP_RIGHTS)?;
        change_mode(fd, libc::S_ISGID | GROUP_RIGHTS)?;
    }
    Ok(())
}
