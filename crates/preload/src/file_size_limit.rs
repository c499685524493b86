//! RLIMIT_FSIZE: a write at or beyond it fails with EFBIG and SIGXFSZ, and a write that crosses it
//! is cut, as by the kernel for its own files. This library reads the limit when the process
//! begins, and when the process sets it. It does not notice a change by another process with
//! prlimit(2).

use crate::ffi;
use crate::hook::hooks;
use crate::outcome::{Out, kept};
use crate::raw;
use libc::{c_int, pid_t};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};

const NONE: u64 = libc::RLIM_INFINITY;

static LIMIT: AtomicU64 = AtomicU64::new(NONE);

/// Reads the limit. Called by the constructor, and after each change.
pub(crate) fn learn() {
    LIMIT.store(raw::soft_limit(libc::RLIMIT_FSIZE as usize), Ordering::Relaxed);
}

/// Whether there is a limit.
pub(crate) fn is_set() -> bool {
    LIMIT.load(Ordering::Relaxed) != NONE
}

/// How many of `bytes` bytes may be written at an offset.
///
/// # Errors
/// EFBIG, and SIGXFSZ for this thread, if none may be written.
pub(crate) fn room(offset: u64, bytes: usize) -> Result<usize, Out> {
    let limit = LIMIT.load(Ordering::Relaxed);
    if limit == NONE || bytes == 0 {
        return Ok(bytes);
    }
    match usize::try_from(limit.saturating_sub(offset)).unwrap_or(usize::MAX) {
        0 => Err(exceeded()),
        room => Ok(room.min(bytes)),
    }
}

/// Checks whether a file may become this long. `size` returns its current size, which is allowed in any case.
///
/// # Errors
/// EFBIG, and SIGXFSZ for this thread.
pub(crate) fn check_growth(to: u64, size: impl FnOnce() -> Result<u64, Out>) -> Result<(), Out> {
    if to <= LIMIT.load(Ordering::Relaxed) || to <= size()? { Ok(()) } else { Err(exceeded()) }
}

fn exceeded() -> Out {
    raw::signal_this_thread(libc::SIGXFSZ);
    Out::Errno(libc::EFBIG)
}

/// The slices within `room` bytes: whole ones, or the part of the first nonempty one that fits.
pub(crate) fn within<'a, 'b>(vector: &'a [IoSlice<'b>], room: usize, first: &'a mut [IoSlice<'b>; 1]) -> &'a [IoSlice<'b>] {
    let (mut whole, mut bytes) = (0, 0usize);
    for slice in vector {
        bytes = bytes.saturating_add(slice.len());
        if bytes > room {
            break;
        }
        whole += 1;
    }
    if vector[..whole].iter().any(|slice| !slice.is_empty()) {
        return &vector[..whole];
    }
    if let Some(slice) = vector.get(whole) {
        // SAFETY: the bytes are part of the slice and live as long as it.
        first[0] = IoSlice::new(unsafe { ffi::bytes(slice.as_ptr().cast(), slice.len().min(room)) });
    }
    first
}

/// Calls libc's function, which changes a limit of this process, and reads the limit again.
fn change(resource: c_int, real: impl FnOnce() -> c_int) -> Result<c_int, Out> {
    if resource != libc::RLIMIT_FSIZE as c_int || !crate::mounts::any() {
        return Err(Out::Pass);
    }
    let answer = kept(real())?;
    learn();
    Ok(answer)
}

hooks! {
    /// setrlimit(2).
    fn setrlimit(resource: c_int, limit: *const libc::rlimit) -> c_int = SYS_setrlimit { change(resource, || real(resource, limit)) }
    /// setrlimit(2).
    fn setrlimit64(resource: c_int, limit: *const libc::rlimit) -> c_int { change(resource, || real(resource, limit)) }
    /// prlimit(2).
    fn prlimit(process: pid_t, resource: c_int, limit: *const libc::rlimit, old: *mut libc::rlimit) -> c_int = SYS_prlimit64 {
        change(resource, || real(process, resource, limit, old))
    }
    /// prlimit(2).
    fn prlimit64(process: pid_t, resource: c_int, limit: *const libc::rlimit, old: *mut libc::rlimit) -> c_int {
        change(resource, || real(process, resource, limit, old))
    }
}
