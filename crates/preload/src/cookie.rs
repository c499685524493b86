//! Cookie streams: stdio streams on files of a mount, made by fopencookie so that every stdio call
//! uses this library's reads and writes.
//!
//! The cookie contains the descriptor and looks it up at each call, so that a stream survives dup2 onto its descriptor. The
//! descriptor's number is stored in the stream where glibc keeps it, so that fileno works, inside libc as well.

use crate::ffi;
use crate::file_layout::{self, CookieFile};
use crate::outcome::Out;
use libc::{FILE, c_char, c_int, c_void, off_t, size_t, ssize_t};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The cookie: a descriptor, allocated once and freed at close.
struct Cookie {
    fd: AtomicI32,
    /// Called before the descriptor is closed: for the streams that replace stdin, stdout or stderr.
    before_close: Option<fn(c_int)>,
    /// As fwide(3) returns it: -1 bytes, 1 wide characters, 0 undecided.
    orientation: AtomicI32,
}

impl Cookie {
    fn boxed(fd: c_int, before_close: Option<fn(c_int)>) -> *mut Self {
        Box::into_raw(Box::new(Self { fd: AtomicI32::new(fd), before_close, orientation: AtomicI32::new(0) }))
    }
}

#[repr(C)]
struct Functions {
    read: unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C-unwind" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    close: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn fwide(stream: *mut FILE, mode: c_int) -> c_int;
    fn fclose(stream: *mut FILE) -> c_int;
    fn __fpurge(stream: *mut FILE);
    fn setvbuf(stream: *mut FILE, buffer: *mut c_char, mode: c_int, size: size_t) -> c_int;
    fn fwrite(data: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t;
}

/// # Safety
/// `cookie` is that of an open stream of [`stream_on`].
unsafe fn fd_of(cookie: *mut c_void) -> c_int {
    // SAFETY: `stream_on` gave this cookie to fopencookie, and it lives until `cookie_close`.
    unsafe { &*cookie.cast::<Cookie>() }.fd.load(Ordering::Relaxed)
}

/// # Safety
/// Called by libc, as fopencookie(3) says.
unsafe extern "C-unwind" fn cookie_read(cookie: *mut c_void, into: *mut c_char, count: size_t) -> ssize_t {
    // SAFETY: libc passes the stream's cookie and a buffer of `count` bytes.
    unsafe { crate::data::read::hook(fd_of(cookie), into.cast(), count) }
}

/// # Safety
/// Called by libc, as fopencookie(3) says.
unsafe extern "C-unwind" fn cookie_write(cookie: *mut c_void, from: *const c_char, count: size_t) -> ssize_t {
    // SAFETY: libc passes the stream's cookie.
    let fd = unsafe { fd_of(cookie) };
    let mut done = 0;
    while done < count {
        // SAFETY: the rest of libc's buffer, after the bytes that were written.
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
unsafe extern "C-unwind" fn cookie_seek(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
    // SAFETY: libc passes the stream's cookie and its own offset.
    unsafe {
        let Some(wanted) = ffi::take(offset) else { return -1 };
        match crate::data::lseek::hook(fd_of(cookie), wanted, whence) {
            -1 => -1,
            at => ffi::put(offset, at).map_or(-1, |()| 0),
        }
    }
}

/// # Safety
/// Called by libc, as fopencookie(3) says: once, and no code uses the cookie afterwards.
unsafe extern "C-unwind" fn cookie_close(cookie: *mut c_void) -> c_int {
    // SAFETY: `Cookie::boxed` made it, and libc closes a stream once. It is freed before the
    // close(2), whose errno must stay.
    let Cookie { fd, before_close, .. } = *unsafe { Box::from_raw(cookie.cast::<Cookie>()) };
    let fd = fd.into_inner();
    if fd == NO_DESCRIPTOR {
        return 0;
    }
    if let Some(before_close) = before_close {
        before_close(fd);
    }
    // SAFETY: no pointers are passed; the program that closes the stream gives up the descriptor.
    unsafe { crate::close::close::hook(fd) }
}

/// The descriptor of a cookie whose stream has none.
const NO_DESCRIPTOR: c_int = -1;

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
    let cookie = Cookie::boxed(fd, before_close).cast::<c_void>();
    let functions = Functions { read: cookie_read, write: cookie_write, seek: cookie_seek, close: cookie_close };
    // SAFETY: the cookie lives until `cookie_close`, and the functions have fopencookie's signatures.
    let stream = unsafe { fopencookie(cookie, mode_of(flags).as_ptr(), functions) };
    if stream.is_null() {
        // SAFETY: fopencookie failed, so no stream has the cookie.
        drop(unsafe { Box::from_raw(cookie.cast::<Cookie>()) });
        return Err(Out::Errno(libc::ENOMEM));
    }
    // SAFETY: fopencookie just made the stream. glibc sets a cookie stream's number to −2 and only
    // compares it with −1; fileno returns it to the program.
    unsafe {
        file_layout::set_number(stream, fd);
        let (table, read) = (*stream.cast::<CookieFile>()).mark();
        TABLE.store(table, Ordering::Relaxed);
        READ.store(read, Ordering::Relaxed);
        // Buffers fully from the start: glibc's choice at the first byte is for terminals.
        setvbuf(stream, std::ptr::null_mut(), libc::_IOFBF, 0);
    }
    Ok(stream)
}

/// The marks of this library's streams: glibc's table of functions for cookies, and this library's
/// read function in the form in which glibc stores it.
static TABLE: AtomicUsize = AtomicUsize::new(0);
static READ: AtomicUsize = AtomicUsize::new(0);

/// Whether a stream is one of [`stream_on`].
///
/// # Safety
/// `stream` is an open stream of glibc.
pub(crate) unsafe fn is_ours(stream: *mut FILE) -> bool {
    let (table, read) = (TABLE.load(Ordering::Relaxed), READ.load(Ordering::Relaxed));
    // SAFETY: every stream has a table; a stream with the table of cookies is as long as a `CookieFile`.
    unsafe { table != 0 && file_layout::table(stream) == table && (*stream.cast::<CookieFile>()).mark().1 == read }
}

/// The cookie of a stream.
///
/// # Safety
/// `stream` is an open stream of [`stream_on`].
unsafe fn of<'a>(stream: *mut FILE) -> &'a Cookie {
    // SAFETY: a stream of `stream_on` has a cookie of this type, which lives while the stream is open.
    unsafe { &*(*stream.cast::<CookieFile>()).cookie().cast::<Cookie>() }
}

/// The orientation of a stream as fwide(3) returns it, after applying the `wish` to an undecided stream.
///
/// # Safety
/// `stream` is an open stream of [`stream_on`].
pub(crate) unsafe fn orient(stream: *mut FILE, wish: c_int) -> c_int {
    // SAFETY: an open stream of `stream_on` by the caller's promise.
    let orientation = unsafe { &of(stream).orientation };
    let known = orientation.load(Ordering::Relaxed);
    if known != 0 || wish == 0 {
        return known;
    }
    orientation.store(wish.signum(), Ordering::Relaxed);
    wish.signum()
}

/// Converts a stream of libc's fopen or fdopen to a cookie stream in place, so that the program keeps its pointer over freopen.
/// False for other streams (stdin, popen's), which do not change.
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses, without unwritten bytes.
pub(crate) unsafe fn convert(stream: *mut FILE, fd: c_int, flags: c_int) -> Result<bool, Out> {
    // SAFETY: only this thread uses the stream, by the caller's promise; it has place for a cookie
    // before it is changed.
    unsafe {
        if !file_layout::has_place_for_a_cookie(stream) {
            return Ok(false);
        }
        let pattern = stream_on(fd, flags, None)?;
        // fclose(3) of the pattern below must close no descriptor.
        let nothing = Cookie::boxed(NO_DESCRIPTOR, None);
        (*stream.cast::<CookieFile>()).become_like(&mut *pattern.cast::<CookieFile>(), nothing.cast());
        fclose(pattern);
        reset(stream, fd, flags);
    }
    Ok(true)
}

/// Resets a stream to `fd`, as freopen requires: no buffered data, no end of file, no error, its own buffer.
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses.
pub(crate) unsafe fn reset(stream: *mut FILE, fd: c_int, flags: c_int) {
    // SAFETY: only this thread uses the stream, by the caller's promise. __fpurge drops its pushed
    // back characters, and a cookie of this library lives while its stream is open.
    unsafe {
        __fpurge(stream);
        file_layout::clear(stream, flags);
        file_layout::set_number(stream, fd);
        if is_ours(stream) {
            let cookie = of(stream);
            cookie.fd.store(fd, Ordering::Relaxed);
            cookie.orientation.store(0, Ordering::Relaxed);
        }
    }
}

/// Leaves a stream without a descriptor that can only be closed, as freopen does when it fails.
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses.
pub(crate) unsafe fn shut(stream: *mut FILE) {
    // SAFETY: only this thread uses the stream, by the caller's promise.
    unsafe {
        let before_close = is_ours(stream).then(|| of(stream).before_close).flatten();
        if let Some(before_close) = before_close {
            before_close(file_layout::number(stream));
        }
        reset(stream, NO_DESCRIPTOR, libc::O_RDONLY);
        file_layout::refuse_all(stream);
    }
}

/// The descriptor inside a stream; negative if it has no descriptor.
///
/// # Safety
/// `stream` is an open stream of glibc.
pub(crate) unsafe fn number(stream: *mut FILE) -> c_int {
    // SAFETY: an open stream of glibc by the caller's promise.
    unsafe { file_layout::number(stream) }
}

/// Disables a stream of libc that another one replaces. A use through a pointer that the program
/// kept fails, unless this library replaces the function (`kept_pointers`), and no system call
/// without a hook writes to it. Returns the stream's rights.
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses, with nothing left to be written.
pub(crate) unsafe fn disable(stream: *mut FILE) -> c_int {
    // SAFETY: an open stream of glibc that only this thread uses, by the caller's promise.
    unsafe {
        file_layout::set_number(stream, NO_DESCRIPTOR);
        file_layout::refuse_all(stream)
    }
}

/// Undoes [`disable`].
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses.
pub(crate) unsafe fn enable(stream: *mut FILE, fd: c_int, rights: c_int) {
    // SAFETY: an open stream of glibc that only this thread uses, by the caller's promise.
    unsafe {
        file_layout::set_number(stream, fd);
        file_layout::allow(stream, rights);
    }
}

/// Moves the unwritten data of one stream to another, so that it goes where the descriptor leads
/// now. Moves the read-ahead data and the buffering mode too, because for the program both are one
/// stream.
///
/// # Safety
/// `from` and `to` are open streams of glibc.
pub(crate) unsafe fn hand_over(from: *mut FILE, to: *mut FILE) {
    // SAFETY: two open streams of glibc by the caller's promise; setvbuf gets no buffer.
    unsafe {
        let mode = file_layout::buffering(from);
        if file_layout::buffering(to) != mode {
            setvbuf(to, std::ptr::null_mut(), mode, 0);
        }
        let pending = file_layout::unwritten(from);
        if !pending.is_empty() {
            fwrite(pending.as_ptr().cast(), 1, pending.len(), to);
        }
        file_layout::give_unread(from, to);
        file_layout::take_single_byte(to);
        __fpurge(from);
    }
}

/// Sets the orientation to bytes, because perror writes to an undecided stream without its cookie.
///
/// # Safety
/// `stream` is an open stream.
pub(crate) unsafe fn set_narrow(stream: *mut FILE) {
    // SAFETY: an open stream by the caller's promise.
    unsafe { fwide(stream, -1) };
}
