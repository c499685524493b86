//! C streams on files of a mount, in programs of musl. A `FILE` of musl contains the functions with
//! which it reads and writes, so this library redirects any stream to its own functions in place,
//! and replaces no stream.
//!
//! Layout: `struct _IO_FILE` of musl's src/internal/stdio_impl.h, which is the same from 1.1.0 to
//! 1.2.5. The four functions do the work of musl's `__stdio_read`, `__stdio_write`, `__stdio_seek`
//! and `__stdio_close` through this library's hooks, which call libc for a descriptor that is not
//! on a mount.

use crate::outcome::Out;
use libc::{FILE, c_char, c_int, c_void, iovec, off_t, size_t};

#[repr(C)]
struct Layout {
    flags: u32,
    read_next: *mut u8,
    read_end: *mut u8,
    close: unsafe extern "C" fn(*mut FILE) -> c_int,
    write_end: *mut u8,
    write_next: *mut u8,
    _zero: *mut u8,
    write_base: *mut u8,
    read: unsafe extern "C" fn(*mut FILE, *mut u8, size_t) -> size_t,
    write: unsafe extern "C" fn(*mut FILE, *const u8, size_t) -> size_t,
    seek: unsafe extern "C" fn(*mut FILE, off_t, c_int) -> off_t,
    buffer: *mut u8,
    buffer_bytes: size_t,
    _neighbours: [*mut FILE; 2],
    number: c_int,
    _pipe: c_int,
    _lock_count: i64,
    _mode: c_int,
    _lock: c_int,
    flushed_by: c_int,
}
const _: () = assert!(std::mem::offset_of!(Layout, read) == 64 && std::mem::offset_of!(Layout, buffer) == 88);
const _: () = assert!(std::mem::offset_of!(Layout, number) == 120 && std::mem::offset_of!(Layout, flushed_by) == 144);

const PERMANENT: u32 = 1;
const NO_READS: u32 = 4;
const NO_WRITES: u32 = 8;
const END_SEEN: u32 = 16;
const ERROR_SEEN: u32 = 32;
const APPENDING: u32 = 128;
/// In `flushed_by`: no character flushes the buffer, as for a file.
const NO_CHARACTER: c_int = -1;
/// The number of a stream without a descriptor.
const NO_DESCRIPTOR: c_int = -1;

/// fopencookie's functions. They are never called, because the stream is redirected before the
/// program gets it.
#[repr(C)]
struct Functions([usize; 4]);

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// # Safety
/// `stream` is an open stream of musl that no other thread uses.
unsafe fn layout<'a>(stream: *mut FILE) -> &'a mut Layout {
    // SAFETY: an open stream of musl by the caller's promise, laid out as asserted above.
    unsafe { &mut *stream.cast() }
}

/// # Safety
/// Called by libc with its stream and a buffer of `count` bytes.
unsafe extern "C" fn read(stream: *mut FILE, into: *mut u8, count: size_t) -> size_t {
    // SAFETY: libc passes an open stream that it has locked.
    let file = unsafe { layout(stream) };
    // The last byte is taken from the buffer, so that the program can push it back.
    let direct = count - usize::from(file.buffer_bytes != 0 && count != 0);
    let parts =
        [iovec { iov_base: into.cast(), iov_len: direct }, iovec { iov_base: file.buffer.cast(), iov_len: file.buffer_bytes }];
    // SAFETY: the rest of the caller's buffer and the stream's own buffer, with their lengths.
    let got = unsafe { crate::data::readv::hook(file.number, parts.as_ptr(), 2) };
    let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else {
        file.flags |= if got == 0 { END_SEEN } else { ERROR_SEEN };
        return 0;
    };
    if got <= direct {
        return got;
    }
    file.read_next = file.buffer;
    file.read_end = file.buffer.wrapping_add(got - direct);
    if direct < count {
        // SAFETY: the buffer has at least one byte by the check above, and `into` has `count`.
        unsafe { into.wrapping_add(direct).write(file.read_next.read()) };
        file.read_next = file.read_next.wrapping_add(1);
    }
    count
}

/// # Safety
/// Called by libc with its stream and a buffer of `count` bytes.
unsafe extern "C" fn write(stream: *mut FILE, from: *const u8, count: size_t) -> size_t {
    // SAFETY: libc passes an open stream that it has locked.
    let file = unsafe { layout(stream) };
    let pending = (file.write_next as usize).saturating_sub(file.write_base as usize);
    let mut parts = [
        iovec { iov_base: file.write_base.cast(), iov_len: pending },
        iovec { iov_base: from.cast_mut().cast(), iov_len: count },
    ];
    while parts[0].iov_len + parts[1].iov_len > 0 {
        // SAFETY: the unwritten bytes in the stream's buffer, and the caller's bytes.
        let done = unsafe { crate::data::writev::hook(file.number, parts.as_ptr(), 2) };
        let Some(mut done) = usize::try_from(done).ok().filter(|done| *done > 0) else {
            (file.write_base, file.write_next, file.write_end) =
                (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
            file.flags |= ERROR_SEEN;
            return if parts[0].iov_len > 0 { 0 } else { count - parts[1].iov_len };
        };
        for part in &mut parts {
            let of_this = done.min(part.iov_len);
            part.iov_base = part.iov_base.wrapping_byte_add(of_this);
            part.iov_len -= of_this;
            done -= of_this;
        }
    }
    file.write_end = file.buffer.wrapping_add(file.buffer_bytes);
    (file.write_base, file.write_next) = (file.buffer, file.buffer);
    count
}

/// # Safety
/// Called by libc with its stream.
unsafe extern "C" fn seek(stream: *mut FILE, offset: off_t, whence: c_int) -> off_t {
    // SAFETY: libc passes an open stream that it has locked; lseek gets no pointers.
    unsafe { crate::data::lseek::hook(layout(stream).number, offset, whence) }
}

/// # Safety
/// Called by libc with its stream.
unsafe extern "C" fn close(stream: *mut FILE) -> c_int {
    // SAFETY: libc passes an open stream; the program that closes it gives up the descriptor.
    unsafe {
        match layout(stream).number {
            NO_DESCRIPTOR => 0,
            fd => crate::close::close::hook(fd),
        }
    }
}

/// fopencookie's mode for open(2)'s flags.
fn mode_of(flags: c_int) -> &'static std::ffi::CStr {
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => c"r",
        libc::O_WRONLY => c"w",
        _ => c"w+",
    }
}

/// Makes a stream on a descriptor.
pub(crate) fn stream_on(fd: c_int, flags: c_int, _before_close: Option<fn(c_int)>) -> Result<*mut FILE, Out> {
    // SAFETY: the mode ends with a NUL, and the functions are replaced before the stream is used.
    let stream = unsafe { fopencookie(std::ptr::null_mut(), mode_of(flags).as_ptr(), Functions([0; 4])) };
    if stream.is_null() {
        return Err(Out::Errno(libc::ENOMEM));
    }
    // SAFETY: fopencookie just made the stream, so no other thread uses it.
    unsafe {
        lead_to_us(stream);
        reset(stream, fd, flags);
    }
    Ok(stream)
}

/// Redirects a stream to this library's functions.
///
/// # Safety
/// `stream` is an open stream of musl that no other thread uses.
pub(crate) unsafe fn lead_to_us(stream: *mut FILE) {
    // SAFETY: an open stream of musl that only this thread uses, by the caller's promise.
    let file = unsafe { layout(stream) };
    (file.read, file.write, file.seek, file.close) = (read, write, seek, close);
    file.flushed_by = NO_CHARACTER;
}

/// Whether a stream uses this library's functions.
///
/// # Safety
/// `stream` is an open stream of musl that no other thread uses.
pub(crate) unsafe fn is_ours(stream: *mut FILE) -> bool {
    // SAFETY: an open stream of musl that only this thread uses, by the caller's promise.
    unsafe { layout(stream).write as usize == write as *const () as usize }
}

/// Converts a stream of libc's fopen, fdopen or popen in place.
///
/// # Safety
/// `stream` is an open stream of musl that no other thread uses, without unwritten bytes.
pub(crate) unsafe fn convert(stream: *mut FILE, fd: c_int, flags: c_int) -> Result<bool, Out> {
    // SAFETY: an open stream of musl that only this thread uses, by the caller's promise.
    unsafe {
        lead_to_us(stream);
        reset(stream, fd, flags);
    }
    Ok(true)
}

/// Resets a stream to `fd`, as freopen requires: no buffered data, no end of file, no error.
///
/// # Safety
/// `stream` is an open stream of musl that no other thread uses.
pub(crate) unsafe fn reset(stream: *mut FILE, fd: c_int, flags: c_int) {
    // SAFETY: an open stream of musl that only this thread uses, by the caller's promise.
    let file = unsafe { layout(stream) };
    (file.read_next, file.read_end) = (std::ptr::null_mut(), std::ptr::null_mut());
    (file.write_base, file.write_next, file.write_end) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    let rights = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => NO_WRITES,
        libc::O_WRONLY => NO_READS,
        _ => 0,
    };
    let appends = if flags & libc::O_APPEND == 0 { 0 } else { APPENDING };
    file.flags = file.flags & PERMANENT | rights | appends;
    file.number = fd;
}

/// Leaves a stream without a descriptor. It can then only be closed, as after a failed freopen.
///
/// # Safety
/// `stream` is an open stream of musl that no other thread uses.
pub(crate) unsafe fn shut(stream: *mut FILE) {
    // SAFETY: an open stream of musl that only this thread uses, by the caller's promise.
    unsafe {
        lead_to_us(stream);
        reset(stream, NO_DESCRIPTOR, libc::O_RDONLY);
        layout(stream).flags |= NO_READS;
    }
}

/// The descriptor inside a stream; negative if it has no descriptor.
///
/// # Safety
/// `stream` is an open stream of musl that no other thread uses.
pub(crate) unsafe fn number(stream: *mut FILE) -> c_int {
    // SAFETY: an open stream of musl that only this thread uses, by the caller's promise.
    unsafe { layout(stream) }.number
}
