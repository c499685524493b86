//! stdio: a stream on a file of a mount is one of fopencookie, so that every stdio call works through our read and write.
//!
//! The cookie holds the descriptor and asks at each call what it is, so a stream lives through dup2 onto its descriptor.
//! The descriptor's number is put into the stream as glibc keeps it, so that fileno works, inside libc as well.

use crate::ffi;
use crate::hook::{Out, hooks, kept};
use crate::open::{self, open_at};
use crate::place::{self, Target};
use crate::table::{self, Found};
use libc::{FILE, c_char, c_int, c_void, off_t, size_t, ssize_t};
use std::sync::atomic::{AtomicI32, Ordering};

/// `struct _IO_FILE` of glibc on 64-bit Linux, as far as we need it: an ABI that has not moved since 2.1.
#[repr(C)]
struct Layout {
    flags: c_int,
    _read: [*mut c_char; 3],
    write_base: *mut c_char,
    write_at: *mut c_char,
    _rest: [*mut c_void; 6],
    _markers: *mut c_void,
    _chain: *mut c_void,
    number: c_int,
}
const _: () = assert!(std::mem::offset_of!(Layout, number) == 112);

/// Bytes of a stream's buffer.
const BUFFER_BYTES: usize = 64 * 1024;

/// What fopencookie keeps for us: a descriptor, allocated once and given back at close.
struct Cookie {
    fd: AtomicI32,
    /// It stands in for stdin, stdout or stderr.
    standard: bool,
}

#[repr(C)]
struct Functions {
    read: extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    close: extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn fwide(stream: *mut FILE, mode: c_int) -> c_int;
    fn __fpurge(stream: *mut FILE);
    fn setvbuf(stream: *mut FILE, buffer: *mut c_char, mode: c_int, size: size_t) -> c_int;
    fn fflush(stream: *mut FILE) -> c_int;
    fn fwrite(data: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t;
    fn clearerr(stream: *mut FILE);
}

fn fd_of(cookie: *mut c_void) -> c_int {
    // SAFETY: the cookie is the one we gave to fopencookie; it lives until `close` below.
    unsafe { &*cookie.cast::<Cookie>() }.fd.load(Ordering::Relaxed)
}

extern "C" fn cookie_read(cookie: *mut c_void, into: *mut c_char, count: size_t) -> ssize_t {
    crate::data::read::hook(fd_of(cookie), into.cast(), count)
}

extern "C" fn cookie_write(cookie: *mut c_void, from: *const c_char, count: size_t) -> ssize_t {
    let fd = fd_of(cookie);
    let mut done = 0;
    while done < count {
        let written = crate::data::write::hook(fd, from.wrapping_add(done).cast(), count - done);
        if written <= 0 {
            break; // fopencookie(3): a failure is a short count, never −1
        }
        done += written as usize;
    }
    done as ssize_t
}

extern "C" fn cookie_seek(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
    let Some(wanted) = ffi::take(offset) else { return -1 };
    match crate::data::lseek::hook(fd_of(cookie), wanted, whence) {
        -1 => -1,
        at => ffi::put(offset, at).map_or(-1, |()| 0),
    }
}

extern "C" fn cookie_close(cookie: *mut c_void) -> c_int {
    let fd = fd_of(cookie);
    // SAFETY: made by Box in `stream_on`, and closed once.
    let cookie = unsafe { Box::from_raw(cookie.cast::<Cookie>()) };
    if cookie.standard {
        crate::standard::closed(fd);
    }
    crate::descriptors::close::hook(fd)
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

/// fopencookie's mode for open(2)'s flags.
fn mode_of(flags: c_int) -> &'static std::ffi::CStr {
    match (flags & libc::O_ACCMODE, flags & libc::O_APPEND != 0) {
        (libc::O_RDONLY, _) => c"r",
        (libc::O_WRONLY, false) => c"w",
        (libc::O_WRONLY, true) => c"a",
        (_, false) => c"r+",
        (_, true) => c"a+",
    }
}

/// A stream on a descriptor.
pub(crate) fn stream_on(fd: c_int, flags: c_int, standard: bool) -> Result<*mut FILE, Out> {
    let cookie = Box::into_raw(Box::new(Cookie { fd: AtomicI32::new(fd), standard })).cast::<c_void>();
    let functions = Functions { read: cookie_read, write: cookie_write, seek: cookie_seek, close: cookie_close };
    // SAFETY: the cookie lives until `cookie_close`; the functions have fopencookie's signatures.
    let stream = unsafe { fopencookie(cookie, mode_of(flags).as_ptr(), functions) };
    if stream.is_null() {
        // SAFETY: fopencookie did not take it.
        drop(unsafe { Box::from_raw(cookie.cast::<Cookie>()) });
        return Err(Out::Errno(libc::ENOMEM));
    }
    // SAFETY: a stream that glibc just made; the number's place is asserted above. glibc keeps −2 there for a cookie and
    // only asks whether it is −1; fileno gives it to the program.
    unsafe { (*stream.cast::<Layout>()).number = fd };
    // SAFETY: no buffer of ours is passed.
    unsafe { setvbuf(stream, std::ptr::null_mut(), libc::_IOFBF, BUFFER_BYTES) };
    Ok(stream)
}

/// The descriptor inside a stream, −1 for none.
fn number(stream: *mut FILE) -> c_int {
    // SAFETY: an open stream of glibc by the caller's promise.
    unsafe { (*stream.cast::<Layout>()).number }
}

fn open_stream(
    path: *const c_char,
    mode: *const c_char,
    real: impl FnOnce(*const c_char) -> *mut FILE,
) -> Result<*mut FILE, Out> {
    if !crate::mounts::any() {
        return Err(Out::Pass);
    }
    let flags = flags_of(ffi::path(mode)?)?;
    place::at(
        libc::AT_FDCWD,
        path,
        true,
        |_, _, _| {
            let fd = open_at(libc::AT_FDCWD, path, flags, 0o666, |_, path| open::open::real(path, flags, 0o666))?;
            stream_on(fd, flags, false).inspect_err(|_| {
                crate::descriptors::close::hook(fd);
            })
        },
        |_, path| real(path),
    )
}

fn adopt(fd: c_int, mode: *const c_char) -> Result<*mut FILE, Out> {
    match table::find(fd)? {
        Found::File(_) => stream_on(fd, flags_of(ffi::path(mode)?)?, false),
        Found::Directory(..) => Err(Out::Errno(libc::EISDIR)),
        Found::Elsewhere => Err(Out::Pass),
    }
}

/// freopen where the stream or the path is of a mount. A stream of fopencookie stays what it is over dup2; one of libc
/// that shall lead to a mount is replaced, and only standard streams can be, because the program uses them by name.
fn reopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> Result<*mut FILE, Out> {
    if !crate::mounts::any() || path.is_null() || stream.is_null() {
        return Err(Out::Pass);
    }
    let fd = number(stream);
    let on_mount = matches!(place::target_or_linked(libc::AT_FDCWD, path)?, Target::At(..));
    let from_mount = matches!(table::find(fd), Ok(Found::File(_)));
    if !on_mount && !from_mount {
        return Err(Out::Pass);
    }
    let flags = flags_of(ffi::path(mode)?)?;
    // SAFETY: an open stream by the caller's promise.
    unsafe { fflush(stream) };
    let fresh = open_at(libc::AT_FDCWD, path, flags, 0o666, |_, path| open::open::real(path, flags, 0o666))?;
    if fresh != fd {
        kept(crate::descriptors::dup2::hook(fresh, fd))?;
        crate::descriptors::close::hook(fresh);
    }
    let stream = crate::standard::current(fd).unwrap_or(stream);
    if !from_mount && !crate::standard::is_ours(stream) {
        return stream_on(fd, flags, false);
    }
    // SAFETY: an open stream; its buffers belong to the file it no longer is.
    unsafe {
        __fpurge(stream);
        clearerr(stream);
    }
    Ok(stream)
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

/// Moves what one stream has not written yet into another, so that it goes where the descriptor leads now.
pub(crate) fn hand_over(from: *mut FILE, to: *mut FILE) {
    // SAFETY: two open streams of glibc, laid out as asserted above; between base and mark lie the unwritten bytes.
    unsafe {
        let layout = &*from.cast::<Layout>();
        let pending = (layout.write_at as usize).saturating_sub(layout.write_base as usize);
        if pending > 0 && !layout.write_base.is_null() {
            fwrite(layout.write_base.cast(), 1, pending, to);
        }
        __fpurge(from);
    }
}

/// Bytes, not wide characters, from the start: perror writes to an undecided stream past its cookie.
pub(crate) fn set_narrow(stream: *mut FILE) {
    // SAFETY: an open stream.
    unsafe { fwide(stream, -1) };
}

/// Writes at once, as stderr does.
pub(crate) fn set_unbuffered(stream: *mut FILE) {
    // SAFETY: an open stream, and no buffer is passed.
    unsafe { setvbuf(stream, std::ptr::null_mut(), libc::_IONBF, 0) };
}
