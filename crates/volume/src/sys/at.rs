//! Calls that make, move and change names and attributes, relative to directory descriptors.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::io::RawTime;
use super::{c_name, checked, checked_len};

/// Opens a path the operator named (the served directory, the state directory).
pub(crate) fn open_path(path: &Path, flags: libc::c_int, mode: u32) -> io::Result<OwnedFd> {
    let path = c_name(path.as_os_str().as_bytes())?;
    // SAFETY: `path` is NUL-terminated and lives over the call.
    let fd = checked(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode) })?;
    // SAFETY: the kernel just gave us `fd`; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens `name` in `dir`; never follows a link at the end, never waits for a pipe's other side.
pub(crate) fn open_at(dir: impl AsFd, name: &[u8], flags: libc::c_int, mode: u32) -> io::Result<OwnedFd> {
    let name = c_name(name)?;
    let flags = flags | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    // SAFETY: `name` is NUL-terminated and lives over the call; `dir` is borrowed open.
    let fd = checked(unsafe { libc::openat(dir.as_fd().as_raw_fd(), name.as_ptr(), flags, mode) })?;
    // SAFETY: the kernel just gave us `fd`; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a directory.
pub(crate) fn mkdir_at(dir: impl AsFd, name: &[u8], mode: u32) -> io::Result<()> {
    let name = c_name(name)?;
    // SAFETY: `name` is NUL-terminated; `dir` is borrowed open.
    checked(unsafe { libc::mkdirat(dir.as_fd().as_raw_fd(), name.as_ptr(), mode) })?;
    Ok(())
}

/// Makes a pipe, socket or device node; `mode` has the type bits.
pub(crate) fn mknod_at(dir: impl AsFd, name: &[u8], mode: u32, rdev: (u32, u32)) -> io::Result<()> {
    let name = c_name(name)?;
    let device = libc::makedev(rdev.0, rdev.1);
    // SAFETY: `name` is NUL-terminated; `dir` is borrowed open.
    checked(unsafe { libc::mknodat(dir.as_fd().as_raw_fd(), name.as_ptr(), mode, device) })?;
    Ok(())
}

/// Makes a symbolic link.
pub(crate) fn symlink_at(target: &[u8], dir: impl AsFd, name: &[u8]) -> io::Result<()> {
    let (target, name) = (c_name(target)?, c_name(name)?);
    // SAFETY: both strings are NUL-terminated; `dir` is borrowed open.
    checked(unsafe { libc::symlinkat(target.as_ptr(), dir.as_fd().as_raw_fd(), name.as_ptr()) })?;
    Ok(())
}

/// Removes a name; `directory` says whether it must be an (empty) directory.
pub(crate) fn unlink_at(dir: impl AsFd, name: &[u8], directory: bool) -> io::Result<()> {
    let name = c_name(name)?;
    let flags = if directory { libc::AT_REMOVEDIR } else { 0 };
    // SAFETY: `name` is NUL-terminated; `dir` is borrowed open.
    checked(unsafe { libc::unlinkat(dir.as_fd().as_raw_fd(), name.as_ptr(), flags) })?;
    Ok(())
}

/// Moves a name, over an existing one where the host allows.
pub(crate) fn rename_at(from_dir: impl AsFd, from: &[u8], to_dir: impl AsFd, to: &[u8]) -> io::Result<()> {
    let (from, to) = (c_name(from)?, c_name(to)?);
    // SAFETY: both names are NUL-terminated; both directories are borrowed open.
    checked(unsafe { libc::renameat(from_dir.as_fd().as_raw_fd(), from.as_ptr(), to_dir.as_fd().as_raw_fd(), to.as_ptr()) })?;
    Ok(())
}

/// Gives the object at a name one more name.
pub(crate) fn link_at(from_dir: impl AsFd, from: &[u8], to_dir: impl AsFd, to: &[u8]) -> io::Result<()> {
    let (from, to) = (c_name(from)?, c_name(to)?);
    // SAFETY: both names are NUL-terminated; both directories are borrowed open.
    checked(unsafe { libc::linkat(from_dir.as_fd().as_raw_fd(), from.as_ptr(), to_dir.as_fd().as_raw_fd(), to.as_ptr(), 0) })?;
    Ok(())
}

/// Gives an open object a name. Tries the descriptor itself, then its name under /proc, which needs no
/// privilege.
pub(crate) fn link_descriptor(fd: impl AsFd, dir: impl AsFd, name: &[u8]) -> io::Result<()> {
    let name = c_name(name)?;
    let raw = fd.as_fd().as_raw_fd();
    let dir = dir.as_fd().as_raw_fd();
    // SAFETY: both strings are NUL-terminated; both descriptors are borrowed open.
    match checked(unsafe { libc::linkat(raw, c"".as_ptr(), dir, name.as_ptr(), libc::AT_EMPTY_PATH) }) {
        // ENOENT: not allowed by this kernel without privilege.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EPERM | libc::EINVAL)) => {}
        other => return other.map(drop),
    }
    let link = proc_path(raw)?;
    // SAFETY: both strings are NUL-terminated; `dir` is borrowed open.
    checked(unsafe { libc::linkat(libc::AT_FDCWD, link.as_ptr(), dir, name.as_ptr(), libc::AT_SYMLINK_FOLLOW) })?;
    Ok(())
}

/// Target of a symbolic link opened with O_PATH, into `buf`; bytes put there.
pub(crate) fn read_link(fd: impl AsFd, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable for its length; the empty path names the descriptor itself.
    checked_len(unsafe { libc::readlinkat(fd.as_fd().as_raw_fd(), c"".as_ptr(), buf.as_mut_ptr().cast(), buf.len()) })
}

/// Sets owner and group of any open object, O_PATH too; `None` leaves one.
pub(crate) fn chown(fd: impl AsFd, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
    // SAFETY: the empty path names the descriptor itself, which is borrowed open.
    checked(unsafe { libc::fchownat(fd.as_fd().as_raw_fd(), c"".as_ptr(), uid, gid, libc::AT_EMPTY_PATH) })?;
    Ok(())
}

/// Sets the mode of a really open (not O_PATH) object.
pub(crate) fn set_mode(fd: impl AsFd, mode: u32) -> io::Result<()> {
    // SAFETY: a plain call on a borrowed open descriptor.
    checked(unsafe { libc::fchmod(fd.as_fd().as_raw_fd(), mode) })?;
    Ok(())
}

/// Sets the mode of an O_PATH descriptor that is not a symbolic link, by its name under /proc.
pub(crate) fn proc_chmod(fd: impl AsFd, mode: u32) -> io::Result<()> {
    let path = proc_path(fd.as_fd().as_raw_fd())?;
    // SAFETY: `path` is NUL-terminated.
    checked(unsafe { libc::chmod(path.as_ptr(), mode) })?;
    Ok(())
}

/// Sets access and modification time of any open object, O_PATH too.
pub(crate) fn set_times(fd: impl AsFd, atime: RawTime, mtime: RawTime) -> io::Result<()> {
    let times = [atime.to_timespec(), mtime.to_timespec()];
    // SAFETY: two timespecs as the call wants; the empty path names the borrowed open descriptor.
    checked(unsafe { libc::utimensat(fd.as_fd().as_raw_fd(), c"".as_ptr(), times.as_ptr(), libc::AT_EMPTY_PATH) })?;
    Ok(())
}

/// Cuts or extends a file opened for writing.
pub(crate) fn truncate(fd: impl AsFd, size: u64) -> io::Result<()> {
    let size = i64::try_from(size).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: a plain call on a borrowed open descriptor.
    checked(unsafe { libc::ftruncate64(fd.as_fd().as_raw_fd(), size) })?;
    Ok(())
}

fn proc_path(fd: libc::c_int) -> io::Result<CString> {
    c_name(format!("/proc/self/fd/{fd}").as_bytes())
}
