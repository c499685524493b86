//! Converts pointers of C to references and values of Rust.
//!
//! A hook gets its pointers from the caller of the libc function of the same name. That caller
//! keeps the function's contract, and so the promises that the functions here require. Where a
//! system call would fail with EFAULT, the functions detect NULL and unmapped memory (`pointers`).
//!
//! Another thread may change the bytes of a write during the call: PostgreSQL sets hint bits in a
//! page that it writes. The client copies such bytes or hands them to the kernel, and nothing
//! depends on their values. So the file gets old or new bytes, as from write(2).

use crate::outcome::Out;
use crate::pointers::{self, Use};
use libc::{c_char, c_int, c_void, iovec, size_t};
use std::io::{IoSlice, IoSliceMut};

/// The bytes of a path argument, without its NUL.
///
/// # Safety
/// `path` is NULL, or a NUL-terminated string that does not change for `'a`.
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a [u8], Out> {
    // SAFETY: the string does not change, by the caller's promise; `string_length` detects pages
    // that are not mapped.
    let length = unsafe { pointers::string_length(path as usize) }.ok_or(Out::Errno(libc::EFAULT))?;
    // SAFETY: `string_length` found that many bytes before the NUL; they live for `'a` by the
    // caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(path.cast(), length) })
}

/// A buffer to fill.
///
/// # Safety
/// `at` is NULL, or `count` writable bytes that no other code uses for `'a`.
pub(crate) unsafe fn bytes_mut<'a>(at: *mut c_void, count: size_t) -> &'a mut [u8] {
    if at.is_null() {
        return &mut [];
    }
    // SAFETY: `count` writable bytes that no other code uses for `'a`, by the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), count.min(COUNT_MAX)) }
}

/// As [`bytes_mut`], with EFAULT as from a system call: for NULL, and for a small buffer in
/// unmapped memory. Large buffers are not checked, because each read of a database would then query
/// the kernel about its pages.
///
/// # Safety
/// As [`bytes_mut`].
pub(crate) unsafe fn bytes_mut_checked<'a>(at: *mut c_void, count: size_t) -> Result<&'a mut [u8], Out> {
    check(at as usize, count, Use::Write)?;
    // SAFETY: the caller promises what `bytes_mut` requires.
    Ok(unsafe { bytes_mut(at, count) })
}

fn check(at: usize, count: usize, wanted: Use) -> Result<(), Out> {
    let looked_at = count > 0 && (at == 0 || count < LOOKED_AT_BYTES);
    if looked_at && !pointers::lead_to(at, count, wanted) { Err(Out::Errno(libc::EFAULT)) } else { Ok(()) }
}

/// Buffers smaller than this are checked.
const LOOKED_AT_BYTES: usize = 4096;

/// A buffer to read, checked as by [`bytes_mut_checked`].
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn bytes_checked<'a>(at: *const c_void, count: size_t) -> Result<&'a [u8], Out> {
    check(at as usize, count, Use::Read)?;
    // SAFETY: the caller promises what `bytes` requires.
    Ok(unsafe { bytes(at, count) })
}

/// A buffer to read.
///
/// # Safety
/// `at` is NULL, or `count` readable bytes that stay mapped for `'a`. If another thread changes
/// them, the values read are unspecified.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, count: size_t) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: `count` readable bytes by the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast(), count.min(COUNT_MAX)) }
}

/// Linux transfers at most this many bytes per call.
pub(crate) const COUNT_MAX: usize = 0x7fff_f000;

/// The buffers of a readv, each yielded once. The program's vector is not changed: it may be
/// constant, or in use by another thread.
pub(crate) struct ReadVector<'a>(std::slice::Iter<'a, iovec>);

impl ReadVector<'_> {
    /// The bytes of the remaining buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.0.clone().map(|part| part.iov_len.min(COUNT_MAX)).sum()
    }

    /// The remaining buffers, for an attempt after which `self` yields them again.
    pub(crate) fn again(&mut self) -> ReadVector<'_> {
        ReadVector(self.0.clone())
    }
}

impl<'a> Iterator for ReadVector<'a> {
    type Item = IoSliceMut<'a>;

    fn next(&mut self) -> Option<IoSliceMut<'a>> {
        let part = self.0.next()?;
        // SAFETY: `vector_mut`'s caller promises the memory, and no slice of this buffer that was
        // yielded before is still in use.
        Some(IoSliceMut::new(unsafe { bytes_mut(part.iov_base, part.iov_len) }))
    }
}

/// The vector of a readv.
///
/// # Safety
/// `at` is NULL or `count` vectors, each with memory as for [`bytes_mut`].
pub(crate) unsafe fn vector_mut<'a>(at: *const iovec, count: c_int) -> Result<ReadVector<'a>, Out> {
    let count = vector_length(at.is_null(), count)?;
    if count == 0 {
        return Ok(ReadVector([].iter()));
    }
    // SAFETY: `at` is `count` vectors by the caller's promise.
    unsafe { check_vector(at, count, Use::Write) }?;
    // SAFETY: `at` is `count` vectors by the caller's promise.
    Ok(ReadVector(unsafe { std::slice::from_raw_parts(at, count) }.iter()))
}

/// The vector of a writev.
///
/// # Safety
/// `at` is NULL or `count` vectors, each with memory as for [`bytes`].
pub(crate) unsafe fn vector<'a>(at: *const iovec, count: c_int) -> Result<&'a [IoSlice<'a>], Out> {
    let count = vector_length(at.is_null(), count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: `at` is `count` vectors by the caller's promise.
    unsafe { check_vector(at, count, Use::Read) }?;
    // SAFETY: std documents that IoSlice has iovec's layout on Unix; `at` is `count` of them by the
    // caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), count) })
}

/// EFAULT if the vector, or a small buffer of it, is in unmapped memory.
///
/// # Safety
/// `at` is `count` vectors.
unsafe fn check_vector(at: *const iovec, count: usize, wanted: Use) -> Result<(), Out> {
    check(at as usize, (count * size_of::<iovec>()).min(LOOKED_AT_BYTES - 1), Use::Read)?;
    // SAFETY: `at` is `count` vectors by the caller's promise.
    let parts = unsafe { std::slice::from_raw_parts(at, count) };
    parts.iter().try_for_each(|part| check(part.iov_base as usize, part.iov_len, wanted))
}

fn vector_length(null: bool, count: c_int) -> Result<usize, Out> {
    match usize::try_from(count) {
        Ok(0) => Ok(0),
        Ok(_) if null => Err(Out::Errno(libc::EFAULT)),
        Ok(count) if count <= libc::UIO_MAXIOV as usize => Ok(count),
        _ => Err(Out::Errno(libc::EINVAL)),
    }
}

/// Writes a result through a pointer of the caller.
///
/// # Safety
/// `at` is NULL, or has room for a `T`, aligned or not.
pub(crate) unsafe fn put<T>(at: *mut T, value: T) -> Result<(), Out> {
    if !pointers::lead_to(at as usize, size_of::<T>(), Use::Write) {
        return Err(Out::Errno(libc::EFAULT));
    }
    // SAFETY: `lead_to` found writable memory, and the caller promises room for a T.
    unsafe { at.write_unaligned(value) };
    Ok(())
}

/// Reads an argument through a pointer of the caller. `None` for NULL.
///
/// # Safety
/// `at` is NULL, or a readable `T`, aligned or not.
pub(crate) unsafe fn take<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: a pointer that is not NULL leads to a readable T by the caller's promise.
    (!at.is_null()).then(|| unsafe { at.read_unaligned() })
}

/// As [`take`]; EFAULT for a pointer to unmapped memory.
///
/// # Safety
/// As [`take`].
pub(crate) unsafe fn take_checked<T: Copy>(at: *const T) -> Result<Option<T>, Out> {
    if !at.is_null() && !pointers::lead_to(at as usize, size_of::<T>(), Use::Read) {
        return Err(Out::Errno(libc::EFAULT));
    }
    // SAFETY: the caller promises what `take` requires.
    Ok(unsafe { take(at) })
}

/// Writes a string and its NUL into a buffer of the caller.
///
/// # Safety
/// `at` is NULL, or `room` writable bytes.
pub(crate) unsafe fn put_string(at: *mut c_char, room: size_t, text: &[u8]) -> Result<(), Out> {
    if text.len() >= room {
        return Err(Out::Errno(libc::ERANGE));
    }
    if !pointers::lead_to(at as usize, text.len() + 1, Use::Write) {
        return Err(Out::Errno(libc::EFAULT));
    }
    // SAFETY: `at` is `room` writable bytes by the caller's promise.
    let buffer = unsafe { bytes_mut(at.cast(), room) };
    buffer[..text.len()].copy_from_slice(text);
    buffer[text.len()] = 0;
    Ok(())
}

/// A copy of a string in memory of malloc(3), for functions whose result the caller frees.
pub(crate) fn give_string(text: &[u8]) -> Result<*mut c_char, Out> {
    // SAFETY: malloc takes any length; NULL is checked below.
    let at = unsafe { libc::malloc(text.len() + 1) }.cast::<c_char>();
    if at.is_null() {
        return Err(Out::Errno(libc::ENOMEM));
    }
    // SAFETY: malloc returned that many bytes.
    unsafe { put_string(at, text.len() + 1, text) }?;
    Ok(at)
}
