//! Calls that make, remove and rename objects and set their attributes, relative to directory descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dev, FileType, Gid, Mode, OFlags, RawMode, Uid};
use rustix::fs::{
    chmodat, chownat, fchmod, ftruncate, linkat, mkdirat, mknodat, openat, renameat, symlinkat, unlinkat, utimensat,
};
use rustix::fs::{makedev, readlinkat_raw};
use rustix::io::Errno;

use super::credentials::{clear_set_id_on_write, keeping_set_id};
use super::io::RawTime;
use crate::descriptor_budget::opening;

/// Opens a path that the operator named (the served directory, the state directory).
pub(crate) fn open_path(path: &Path, flags: libc::c_int, mode: u32) -> io::Result<OwnedFd> {
    opening(|| openat(CWD, path, open_flags(flags), permissions(mode)))
}

/// Opens `name` in `dir`. Does not follow a link, and does not wait for the other end of a pipe.
pub(crate) fn open_at(dir: impl AsFd, name: &[u8], flags: libc::c_int, mode: u32) -> io::Result<OwnedFd> {
    opening(|| openat(&dir, name, open_flags(flags) | OFlags::NOFOLLOW | OFlags::NONBLOCK, permissions(mode)))
}

/// Converts O_* bits, some of which rustix does not name.
fn open_flags(flags: libc::c_int) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC
}

/// The low 12 bits of a mode.
fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode)
}

/// Makes a directory.
pub(crate) fn mkdir_at(dir: impl AsFd, name: &[u8], mode: u32) -> io::Result<()> {
    Ok(mkdirat(dir, name, permissions(mode))?)
}

/// Makes a pipe, socket or device node; `mode` has the type bits.
pub(crate) fn mknod_at(dir: impl AsFd, name: &[u8], mode: u32, rdev: (u32, u32)) -> io::Result<()> {
    let device: Dev = makedev(rdev.0, rdev.1);
    Ok(mknodat(dir, name, FileType::from_raw_mode(mode as RawMode), permissions(mode), device)?)
}

/// Makes a symbolic link.
pub(crate) fn symlink_at(target: &[u8], dir: impl AsFd, name: &[u8]) -> io::Result<()> {
    Ok(symlinkat(target, dir, name)?)
}

/// Removes a name; `directory` says whether it must be an (empty) directory.
pub(crate) fn unlink_at(dir: impl AsFd, name: &[u8], directory: bool) -> io::Result<()> {
    Ok(unlinkat(dir, name, if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() })?)
}

/// Renames, over an existing name if the host allows it.
pub(crate) fn rename_at(from_dir: impl AsFd, from: &[u8], to_dir: impl AsFd, to: &[u8]) -> io::Result<()> {
    Ok(renameat(from_dir, from, to_dir, to)?)
}

/// Adds a name to the object of a name.
pub(crate) fn link_at(from_dir: impl AsFd, from: &[u8], to_dir: impl AsFd, to: &[u8]) -> io::Result<()> {
    Ok(linkat(from_dir, from, to_dir, to, AtFlags::empty())?)
}

/// Adds a name to an open object. Tries the descriptor itself, then its path under /proc, which needs no
/// privilege.
pub(crate) fn link_descriptor(fd: impl AsFd, dir: impl AsFd, name: &[u8]) -> io::Result<()> {
    match linkat(&fd, c"", &dir, name, AtFlags::EMPTY_PATH).map_err(io::Error::from) {
        // ENOENT: this kernel does not allow it without privilege.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EPERM | libc::EINVAL)) => {}
        other => return other,
    }
    Ok(linkat(CWD, proc_path(fd), dir, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Reads the target of a symbolic link that is open with O_PATH into `buf`. Returns the number of bytes.
pub(crate) fn read_link(fd: impl AsFd, buf: &mut [u8]) -> io::Result<usize> {
    Ok(readlinkat_raw(fd, c"", buf)?)
}

/// Sets owner and group of any open object, also with O_PATH. `None` leaves one as it is. Clears set-id bits of an object that is
/// not a directory, also if both are `None`.
pub(crate) fn chown(fd: impl AsFd, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    clear_set_id_on_write();
    if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
        return Err(Errno::INVAL.into()); // to the kernel this id means "leave it as it is"
    }
    Ok(chownat(fd, c"", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)?)
}

/// Sets the mode of an open object. Does not work with O_PATH.
pub(crate) fn set_mode(fd: impl AsFd, mode: u32) -> io::Result<()> {
    Ok(with_mode(mode, || fchmod(fd, permissions(mode)))?)
}

/// Sets the mode of an object that is open with O_PATH and is not a symbolic link, by its path under /proc.
pub(crate) fn proc_chmod(fd: impl AsFd, mode: u32) -> io::Result<()> {
    Ok(with_mode(mode, || chmodat(CWD, proc_path(fd), permissions(mode), AtFlags::empty()))?)
}

/// Calls `set` so that the host keeps the set-group-id bit. The caller has checked whether it may be set.
fn with_mode<T>(mode: u32, set: impl FnOnce() -> T) -> T {
    if mode & libc::S_ISGID == 0 { set() } else { keeping_set_id(set) }
}

/// Sets access and modification time of any open object, also with O_PATH.
pub(crate) fn set_times(fd: impl AsFd, atime: RawTime, mtime: RawTime) -> io::Result<()> {
    let times = rustix::fs::Timestamps { last_access: atime.to_timespec(), last_modification: mtime.to_timespec() };
    Ok(utimensat(fd, c"", &times, AtFlags::EMPTY_PATH)?)
}

/// Sets the size of a file that is open for writing.
pub(crate) fn truncate(fd: impl AsFd, size: u64) -> io::Result<()> {
    if i64::try_from(size).is_err() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    clear_set_id_on_write();
    Ok(ftruncate(fd, size)?)
}

pub(super) fn proc_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}
