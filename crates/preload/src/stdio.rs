//! Opens stdio streams. A stream on a file of a mount is a cookie stream (`cookie`).

use crate::cookie::{self, number, stream_on};
use crate::descriptors;
use crate::ffi;
use crate::hook::hooks;
use crate::open::{self, open_at};
use crate::outcome::{Out, kept};
use crate::paths::{self, Target};
use crate::raw;
use crate::standard;
use crate::table::{self, Found};
use libc::{FILE, c_char, c_int};

unsafe extern "C" {
    fn fflush(stream: *mut FILE) -> c_int;
}

/// Number of letters after the first one that glibc's fopen and freopen read.
const LETTERS_OF_FOPEN: usize = 6;
/// The same number for fdopen.
const LETTERS_OF_FDOPEN: usize = 4;

/// Converts a mode of fopen(3) to flags of open(2).
fn flags_of(mode: &[u8], letters: usize) -> Result<c_int, Out> {
    let (first, rest) = mode.split_first().ok_or(Out::Errno(libc::EINVAL))?;
    let (alone, mut flags) = match first {
        b'r' => (libc::O_RDONLY, 0),
        b'w' => (libc::O_WRONLY, libc::O_CREAT | libc::O_TRUNC),
        b'a' => (libc::O_WRONLY, libc::O_CREAT | libc::O_APPEND),
        _ => return Err(Out::Errno(libc::EINVAL)),
    };
    let mut access = alone;
    // A character set (`ccs=`) follows a comma. It is not a flag.
    for letter in rest.iter().take(letters).take_while(|letter| **letter != b',') {
        match letter {
            b'+' => access = libc::O_RDWR,
            b'x' => flags |= libc::O_EXCL,
            b'e' => flags |= libc::O_CLOEXEC,
            _ => {}
        }
    }
    Ok(flags | access)
}

/// Refuses a character set. Wide characters use the encoding of the locale (`wide`); glibc also
/// refuses an encoding that it does not know.
fn narrow(mode: &[u8]) -> Result<(), Out> {
    if mode.windows(5).any(|five| five == b",ccs=") { Err(Out::Errno(libc::EINVAL)) } else { Ok(()) }
}

/// Moves the offset of an append-only stream to the end, as glibc does, so that ftell returns that
/// offset before the first write.
fn go_to_the_end(fd: c_int, flags: c_int) -> Result<(), Out> {
    if flags & libc::O_APPEND != 0 && flags & libc::O_ACCMODE == libc::O_WRONLY {
        // SAFETY: no pointers are passed.
        kept(unsafe { crate::data::lseek::hook(fd, 0, libc::SEEK_END) })?;
    }
    Ok(())
}

/// # Safety
/// `path` and `mode` are NULL or C strings.
unsafe fn open_stream(
    path: *const c_char,
    mode: *const c_char,
    real: impl FnOnce(*const c_char) -> *mut FILE,
) -> Result<*mut FILE, Out> {
    // SAFETY: `path` and `mode` are NULL or C strings by the caller's promise.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        let mode_given = mode;
        let mode = ffi::path(mode)?;
        let flags = flags_of(mode, LETTERS_OF_FOPEN)?;
        let opened = || {
            narrow(mode)?;
            let fd = open_at(libc::AT_FDCWD, path, flags, 0o666, |_, path| open::open::real(path, flags, 0o666))?;
            if raw::fstat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO) {
                return kept(fdopen::real(fd, mode_given)); // libc's stream suffices for a FIFO of this host
            }
            go_to_the_end(fd, flags).and_then(|()| stream_on(fd, flags, None)).inspect_err(|_| {
                crate::close::close::hook(fd);
            })
        };
        // The kernel's name for a descriptor leads to its placeholder, which libc's function could
        // open but not read.
        let text = ffi::path(path)?;
        if (text.starts_with(b"/dev/") || text.starts_with(b"/proc/")) && table::placeholder_at(libc::AT_FDCWD, path).is_some() {
            return opened();
        }
        paths::at(libc::AT_FDCWD, path, true, |_, _, _| opened(), |_, path| real(path))
    }
}

/// fdopen(3). The descriptor must allow what the mode requires. If the mode is for appending, the
/// descriptor appends from now on.
///
/// # Safety
/// `mode` is NULL or a C string.
unsafe fn adopt(fd: c_int, mode: *const c_char) -> Result<*mut FILE, Out> {
    // SAFETY: `mode` is NULL or a C string by the caller's promise.
    unsafe {
        let Found::File(_) = table::find(fd)? else { return Err(Out::Pass) }; // a directory fails at the first read
        let flags = flags_of(ffi::path(mode)?, LETTERS_OF_FDOPEN)?;
        let has = kept(descriptors::fcntl::hook(fd, libc::F_GETFL, 0))?;
        let access = has & libc::O_ACCMODE;
        if access != libc::O_RDWR && access != flags & libc::O_ACCMODE {
            return Err(Out::Errno(libc::EINVAL));
        }
        if flags & libc::O_APPEND != 0 && has & libc::O_APPEND == 0 {
            kept(descriptors::fcntl::hook(fd, libc::F_SETFL, (has | libc::O_APPEND) as usize))?;
            go_to_the_end(fd, flags)?;
        }
        stream_on(fd, flags, None)
    }
}

/// freopen(3) if the stream or the path is on a mount. The stream keeps its address, with two
/// exceptions: stdin, stdout and stderr of libc are replaced in libc's variables (`standard`), and
/// a stream of popen is replaced by a new one.
///
/// # Safety
/// `path` and `mode` are NULL or C strings; `stream` is NULL or an open stream of libc that no
/// other thread uses.
unsafe fn reopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> Result<*mut FILE, Out> {
    // SAFETY: the strings and the stream are valid by the caller's promise.
    unsafe {
        if !crate::mounts::any() || stream.is_null() {
            return Err(Out::Pass);
        }
        let stream = standard::current(stream);
        let fd = number(stream);
        let ours = cookie::is_ours(stream);
        let from_mount = matches!(table::find(fd), Ok(Found::File(_)));
        let onto_mount = !path.is_null() && !matches!(paths::target_linked(libc::AT_FDCWD, path, true), Ok(Target::Local(_)));
        if !ours && !from_mount && !onto_mount {
            return Err(Out::Pass);
        }
        fflush(stream); // a failure is ignored, as by glibc
        let fresh = match fresh_descriptor(path, ffi::path(mode)?, fd) {
            Ok((fresh, flags)) => move_onto(fd, fresh, flags).map(|fd| (fd, flags)),
            Err(out) => Err(out),
        };
        let (fd, flags) = match fresh {
            Ok(fresh) => fresh,
            Err(out) => {
                cookie::shut(stream);
                if fd >= 0 {
                    crate::close::close::hook(fd);
                }
                return Err(out);
            }
        };
        let stream = standard::in_place_of(stream, fd);
        let on_mount = matches!(table::find(fd), Ok(Found::File(_)));
        if on_mount && !cookie::is_ours(stream) && !cookie::convert(stream, fd, flags)? {
            cookie::shut(stream);
            return stream_on(fd, flags, None);
        }
        cookie::reset(stream, fd, flags);
        Ok(stream)
    }
}

/// Makes a new description for freopen: of the path or, without one, of the same file with other flags.
///
/// # Safety
/// `path` is NULL or a C string.
unsafe fn fresh_descriptor(path: *const c_char, mode: &[u8], fd: c_int) -> Result<(c_int, c_int), Out> {
    let flags = flags_of(mode, LETTERS_OF_FOPEN)?;
    narrow(mode)?;
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    let fresh = unsafe {
        if path.is_null() {
            open::open_again(fd, flags)?
        } else {
            open_at(libc::AT_FDCWD, path, flags, 0o666, |_, path| open::open::real(path, flags, 0o666))?
        }
    };
    go_to_the_end(fresh, flags).inspect_err(|_| {
        // SAFETY: no pointers are passed, and only this function uses the descriptor.
        unsafe { crate::close::close::hook(fresh) };
    })?;
    Ok((fresh, flags))
}

/// Gives a new description the number of the stream's descriptor, if the stream has one.
fn move_onto(fd: c_int, fresh: c_int, flags: c_int) -> Result<c_int, Out> {
    if fd < 0 || fresh == fd {
        return Ok(fresh);
    }
    // SAFETY: no pointers are passed; this function owns `fresh`, and the stream `fd`.
    let moved = kept(unsafe { descriptors::dup3::hook(fresh, fd, flags & libc::O_CLOEXEC) });
    // SAFETY: no pointers are passed; this function owns `fresh`.
    unsafe { crate::close::close::hook(fresh) };
    moved
}

hooks! {
    /// fopen(3).
    @cancellation_point fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE { open_stream(path, mode, |path| real(path, mode)) }
    /// fopen(3).
    @cancellation_point fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE { open_stream(path, mode, |path| real(path, mode)) }
    /// fopen(3), libc's other name.
    fn _IO_fopen(path: *const c_char, mode: *const c_char) -> *mut FILE { open_stream(path, mode, |path| real(path, mode)) }
    /// fdopen(3).
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE { adopt(fd, mode) }
    /// fdopen(3), libc's other name.
    fn _IO_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE { adopt(fd, mode) }
    /// freopen(3).
    @cancellation_point fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE { reopen(path, mode, stream) }
    /// freopen(3).
    @cancellation_point fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE { reopen(path, mode, stream) }
}
