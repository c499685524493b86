//! Names: creates, removes, renames and links them, reads the text of links, and handles the
//! working directory.

use crate::directories;
use crate::exec::image;
use crate::ffi;
use crate::hook::hooks;
use crate::mounts::{self, Mounted};
use crate::outcome::{Out, kept};
use crate::paths::{self, Target};
use crate::permission;
use crate::raw;
use crate::refusal;
use crate::stand_ins;
use crate::table::{self, Found};
use crate::umask::masked;
use dnfs::file::{DeviceNumbers, FileKind, SpecialFile};
use dnfs::mount::{Entry, LastName, Mount, OpenDirectory, PathEnd, mount_of_directory_placeholder};
use libc::{c_char, c_int, c_uint, dev_t, mode_t, size_t, ssize_t};
use std::ffi::CStr;

const HERE: c_int = libc::AT_FDCWD;

fn kind(entry: &Entry) -> Option<FileKind> {
    entry.object.as_ref().map(|object| object.attr.kind)
}

/// The kind of an object that must exist.
fn existing(entry: &Entry) -> Result<FileKind, Out> {
    kind(entry).ok_or(Out::Errno(libc::ENOENT))
}

/// Checks that the name is free.
fn free(entry: &Entry) -> Result<(), Out> {
    if entry.object.is_some() || entry.end != PathEnd::Name { Err(Out::Errno(libc::EEXIST)) } else { Ok(()) }
}

/// As [`free`], for an object that is not a directory, whose path must not end in a slash.
fn free_for_file(entry: &Entry) -> Result<(), Out> {
    free(entry)?;
    if entry.must_be_directory { Err(Out::Errno(libc::ENOENT)) } else { Ok(()) }
}

/// The error for an object of the wrong kind. A kernel checks the right to change the directories first.
fn wrong_kind(mount: &Mount, entries: &[&Entry], errno: c_int) -> Out {
    let denied = |entry: &&Entry| mount.may_change_names(&entry.parent).is_ok_and(|may| !may);
    Out::Errno(if entries.iter().any(denied) { libc::EACCES } else { errno })
}

fn make_directory(mount: &Mount, entry: &Entry, mode: mode_t) -> Result<c_int, Out> {
    free(entry)?;
    mount.mkdir(entry, masked(mode))?;
    Ok(0)
}

fn remove_directory(mount: &Mount, entry: &Entry) -> Result<c_int, Out> {
    match entry.end {
        PathEnd::Name => {}
        PathEnd::Dot => return Err(Out::Errno(libc::EINVAL)),
        PathEnd::DotDot => return Err(Out::Errno(libc::ENOTEMPTY)),
        PathEnd::Root => return Err(Out::Errno(libc::EBUSY)),
    }
    if existing(entry)? != FileKind::Directory {
        return Err(wrong_kind(mount, &[entry], libc::ENOTDIR));
    }
    mount.rmdir(entry)?;
    Ok(0)
}

fn remove_file(mount: &Mount, entry: &Entry) -> Result<c_int, Out> {
    if entry.end != PathEnd::Name {
        return Err(Out::Errno(libc::EISDIR));
    }
    if existing(entry)? == FileKind::Directory {
        return Err(wrong_kind(mount, &[entry], libc::EISDIR));
    }
    if entry.must_be_directory {
        return Err(Out::Errno(libc::ENOTDIR));
    }
    mount.unlink(entry)?;
    if let Some(object) = &entry.object {
        stand_ins::removed(mount, object);
    }
    Ok(0)
}

/// # Safety
/// `path` is NULL or a C string.
unsafe fn remove_at(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    local: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        paths::at(
            directory,
            path,
            LastName::Itself,
            |_, mount, entry| {
                if flags & !libc::AT_REMOVEDIR != 0 {
                    return Err(Out::Errno(libc::EINVAL));
                }
                if flags & libc::AT_REMOVEDIR != 0 { remove_directory(mount, entry) } else { remove_file(mount, entry) }
            },
            local,
        )
    }
}

/// Resolves two paths without following links at their end. Both must be on one mount or both on
/// this host. Then calls the function for a mount or the one for this host.
///
/// # Safety
/// Each path is NULL or a C string.
unsafe fn pair(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    on_mount: impl FnOnce(&Mount, &Entry, &Entry) -> Result<c_int, Out>,
    local: impl FnOnce((c_int, *const c_char), (c_int, *const c_char)) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: each path is NULL or a C string by the caller's promise.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        in_one_world(named(from, LastName::Itself)?, from, to, on_mount, local)
    }
}

/// As [`pair`], for a second name of a file. The file must exist before the new name is resolved.
/// With AT_SYMLINK_FOLLOW, a link at the end of its path is followed.
///
/// # Safety
/// Each path is NULL or a C string.
unsafe fn second_name(
    from: (c_int, *const c_char),
    flags: c_int,
    to: (c_int, *const c_char),
    local: impl FnOnce((c_int, *const c_char), (c_int, *const c_char)) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: each path is NULL or a C string by the caller's promise.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        let found = named(from, LastName::from(flags & libc::AT_SYMLINK_FOLLOW != 0))?;
        if let Target::At(_, _, entry) = &found {
            if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
                return Err(Out::Errno(libc::EINVAL));
            }
            existing(entry)?;
        }
        in_one_world(found, from, to, link_on_mount, local)
    }
}

/// # Safety
/// Each path is NULL or a C string.
unsafe fn in_one_world(
    found: Target,
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    on_mount: impl FnOnce(&Mount, &Entry, &Entry) -> Result<c_int, Out>,
    local: impl FnOnce((c_int, *const c_char), (c_int, *const c_char)) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: each path is NULL or a C string by the caller's promise.
    unsafe {
        match (found, named(to, LastName::Itself)?) {
            (Target::At(one, mount, from), Target::At(other, _, to)) if one.index == other.index => on_mount(mount, &from, &to),
            (Target::Local(one), Target::Local(other)) => {
                let path_of = |other: &Option<std::ffi::CString>, given: (c_int, *const c_char)| {
                    other.as_ref().map_or(given, |path| (HERE, path.as_ptr()))
                };
                kept(local(path_of(&one, from), path_of(&other, to)))
            }
            (Target::At(_, _, entry), _) if entry.object.is_none() => Err(Out::Errno(libc::ENOENT)),
            _ => Err(Out::Errno(libc::EXDEV)),
        }
    }
}

/// Resolves one of a pair of paths. A closed descriptor is reported before the other path is resolved.
///
/// # Safety
/// `path` is NULL or a C string.
unsafe fn named((directory, path): (c_int, *const c_char), last: LastName) -> Result<Target, Out> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        if ffi::path(path)?.is_empty() && (directory == HERE || last == LastName::Itself) {
            return Err(Out::Errno(libc::ENOENT));
        }
        let found = match last {
            LastName::Followed => paths::target(directory, path, last)?,
            _ => paths::target_linked(directory, path, last)?,
        };
        if matches!(found, Target::Local(None)) && directory != HERE && ffi::path(path)?.first() != Some(&b'/') {
            raw::status_flags(directory)?;
        }
        Ok(found)
    }
}

fn rename_on_mount(mount: &Mount, from: &Entry, to: &Entry, flags: c_uint) -> Result<c_int, Out> {
    let no_replace = flags & libc::RENAME_NOREPLACE != 0;
    if flags & !libc::RENAME_NOREPLACE != 0 {
        return Err(Out::Errno(libc::EINVAL));
    }
    if from.end != PathEnd::Name || to.end != PathEnd::Name && !no_replace {
        return Err(Out::Errno(libc::EBUSY));
    }
    let moved = existing(from)?;
    if no_replace {
        free(to)?;
        // RENAME of NFSv3 replaces the target, so this refuses. Programs then use link(2), which
        // never replaces.
        return Err(Out::Errno(libc::EINVAL));
    }
    if moved != FileKind::Directory && (from.must_be_directory || to.must_be_directory) {
        return Err(Out::Errno(libc::ENOTDIR));
    }
    if inside(&to.path, &from.path) {
        return Err(Out::Errno(libc::EINVAL));
    }
    if inside(&from.path, &to.path) {
        return Err(Out::Errno(libc::ENOTEMPTY));
    }
    match (moved, kind(to)) {
        (FileKind::Directory, Some(other)) if other != FileKind::Directory => {
            return Err(wrong_kind(mount, &[from, to], libc::ENOTDIR));
        }
        (file, Some(FileKind::Directory)) if file != FileKind::Directory => {
            return Err(wrong_kind(mount, &[from, to], libc::EISDIR));
        }
        _ => {}
    }
    mount.rename(from, to)?;
    if let (Some(moved), Some(replaced)) = (&from.object, &to.object)
        && moved.handle != replaced.handle
    {
        stand_ins::removed(mount, replaced);
    }
    Ok(0)
}

/// Whether a path is below a directory. Neither contains links.
fn inside(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn link_on_mount(mount: &Mount, from: &Entry, to: &Entry) -> Result<c_int, Out> {
    let object = from.object.as_ref().ok_or(Out::Errno(libc::ENOENT))?;
    free_for_file(to)?;
    permission::check_link(mount, object)?;
    if object.attr.kind == FileKind::Directory {
        return Err(wrong_kind(mount, &[to], libc::EPERM));
    }
    mount.link(from, to)?;
    Ok(0)
}

/// Checks the text of a link for the errors that a kernel reports before those of the path.
///
/// # Safety
/// `text` is NULL or a C string.
unsafe fn link_text(text: *const c_char) -> Result<(), Out> {
    // SAFETY: `text` is NULL or a C string by the caller's promise.
    match unsafe { ffi::path(text) }?.len() {
        0 => Err(Out::Errno(libc::ENOENT)),
        bytes if bytes >= libc::PATH_MAX as usize => Err(Out::Errno(libc::ENAMETOOLONG)),
        _ => Ok(()),
    }
}

/// # Safety
/// `text` is NULL or a C string.
unsafe fn symlink_to(text: *const c_char, mount: &Mount, entry: &Entry) -> Result<c_int, Out> {
    // SAFETY: `text` is NULL or a C string by the caller's promise.
    unsafe {
        free_for_file(entry)?;
        mount.symlink(entry, ffi::path(text)?)?;
        Ok(0)
    }
}

/// # Safety
/// `into` is NULL or `room` writable bytes.
unsafe fn read_link(mount: &Mount, entry: &Entry, into: *mut c_char, room: size_t) -> Result<ssize_t, Out> {
    // SAFETY: `into` is NULL or `room` writable bytes by the caller's promise.
    unsafe {
        if room == 0 || existing(entry)? != FileKind::Symlink {
            return Err(Out::Errno(libc::EINVAL));
        }
        let text = mount.readlink(entry)?;
        let count = text.len().min(room);
        ffi::bytes_mut_checked(into.cast(), count)?.copy_from_slice(&text[..count]);
        Ok(count as ssize_t)
    }
}

/// Completes the result of libc's readlink. If the text is the path of a copy or a placeholder, it
/// becomes the path on the mount.
///
/// # Safety
/// `link` is NULL or a C string; `into` is NULL or `room` writable bytes.
unsafe fn readlink_result((directory, link): (c_int, *const c_char), into: *mut c_char, room: size_t, count: ssize_t) -> ssize_t {
    // SAFETY: `link` and `into` are so by the caller's promise.
    unsafe {
        let text = ffi::bytes_mut(into.cast(), room);
        let shown = usize::try_from(count).ok().and_then(|count| text.get(..count)).unwrap_or_default();
        if mount_of_directory_placeholder(shown).is_some()
            && let Some(path) = directories::path_behind(directory, link)
        {
            let count = path.len().min(room);
            text[..count].copy_from_slice(&path[..count]);
            return count as ssize_t;
        }
        image::rename_in(text, count)
    }
}

fn make_node(mount: &Mount, entry: &Entry, mode: mode_t, device: dev_t) -> Result<c_int, Out> {
    if mode & libc::S_IFMT == libc::S_IFDIR {
        return Err(Out::Errno(libc::EPERM));
    }
    free_for_file(entry)?;
    let numbers = DeviceNumbers { major: libc::major(device), minor: libc::minor(device) };
    let what = match mode & libc::S_IFMT {
        0 | libc::S_IFREG => {
            // mknod(2) of a regular file is an exclusive creation.
            let how =
                dnfs::mount::OpenHow { write: true, create: true, exclusive: true, mode: masked(mode), ..Default::default() };
            let file = mount.open(entry, &how)?;
            mount.closed(file);
            return Ok(0);
        }
        libc::S_IFIFO => SpecialFile::Fifo,
        libc::S_IFSOCK => SpecialFile::Socket,
        libc::S_IFCHR => SpecialFile::Character(numbers),
        libc::S_IFBLK => SpecialFile::Block(numbers),
        _ => return Err(Out::Errno(libc::EINVAL)),
    };
    mount.mknod(entry, what, masked(mode))?;
    Ok(0)
}

hooks! {
    /// mkdir(2).
    fn mkdir(path: *const c_char, mode: mode_t) -> c_int = old SYS_mkdir {
        paths::at(HERE, path, LastName::Itself, |_, mount, entry| make_directory(mount, entry, mode), |_, path| real(path, mode))
    }
    /// mkdirat(2).
    fn mkdirat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int = SYS_mkdirat {
        paths::at(directory, path, LastName::Itself, |_, mount, entry| make_directory(mount, entry, mode), |directory, path| real(directory, path, mode))
    }
    /// rmdir(2).
    fn rmdir(path: *const c_char) -> c_int = old SYS_rmdir { remove_at(HERE, path, libc::AT_REMOVEDIR, |_, path| real(path)) }
    /// unlink(2).
    fn unlink(path: *const c_char) -> c_int = old SYS_unlink { remove_at(HERE, path, 0, |_, path| real(path)) }
    /// unlinkat(2).
    fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int = SYS_unlinkat {
        remove_at(directory, path, flags, |directory, path| real(directory, path, flags))
    }
    /// remove(3).
    fn remove(path: *const c_char) -> c_int {
        paths::at(HERE, path, LastName::Itself, |_, mount, entry| match kind(entry) {
            Some(FileKind::Directory) => remove_directory(mount, entry),
            _ => remove_file(mount, entry),
        }, |_, path| real(path))
    }
    /// rename(2).
    fn rename(from: *const c_char, to: *const c_char) -> c_int = old SYS_rename {
        pair((HERE, from), (HERE, to), |mount, from, to| rename_on_mount(mount, from, to, 0), |from, to| real(from.1, to.1))
    }
    /// renameat(2).
    fn renameat(old: c_int, from: *const c_char, new: c_int, to: *const c_char) -> c_int = SYS_renameat {
        pair((old, from), (new, to), |mount, from, to| rename_on_mount(mount, from, to, 0), |from, to| real(from.0, from.1, to.0, to.1))
    }
    /// renameat2(2).
    fn renameat2(old: c_int, from: *const c_char, new: c_int, to: *const c_char, flags: c_uint) -> c_int = SYS_renameat2 {
        pair((old, from), (new, to), |mount, from, to| rename_on_mount(mount, from, to, flags),
            |from, to| real(from.0, from.1, to.0, to.1, flags))
    }
    /// link(2).
    fn link(from: *const c_char, to: *const c_char) -> c_int = old SYS_link {
        second_name((HERE, from), 0, (HERE, to), |from, to| real(from.1, to.1))
    }
    /// linkat(2).
    fn linkat(old: c_int, from: *const c_char, new: c_int, to: *const c_char, flags: c_int) -> c_int = SYS_linkat {
        second_name((old, from), flags, (new, to), |from, to| real(from.0, from.1, to.0, to.1, flags))
    }
    /// symlink(2).
    fn symlink(text: *const c_char, path: *const c_char) -> c_int = old SYS_symlink {
        link_text(text)?;
        paths::at(HERE, path, LastName::Itself, |_, mount, entry| symlink_to(text, mount, entry), |_, path| real(text, path))
    }
    /// symlinkat(2).
    fn symlinkat(text: *const c_char, directory: c_int, path: *const c_char) -> c_int = SYS_symlinkat {
        link_text(text)?;
        paths::at(directory, path, LastName::Itself, |_, mount, entry| symlink_to(text, mount, entry), |directory, path| real(text, directory, path))
    }
    /// readlink(2).
    fn readlink(path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t = old SYS_readlink {
        paths::at(HERE, path, false, |_, mount, entry| read_link(mount, entry, into, room), |_, path| readlink_result((HERE, path), into, room, real(path, into, room)))
    }
    /// readlinkat(2).
    fn readlinkat(directory: c_int, path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t = SYS_readlinkat {
        paths::at(directory, path, false, |_, mount, entry| read_link(mount, entry, into, room),
            |directory, path| readlink_result((directory, path), into, room, real(directory, path, into, room)))
    }
    /// readlink(2), fortified.
    fn __readlink_chk(path: *const c_char, into: *mut c_char, room: size_t, size: size_t) -> ssize_t {
        if room > size { return Err(Out::Pass) } // libc ends the process
        paths::at(HERE, path, false, |_, mount, entry| read_link(mount, entry, into, room), |_, path| readlink_result((HERE, path), into, room, real(path, into, room, size)))
    }
    /// readlinkat(2), fortified.
    fn __readlinkat_chk(directory: c_int, path: *const c_char, into: *mut c_char, room: size_t, size: size_t) -> ssize_t {
        if room > size { return Err(Out::Pass) }
        paths::at(directory, path, false, |_, mount, entry| read_link(mount, entry, into, room),
            |directory, path| readlink_result((directory, path), into, room, real(directory, path, into, room, size)))
    }
    /// mknod(2).
    fn mknod(path: *const c_char, mode: mode_t, device: dev_t) -> c_int = old SYS_mknod {
        paths::at(HERE, path, LastName::Itself, |_, mount, entry| make_node(mount, entry, mode, device), |_, path| real(path, mode, device))
    }
    /// mknodat(2).
    fn mknodat(directory: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int = SYS_mknodat {
        paths::at(directory, path, LastName::Itself, |_, mount, entry| make_node(mount, entry, mode, device),
            |directory, path| real(directory, path, mode, device))
    }
    /// mkfifo(3).
    fn mkfifo(path: *const c_char, mode: mode_t) -> c_int {
        paths::at(HERE, path, LastName::Itself, |_, mount, entry| make_node(mount, entry, libc::S_IFIFO | mode & 0o7777, 0), |_, path| real(path, mode))
    }
    /// mkfifoat(3).
    fn mkfifoat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int {
        paths::at(directory, path, LastName::Itself, |_, mount, entry| make_node(mount, entry, libc::S_IFIFO | mode & 0o7777, 0),
            |directory, path| real(directory, path, mode))
    }
}

fn change_directory(mounted: &Mounted, mount: &Mount, entry: &Entry) -> Result<c_int, Out> {
    let object = entry.object.as_ref().ok_or(Out::Errno(libc::ENOENT))?;
    if object.attr.kind != FileKind::Directory {
        return Err(Out::Errno(libc::ENOTDIR));
    }
    mount.check_rights(object, libc::X_OK as u32)?;
    let directory = OpenDirectory::of(entry).ok_or(Out::Errno(libc::ENOENT))?;
    directories::change_to(mounted, mount, directory)?;
    Ok(0)
}

/// The path of the working directory, as the program sees it.
fn working_directory() -> Result<Vec<u8>, Out> {
    let (mounted, below) = directories::current_path()?.ok_or(Out::Pass)?;
    Ok(mounted.path_of(&below))
}

/// # Safety
/// `into` is NULL or `room` writable bytes.
unsafe fn give_working_directory(into: *mut c_char, room: size_t) -> Result<*mut c_char, Out> {
    // SAFETY: `into` is NULL or `room` writable bytes by the caller's promise.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        let path = working_directory()?;
        if into.is_null() {
            return if room == 0 || path.len() < room { ffi::give_string(&path) } else { Err(Out::Errno(libc::ERANGE)) };
        }
        ffi::put_string(into, room, &path)?;
        Ok(into)
    }
}

/// # Safety
/// `into` is NULL or has room for a path (PATH_MAX).
unsafe fn give_real_path(path: &[u8], into: *mut c_char) -> Result<*mut c_char, Out> {
    // SAFETY: `into` is NULL or has room for a path by the caller's promise.
    unsafe {
        if into.is_null() {
            return ffi::give_string(path);
        }
        ffi::put_string(into, libc::PATH_MAX as usize, path).map_err(|_| Out::Errno(libc::ENAMETOOLONG))?;
    }
    Ok(into)
}

/// The physical path of an existing object, on a mount or on this host.
///
/// # Safety
/// `path` is NULL or a C string; `into` is NULL or has room for a path (PATH_MAX).
unsafe fn real_path(
    path: *const c_char,
    into: *mut c_char,
    local: impl FnOnce(*const c_char, *mut c_char) -> *mut c_char,
) -> Result<*mut c_char, Out> {
    // SAFETY: `path` and `into` are so by the caller's promise.
    unsafe {
        paths::at(
            HERE,
            path,
            true,
            |mounted, mount, entry| {
                existing(entry)?;
                give_real_path(&mounted.path_of(&mount.path_of(entry)?), into)
            },
            |_, path| match image::behind_link(CStr::from_ptr(path)) {
                Some(program) => give_real_path(&program, into).unwrap_or(std::ptr::null_mut()),
                None => local(path, into),
            },
        )
    }
}

hooks! {
    /// chdir(2).
    fn chdir(path: *const c_char) -> c_int = SYS_chdir {
        paths::at(HERE, path, true, change_directory, |_, path| real(path))
    }
    /// chroot(2): afterwards, the program cannot reach the runtime directory and the mounts.
    fn chroot(path: *const c_char) -> c_int = SYS_chroot {
        paths::at(HERE, path, true, |_, _, _| Err(Out::Errno(libc::EOPNOTSUPP)), |_, path| {
            mounts::before_new_root();
            let answer = real(path);
            if answer == 0 { refusal::note_new_root() }
            answer
        })
    }
    /// getcwd(3).
    fn getcwd(into: *mut c_char, room: size_t) -> *mut c_char = SYS_getcwd {
        if !into.is_null() && room == 0 { return Err(Out::Pass) } // libc answers EINVAL
        give_working_directory(into, room)
    }
    /// getcwd(3), fortified.
    fn __getcwd_chk(into: *mut c_char, room: size_t, size: size_t) -> *mut c_char {
        if room > size { return Err(Out::Pass) } // libc ends the process
        give_working_directory(into, room)
    }
    /// getwd(3).
    fn getwd(into: *mut c_char) -> *mut c_char { give_working_directory(into, libc::PATH_MAX as usize) }
    /// get_current_dir_name(3).
    fn get_current_dir_name() -> *mut c_char { give_working_directory(std::ptr::null_mut(), 0) }
    /// realpath(3).
    fn realpath(path: *const c_char, into: *mut c_char) -> *mut c_char { real_path(path, into, |path, into| real(path, into)) }
    /// realpath(3), fortified.
    fn __realpath_chk(path: *const c_char, into: *mut c_char, size: size_t) -> *mut c_char {
        real_path(path, into, |path, into| real(path, into, size))
    }
    /// canonicalize_file_name(3).
    fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
        real_path(path, std::ptr::null_mut(), |path, _| real(path))
    }
    /// fchdir(2): for a directory of a mount, the kernel enters the placeholder.
    fn fchdir(fd: c_int) -> c_int = SYS_fchdir {
        match table::find(fd)? {
            Found::File(_) => Err(Out::Errno(libc::ENOTDIR)),
            Found::Directory(..) | Found::Elsewhere => Err(Out::Pass),
        }
    }
}
