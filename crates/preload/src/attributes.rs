//! Attributes: stat and its variants, access, and the state of the file system.

use crate::ffi;
use crate::hook::hooks;
use crate::mounts::{self, Mounted};
use crate::outcome::Out;
use crate::paths;
use crate::permission;
use crate::raw;
use crate::stand_ins;
use crate::table::{self, Found};
use dnfs::file::{Attributes, FileTime, SpaceUse};
use dnfs::mount::{Entry, Mount};
use dnfs::user_namespace::{group_inside, user_inside};
use libc::{c_char, c_int, c_uint, c_void, size_t, ssize_t};

/// Block size for I/O that programs see, in bytes: large enough for copies in few calls, small
/// enough for a buffer on the stack.
const BLOCK_BYTES: i64 = 128 * 1024;
/// f_type of statfs(2) for NFS.
const NFS_MAGIC: i64 = 0x6969;
/// AT_EMPTY_PATH: the call is for the descriptor itself.
const EMPTY: c_int = libc::AT_EMPTY_PATH;
/// The flags of fstatat(2); others give EINVAL.
const STAT_FLAGS: c_int =
    EMPTY | libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;

/// Attributes of an open file or directory.
pub(crate) fn of_descriptor(fd: c_int) -> Result<(&'static Mounted, Attributes), Out> {
    match table::find(fd)? {
        Found::File(file) => Ok((file.mounted, file.attr()?)),
        Found::Directory(opened) => {
            let (mount, entry) = opened.entry()?;
            Ok((opened.mounted, of_entry(mount, &entry)?))
        }
        Found::Elsewhere => Err(Out::Pass),
    }
}

/// Attributes of the object that a path names. ENOENT if there is no such object.
pub(crate) fn of_entry(mount: &Mount, entry: &Entry) -> Result<Attributes, Out> {
    if entry.object.is_none() {
        return Err(Out::Errno(libc::ENOENT));
    }
    Ok(mount.stat(entry)?)
}

fn stat_of(mounted: &Mounted, attr: &Attributes) -> libc::stat {
    // SAFETY: struct stat is plain integers; zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    stat.st_dev = mounted.device(attr.fsid);
    stat.st_ino = attr.fileid;
    stat.st_mode = attr.kind.type_bits() | attr.mode & 0o7777;
    stat.st_nlink = attr.nlink.into();
    (stat.st_uid, stat.st_gid) = (user_inside(attr.uid), group_inside(attr.gid));
    stat.st_rdev = libc::makedev(attr.rdev.major, attr.rdev.minor);
    stat.st_size = attr.size as i64;
    stat.st_blksize = BLOCK_BYTES as _;
    stat.st_blocks = attr.used.div_ceil(512) as i64;
    (stat.st_atime, stat.st_atime_nsec) = (attr.atime.seconds, attr.atime.nanoseconds.into());
    (stat.st_mtime, stat.st_mtime_nsec) = (attr.mtime.seconds, attr.mtime.nanoseconds.into());
    (stat.st_ctime, stat.st_ctime_nsec) = (attr.ctime.seconds, attr.ctime.nanoseconds.into());
    stat
}

fn statx_of(mounted: &Mounted, attr: &Attributes) -> libc::statx {
    // SAFETY: struct statx is plain integers; zero is valid.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    let time = |time: FileTime, into: &mut libc::statx_timestamp| {
        into.tv_sec = time.seconds;
        into.tv_nsec = time.nanoseconds;
    };
    answer.stx_mask = libc::STATX_BASIC_STATS;
    answer.stx_blksize = BLOCK_BYTES as u32;
    answer.stx_nlink = attr.nlink;
    (answer.stx_uid, answer.stx_gid) = (user_inside(attr.uid), group_inside(attr.gid));
    answer.stx_mode = (attr.kind.type_bits() | attr.mode & 0o7777) as u16;
    answer.stx_ino = attr.fileid;
    answer.stx_size = attr.size;
    answer.stx_blocks = attr.used.div_ceil(512);
    time(attr.atime, &mut answer.stx_atime);
    time(attr.mtime, &mut answer.stx_mtime);
    time(attr.ctime, &mut answer.stx_ctime);
    (answer.stx_rdev_major, answer.stx_rdev_minor) = (attr.rdev.major, attr.rdev.minor);
    let device = mounted.device(attr.fsid);
    (answer.stx_dev_major, answer.stx_dev_minor) = (libc::major(device), libc::minor(device));
    answer
}

/// fstatat(2) on a mount or on this host.
///
/// # Safety
/// `path` is NULL or a C string; `into` is NULL or has room for a `stat`.
unsafe fn stat_at(directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> Result<c_int, Out> {
    // SAFETY: the calls below require of `path` and `into` what the caller promises.
    unsafe {
        if flags & EMPTY != 0 && (path.is_null() || ffi::path(path)?.is_empty()) {
            return match of_descriptor(directory) {
                Ok((mounted, attr)) => ffi::put(into, stat_of(mounted, &attr)).map(|()| 0),
                Err(Out::Pass) if directory == libc::AT_FDCWD => stat_at(directory, c".".as_ptr(), into, flags & !EMPTY),
                Err(Out::Pass) => stat_elsewhere(directory, into),
                Err(out) => Err(out),
            };
        }
        paths::at(
            directory,
            path,
            flags & libc::AT_SYMLINK_NOFOLLOW == 0,
            |mounted, mount, entry| {
                if flags & !STAT_FLAGS != 0 {
                    return Err(Out::Errno(libc::EINVAL));
                }
                ffi::put(into, stat_of(mounted, &of_entry(mount, entry)?)).map(|()| 0)
            },
            |directory, path| {
                let answer = raw::fstatat(directory, path, into, flags);
                let found = ffi::take(into).filter(|found| answer == 0 && may_be_placeholder(found.st_dev, found.st_mode));
                match found.and_then(|_| opened_file(directory, path, flags)) {
                    Some((mounted, attr)) => ffi::put(into, stat_of(mounted, &attr)).map_or(-1, |()| 0),
                    None => answer,
                }
            },
        )
    }
}

/// fstat(2) of a descriptor that is not on a mount. If it is a FIFO that replaces one of a mount,
/// the attributes are the server's.
///
/// # Safety
/// `into` is NULL or has room for a `stat`.
unsafe fn stat_elsewhere(fd: c_int, into: *mut libc::stat) -> Result<c_int, Out> {
    // SAFETY: the calls below require of `into` what the caller promises.
    unsafe {
        let answer = crate::outcome::kept(raw::fstatat(fd, c"".as_ptr(), into, EMPTY))?;
        let is_fifo = |found: &libc::stat| stand_ins::may_be_fifo(found.st_dev, found.st_mode);
        match ffi::take(into).filter(is_fifo).and_then(|_| stand_ins::fifo_attributes(fd)) {
            Some((mounted, attr)) => ffi::put(into, stat_of(mounted, &attr)).map(|()| 0),
            None => Ok(answer),
        }
    }
}

/// # Safety
/// `into` is NULL or has room for a `stat`.
unsafe fn stat_fd(fd: c_int, into: *mut libc::stat) -> Result<c_int, Out> {
    // SAFETY: the calls below require of `into` what the caller promises.
    unsafe {
        match of_descriptor(fd) {
            Ok((mounted, attr)) => ffi::put(into, stat_of(mounted, &attr)).map(|()| 0),
            Err(Out::Pass) => stat_elsewhere(fd, into),
            Err(out) => Err(out),
        }
    }
}

/// # Safety
/// `path` is NULL or a C string; `into` is NULL or has room for a `statx`.
pub(crate) unsafe fn statx_at(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    into: *mut libc::statx,
) -> Result<c_int, Out> {
    // SAFETY: the calls below require of `path` and `into` what the caller promises.
    unsafe {
        if flags & EMPTY != 0 && (path.is_null() || ffi::path(path)?.is_empty()) {
            return match of_descriptor(directory) {
                Ok((mounted, attr)) => ffi::put(into, statx_of(mounted, &attr)).map(|()| 0),
                Err(Out::Pass) if directory == libc::AT_FDCWD => statx_at(directory, c".".as_ptr(), flags & !EMPTY, mask, into),
                Err(Out::Pass) => {
                    let answer = crate::outcome::kept(raw::statx(directory, path, flags, mask, into))?;
                    let is_fifo = |found: &libc::statx| {
                        let device = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
                        stand_ins::may_be_fifo(device, found.stx_mode.into())
                    };
                    match ffi::take(into).filter(is_fifo).and_then(|_| stand_ins::fifo_attributes(directory)) {
                        Some((mounted, attr)) => ffi::put(into, statx_of(mounted, &attr)).map(|()| 0),
                        None => Ok(answer),
                    }
                }
                Err(out) => Err(out),
            };
        }
        paths::at(
            directory,
            path,
            flags & libc::AT_SYMLINK_NOFOLLOW == 0,
            |mounted, mount, entry| ffi::put(into, statx_of(mounted, &of_entry(mount, entry)?)).map(|()| 0),
            |directory, path| {
                let answer = raw::statx(directory, path, flags, mask, into);
                let device = |found: &libc::statx| libc::makedev(found.stx_dev_major, found.stx_dev_minor);
                let found =
                    ffi::take(into).filter(|found| answer == 0 && may_be_placeholder(device(found), found.stx_mode.into()));
                match found.and_then(|_| opened_file(directory, path, flags)) {
                    Some((mounted, attr)) => ffi::put(into, statx_of(mounted, &attr)).map_or(-1, |()| 0),
                    None => answer,
                }
            },
        )
    }
}

/// Whether an object of this host may be the placeholder of an open file of a mount.
fn may_be_placeholder(device: u64, mode: u32) -> bool {
    mounts::is_runtime_device(device) && mode & libc::S_IFMT == libc::S_IFDIR
}

/// Attributes of the file or directory of a mount to which the kernel's name for a descriptor leads
/// (/dev/stdin, /proc/self/fd/N).
///
/// # Safety
/// `path` is NULL or a C string.
unsafe fn opened_file(directory: c_int, path: *const c_char, flags: c_int) -> Option<(&'static Mounted, Attributes)> {
    if flags & NOFOLLOW != 0 {
        return None;
    }
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe { table::attributes_at(directory, path) }
}

/// # Safety
/// `path` is NULL or a C string.
unsafe fn access_at(
    directory: c_int,
    path: *const c_char,
    wanted: c_int,
    flags: c_int,
    local: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        paths::at(
            directory,
            path,
            flags & libc::AT_SYMLINK_NOFOLLOW == 0,
            |mounted, mount, entry| {
                let unknown = wanted & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0;
                if unknown || flags & !(libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW | EMPTY) != 0 {
                    return Err(Out::Errno(libc::EINVAL));
                }
                let object = entry.object.as_ref().ok_or(Out::Errno(libc::ENOENT))?;
                permission::check_access(mounted, mount, object, wanted as u32, flags & libc::AT_EACCESS != 0).map(|()| 0)
            },
            local,
        )
    }
}

const NOFOLLOW: c_int = libc::AT_SYMLINK_NOFOLLOW;
const HERE: c_int = libc::AT_FDCWD;

hooks! {
    /// stat(2).
    fn stat(path: *const c_char, into: *mut libc::stat) -> c_int = old SYS_stat { stat_at(HERE, path, into, 0) }
    /// stat(2).
    fn stat64(path: *const c_char, into: *mut libc::stat) -> c_int { stat_at(HERE, path, into, 0) }
    /// lstat(2).
    fn lstat(path: *const c_char, into: *mut libc::stat) -> c_int = old SYS_lstat { stat_at(HERE, path, into, NOFOLLOW) }
    /// lstat(2).
    fn lstat64(path: *const c_char, into: *mut libc::stat) -> c_int { stat_at(HERE, path, into, NOFOLLOW) }
    /// fstat(2).
    fn fstat(fd: c_int, into: *mut libc::stat) -> c_int = SYS_fstat { stat_fd(fd, into) }
    /// fstat(2).
    fn fstat64(fd: c_int, into: *mut libc::stat) -> c_int { stat_fd(fd, into) }
    /// fstatat(2).
    fn fstatat(directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int = SYS_newfstatat { stat_at(directory, path, into, flags) }
    /// fstatat(2).
    fn fstatat64(directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int { stat_at(directory, path, into, flags) }
    /// stat(2) of programs built before glibc 2.33.
    fn __xstat(_version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int { stat_at(HERE, path, into, 0) }
    /// stat(2) of programs built before glibc 2.33.
    fn __xstat64(_version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int { stat_at(HERE, path, into, 0) }
    /// lstat(2) of programs built before glibc 2.33.
    fn __lxstat(_version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int { stat_at(HERE, path, into, NOFOLLOW) }
    /// lstat(2) of programs built before glibc 2.33.
    fn __lxstat64(_version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int { stat_at(HERE, path, into, NOFOLLOW) }
    /// fstat(2) of programs built before glibc 2.33.
    fn __fxstat(_version: c_int, fd: c_int, into: *mut libc::stat) -> c_int { stat_fd(fd, into) }
    /// fstat(2) of programs built before glibc 2.33.
    fn __fxstat64(_version: c_int, fd: c_int, into: *mut libc::stat) -> c_int { stat_fd(fd, into) }
    /// fstatat(2) of programs built before glibc 2.33.
    fn __fxstatat(_version: c_int, directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int { stat_at(directory, path, into, flags) }
    /// fstatat(2) of programs built before glibc 2.33.
    fn __fxstatat64(_version: c_int, directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int { stat_at(directory, path, into, flags) }
    /// statx(2).
    fn statx(directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut libc::statx) -> c_int = SYS_statx {
        statx_at(directory, path, flags, mask, into)
    }
    /// access(2).
    fn access(path: *const c_char, wanted: c_int) -> c_int = old SYS_access { access_at(HERE, path, wanted, 0, |_, path| real(path, wanted)) }
    /// faccessat(2).
    fn faccessat(directory: c_int, path: *const c_char, wanted: c_int, flags: c_int) -> c_int = SYS_faccessat {
        access_at(directory, path, wanted, flags, |directory, path| real(directory, path, wanted, flags))
    }
    /// euidaccess(3).
    fn euidaccess(path: *const c_char, wanted: c_int) -> c_int { access_at(HERE, path, wanted, libc::AT_EACCESS, |_, path| real(path, wanted)) }
    /// eaccess(3).
    fn eaccess(path: *const c_char, wanted: c_int) -> c_int { access_at(HERE, path, wanted, libc::AT_EACCESS, |_, path| real(path, wanted)) }
}

/// The mount, if the object exists; otherwise ENOENT.
fn mount_of(mount: &'static Mount, entry: &Entry) -> Result<&'static Mount, Out> {
    entry.object.as_ref().map(|_| mount).ok_or(Out::Errno(libc::ENOENT))
}

/// The mount that an open file or directory is on.
pub(crate) fn mounted_of_fd(fd: c_int) -> Result<&'static Mounted, Out> {
    match table::find(fd)? {
        Found::File(file) => Ok(file.mounted),
        Found::Directory(opened) => Ok(opened.mounted),
        Found::Elsewhere => Err(Out::Pass),
    }
}

/// Space of the file system of an existing object.
fn space_of(mount: &Mount, entry: &Entry) -> Result<SpaceUse, Out> {
    let object = entry.object.as_ref().ok_or(Out::Errno(libc::ENOENT))?;
    Ok(mount.fsstat(&object.handle)?)
}

/// Space of the file system that an open file or directory is in.
fn space_of_fd(fd: c_int) -> Result<SpaceUse, Out> {
    match table::find(fd)? {
        Found::File(file) => Ok(file.mount.fsstat(&file.mount.handle(file.file)?)?),
        Found::Directory(opened) => {
            let (mount, entry) = opened.entry()?;
            space_of(mount, &entry)
        }
        Found::Elsewhere => Err(Out::Pass),
    }
}

/// # Safety
/// `into` is NULL or has room for a `statfs`.
unsafe fn put_statfs(space: SpaceUse, into: *mut libc::statfs) -> Result<c_int, Out> {
    // SAFETY: struct statfs is plain integers; zero is valid.
    let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
    answer.f_type = NFS_MAGIC as _;
    answer.f_bsize = 4096;
    answer.f_frsize = 4096;
    answer.f_blocks = space.total_bytes / 4096;
    answer.f_bfree = space.free_bytes / 4096;
    answer.f_bavail = space.available_bytes / 4096;
    answer.f_files = space.total_files;
    answer.f_ffree = space.free_files;
    answer.f_namelen = 255;
    // SAFETY: `into` is NULL or has room for the answer by the caller's promise.
    unsafe { ffi::put(into, answer) }.map(|()| 0)
}

/// # Safety
/// `into` is NULL or has room for a `statvfs`.
unsafe fn put_statvfs(space: SpaceUse, into: *mut libc::statvfs) -> Result<c_int, Out> {
    // SAFETY: struct statvfs is plain integers; zero is valid.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    answer.f_bsize = 4096;
    answer.f_frsize = 4096;
    answer.f_blocks = space.total_bytes / 4096;
    answer.f_bfree = space.free_bytes / 4096;
    answer.f_bavail = space.available_bytes / 4096;
    answer.f_files = space.total_files;
    answer.f_ffree = space.free_files;
    answer.f_favail = space.available_files;
    answer.f_namemax = 255;
    // SAFETY: `into` is NULL or has room for the answer by the caller's promise.
    unsafe { ffi::put(into, answer) }.map(|()| 0)
}

/// pathconf(3). Where a mount has no answer of its own: that of glibc for a file system it does not know, in which -1 stands for
/// no limit. EINVAL for unknown names.
fn limit(name: c_int) -> Result<libc::c_long, Out> {
    match name {
        libc::_PC_NAME_MAX => Ok(255),
        libc::_PC_LINK_MAX => Ok(32_000),
        libc::_PC_PATH_MAX => Ok(4096),
        libc::_PC_NO_TRUNC | libc::_PC_CHOWN_RESTRICTED | libc::_PC_2_SYMLINKS => Ok(1),
        libc::_PC_FILESIZEBITS => Ok(64),
        libc::_PC_PIPE_BUF => Ok(4096),
        libc::_PC_MAX_CANON | libc::_PC_MAX_INPUT => Ok(255),
        libc::_PC_VDISABLE => Ok(0),
        libc::_PC_ASYNC_IO => Ok(1),
        libc::_PC_REC_MIN_XFER_SIZE | libc::_PC_REC_XFER_ALIGN | libc::_PC_ALLOC_SIZE_MIN => Ok(4096),
        libc::_PC_SYNC_IO
        | libc::_PC_PRIO_IO
        | libc::_PC_SOCK_MAXBUF
        | libc::_PC_REC_INCR_XFER_SIZE
        | libc::_PC_REC_MAX_XFER_SIZE
        | libc::_PC_SYMLINK_MAX => Ok(-1),
        _ => Err(Out::Errno(libc::EINVAL)),
    }
}

/// Extended attributes of a path: EOPNOTSUPP on a mount, which has no such attributes, or ENOENT if
/// there is no object.
///
/// # Safety
/// `path` is NULL or a C string.
unsafe fn no_xattr_at<R: crate::outcome::Failure + PartialEq>(
    path: *const c_char,
    follow: bool,
    local: impl FnOnce(c_int, *const c_char) -> R,
) -> Result<R, Out> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        paths::at(HERE, path, follow, |_, mount, entry| mount_of(mount, entry).and(Err(Out::Errno(libc::EOPNOTSUPP))), local)
    }
}

fn no_xattr_fd<R>(fd: c_int) -> Result<R, Out> {
    if !mounts::any() {
        return Err(Out::Pass);
    }
    mounted_of_fd(fd)?;
    Err(Out::Errno(libc::EOPNOTSUPP))
}

hooks! {
    /// statfs(2).
    fn statfs(path: *const c_char, into: *mut libc::statfs) -> c_int = SYS_statfs {
        paths::at(HERE, path, true, |_, mount, entry| put_statfs(space_of(mount, entry)?, into), |_, path| real(path, into))
    }
    /// statfs(2).
    fn statfs64(path: *const c_char, into: *mut libc::statfs) -> c_int {
        paths::at(HERE, path, true, |_, mount, entry| put_statfs(space_of(mount, entry)?, into), |_, path| real(path, into))
    }
    /// fstatfs(2).
    fn fstatfs(fd: c_int, into: *mut libc::statfs) -> c_int = SYS_fstatfs { put_statfs(space_of_fd(fd)?, into) }
    /// fstatfs(2).
    fn fstatfs64(fd: c_int, into: *mut libc::statfs) -> c_int { put_statfs(space_of_fd(fd)?, into) }
    /// statvfs(3).
    fn statvfs(path: *const c_char, into: *mut libc::statvfs) -> c_int {
        paths::at(HERE, path, true, |_, mount, entry| put_statvfs(space_of(mount, entry)?, into), |_, path| real(path, into))
    }
    /// statvfs(3).
    fn statvfs64(path: *const c_char, into: *mut libc::statvfs) -> c_int {
        paths::at(HERE, path, true, |_, mount, entry| put_statvfs(space_of(mount, entry)?, into), |_, path| real(path, into))
    }
    /// fstatvfs(3).
    fn fstatvfs(fd: c_int, into: *mut libc::statvfs) -> c_int { put_statvfs(space_of_fd(fd)?, into) }
    /// fstatvfs(3).
    fn fstatvfs64(fd: c_int, into: *mut libc::statvfs) -> c_int { put_statvfs(space_of_fd(fd)?, into) }
    /// pathconf(3).
    fn pathconf(path: *const c_char, name: c_int) -> libc::c_long {
        // These two need an object. The limits of the other names are returned for any path.
        let asks = matches!(name, libc::_PC_NAME_MAX | libc::_PC_LINK_MAX);
        paths::at(HERE, path, true, |_, mount, entry| match mount_of(mount, entry) {
            Err(none) if asks => Err(none),
            _ => limit(name),
        }, |_, path| real(path, name))
    }
    /// fpathconf(3).
    fn fpathconf(fd: c_int, name: c_int) -> libc::c_long {
        mounted_of_fd(fd)?;
        limit(name)
    }
    /// getxattr(2).
    fn getxattr(path: *const c_char, name: *const c_char, value: *mut c_void, room: size_t) -> ssize_t = SYS_getxattr {
        no_xattr_at(path, true, |_, path| real(path, name, value, room))
    }
    /// lgetxattr(2).
    fn lgetxattr(path: *const c_char, name: *const c_char, value: *mut c_void, room: size_t) -> ssize_t = SYS_lgetxattr {
        no_xattr_at(path, false, |_, path| real(path, name, value, room))
    }
    /// fgetxattr(2).
    fn fgetxattr(fd: c_int, name: *const c_char, value: *mut c_void, room: size_t) -> ssize_t = SYS_fgetxattr { no_xattr_fd(fd) }
    /// listxattr(2).
    fn listxattr(path: *const c_char, list: *mut c_char, room: size_t) -> ssize_t = SYS_listxattr {
        no_xattr_at(path, true, |_, path| real(path, list, room))
    }
    /// llistxattr(2).
    fn llistxattr(path: *const c_char, list: *mut c_char, room: size_t) -> ssize_t = SYS_llistxattr {
        no_xattr_at(path, false, |_, path| real(path, list, room))
    }
    /// flistxattr(2).
    fn flistxattr(fd: c_int, list: *mut c_char, room: size_t) -> ssize_t = SYS_flistxattr { no_xattr_fd(fd) }
    /// setxattr(2).
    fn setxattr(path: *const c_char, name: *const c_char, value: *const c_void, count: size_t, flags: c_int) -> c_int = SYS_setxattr {
        no_xattr_at(path, true, |_, path| real(path, name, value, count, flags))
    }
    /// lsetxattr(2).
    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, count: size_t, flags: c_int) -> c_int = SYS_lsetxattr {
        no_xattr_at(path, false, |_, path| real(path, name, value, count, flags))
    }
    /// fsetxattr(2).
    fn fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, count: size_t, flags: c_int) -> c_int = SYS_fsetxattr { no_xattr_fd(fd) }
    /// removexattr(2).
    fn removexattr(path: *const c_char, name: *const c_char) -> c_int = SYS_removexattr { no_xattr_at(path, true, |_, path| real(path, name)) }
    /// lremovexattr(2).
    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int = SYS_lremovexattr { no_xattr_at(path, false, |_, path| real(path, name)) }
    /// fremovexattr(2).
    fn fremovexattr(fd: c_int, name: *const c_char) -> c_int = SYS_fremovexattr { no_xattr_fd(fd) }
}
