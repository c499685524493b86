//! tempnam(3). libc itself would check whether the directory exists, and silently use another one
//! if it finds none.

use crate::attributes::{lstat, stat};
use crate::ffi;
use crate::hook::hooks;
use crate::outcome::Out;
use crate::paths::{self, Target};
use crate::raw;
use libc::c_char;
use std::ffi::{CStr, CString};

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

const TRIES_MAX: usize = 1000;
/// Maximum bytes of a prefix that are used, according to the manual page.
const PREFIX_BYTES_MAX: usize = 5;

/// Whether a directory exists, on a mount or on this host.
fn is_directory(path: &CStr) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path ends with a NUL, and `found` has room for the answer; zeroes are a valid value of it.
    unsafe { stat::hook(path.as_ptr(), found.as_mut_ptr()) == 0 && found.assume_init().st_mode & libc::S_IFMT == libc::S_IFDIR }
}

fn is_free(path: &CStr) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path ends with a NUL, and `found` has room for the answer.
    unsafe { lstat::hook(path.as_ptr(), found.as_mut_ptr()) != 0 && crate::outcome::errno() == libc::ENOENT }
}

/// # Safety
/// `directory` and `prefix` are NULL or C strings.
unsafe fn name(directory: *const c_char, prefix: *const c_char) -> Result<*mut c_char, Out> {
    if !crate::mounts::any() {
        return Err(Out::Pass);
    }
    // SAFETY: `directory` and `prefix` are NULL or C strings by the caller's promise, and no code
    // changes the environment meanwhile.
    unsafe {
        let by_environment = secure_getenv(c"TMPDIR".as_ptr()).cast_const();
        let candidates = [by_environment, directory].into_iter().filter(|path| !path.is_null()).map(|path| CStr::from_ptr(path));
        let Some(directory) = candidates.into_iter().find(|path| is_directory(path)) else { return Err(Out::Pass) };
        if matches!(paths::target_linked(libc::AT_FDCWD, directory.as_ptr(), true)?, Target::Local(_)) {
            return Err(Out::Pass);
        }
        let prefix = if prefix.is_null() { b"" } else { ffi::path(prefix)? };
        let prefix = if prefix.is_empty() { b"file" } else { &prefix[..prefix.len().min(PREFIX_BYTES_MAX)] };
        let directory = directory.to_bytes();
        let end = directory.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        for _ in 0..TRIES_MAX {
            let random = format!("{:06x}", raw::random() & 0xff_ffff);
            let path = [&directory[..end], b"/", prefix, random.as_bytes()].concat();
            let path = CString::new(path).map_err(|_| Out::Errno(libc::EINVAL))?;
            if is_free(&path) {
                return ffi::give_string(path.to_bytes());
            }
        }
        Err(Out::Errno(libc::EEXIST))
    }
}

hooks! {
    /// tempnam(3).
    fn tempnam(directory: *const c_char, prefix: *const c_char) -> *mut c_char { name(directory, prefix) }
}
