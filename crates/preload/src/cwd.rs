//! The mirror: real directories in the runtime directory that stand for directories of a mount.
//!
//! A working directory or a directory descriptor on a mount is a real one of the kernel, in the mirror, so it lives
//! over fork and exec, and fchdir, dup and close need no help. What it stands for is its path. A path that leaks to a
//! call we do not see finds an empty directory, never a wrong file. Renames and removals on the mount are repeated in
//! the mirror, so descriptors follow a renamed directory as they do on a local file system.

use crate::messages::warn;
use crate::mounts::{self, Mounted};
use crate::outcome::Out;
use crate::raw;
use dnfs::mount::Mount;
use libc::c_int;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

const MIRROR: &[u8] = b"cwd";

/// What a path of the host stands for, if it is one of the mirror: the mount and the path below its root.
pub(crate) fn of_mirror(path: &[u8]) -> Option<(&'static Mounted, &[u8])> {
    let (mounted, rest) = mounts::below_runtime(path)?;
    let rest = rest.strip_prefix(MIRROR)?;
    match rest.first() {
        None => Some((mounted, rest)),
        Some(b'/') => Some((mounted, &rest[1..])),
        Some(_) => None,
    }
}

/// The working directory, if it is on a mount.
///
/// # Errors
/// As [`refuse_stranger`].
pub(crate) fn current(buffer: &mut [u8; libc::PATH_MAX as usize]) -> Result<Option<(&'static Mounted, &[u8])>, Out> {
    let Ok(path) = raw::getcwd(buffer) else { return Ok(None) };
    match of_mirror(path) {
        None => refuse_stranger(libc::AT_FDCWD, path).map(|()| None),
        found => Ok(found),
    }
}

/// Of an open directory of this host (AT_FDCWD: the working one), at `path`, that leads to no mount of this process.
///
/// # Errors
/// ESTALE for a directory of a mirror: one of a mount that this process has not, or has as another user. What the kernel would make there
/// is on no server. Who may not search it is left to the kernel, which refuses all.
pub(crate) fn refuse_stranger(directory: c_int, path: &[u8]) -> Result<(), Out> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let below = if mounts::is_below_root(path) { mounts::root().and_then(|root| path.strip_prefix(root)) } else { None };
    let mut parts = below.unwrap_or_default().split(|byte| *byte == b'/').skip(2);
    if parts.next() != Some(MIRROR) || !may_search(directory) {
        return Ok(());
    }
    if !TOLD.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "{} stands for a directory of a mount that this process does not reach: paths relative to it fail (ESTALE)",
            String::from_utf8_lossy(path)
        ));
    }
    Err(Out::Errno(libc::ESTALE))
}

fn may_search(directory: c_int) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a NUL-terminated name, and room for the answer, which is not read.
    unsafe { raw::fstatat(directory, c".".as_ptr(), found.as_mut_ptr(), 0) == 0 }
}

/// The mirror's path of a directory; `below` is physical, relative to the root of the mount.
pub(crate) fn mirror_path(mount: &Mount, below: &[u8]) -> Result<CString, Out> {
    let mut path = mount.runtime_dir().as_os_str().as_bytes().to_vec();
    path.push(b'/');
    path.extend_from_slice(MIRROR);
    let below = below.strip_prefix(b"/").unwrap_or(below);
    if !below.is_empty() {
        path.push(b'/');
        path.extend_from_slice(below);
    }
    CString::new(path).map_err(|_| Out::Errno(libc::EINVAL))
}

/// Makes the mirror of a directory, and all above it.
pub(crate) fn make(mount: &Mount, below: &[u8]) -> Result<CString, Out> {
    let path = mirror_path(mount, below)?;
    if raw::stat(&path, false).is_ok() {
        return Ok(path);
    }
    let bytes = path.as_bytes();
    let base = mount.runtime_dir().as_os_str().as_bytes().len();
    for end in (base + 1..=bytes.len()).filter(|end| *end == bytes.len() || bytes[*end] == b'/') {
        let part = CString::new(&bytes[..end]).map_err(|_| Out::Errno(libc::EINVAL))?;
        match raw::mkdir(&part, 0o770) {
            Ok(()) | Err(libc::EEXIST) => {}
            Err(errno) => return Err(Out::Errno(errno)),
        }
    }
    Ok(path)
}

/// Repeats the removal of a directory.
pub(crate) fn removed(mount: &Mount, below: &[u8]) {
    if let Ok(path) = mirror_path(mount, below) {
        let _ = raw::rmdir(&path);
    }
}

/// Repeats a rename of a directory.
pub(crate) fn renamed(mount: &Mount, from: &[u8], to: &[u8]) {
    let (Ok(old), Ok(new)) = (mirror_path(mount, from), mirror_path(mount, to)) else { return };
    if raw::stat(&old, false).is_err() {
        return;
    }
    let above = to.iter().rposition(|b| *b == b'/').map_or(&b""[..], |slash| &to[..slash]);
    if make(mount, above).is_ok() {
        let _ = raw::rename(&old, &new);
    }
}
