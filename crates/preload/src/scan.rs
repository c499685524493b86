//! Complete listings: scandir and scandirat, and glob with this library's directory functions.

use crate::ffi;
use crate::hook::hooks;
use crate::outcome::{Out, kept, set_errno};
use crate::paths;
use crate::streams::{self, closedir, opendir, readdir};
use libc::{DIR, c_char, c_int, c_void, dirent};

type Filter = Option<extern "C" fn(*const dirent) -> c_int>;
/// The program's function that compares entries, as qsort(3) requires it.
type Order = Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>;

/// scandir(3) of a directory on a mount or on this host.
///
/// # Safety
/// `path` is NULL or a C string; `list` is NULL or has room for a pointer; the functions take entries.
unsafe fn scan(
    directory: c_int,
    path: *const c_char,
    list: *mut *mut *mut dirent,
    how: (Filter, Order),
    real: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: `path`, `list` and the functions are so by the caller's promise.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        paths::at(directory, path, true, |_, _, _| collect(streams::open_stream(directory, path)?, list, how), real)
    }
}

/// Returns the entries in memory of malloc(3), one allocation each, as scandir(3) documents. Closes
/// the stream.
///
/// # Safety
/// `stream` is an open stream of this library; `list` and the functions are as [`scan`] requires.
unsafe fn collect(stream: *mut DIR, list: *mut *mut *mut dirent, (filter, order): (Filter, Order)) -> Result<c_int, Out> {
    // SAFETY: the stream is open, and the pointers are valid by the caller's promise; malloc's
    // results are checked for NULL.
    unsafe {
        let mut found: Vec<*mut dirent> = Vec::new();
        let outcome = copies(stream, filter, &mut found);
        closedir::hook(stream);
        let array = libc::malloc(size_of::<*mut dirent>() * found.len().max(1)).cast::<*mut dirent>();
        if outcome.is_err() || array.is_null() {
            for entry in found {
                libc::free(entry.cast()); // from malloc, and not returned to the program
            }
            libc::free(array.cast());
            return Err(outcome.err().unwrap_or(Out::Errno(libc::ENOMEM)));
        }
        if order.is_some() {
            // Rust's own sort would panic if the program's order contradicts itself.
            libc::qsort(found.as_mut_ptr().cast(), found.len(), size_of::<*mut dirent>(), order);
        }
        for (index, entry) in found.iter().enumerate() {
            ffi::put(array.wrapping_add(index), *entry)?;
        }
        ffi::put(list, array)?;
        Ok(found.len() as c_int)
    }
}

/// # Safety
/// `stream` is an open stream of this library.
unsafe fn copies(stream: *mut DIR, filter: Filter, found: &mut Vec<*mut dirent>) -> Result<(), Out> {
    // SAFETY: the stream is open by the caller's promise, and each entry is valid until the next readdir.
    unsafe {
        loop {
            set_errno(0);
            let entry = match kept(readdir::hook(stream)) {
                Ok(entry) => entry,
                Err(Out::Errno(0)) => return Ok(()),
                Err(out) => return Err(out),
            };
            if filter.is_some_and(|wanted| wanted(entry) == 0) {
                continue;
            }
            let copy = libc::malloc(size_of::<dirent>()).cast::<dirent>();
            if copy.is_null() {
                return Err(Out::Errno(libc::ENOMEM));
            }
            if let Some(value) = ffi::take(entry) {
                ffi::put(copy, value)?;
            }
            found.push(copy);
        }
    }
}

hooks! {
    /// scandir(3).
    fn scandir(path: *const c_char, list: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int {
        scan(libc::AT_FDCWD, path, list, (filter, order), |_, path| real(path, list, filter, order))
    }
    /// scandir(3).
    fn scandir64(path: *const c_char, list: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int {
        scan(libc::AT_FDCWD, path, list, (filter, order), |_, path| real(path, list, filter, order))
    }
    /// scandirat(3).
    fn scandirat(directory: c_int, path: *const c_char, list: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int {
        scan(directory, path, list, (filter, order), |directory, path| real(directory, path, list, filter, order))
    }
    /// scandirat(3).
    fn scandirat64(directory: c_int, path: *const c_char, list: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int {
        scan(directory, path, list, (filter, order), |directory, path| real(directory, path, list, filter, order))
    }
}

/// `glob_t` of libc, with the directory functions that it uses under a flag of its own. Here they
/// are this library's.
#[repr(C)]
struct Glob {
    paths: usize,
    list: *mut *mut c_char,
    offset: usize,
    flags: c_int,
    close: *const c_void,
    read: *const c_void,
    open: *const c_void,
    link_stat: *const c_void,
    stat: *const c_void,
}

const GLOB_ALTDIRFUNC: c_int = 1 << 9;

/// # Safety
/// `into` is NULL or a `glob_t`.
unsafe fn glob_through(flags: c_int, into: *mut c_void, real: impl FnOnce(c_int) -> c_int) -> Result<c_int, Out> {
    // If a program passes its own functions and these call directory functions, they call this library's.
    if !crate::mounts::any() || flags & GLOB_ALTDIRFUNC != 0 || into.is_null() {
        return Err(Out::Pass);
    }
    let glob = into.cast::<Glob>();
    // SAFETY: a glob_t by the caller's promise. Without the flag, libc and the program do not use
    // its function fields.
    unsafe {
        (*glob).close = closedir::hook as *const c_void;
        (*glob).read = readdir::hook as *const c_void;
        (*glob).open = opendir::hook as *const c_void;
        (*glob).link_stat = crate::attributes::lstat::hook as *const c_void;
        (*glob).stat = crate::attributes::stat::hook as *const c_void;
    }
    set_errno(0);
    Ok(real(flags | GLOB_ALTDIRFUNC))
}

hooks! {
    /// glob(3): libc's function with this library's directory functions.
    fn glob(pattern: *const c_char, flags: c_int, error: *const c_void, into: *mut c_void) -> c_int {
        glob_through(flags, into, |flags| real(pattern, flags, error, into))
    }
    /// glob(3).
    fn glob64(pattern: *const c_char, flags: c_int, error: *const c_void, into: *mut c_void) -> c_int {
        glob_through(flags, into, |flags| real(pattern, flags, error, into))
    }
}
