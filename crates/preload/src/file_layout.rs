//! The layout of glibc's `FILE` on 64-bit Linux: an ABI that is compiled into programs (`getc` and `putc` were macros) and has
//! not changed since 2.1. Only operations without a libc function are done here.

use crate::ffi;
use libc::{FILE, c_char, c_int, c_void};

/// `struct _IO_FILE` and the table of functions behind it (`struct _IO_FILE_plus`).
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
    functions: [usize; 4], // read, write, seek, close, as glibc disguises pointers
    lock: [u64; 2],
}

/// A stream of fopen: its lock and its wide characters' state are allocated with it (`struct locked_FILE`).
const LOCKED_BYTES: usize = 472;
/// Where the latter begins.
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
/// In `flags2`: the lock is taken even by a program of one thread, since this library's functions may take longer than libc's.
const NEEDS_LOCK: c_int = 0x80;

/// Where the fields of a stream are. They are read and written one by one, never by a reference: libc changes them too.
const fn layout(stream: *mut FILE) -> *mut Layout {
    stream.cast()
}

/// The descriptor's number.
///
/// # Safety
/// An open stream of glibc.
pub(crate) unsafe fn number(stream: *mut FILE) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (*layout(stream)).number }
}

/// Sets the descriptor's number: fileno gives it to the program, inside libc as well.
///
/// # Safety
/// An open stream of glibc.
pub(crate) unsafe fn set_number(stream: *mut FILE, fd: c_int) {
    // SAFETY: the caller's promise.
    unsafe { (*layout(stream)).number = fd };
}

/// Address of the stream's table of functions.
///
/// # Safety
/// An open stream of glibc.
pub(crate) unsafe fn table(stream: *mut FILE) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (*layout(stream)).table }
}

/// `_IONBF`, `_IOLBF` or `_IOFBF`.
///
/// # Safety
/// An open stream of glibc.
pub(crate) unsafe fn buffering(stream: *mut FILE) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { (*layout(stream)).flags } & (UNBUFFERED | LINE_BUFFERED) {
        0 => libc::_IOFBF,
        LINE_BUFFERED => libc::_IOLBF,
        _ => libc::_IONBF,
    }
}

/// The bytes that wait to be written.
///
/// # Safety
/// An open stream of glibc of bytes, not used meanwhile.
pub(crate) unsafe fn unwritten<'a>(stream: *mut FILE) -> &'a [u8] {
    // SAFETY: the caller's promise.
    let [base, next, _] = unsafe { (*layout(stream)).write };
    // SAFETY: between base and next lie the unwritten bytes; both are NULL, or next is base, when there are none.
    unsafe { ffi::bytes(base.cast(), (next as usize).saturating_sub(base as usize)) }
}

/// Removes the one-byte buffer that setvbuf leaves an unbuffered stream. libc's stderr begins without a buffer and gets a real
/// one when the program requests line buffering. A one-byte buffer would stay, and each piece of a line would be written by
/// itself.
///
/// # Safety
/// An open stream of glibc that no other thread uses.
pub(crate) unsafe fn take_single_byte(stream: *mut FILE) {
    let file = layout(stream);
    // SAFETY: the caller's promise.
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

/// Copies what one stream has read ahead into the empty buffer of another, if it fits.
///
/// # Safety
/// Two open streams of glibc that no other thread uses.
pub(crate) unsafe fn give_unread(from: *mut FILE, to: *mut FILE) {
    let (from, to) = (layout(from), layout(to));
    // SAFETY: the caller's promise. What is copied are the unread bytes of one stream, into as much space in the buffer of another.
    unsafe {
        let ([next, end, _], [base, limit]) = ((*from).read, (*to).buffer);
        let bytes = (end as usize).saturating_sub(next as usize);
        // A byte that was pushed back lies elsewhere, and wide characters are not bytes.
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

/// Resets a stream as freopen does: an empty buffer, which is not the program's, the rights and the mode of `flags` (those of
/// open(2)), and no error or end of file.
///
/// # Safety
/// An open stream of glibc that no other thread uses, purged.
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
    // SAFETY: the caller's promise.
    unsafe {
        if (*file).flags & USER_BUFFER != 0 {
            (*file).buffer = [std::ptr::null_mut(); 2]; // it may be freed now, or is one byte inside the stream
        }
        (*file).read = [(*file).buffer[0]; 3];
        (*file).write = [(*file).buffer[0]; 3];
        (*file).offset = -1; // not known
        (*file).flags = (*file).flags & !RESET | rights | appending;
    }
}

/// Marks an error on a stream, as ferror tells it.
///
/// # Safety
/// An open stream of glibc that no other thread uses.
pub(crate) unsafe fn note_error(stream: *mut FILE) {
    // SAFETY: the caller's promise.
    unsafe { (*layout(stream)).flags |= ERROR_SEEN };
}

/// Forbids reading and writing from now on. Returns the former rights. Drops buffered data.
///
/// # Safety
/// An open stream of glibc that no other thread uses, purged.
pub(crate) unsafe fn refuse_all(stream: *mut FILE) -> c_int {
    let file = layout(stream);
    // SAFETY: the caller's promise.
    unsafe {
        let flags = (*file).flags;
        (*file).flags = flags & !WRITING | NO_READS | NO_WRITES;
        // No free byte in the buffer: functions that check the pointers only must reach the check of the rights.
        (*file).read = [(*file).buffer[0]; 3];
        (*file).write = [(*file).buffer[0]; 3];
        flags & (NO_READS | NO_WRITES)
    }
}

/// Restores the rights that [`refuse_all`] removed.
///
/// # Safety
/// An open stream of glibc that no other thread uses.
pub(crate) unsafe fn allow(stream: *mut FILE, rights: c_int) {
    let file = layout(stream);
    // SAFETY: the caller's promise.
    unsafe { (*file).flags = (*file).flags & !(NO_READS | NO_WRITES) | rights };
}

/// Whether a stream is in memory that fopen or fdopen allocated with the known layout, which has room for a cookie stream.
///
/// # Safety
/// An open stream of glibc.
pub(crate) unsafe fn has_place_for_a_cookie(stream: *mut FILE) -> bool {
    // SAFETY: the caller's promise.
    let (lock, wide) = unsafe { ((*layout(stream)).lock as usize, (*layout(stream)).wide as usize) };
    // stdin, stdout and stderr are not of malloc, but nor do their lock and wide state lie behind them.
    // SAFETY: with both there, the stream is what fopen got from malloc.
    lock == stream as usize + size_of::<Layout>()
        && wide == stream as usize + WIDE_AT
        && unsafe { libc::malloc_usable_size(stream.cast()) } >= LOCKED_BYTES
}

impl CookieFile {
    /// The common properties of streams with the same cookie functions: the table, and the function for reading.
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.file.table, self.functions[0])
    }

    /// The cookie.
    pub(crate) fn cookie(&self) -> *mut c_void {
        self.cookie
    }

    /// Takes over the functions and the cookie of another, which gets `instead`.
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
