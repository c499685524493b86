//! Placeholders of directories. For the kernel, a program's descriptor of a directory, or its
//! working directory, is a placeholder.
//!
//! A placeholder is a directory in memory that is removed when it is open, as is its parent. In a
//! removed directory the kernel creates nothing, not even for root. So programs without this
//! library (statically linked ones), core dumps and `/proc/self/cwd/x` get ENOENT. Only root may
//! search the parent: `../..` is EACCES for other users, and the runtime directory for root. Each
//! open has a placeholder of its own.

use crate::mounts::{self, DIRECTORY_PLACEHOLDER_MODE as MODE};
use crate::outcome::{Errno, Out};
use crate::raw;
use crate::umask::masked;
use dnfs::mount::{DirectoryPlaceholder, Mount};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;

/// Whether a file may be a placeholder of a directory.
#[inline]
pub(crate) fn may_be(stat: &libc::stat) -> bool {
    stat.st_nlink == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFDIR && mounts::is_runtime_device(stat.st_dev)
}

/// The identity of a placeholder.
pub(crate) fn of_stat(stat: &libc::stat) -> DirectoryPlaceholder {
    DirectoryPlaceholder::new(stat.st_ino, stat.st_mtime, stat.st_mtime_nsec)
}

/// Creates a placeholder, calls `use_it` with its path, and removes the placeholder.
///
/// # Errors
/// The errors of creating it, and of `use_it`.
pub(crate) fn with<R>(mount: &Mount, use_it: impl FnOnce(&CStr) -> Result<R, Errno>) -> Result<(R, DirectoryPlaceholder), Out> {
    let above = [mount.runtime_dir().as_os_str().as_bytes(), format!("/d/{:016x}", raw::random()).as_bytes()].concat();
    let path = |bytes: &[u8]| CString::new(bytes).map_err(|_| Out::Errno(libc::EINVAL));
    let (above, placeholder) = (path(&above)?, path(&[&above[..], b"/d"].concat())?);
    let make_both = || {
        raw::mkdir(&above, 0o700).map_err(mounts::failed_in_runtime)?;
        make(&placeholder).map_err(|errno| {
            let _ = raw::rmdir(&placeholder);
            let _ = raw::rmdir(&above);
            Out::Errno(errno)
        })
    };
    let made = match make_both() {
        Err(Out::Errno(libc::ENOSPC)) if mount.make_room() => make_both()?,
        made => made?,
    };
    let used = use_it(&placeholder).map(|used| (used, made));
    let _ = raw::rmdir(&placeholder);
    let _ = raw::chmod(&above, 0);
    let _ = raw::rmdir(&above);
    Ok(used?)
}

fn make(path: &CStr) -> Result<DirectoryPlaceholder, Errno> {
    raw::mkdir(path, MODE)?;
    if masked(MODE) != MODE {
        raw::chmod(path, MODE)?;
    }
    raw::stat(path, false).map(|stat| of_stat(&stat))
}
