//! Opens files. Every open of a file is another open of its placeholder; every open of a directory
//! has a new placeholder.

use crate::description_flags;
use crate::directories;
use crate::hook::hooks;
use crate::mounts::{self, Mounted};
use crate::outcome::{Out, kept};
use crate::paths;
use crate::permission;
use crate::raw;
use crate::stand_ins;
use crate::table::{self, Found};
use crate::umask::masked;
use crate::wal_index;
use dnfs::file::{FileKind, FsError};
use dnfs::mount::{Entry, FileRef, LastName, Mount, Object, OpenDirectory, OpenHow, PathEnd};
use libc::{c_char, c_int, c_uint, mode_t};
use std::ffi::CStr;
use std::io::Write;
use std::os::fd::BorrowedFd;

/// Maximum number of attempts of an open, if the file is removed between the server's reply and the
/// placeholder's lock.
const ATTEMPTS_MAX: usize = 16;

hooks! {
    /// open(2).
    @cancellation_point fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = old SYS_open {
        open_at(libc::AT_FDCWD, path, flags, mode, |_, path| real(path, flags, mode))
    }
    /// open(2).
    @cancellation_point fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        open_at(libc::AT_FDCWD, path, flags, mode, |_, path| real(path, flags, mode))
    }
    /// open(2), libc's other name.
    @cancellation_point fn __open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        open_at(libc::AT_FDCWD, path, flags, mode, |_, path| real(path, flags, mode))
    }
    /// open(2), libc's other name.
    @cancellation_point fn __open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        open_at(libc::AT_FDCWD, path, flags, mode, |_, path| real(path, flags, mode))
    }
    /// open(2) without a mode, fortified.
    @cancellation_point fn __open_2(path: *const c_char, flags: c_int) -> c_int {
        open_at(libc::AT_FDCWD, path, flags, 0, |_, path| real(path, flags))
    }
    /// open(2) without a mode, fortified.
    @cancellation_point fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
        open_at(libc::AT_FDCWD, path, flags, 0, |_, path| real(path, flags))
    }
    /// openat(2).
    @cancellation_point fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = SYS_openat {
        open_at(directory, path, flags, mode, |directory, path| real(directory, path, flags, mode))
    }
    /// openat(2).
    @cancellation_point fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        open_at(directory, path, flags, mode, |directory, path| real(directory, path, flags, mode))
    }
    /// openat(2) without a mode, fortified.
    @cancellation_point fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
        open_at(directory, path, flags, 0, |directory, path| real(directory, path, flags))
    }
    /// openat(2) without a mode, fortified.
    @cancellation_point fn __openat64_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
        open_at(directory, path, flags, 0, |directory, path| real(directory, path, flags))
    }
    /// creat(2).
    @cancellation_point fn creat(path: *const c_char, mode: mode_t) -> c_int = old SYS_creat {
        open_at(libc::AT_FDCWD, path, CREAT, mode, |_, path| real(path, mode))
    }
    /// creat(2).
    @cancellation_point fn creat64(path: *const c_char, mode: mode_t) -> c_int {
        open_at(libc::AT_FDCWD, path, CREAT, mode, |_, path| real(path, mode))
    }
}

const CREATES_NEW: c_int = libc::O_CREAT | libc::O_EXCL;
const CREAT: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

/// Opens a path on a mount or on this host.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn open_at(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    local: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        let exclusive = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
        let slash = flags & libc::O_CREAT != 0 && mounts::any() && crate::ffi::path(path)?.ends_with(b"/");
        let last = match (slash, exclusive) {
            (true, _) => LastName::Itself,
            (_, true) => LastName::New,
            _ => LastName::from(flags & libc::O_NOFOLLOW == 0),
        };
        let again = || paths::target(directory, path, last == LastName::Followed);
        let fd = paths::at(
            directory,
            path,
            last,
            |mounted, mount, entry| on_mount(mounted, mount, entry, flags, mode, again),
            |from, at| wal_index::claimed(local(from, at), path, at),
        );
        let fd = match fd {
            Err(refused @ Out::Errno(libc::EISDIR)) => open_by_name(directory, path, flags)?.ok_or(refused)?,
            other => other?,
        };
        // The path was a kernel's name for a descriptor of a file, of which only the placeholder is
        // a directory.
        if flags & libc::O_DIRECTORY != 0 && matches!(table::find(fd), Ok(Found::File(_))) {
            crate::close::close::hook(fd);
            return Err(Out::Errno(libc::ENOTDIR));
        }
        crate::standard::rebound(fd);
        Ok(fd)
    }
}

fn on_mount(
    mounted: &'static Mounted,
    mount: &'static Mount,
    entry: &Entry,
    flags: c_int,
    mode: mode_t,
    again: impl Fn() -> Result<paths::Target, Out>,
) -> Result<c_int, Out> {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return Err(Out::Errno(libc::EOPNOTSUPP));
    }
    let mut fresh: Option<Entry> = None;
    for _ in 0..ATTEMPTS_MAX {
        let entry = fresh.as_ref().unwrap_or(entry);
        if flags & libc::O_CREAT != 0 && flags & libc::O_DIRECTORY != 0 {
            return Err(Out::Errno(libc::EINVAL));
        }
        if flags & libc::O_CREAT != 0 && entry.must_be_directory && entry.end == PathEnd::Name {
            return Err(Out::Errno(libc::EISDIR));
        }
        match entry.object.as_ref().map(|object| object.attr.kind) {
            Some(kind) if kind != FileKind::Regular && flags & CREATES_NEW == CREATES_NEW => {
                return Err(Out::Errno(libc::EEXIST));
            }
            Some(FileKind::Directory) => return open_directory(mounted, mount, entry, flags),
            Some(_) if flags & libc::O_DIRECTORY != 0 => return Err(Out::Errno(libc::ENOTDIR)),
            Some(FileKind::Regular) => {}
            Some(FileKind::Symlink) => return Err(Out::Errno(libc::ELOOP)),
            Some(FileKind::Fifo) => {
                let object = entry.object.as_ref().ok_or(Out::Errno(libc::ENOENT))?;
                return stand_ins::open_fifo(mount, object, flags);
            }
            Some(_) => return Err(Out::Errno(libc::ENXIO)),
            None if flags & libc::O_CREAT == 0 => return Err(Out::Errno(libc::ENOENT)),
            None => {}
        }
        match open_file(mounted, mount, entry, flags, mode) {
            Err(Out::Errno(refused)) if refused == libc::ESTALE || entry.assumed && depends_on_name(refused) => match again()? {
                paths::Target::At(_, _, entry) => fresh = Some(entry),
                paths::Target::Local(_) => return Err(Out::Errno(libc::ENOENT)),
            },
            outcome => return outcome,
        }
    }
    Err(Out::Errno(libc::ESTALE))
}

/// Whether a creation without a lookup may have another result if the name exists, because EEXIST
/// takes precedence.
const fn depends_on_name(refused: c_int) -> bool {
    matches!(refused, libc::EACCES | libc::EPERM | libc::EROFS | libc::ENOSPC | libc::EDQUOT)
}

/// Attempts to open a file once. ESTALE if the file was removed meanwhile; the caller then resolves
/// the path again.
fn open_file(mounted: &'static Mounted, mount: &'static Mount, entry: &Entry, flags: c_int, mode: mode_t) -> Result<c_int, Out> {
    let access = flags & libc::O_ACCMODE;
    let create = flags & libc::O_CREAT != 0;
    let how = OpenHow {
        read: access != libc::O_WRONLY,
        write: access != libc::O_RDONLY,
        append: flags & libc::O_APPEND != 0,
        create,
        exclusive: create && flags & libc::O_EXCL != 0,
        truncate: flags & libc::O_TRUNC != 0,
        directory: false,
        mode: masked(mode),
    };
    // Checks for errors of this host before the server creates or truncates the file, because a
    // second attempt would find the changed file.
    if create {
        spare_descriptors()?;
    }
    if create || how.truncate {
        mounts::refuse_covered()?;
    }
    describe(mounted, mount, mount.open(entry, &how)?, flags)
}

/// Makes a new open file description of an open file, like an open of `/proc/self/fd/N`. For
/// freopen without a path.
pub(crate) fn open_again(fd: c_int, flags: c_int) -> Result<c_int, Out> {
    let Found::File(file) = table::find(fd)? else {
        let mut name = [0; 32];
        let _ = write!(&mut name[..], "/proc/self/fd/{fd}");
        let path = CStr::from_bytes_until_nul(&name).map_err(|_| Out::Errno(libc::EBADF))?;
        return Ok(raw::open(path, flags, 0o666)?);
    };
    describe_again(file.mounted, file.mount, file.file, flags)
}

/// As [`open_again`], for a file that some process has open.
fn describe_again(mounted: &'static Mounted, mount: &'static Mount, file: FileRef, flags: c_int) -> Result<c_int, Out> {
    if flags & CREATES_NEW == CREATES_NEW {
        return Err(Out::Errno(libc::EEXIST));
    }
    if flags & libc::O_DIRECTORY != 0 {
        return Err(Out::Errno(libc::ENOTDIR));
    }
    let object = Object { handle: mount.handle(file)?, attr: mount.attr(file)? };
    mount.check_rights(&object, permission::of_open(flags))?;
    if flags & libc::O_TRUNC != 0 {
        mount.truncate(file, 0)?;
    }
    describe(mounted, mount, file, flags)
}

/// Makes an open file description of a file in the segment, by another open of its placeholder.
///
/// # Errors
/// ESTALE if the file was removed meanwhile; the caller then resolves the path again.
fn describe(mounted: &'static Mounted, mount: &'static Mount, file: FileRef, flags: c_int) -> Result<c_int, Out> {
    let path = mount.placeholder_path(file);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| libc::EIO)?;
    let how = description_flags::for_placeholder(flags);
    let (opened, flags) = match raw::open(path, how, 0) {
        Err(libc::ENOENT) => (Err(libc::ESTALE), flags),
        // A program changed the placeholder's mode through a descriptor by mistake.
        Err(libc::EACCES) => (raw::chmod(path, 0o660).and_then(|()| raw::open(path, how, 0)), flags),
        Err(libc::EPERM) if flags & libc::O_DIRECT != 0 => {
            (raw::open(path, description_flags::of_another_owner(how), 0), flags | libc::O_DSYNC)
        }
        other => (other, flags),
    };
    let fd = opened.map_err(|errno| {
        mount.closed(file);
        mounts::failed_in_runtime(errno)
    })?;
    // SAFETY: `fd` was just opened, and no other code has it before this function returns.
    let ready = match mount.opened(file, unsafe { BorrowedFd::borrow_raw(fd) }) {
        Ok(()) => raw::fstat(fd).map_err(Out::Errno),
        Err(dnfs::Error::Fs(FsError::Stale | FsError::NotFound)) => Err(Out::Errno(libc::ESTALE)),
        Err(error) => Err(Out::from(error)),
    };
    match ready {
        Ok(stat) => {
            table::insert(fd, stat.st_ino, (mounted, mount), file, flags, mount.error_cursor(file));
            Ok(fd)
        }
        Err(out) => {
            let _ = raw::close(fd);
            mount.closed(file);
            Err(out)
        }
    }
}

/// Opens an open file again by the kernel's name for its descriptor (/dev/stdout, /proc/self/fd/N),
/// after the open of the placeholder has failed because that is a directory. `None` if the path
/// does not lead to a placeholder.
///
/// # Safety
/// `path` is NULL or a C string.
unsafe fn open_by_name(directory: c_int, path: *const c_char, flags: c_int) -> Result<Option<c_int>, Out> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    let Some((mounted, mount, file)) = (unsafe { table::placeholder_at(directory, path) }) else { return Ok(None) };
    describe_again(mounted, mount, file, flags).map(Some)
}

/// Checks that the process can open the descriptors that an open needs for a short time.
///
/// # Errors
/// EMFILE, ENFILE.
fn spare_descriptors() -> Result<(), Out> {
    let mut spare = [-1; 3]; // a lock of the segment, a new placeholder, and the descriptor itself
    let outcome = spare.iter_mut().try_for_each(|fd| {
        *fd = raw::open(c"/", libc::O_PATH | libc::O_CLOEXEC, 0)?;
        Ok(())
    });
    for fd in spare.into_iter().filter(|fd| *fd >= 0) {
        let _ = raw::close(fd);
    }
    outcome.map_err(Out::Errno)
}

fn open_directory(mounted: &Mounted, mount: &Mount, entry: &Entry, flags: c_int) -> Result<c_int, Out> {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    if writes && flags & libc::O_PATH == 0 || flags & libc::O_CREAT != 0 {
        return Err(Out::Errno(libc::EISDIR));
    }
    if let Some(object) = entry.object.as_ref().filter(|_| flags & libc::O_PATH == 0) {
        mount.check_rights(object, libc::R_OK as u32)?;
    }
    let directory = OpenDirectory::of(entry).ok_or(Out::Errno(libc::ENOENT))?;
    directories::open(mounted, mount, directory, flags & (libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_PATH))
}

/// Writes random names to a template that ends in `XXXXXX` and `tail` more bytes, and calls `make`
/// with each until one is free.
///
/// # Safety
/// `template` is NULL or a writable C string that no other code uses.
unsafe fn from_template<R>(template: *mut c_char, tail: c_int, mut make: impl FnMut() -> Result<R, Out>) -> Result<R, Out> {
    // SAFETY: `template` is NULL or such a string by the caller's promise.
    unsafe {
        const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        let length = crate::ffi::path(template)?.len();
        let end = usize::try_from(tail).ok().and_then(|tail| length.checked_sub(tail)).ok_or(Out::Errno(libc::EINVAL))?;
        let start = end.checked_sub(6).ok_or(Out::Errno(libc::EINVAL))?;
        let text = crate::ffi::bytes_mut(template.cast(), length);
        if &text[start..end] != b"XXXXXX" {
            return Err(Out::Errno(libc::EINVAL));
        }
        for _ in 0..100 {
            let mut random = raw::random();
            for byte in &mut text[start..end] {
                *byte = ALPHABET[(random % ALPHABET.len() as u64) as usize];
                random /= ALPHABET.len() as u64;
            }
            match make() {
                Err(Out::Errno(libc::EEXIST)) => {}
                outcome => return outcome,
            }
        }
        Err(Out::Errno(libc::EEXIST))
    }
}

/// Succeeds if a template is on a mount; otherwise [`Out::Pass`]. Its last component does not exist yet.
///
/// # Safety
/// `template` is NULL or a C string.
unsafe fn template_is_ours(template: *mut c_char) -> Result<(), Out> {
    // SAFETY: `template` is NULL or a C string by the caller's promise.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        match paths::target(libc::AT_FDCWD, template, false)? {
            paths::Target::At(..) => Ok(()),
            paths::Target::Local(_) => Err(Out::Pass),
        }
    }
}

/// # Safety
/// `template` is NULL or a writable C string that no other code uses.
unsafe fn temporary(template: *mut c_char, tail: c_int, flags: c_int) -> Result<c_int, Out> {
    // SAFETY: `template` is NULL or such a string by the caller's promise.
    unsafe {
        template_is_ours(template)?;
        let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        from_template(template, tail, || {
            open_at(libc::AT_FDCWD, template, flags, 0o600, |_, path| open::real(path, flags, 0o600))
        })
    }
}

hooks! {
    /// mkstemp(3).
    fn mkstemp(template: *mut c_char) -> c_int { temporary(template, 0, 0) }
    /// mkstemp(3).
    fn mkstemp64(template: *mut c_char) -> c_int { temporary(template, 0, 0) }
    /// mkostemp(3).
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int { temporary(template, 0, flags) }
    /// mkostemp(3).
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int { temporary(template, 0, flags) }
    /// mkstemps(3).
    fn mkstemps(template: *mut c_char, tail: c_int) -> c_int { temporary(template, tail, 0) }
    /// mkstemps(3).
    fn mkstemps64(template: *mut c_char, tail: c_int) -> c_int { temporary(template, tail, 0) }
    /// mkostemps(3).
    fn mkostemps(template: *mut c_char, tail: c_int, flags: c_int) -> c_int { temporary(template, tail, flags) }
    /// mkostemps(3).
    fn mkostemps64(template: *mut c_char, tail: c_int, flags: c_int) -> c_int { temporary(template, tail, flags) }
    /// mkdtemp(3).
    fn mkdtemp(template: *mut c_char) -> *mut c_char {
        template_is_ours(template)?;
        from_template(template, 0, || kept(crate::names::mkdir::hook(template, 0o700)))?;
        Ok(template)
    }
    /// name_to_handle_at(2): objects of a mount have no handle of the kernel.
    fn name_to_handle_at(directory: c_int, path: *const c_char, handle: *mut libc::c_void, id: *mut c_int, flags: c_uint) -> c_int = SYS_name_to_handle_at {
        // The descriptor itself: a placeholder has a handle, which leads to no file of the mount.
        let is_empty = flags as c_int & libc::AT_EMPTY_PATH != 0 && crate::ffi::path(path)?.is_empty();
        let path = match is_empty.then(|| crate::attributes::mounted_of_fd(directory)) {
            None => path,
            Some(Ok(_)) => return Err(Out::Errno(libc::EOPNOTSUPP)),
            Some(Err(Out::Pass)) if directory == libc::AT_FDCWD => c".".as_ptr(),
            Some(Err(out)) => return Err(out),
        };
        paths::at(directory, path, flags as c_int & libc::AT_SYMLINK_FOLLOW != 0,
            |_, _, _| Err(Out::Errno(libc::EOPNOTSUPP)),
            |directory, path| real(directory, path, handle, id, flags))
    }
}
