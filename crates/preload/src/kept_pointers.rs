//! stdio through pointers that a program kept from before a standard stream was replaced
//! (`standard`). C++'s streams keep such pointers for their lifetime, so the functions that the C++
//! library calls check whether libc's stream was replaced.

use crate::hook::hooks;
use crate::outcome::{Failure, Out, kept};
use crate::standard;
use libc::{FILE, c_char, c_int, c_void, off_t, size_t};

/// Calls `call` with the replacing stream. If the stream was not replaced, libc's function is called instead.
fn now<R: Failure + PartialEq>(stream: *mut FILE, call: impl FnOnce(*mut FILE) -> R) -> Result<R, Out> {
    kept(call(in_place_of(stream)?))
}

/// As [`now`], for a function whose result is a count, which may be short without an error.
fn now_many(stream: *mut FILE, call: impl FnOnce(*mut FILE) -> size_t) -> Result<size_t, Out> {
    Ok(call(in_place_of(stream)?))
}

fn in_place_of(stream: *mut FILE) -> Result<*mut FILE, Out> {
    let current = standard::current(stream);
    if current == stream { Err(Out::Pass) } else { Ok(current) }
}

hooks! {
    /// fileno(3).
    fn fileno(stream: *mut FILE) -> c_int { now(stream, |stream| real(stream)) }
    /// putc(3).
    fn putc(byte: c_int, stream: *mut FILE) -> c_int { now(stream, |stream| real(byte, stream)) }
    /// fputc(3).
    fn fputc(byte: c_int, stream: *mut FILE) -> c_int { now(stream, |stream| real(byte, stream)) }
    /// fputs(3).
    fn fputs(text: *const c_char, stream: *mut FILE) -> c_int { now(stream, |stream| real(text, stream)) }
    /// fwrite(3).
    fn fwrite(data: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t { now_many(stream, |stream| real(data, size, count, stream)) }
    /// fflush(3).
    fn fflush(stream: *mut FILE) -> c_int { now(stream, |stream| real(stream)) }
    /// getc(3).
    fn getc(stream: *mut FILE) -> c_int { now(stream, |stream| real(stream)) }
    /// fgetc(3).
    fn fgetc(stream: *mut FILE) -> c_int { now(stream, |stream| real(stream)) }
    /// ungetc(3).
    fn ungetc(byte: c_int, stream: *mut FILE) -> c_int { now(stream, |stream| real(byte, stream)) }
    /// fread(3).
    fn fread(data: *mut c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t { now_many(stream, |stream| real(data, size, count, stream)) }
    /// fseeko(3).
    fn fseeko64(stream: *mut FILE, offset: off_t, whence: c_int) -> c_int { now(stream, |stream| real(stream, offset, whence)) }
    /// ftello(3).
    fn ftello64(stream: *mut FILE) -> off_t { now(stream, |stream| real(stream)) }
}
