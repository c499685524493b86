//! The search of execvp(3) if a directory of PATH is on a mount. libc's function makes its system
//! calls without a hook.

use super::stored::{self, Program};
use super::{become_program, by_shell};
use crate::outcome::{Errno, Out};
use crate::paths;
use crate::raw;
use crate::raw::programs::Strings;
use crate::reach::{self, search_path};
use std::ffi::{CStr, CString};

/// Whether a directory of PATH leads to a mount.
pub(crate) fn meets_mount() -> bool {
    // SAFETY: the result is used at once, while no code changes the environment.
    crate::mounts::any() && unsafe { search_path() }.any(paths::lead_to_mount)
}

/// The paths that a name may have, in the order of PATH.
fn candidates(name: &CStr) -> impl Iterator<Item = CString> {
    let name = name.to_bytes();
    // SAFETY: a program that changes the environment while another thread executes a program breaks
    // the exec in any case.
    unsafe { search_path() }.filter_map(move |folder| CString::new([folder, b"/", name].concat()).ok())
}

/// Whether the search continues after this error.
const fn goes_on(failed: Errno) -> bool {
    matches!(failed, libc::EACCES | libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT)
}

/// Executes the first executable program of this name in PATH. Returns only on failure.
///
/// # Safety
/// `arguments` and `environment` are NULL-terminated arrays of C strings.
pub(super) unsafe fn execute(name: &CStr, arguments: Strings, environment: Strings) -> Errno {
    if name.is_empty() {
        return libc::ENOENT;
    }
    let mut outcome = libc::ENOENT;
    for path in candidates(name) {
        // SAFETY: the path ends with a NUL; the arrays are valid by the caller's promise.
        let failed = unsafe {
            match become_program(libc::AT_FDCWD, path.as_ptr(), arguments, environment) {
                Ok(never) => match never {},
                Err(Out::Errno(errno)) => errno,
                Err(_) => {
                    reach::report(libc::AT_FDCWD, path.as_ptr(), environment, true);
                    raw::programs::execute(&path, arguments, environment)
                }
            }
        };
        match failed {
            // SAFETY: the arrays are valid by the caller's promise.
            libc::ENOEXEC => return unsafe { by_shell(&path, arguments, environment) },
            // If the search found a program that may not be executed, the final error is EACCES.
            failed if goes_on(failed) => outcome = if outcome == libc::EACCES { outcome } else { failed },
            failed => return failed,
        }
    }
    outcome
}

/// The first executable program of this name in PATH, for a child to execute.
///
/// # Errors
/// ENOENT or EACCES, as execvp(3).
pub(crate) fn find(name: &CStr) -> Result<Program, Out> {
    let mut outcome = libc::ENOENT;
    for path in candidates(name) {
        // SAFETY: the path ends with a NUL.
        let found = unsafe { stored::find(libc::AT_FDCWD, path.as_ptr()) };
        let failed = match found {
            Ok(Some(program)) => return Ok(program),
            Ok(None) => match raw::programs::may_execute(&path) {
                Ok(()) => return Ok(Program::of_host(path)),
                Err(errno) => errno,
            },
            Err(Out::Errno(errno)) => errno,
            Err(other) => return Err(other),
        };
        match goes_on(failed) {
            true => outcome = if outcome == libc::EACCES { outcome } else { failed },
            false => return Err(Out::Errno(failed)),
        }
    }
    Err(Out::Errno(outcome))
}
