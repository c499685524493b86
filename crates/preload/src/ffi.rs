//! Pointers of C as Rust's references and values.
//!
//! A pointer that reaches a hook came from a caller of the libc function of that name, who promised what that function's
//! manual asks for: that is what makes the calls of these functions right. NULL is caught where libc's own would fail with
//! EFAULT.

use crate::outcome::Out;
use libc::{c_char, c_int, c_void, iovec, size_t};
use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};

/// The bytes of a path argument, without its NUL.
///
/// # Safety
/// NULL, or a NUL-terminated string that stays as it is for `'a`.
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a [u8], Out> {
    if path.is_null() {
        return Err(Out::Errno(libc::EFAULT));
    }
    // SAFETY: not NULL, and a NUL-terminated string by the caller's promise, alive during the call.
    Ok(unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// A buffer that the caller wants filled.
///
/// # Safety
/// NULL, or `count` writable bytes that nobody else uses for `'a`.
pub(crate) unsafe fn bytes_mut<'a>(at: *mut c_void, count: size_t) -> &'a mut [u8] {
    if at.is_null() {
        return &mut [];
    }
    // SAFETY: `count` writable bytes by the caller's promise; nobody else uses them during the call.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), count.min(COUNT_MAX)) }
}

/// A buffer to be read.
///
/// # Safety
/// NULL, or `count` readable bytes that stay as they are for `'a`.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, count: size_t) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: `count` readable bytes by the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast(), count.min(COUNT_MAX)) }
}

/// Linux moves at most this many bytes per call.
pub(crate) const COUNT_MAX: usize = 0x7fff_f000;

/// The vector of a readv.
///
/// # Safety
/// `count` vectors, each with memory as for [`bytes_mut`].
pub(crate) unsafe fn vector_mut<'a>(at: *const iovec, count: c_int) -> Result<&'a [IoSliceMut<'a>], Out> {
    let count = vector_length(at.is_null(), count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: IoSliceMut has iovec's layout on Unix by its documentation; `count` of them by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), count) })
}

/// The vector of a writev.
///
/// # Safety
/// `count` vectors, each with memory as for [`bytes`].
pub(crate) unsafe fn vector<'a>(at: *const iovec, count: c_int) -> Result<&'a [IoSlice<'a>], Out> {
    let count = vector_length(at.is_null(), count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: IoSlice has iovec's layout on Unix by its documentation; `count` of them by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), count) })
}

fn vector_length(null: bool, count: c_int) -> Result<usize, Out> {
    match usize::try_from(count) {
        Ok(0) => Ok(0),
        Ok(_) if null => Err(Out::Errno(libc::EFAULT)),
        Ok(count) if count <= libc::UIO_MAXIOV as usize => Ok(count),
        _ => Err(Out::Errno(libc::EINVAL)),
    }
}

/// Writes an answer through a pointer of the caller.
///
/// # Safety
/// NULL, or room for a `T`, aligned or not.
pub(crate) unsafe fn put<T>(at: *mut T, value: T) -> Result<(), Out> {
    if at.is_null() {
        return Err(Out::Errno(libc::EFAULT));
    }
    // SAFETY: not NULL, and room for a T by the caller's promise.
    unsafe { at.write_unaligned(value) };
    Ok(())
}

/// Reads an argument through a pointer of the caller; none if NULL.
///
/// # Safety
/// NULL, or a readable `T`, aligned or not.
pub(crate) unsafe fn take<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: a readable T if not NULL by the caller's promise.
    (!at.is_null()).then(|| unsafe { at.read_unaligned() })
}

/// Writes a string and its NUL into a buffer of the caller.
///
/// # Safety
/// NULL, or `room` writable bytes.
pub(crate) unsafe fn put_string(at: *mut c_char, room: size_t, text: &[u8]) -> Result<(), Out> {
    if text.len() >= room {
        return Err(Out::Errno(libc::ERANGE));
    }
    if at.is_null() {
        return Err(Out::Errno(libc::EFAULT));
    }
    // SAFETY: the caller's memory, of that size.
    let buffer = unsafe { bytes_mut(at.cast(), room) };
    buffer[..text.len()].copy_from_slice(text);
    buffer[text.len()] = 0;
    Ok(())
}

/// A string of malloc, for the functions that give one away.
pub(crate) fn give_string(text: &[u8]) -> Result<*mut c_char, Out> {
    // SAFETY: malloc of a length; NULL is checked.
    let at = unsafe { libc::malloc(text.len() + 1) }.cast::<c_char>();
    if at.is_null() {
        return Err(Out::Errno(libc::ENOMEM));
    }
    // SAFETY: malloc's memory, of that size.
    unsafe { put_string(at, text.len() + 1, text) }?;
    Ok(at)
}
