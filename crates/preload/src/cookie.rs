//! Cookie streams: stdio streams on files of a mount, made by fopencookie so that every stdio call works through our read and
//! write.
//!
//! The cookie holds the descriptor and asks at each call what it is, so a stream lives through dup2 onto its descriptor.
//! The descriptor's number is put into the stream as glibc keeps it, so that fileno works, inside libc as well.

use crate::ffi;
use crate::outcome::Out;
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
    /// Called before the descriptor is closed: for the streams that stand in for stdin, stdout or stderr.
    before_close: Option<fn(c_int)>,
}

#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn fwide(stream: *mut FILE, mode: c_int) -> c_int;
    fn __fpurge(stream: *mut FILE);
    fn setvbuf(stream: *mut FILE, buffer: *mut c_char, mode: c_int, size: size_t) -> c_int;
    fn fwrite(data: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t;
}

/// # Safety
/// The cookie of an open stream.
unsafe fn fd_of(cookie: *mut c_void) -> c_int {
    // SAFETY: the cookie is the one we gave to fopencookie; it lives until `cookie_close`.
    unsafe { &*cookie.cast::<Cookie>() }.fd.load(Ordering::Relaxed)
}

/// # Safety
/// Called by libc, as fopencookie(3) says.
unsafe extern "C" fn cookie_read(cookie: *mut c_void, into: *mut c_char, count: size_t) -> ssize_t {
    // SAFETY: libc's cookie and buffer.
    unsafe { crate::data::read::hook(fd_of(cookie), into.cast(), count) }
}

/// # Safety
/// Called by libc, as fopencookie(3) says.
unsafe extern "C" fn cookie_write(cookie: *mut c_void, from: *const c_char, count: size_t) -> ssize_t {
    // SAFETY: libc's cookie.
    let fd = unsafe { fd_of(cookie) };
    let mut done = 0;
    while done < count {
        // SAFETY: libc's buffer, behind what was written.
        let written = unsafe { crate::data::write::hook(fd, from.wrapping_add(done).cast(), count - done) };
        if written <= 0 {
            break; // fopencookie(3): a failure is a short count, never −1
        }
        done += written as usize;
    }
    done as ssize_t
}

/// # Safety
/// Called by libc, as fopencookie(3) says.
unsafe extern "C" fn cookie_seek(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
    // SAFETY: libc's cookie and offset.
    unsafe {
        let Some(wanted) = ffi::take(offset) else { return -1 };
        match crate::data::lseek::hook(fd_of(cookie), wanted, whence) {
            -1 => -1,
            at => ffi::put(offset, at).map_or(-1, |()| 0),
        }
    }
}

/// # Safety
/// Called by libc, as fopencookie(3) says: once, and the cookie is not used any more.
unsafe extern "C" fn cookie_close(cookie: *mut c_void) -> c_int {
    // SAFETY: made by Box in `stream_on`, and closed once.
    let cookie = unsafe { Box::from_raw(cookie.cast::<Cookie>()) };
    let fd = cookie.fd.load(Ordering::Relaxed);
    if let Some(before_close) = cookie.before_close {
        before_close(fd);
    }
    // SAFETY: no pointers; the stream's user gives the descriptor up.
    unsafe { crate::close::close::hook(fd) }
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
pub(crate) fn stream_on(fd: c_int, flags: c_int, before_close: Option<fn(c_int)>) -> Result<*mut FILE, Out> {
    let cookie = Box::into_raw(Box::new(Cookie { fd: AtomicI32::new(fd), before_close })).cast::<c_void>();
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
///
/// # Safety
/// An open stream of glibc.
pub(crate) unsafe fn number(stream: *mut FILE) -> c_int {
    // SAFETY: an open stream of glibc by the caller's promise.
    unsafe { (*stream.cast::<Layout>()).number }
}

/// Moves what one stream has not written yet into another, so that it goes where the descriptor leads now.
///
/// # Safety
/// Two open streams of glibc.
pub(crate) unsafe fn hand_over(from: *mut FILE, to: *mut FILE) {
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
///
/// # Safety
/// An open stream.
pub(crate) unsafe fn set_narrow(stream: *mut FILE) {
    // SAFETY: an open stream.
    unsafe { fwide(stream, -1) };
}

/// Writes at once, as stderr does.
///
/// # Safety
/// An open stream.
pub(crate) unsafe fn set_unbuffered(stream: *mut FILE) {
    // SAFETY: an open stream, and no buffer is passed.
    unsafe { setvbuf(stream, std::ptr::null_mut(), libc::_IONBF, 0) };
}
