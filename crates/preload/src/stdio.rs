//! stdio: opening streams; one on a file of a mount is a cookie stream (`cookie`).

use crate::cookie::{number, stream_on};
use crate::ffi;
use crate::hook::hooks;
use crate::open::{self, open_at};
use crate::outcome::{Out, kept};
use crate::paths::{self, Target};
use crate::table::{self, Found};
use libc::{FILE, c_char, c_int};

unsafe extern "C" {
    fn __fpurge(stream: *mut FILE);
    fn fflush(stream: *mut FILE) -> c_int;
    fn clearerr(stream: *mut FILE);
}

/// open(2)'s flags for a mode of fopen(3).
fn flags_of(mode: &[u8]) -> Result<c_int, Out> {
    let plus = mode.contains(&b'+');
    let access = |alone| if plus { libc::O_RDWR } else { alone };
    let mut flags = match mode.first() {
        Some(b'r') => access(libc::O_RDONLY),
        Some(b'w') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        Some(b'a') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => return Err(Out::Errno(libc::EINVAL)),
    };
    // What follows a comma is a character set (`ccs=`), not a flag.
    for letter in mode.split(|b| *b == b',').next().unwrap_or_default() {
        match letter {
            b'x' => flags |= libc::O_EXCL,
            b'e' => flags |= libc::O_CLOEXEC,
            _ => {}
        }
    }
    Ok(flags)
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn open_stream(
    path: *const c_char,
    mode: *const c_char,
    real: impl FnOnce(*const c_char) -> *mut FILE,
) -> Result<*mut FILE, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        let flags = flags_of(ffi::path(mode)?)?;
        paths::at(
            libc::AT_FDCWD,
            path,
            true,
            |_, _, _| {
                let fd = open_at(libc::AT_FDCWD, path, flags, 0o666, |_, path| open::open::real(path, flags, 0o666))?;
                stream_on(fd, flags, None).inspect_err(|_| {
                    crate::close::close::hook(fd);
                })
            },
            |_, path| real(path),
        )
    }
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn adopt(fd: c_int, mode: *const c_char) -> Result<*mut FILE, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        match table::find(fd)? {
            Found::File(_) => stream_on(fd, flags_of(ffi::path(mode)?)?, None),
            Found::Directory(..) => Err(Out::Errno(libc::EISDIR)),
            Found::Elsewhere => Err(Out::Pass),
        }
    }
}

/// freopen where the stream or the path is of a mount. A stream of fopencookie stays what it is over dup2; one of libc
/// that shall lead to a mount is replaced, and only standard streams can be, because the program uses them by name.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn reopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> Result<*mut FILE, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if !crate::mounts::any() || path.is_null() || stream.is_null() {
            return Err(Out::Pass);
        }
        let fd = number(stream);
        let on_mount = matches!(paths::target_or_linked(libc::AT_FDCWD, path)?, Target::At(..));
        let from_mount = matches!(table::find(fd), Ok(Found::File(_)));
        if !on_mount && !from_mount {
            return Err(Out::Pass);
        }
        let flags = flags_of(ffi::path(mode)?)?;
        fflush(stream);
        let fresh = open_at(libc::AT_FDCWD, path, flags, 0o666, |_, path| open::open::real(path, flags, 0o666))?;
        if fresh != fd {
            kept(crate::descriptors::dup2::hook(fresh, fd))?;
            crate::close::close::hook(fresh);
        }
        let stream = crate::standard::current(fd).unwrap_or(stream);
        if !from_mount && !crate::standard::is_ours(stream) {
            return stream_on(fd, flags, None);
        }
        // Its buffers belong to the file it no longer is.
        __fpurge(stream);
        clearerr(stream);
        Ok(stream)
    }
}

hooks! {
    /// fopen(3).
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE { open_stream(path, mode, |path| real(path, mode)) }
    /// fopen(3).
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE { open_stream(path, mode, |path| real(path, mode)) }
    /// fdopen(3).
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE { adopt(fd, mode) }
    /// freopen(3).
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE { reopen(path, mode, stream) }
    /// freopen(3).
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE { reopen(path, mode, stream) }
}
