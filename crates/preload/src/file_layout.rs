//! The layout of glibc's `FILE` on 64-bit Linux. It is an ABI, because it is compiled into programs
//! (`getc` and `putc` were macros), and has not changed since 2.1. Only operations for which libc
//! has no function are done here.

use crate::ffi;
use libc::{FILE, c_char, c_int, c_void};

/// `struct _IO_FILE`, and the table of functions after it (`struct _IO_FILE_plus`).
#[repr(C)]
struct Layout {
    flags: c_int,
    read: [*mut c_char; 3],  // next, end, base
    write: [*mut c_char; 3], // base, next, end
    buffer: [*mut c_char; 2],
    _saved: [*mut c_char; 3],
    _markers: *mut c_void,
    _chain: *mut c_void,
    number: c_int,
    flags2: c_int,
    _old_offset: i64,
    _column: [u8; 8],
    lock: *mut c_void,
    offset: i64,
    _convert: *mut c_void,
    wide: *mut c_void,
    _free: [*mut c_void; 3],
    mode: c_int,
    _unused: [u8; 20],
    table: usize,
}
const _: () = assert!(std::mem::offset_of!(Layout, number) == 112 && std::mem::offset_of!(Layout, lock) == 136);
const _: () = assert!(std::mem::offset_of!(Layout, mode) == 192 && size_of::<Layout>() == 224);

/// A stream of fopencookie: `struct _IO_cookie_file`, and the lock that is allocated with it.
#[repr(C)]
pub(crate) struct CookieFile {
    file: Layout,
    cookie: *mut c_void,
    functions: [usize; 4], // read, write, seek, close, mangled as by glibc
    lock: [u64; 2],
}

/// Bytes of a stream of fopen. Its lock and the state of its wide characters are allocated with it
/// (`struct locked_FILE`).
const LOCKED_BYTES: usize = 472;
/// Offset of that state.
const WIDE_AT: usize = size_of::<Layout>() + 16;
const _: () = assert!(size_of::<CookieFile>() <= LOCKED_BYTES);

const USER_BUFFER: c_int = 0x1;
const UNBUFFERED: c_int = 0x2;
const NO_READS: c_int = 0x4;
const NO_WRITES: c_int = 0x8;
const END_SEEN: c_int = 0x10;
const ERROR_SEEN: c_int = 0x20;
const BACKED_UP: c_int = 0x100;
const LINE_BUFFERED: c_int = 0x200;
const WRITING: c_int = 0x800;
const APPENDING: c_int = 0x1000;
/// In `flags2`: the lock is taken even in a program of one thread, because this library's functions
/// may take longer than libc's.
const NEEDS_LOCK: c_int = 0x80;

/// The address of a stream's fields. They are read and written one by one, never through a
/// reference, because libc changes them too.
const fn layout(stream: *mut FILE) -> *mut Layout {
    stream.cast()
}

/// The descriptor's number.
///
/// # Safety
/// `stream` is an open stream of glibc.
pub(crate) unsafe fn number(stream: *mut FILE) -> c_int {
    // SAFETY: an open stream of glibc by the caller's promise.
    unsafe { (*layout(stream)).number }
}

/// Sets the descriptor's number, which fileno returns to the program and inside libc.
///
/// # Safety
/// `stream` is an open stream of glibc.
pub(crate) unsafe fn set_number(stream: *mut FILE, fd: c_int) {
    // SAFETY: an open stream of glibc by the caller's promise.
    unsafe { (*layout(stream)).number = fd };
}

/// Address of the stream's table of functions.
///
/// # Safety
/// `stream` is an open stream of glibc.
pub(crate) unsafe fn table(stream: *mut FILE) -> usize {
    // SAFETY: an open stream of glibc by the caller's promise.
    unsafe { (*layout(stream)).table }
}

/// The buffering mode: `_IONBF`, `_IOLBF` or `_IOFBF`.
///
/// # Safety
/// `stream` is an open stream of glibc.
pub(crate) unsafe fn buffering(stream: *mut FILE) -> c_int {
    // SAFETY: an open stream of glibc by the caller's promise.
    match unsafe { (*layout(stream)).flags } & (UNBUFFERED | LINE_BUFFERED) {
        0 => libc::_IOFBF,
        LINE_BUFFERED => libc::_IOLBF,
        _ => libc::_IONBF,
    }
}

/// The bytes that the stream has not written yet.
///
/// # Safety
/// `stream` is an open stream of glibc for bytes, and no code uses it while the result is used.
pub(crate) unsafe fn unwritten<'a>(stream: *mut FILE) -> &'a [u8] {
    // SAFETY: an open stream of glibc by the caller's promise.
    let [base, next, _] = unsafe { (*layout(stream)).write };
    // SAFETY: the unwritten bytes lie between base and next. If there are none, both are NULL or equal.
    unsafe { ffi::bytes(base.cast(), (next as usize).saturating_sub(base as usize)) }
}

/// Removes the buffer of one byte that setvbuf leaves to an unbuffered stream. libc's stderr begins
/// without a buffer and gets a real one when the program requests line buffering. With a buffer of
/// one byte, each piece of a line would be written separately.
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses.
pub(crate) unsafe fn take_single_byte(stream: *mut FILE) {
    let file = layout(stream);
    // SAFETY: an open stream of glibc that only this thread uses, by the caller's promise.
    unsafe {
        let (flags, read, write, [base, limit]) = ((*file).flags, (*file).read, (*file).write, (*file).buffer);
        let is_empty = read[0] == read[1] && write[0] == write[1] && flags & BACKED_UP == 0;
        if flags & UNBUFFERED != 0 && is_empty && (limit as usize).saturating_sub(base as usize) == 1 {
            (*file).flags = flags & !(USER_BUFFER | WRITING);
            (*file).read = [std::ptr::null_mut(); 3];
            (*file).write = [std::ptr::null_mut(); 3];
            (*file).buffer = [std::ptr::null_mut(); 2];
        }
    }
}

/// Copies the bytes that one stream has read ahead to the empty buffer of another, if they fit.
///
/// # Safety
/// `from` and `to` are open streams of glibc that no other thread uses.
pub(crate) unsafe fn give_unread(from: *mut FILE, to: *mut FILE) {
    let (from, to) = (layout(from), layout(to));
    // SAFETY: only this thread uses the streams, by the caller's promise. The copy has as many
    // bytes as `from` has unread, and fits between the limits of the buffer of `to`.
    unsafe {
        let ([next, end, _], [base, limit]) = ((*from).read, (*to).buffer);
        let bytes = (end as usize).saturating_sub(next as usize);
        // A byte that was pushed back is in another buffer, and wide characters are not bytes.
        let plain = (*from).flags & BACKED_UP == 0 && (*from).mode <= 0 && (*to).flags & WRITING == 0;
        if bytes == 0 || !plain || bytes > (limit as usize).saturating_sub(base as usize) {
            return;
        }
        base.copy_from_nonoverlapping(next, bytes);
        (*to).read = [base, base.wrapping_add(bytes), base];
        (*to).write = [base; 3];
        (*to).offset = -1;
    }
}

/// Resets a stream as freopen does: an empty buffer, which is not the program's, the rights and the
/// mode of `flags` (those of open(2)), and neither an error nor an end of file.
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses, and is purged.
pub(crate) unsafe fn clear(stream: *mut FILE, flags: c_int) {
    let rights = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => NO_WRITES,
        libc::O_WRONLY => NO_READS,
        _ => 0,
    };
    let appending = if flags & libc::O_APPEND != 0 { APPENDING } else { 0 };
    const RESET: c_int =
        USER_BUFFER | UNBUFFERED | LINE_BUFFERED | NO_READS | NO_WRITES | END_SEEN | ERROR_SEEN | WRITING | APPENDING;
    let file = layout(stream);
    // SAFETY: an open stream of glibc that only this thread uses, by the caller's promise.
    unsafe {
        if (*file).flags & USER_BUFFER != 0 {
            (*file).buffer = [std::ptr::null_mut(); 2]; // the program may have freed it, or it is one byte inside the stream
        }
        (*file).read = [(*file).buffer[0]; 3];
        (*file).write = [(*file).buffer[0]; 3];
        (*file).offset = -1; // unknown
        (*file).flags = (*file).flags & !RESET | rights | appending;
    }
}

/// Marks an error on a stream, which ferror then returns.
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses.
pub(crate) unsafe fn note_error(stream: *mut FILE) {
    // SAFETY: an open stream of glibc that only this thread uses, by the caller's promise.
    unsafe { (*layout(stream)).flags |= ERROR_SEEN };
}

/// Forbids reading and writing from now on. Returns the former rights. Drops buffered data.
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses, and is purged.
pub(crate) unsafe fn refuse_all(stream: *mut FILE) -> c_int {
    let file = layout(stream);
    // SAFETY: an open stream of glibc that only this thread uses, by the caller's promise.
    unsafe {
        let flags = (*file).flags;
        (*file).flags = flags & !WRITING | NO_READS | NO_WRITES;
        // The buffer has no free byte, so that functions that check only the pointers get to the
        // check of the rights.
        (*file).read = [(*file).buffer[0]; 3];
        (*file).write = [(*file).buffer[0]; 3];
        flags & (NO_READS | NO_WRITES)
    }
}

/// Restores the rights that [`refuse_all`] removed.
///
/// # Safety
/// `stream` is an open stream of glibc that no other thread uses.
pub(crate) unsafe fn allow(stream: *mut FILE, rights: c_int) {
    let file = layout(stream);
    // SAFETY: an open stream of glibc that only this thread uses, by the caller's promise.
    unsafe { (*file).flags = (*file).flags & !(NO_READS | NO_WRITES) | rights };
}

/// Whether a stream is in memory that fopen or fdopen allocated with the known layout, which has room for a cookie stream.
///
/// # Safety
/// `stream` is an open stream of glibc.
pub(crate) unsafe fn has_place_for_a_cookie(stream: *mut FILE) -> bool {
    // SAFETY: an open stream of glibc by the caller's promise.
    let (lock, wide) = unsafe { ((*layout(stream)).lock as usize, (*layout(stream)).wide as usize) };
    // stdin, stdout and stderr are not in memory of malloc, and do not have their lock and their
    // wide state after them.
    // SAFETY: a stream with both after it is one that fopen got from malloc.
    lock == stream as usize + size_of::<Layout>()
        && wide == stream as usize + WIDE_AT
        && unsafe { libc::malloc_usable_size(stream.cast()) } >= LOCKED_BYTES
}

impl CookieFile {
    /// The properties that streams with the same cookie functions share: the table, and the
    /// function for reading.
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.file.table, self.functions[0])
    }

    /// The cookie of the stream.
    pub(crate) fn cookie(&self) -> *mut c_void {
        self.cookie
    }

    /// Takes over the functions and the cookie of `other`, which gets `instead` as its cookie.
    pub(crate) fn become_like(&mut self, other: &mut Self, instead: *mut c_void) {
        self.cookie = std::mem::replace(&mut other.cookie, instead);
        self.functions = other.functions;
        self.lock = [0; 2];
        self.file.lock = (&raw mut self.lock).cast();
        self.file.flags2 |= NEEDS_LOCK;
        self.file.wide = other.file.wide;
        self.file.mode = other.file.mode;
        self.file.table = other.file.table;
    }
}
