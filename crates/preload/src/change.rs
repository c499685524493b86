//! Changes attributes: modes, owners, times and lengths.

use crate::ffi;
use crate::file_size_limit;
use crate::hook::hooks;
use crate::mounts;
use crate::outcome::Out;
use crate::paths;
use crate::raw;
use crate::stand_ins;
use crate::table::{self, Found};
use dnfs::file::{FileKind, FileTime, SetAttributes, SetTime};
use dnfs::mount::{Entry, Mount, Target};
use dnfs::user_namespace::{group_outside, user_outside};
use libc::{c_char, c_int, gid_t, mode_t, off_t, timespec, timeval, uid_t, utimbuf};

const HERE: c_int = libc::AT_FDCWD;

fn set_entry(mount: &Mount, entry: &Entry, change: &SetAttributes) -> Result<c_int, Out> {
    if entry.object.is_none() {
        return Err(Out::Errno(libc::ENOENT));
    }
    mount.set_attr(Target::Entry(entry), change)?;
    Ok(0)
}

/// Changes the mode of the object without following a link. EOPNOTSUPP for a symbolic link, whose
/// mode cannot change.
fn set_own_mode(mount: &Mount, entry: &Entry, mode: mode_t) -> Result<c_int, Out> {
    if entry.object.as_ref().is_some_and(|object| object.attr.kind == FileKind::Symlink) {
        return Err(Out::Errno(libc::EOPNOTSUPP));
    }
    set_entry(mount, entry, &mode_of(mode))
}

/// # Safety
/// `path` is NULL or a C string.
unsafe fn set_at(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    change: &SetAttributes,
    local: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        if flags & libc::AT_EMPTY_PATH != 0 && ffi::path(path)?.is_empty() {
            return set_fd(directory, change);
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        let set = |_, mount, entry: &Entry| {
            if flags & !known != 0 { Err(Out::Errno(libc::EINVAL)) } else { set_entry(mount, entry, change) }
        };
        paths::at(directory, path, follow, set, local)
    }
}

fn set_fd(fd: c_int, change: &SetAttributes) -> Result<c_int, Out> {
    match table::find(fd)? {
        Found::File(file) => {
            // The caller's rights decide, not those of the user that opened the file.
            file.mounted.attach()?.set_attr(Target::File(file.file), change)?;
            Ok(0)
        }
        Found::Directory(opened) => {
            let (mount, entry) = opened.entry()?;
            set_entry(mount, &entry, change)
        }
        Found::Elsewhere => set_fifo(fd, change),
    }
}

/// Changes attributes by a descriptor that is not on a mount. A FIFO that replaces one of a mount
/// changes on the server; libc handles all others.
fn set_fifo(fd: c_int, change: &SetAttributes) -> Result<c_int, Out> {
    let is_fifo = |stat: &libc::stat| stand_ins::may_be_fifo(stat.st_dev, stat.st_mode);
    let found = if mounts::any() { raw::fstat(fd).ok().filter(is_fifo) } else { None };
    let (mounted, handle) = found.and_then(|_| stand_ins::fifo_of_descriptor(fd)).ok_or(Out::Pass)?;
    mounted.attach()?.client().setattr(&handle, change, None)?;
    Ok(0)
}

fn mode_of(mode: mode_t) -> SetAttributes {
    SetAttributes { mode: Some(mode & 0o7777), ..SetAttributes::default() }
}

/// The owner to set; −1 keeps an id. EINVAL for an id of this process' user namespace that the
/// mount's namespace has no number for.
fn owner_of(uid: uid_t, gid: gid_t) -> Result<SetAttributes, Out> {
    let given = |id: u32, outside: fn(u32) -> Option<u32>| match id {
        u32::MAX => Ok(None),
        id => outside(id).map(Some).ok_or(Out::Errno(libc::EINVAL)),
    };
    Ok(SetAttributes { uid: given(uid, user_outside)?, gid: given(gid, group_outside)?, ..SetAttributes::default() })
}

/// The two times of utimensat(2).
///
/// # Safety
/// `times` is NULL or two readable times.
unsafe fn times_of(times: *const timespec) -> Result<SetAttributes, Out> {
    // SAFETY: `times` is NULL or two readable times by the caller's promise.
    unsafe {
        let one = |time: timespec| match time.tv_nsec {
            libc::UTIME_NOW => Ok(SetTime::Now),
            libc::UTIME_OMIT => Ok(SetTime::Keep),
            nseconds @ 0..1_000_000_000 => Ok(client_time(time.tv_sec, nseconds)),
            _ => Err(Out::Errno(libc::EINVAL)),
        };
        match ffi::take_checked(times.cast::<[timespec; 2]>())? {
            None => Ok(now()),
            Some([atime, mtime]) => Ok(SetAttributes { atime: one(atime)?, mtime: one(mtime)?, ..SetAttributes::default() }),
        }
    }
}

/// The two times of utimes(2).
///
/// # Safety
/// `times` is NULL or two readable times.
unsafe fn timevals_of(times: *const timeval) -> Result<SetAttributes, Out> {
    // SAFETY: `times` is NULL or two readable times by the caller's promise.
    unsafe {
        let given = ffi::take_checked(times.cast::<[timeval; 2]>())?;
        Ok(given.map_or_else(now, |[atime, mtime]| SetAttributes {
            atime: client_time(atime.tv_sec, atime.tv_usec * 1000),
            mtime: client_time(mtime.tv_sec, mtime.tv_usec * 1000),
            ..SetAttributes::default()
        }))
    }
}

/// # Safety
/// `times` is NULL or a readable `utimbuf`.
unsafe fn utimbuf_of(times: *const utimbuf) -> Result<SetAttributes, Out> {
    // SAFETY: `times` is NULL or a readable `utimbuf` by the caller's promise.
    unsafe {
        Ok(ffi::take_checked(times)?.map_or_else(now, |times| SetAttributes {
            atime: client_time(times.actime, 0),
            mtime: client_time(times.modtime, 0),
            ..SetAttributes::default()
        }))
    }
}

fn now() -> SetAttributes {
    SetAttributes { atime: SetTime::Now, mtime: SetTime::Now, ..SetAttributes::default() }
}

fn client_time(seconds: i64, nanoseconds: i64) -> SetTime {
    SetTime::To(FileTime { seconds, nanoseconds: nanoseconds as u32 })
}

fn length(length: off_t) -> Result<u64, Out> {
    u64::try_from(length).map_err(|_| Out::Errno(libc::EINVAL))
}

/// # Safety
/// `path` is NULL or a C string.
unsafe fn truncate_at(
    path: *const c_char,
    bytes: off_t,
    local: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        paths::at(
            HERE,
            path,
            true,
            |_, mount, entry| {
                let bytes = length(bytes)?;
                let object = entry.object.as_ref().ok_or(Out::Errno(libc::ENOENT))?;
                if object.attr.kind == FileKind::Directory {
                    return Err(Out::Errno(libc::EISDIR));
                }
                mount.check_rights(object, libc::W_OK as u32)?;
                file_size_limit::check_growth(bytes, || Ok(object.attr.size))?;
                set_entry(mount, entry, &SetAttributes { size: Some(bytes), ..SetAttributes::default() })
            },
            local,
        )
    }
}

fn truncate_fd(fd: c_int, bytes: off_t) -> Result<c_int, Out> {
    let file = table::file(fd).map_err(|out| if out == Out::Errno(libc::EISDIR) { Out::Errno(libc::EINVAL) } else { out })?;
    if file.flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(Out::Errno(libc::EINVAL));
    }
    let bytes = length(bytes)?;
    file_size_limit::check_growth(bytes, || file.size())?;
    file.mount.truncate(file.file, bytes)?;
    Ok(0)
}

hooks! {
    /// chmod(2).
    fn chmod(path: *const c_char, mode: mode_t) -> c_int = old SYS_chmod { set_at(HERE, path, 0, &mode_of(mode), |_, path| real(path, mode)) }
    /// fchmod(2).
    fn fchmod(fd: c_int, mode: mode_t) -> c_int = SYS_fchmod { set_fd(fd, &mode_of(mode)) }
    /// lchmod(3).
    fn lchmod(path: *const c_char, mode: mode_t) -> c_int {
        paths::at(HERE, path, false, |_, mount, entry| set_own_mode(mount, entry, mode), |_, path| real(path, mode))
    }
    /// fchmodat(2).
    fn fchmodat(directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int = SYS_fchmodat {
        if flags == libc::AT_SYMLINK_NOFOLLOW {
            return paths::at(directory, path, false, |_, mount, entry| set_own_mode(mount, entry, mode),
                |directory, path| real(directory, path, mode, flags));
        }
        set_at(directory, path, flags, &mode_of(mode), |directory, path| real(directory, path, mode, flags))
    }
    /// chown(2).
    fn chown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int = old SYS_chown { set_at(HERE, path, 0, &owner_of(uid, gid)?, |_, path| real(path, uid, gid)) }
    /// lchown(2).
    fn lchown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int = old SYS_lchown {
        set_at(HERE, path, libc::AT_SYMLINK_NOFOLLOW, &owner_of(uid, gid)?, |_, path| real(path, uid, gid))
    }
    /// fchown(2).
    fn fchown(fd: c_int, uid: uid_t, gid: gid_t) -> c_int = SYS_fchown { set_fd(fd, &owner_of(uid, gid)?) }
    /// fchownat(2).
    fn fchownat(directory: c_int, path: *const c_char, uid: uid_t, gid: gid_t, flags: c_int) -> c_int = SYS_fchownat {
        set_at(directory, path, flags, &owner_of(uid, gid)?, |directory, path| real(directory, path, uid, gid, flags))
    }
    /// utime(2).
    fn utime(path: *const c_char, times: *const utimbuf) -> c_int = old SYS_utime { set_at(HERE, path, 0, &utimbuf_of(times)?, |_, path| real(path, times)) }
    /// utimes(2).
    fn utimes(path: *const c_char, times: *const timeval) -> c_int = old SYS_utimes { set_at(HERE, path, 0, &timevals_of(times)?, |_, path| real(path, times)) }
    /// lutimes(3).
    fn lutimes(path: *const c_char, times: *const timeval) -> c_int {
        set_at(HERE, path, libc::AT_SYMLINK_NOFOLLOW, &timevals_of(times)?, |_, path| real(path, times))
    }
    /// futimes(3).
    fn futimes(fd: c_int, times: *const timeval) -> c_int { set_fd(fd, &timevals_of(times)?) }
    /// futimesat(3).
    fn futimesat(directory: c_int, path: *const c_char, times: *const timeval) -> c_int = old SYS_futimesat {
        if path.is_null() {
            return set_fd(directory, &timevals_of(times)?); // as the system call does; Java relies on it
        }
        set_at(directory, path, 0, &timevals_of(times)?, |directory, path| real(directory, path, times))
    }
    /// futimens(3).
    fn futimens(fd: c_int, times: *const timespec) -> c_int { set_fd(fd, &times_of(times)?) }
    /// utimensat(2).
    fn utimensat(directory: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int = SYS_utimensat {
        if path.is_null() {
            return set_fd(directory, &times_of(times)?);
        }
        set_at(directory, path, flags, &times_of(times)?, |directory, path| real(directory, path, times, flags))
    }
    /// truncate(2).
    fn truncate(path: *const c_char, bytes: off_t) -> c_int = SYS_truncate { truncate_at(path, bytes, |_, path| real(path, bytes)) }
    /// truncate(2).
    fn truncate64(path: *const c_char, bytes: off_t) -> c_int { truncate_at(path, bytes, |_, path| real(path, bytes)) }
    /// ftruncate(2).
    fn ftruncate(fd: c_int, bytes: off_t) -> c_int = SYS_ftruncate { truncate_fd(fd, bytes) }
    /// ftruncate(2).
    fn ftruncate64(fd: c_int, bytes: off_t) -> c_int { truncate_fd(fd, bytes) }
}
