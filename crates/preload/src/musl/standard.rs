//! stdin, stdout and stderr in programs of musl. If one of the descriptors 0, 1 and 2 leads to a
//! mount, its stream uses this library's functions. The stream itself stays, so that a pointer to
//! it remains valid.

use crate::cookie;
use crate::table::{self, Found};
use libc::{FILE, c_int};

/// Checks all three. Called by the constructor, before the program's own constructors.
pub(crate) fn inherited() {
    for fd in 0..3 {
        rebound(fd);
    }
}

/// Called after a descriptor was redirected. If it is one of the three, its stream follows.
pub(crate) fn rebound(fd: c_int) {
    let name = match fd {
        0 => c"stdin",
        1 => c"stdout",
        2 => c"stderr",
        _ => return,
    };
    if matches!(table::find(fd), Ok(Found::Elsewhere)) {
        return;
    }
    // SAFETY: the name ends with a NUL.
    let variable = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.cast::<*mut FILE>();
    if variable.is_null() {
        return;
    }
    // SAFETY: musl's variable contains a stream that lives as long as the process. Programs do not
    // use a stream in another thread while they redirect its descriptor.
    unsafe {
        let stream = variable.read();
        if cookie::number(stream) == fd && !cookie::is_ours(stream) {
            cookie::lead_to_us(stream);
        }
    }
}

/// The stream that replaces `stream` after `fd` was redirected: the same one.
pub(crate) fn in_place_of(stream: *mut FILE, _fd: c_int) -> *mut FILE {
    stream
}

/// The stream that replaces one of libc's. No stream is replaced here.
pub(crate) fn current(stream: *mut FILE) -> *mut FILE {
    stream
}
