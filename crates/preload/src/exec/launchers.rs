//! Programs that start a database with a cleared environment. The database must find its files on a
//! mount, so this library adds its variables to the environment of these programs' children. All
//! other programs decide about the environment of their children themselves (`reach`).

use super::environment::Environment;
use crate::raw;
use crate::raw::programs::Strings;
use std::ffi::CStr;

/// `pg_ctlcluster` of Debian and Ubuntu: it empties its environment before it starts `pg_ctl`.
const LAUNCHERS: [&[u8]; 1] = [b"pg_ctlcluster"];
/// Number of arguments that are searched for the script's path: the interpreter, its options and the script.
const ARGUMENTS_MAX: usize = 4;

/// The environment for a child of such a launcher, instead of `given`. `None` for every other
/// program, and if nothing is missing.
///
/// # Safety
/// `given` is NULL, or a NULL-terminated array of C strings that outlives the result.
pub(super) unsafe fn environment(given: Strings) -> Option<Environment> {
    // SAFETY: `given` is such an array by the caller's promise.
    let completed = unsafe { Environment::complete(given, &[]) }?;
    is_launcher().then_some(completed)
}

/// Whether this process runs a launcher, according to its arguments.
fn is_launcher() -> bool {
    let mut line = [0; 512];
    let Some(length) = read(c"/proc/self/cmdline", &mut line) else { return false };
    let mut arguments = line[..length].split(|byte| *byte == 0).take(ARGUMENTS_MAX);
    arguments.any(|argument| {
        let name = argument.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        LAUNCHERS.contains(&name)
    })
}

fn read(path: &CStr, into: &mut [u8]) -> Option<usize> {
    let fd = raw::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0).ok()?;
    let length = raw::programs::read_at(fd, 0, into).ok();
    let _ = raw::close(fd);
    length
}
