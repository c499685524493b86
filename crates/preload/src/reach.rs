//! Programs that this library does not reach, because the loader does not load it into them. They
//! find nothing below a mount's path, and print only "No such file". So a process with this library
//! that executes or starts such a program prints a line on stderr, once for each program.
//!
//! The check precedes the call. It allocates nothing, changes neither errno nor the result, and is
//! safe between fork and exec. For a program that has the library, it costs an open, a read, a
//! close and the queries for the process' users: ten system calls, compared with the few hundred of
//! an exec.

mod program;
mod reported;

use crate::messages;
use crate::mounts;
use crate::raw::programs::Strings;
use libc::{c_char, c_int};
use program::{Cause, Found};
pub(crate) use reported::is_first_line;
use std::ffi::CStr;
use std::fmt::{Display, Formatter};
use std::sync::OnceLock;

/// `0` disables the lines. Any other value is the mark that `millrace exec` gives to the processes
/// that it starts.
pub(crate) const VARIABLE: &CStr = c"MILLRACE_UNREACHED";
/// The end of the library's file name. Copies have a prefix.
const LIBRARY: &[u8] = b"libmillrace_preload.so";
/// The directories that execvp(3) searches without PATH.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";
/// Longest path of a program that is checked, with its NUL, in bytes.
const PATH_BYTES_MAX: usize = 1024;

/// What the constructor has learned. It does not change later.
struct Known {
    /// This library's entry in LD_PRELOAD. `None` if it was loaded in another way.
    entry: Option<&'static [u8]>,
    /// Local path of the first mount.
    path: &'static [u8],
    url: String,
    /// Whether the user has disabled the lines.
    is_silent: bool,
}

static KNOWN: OnceLock<Known> = OnceLock::new();

/// Stores what the lines show. Called by the constructor if there are mounts.
pub(crate) fn learn(setting: Option<&'static [u8]>, list: Option<&'static [u8]>, keeper: Option<&'static [u8]>) {
    let Some(first) = mounts::all().next() else { return };
    let is_silent = setting == Some(b"0");
    let entry = list.and_then(|list| entries(list).find(|entry| is_library(entry))).map(|entry| &*entry.to_vec().leak());
    reported::learn(setting, mounts::root());
    program::learn(keeper);
    let _ = KNOWN.set(Known { entry, path: first.local_path(), url: first.url(), is_silent });
}

fn entries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| matches!(byte, b':' | b' ')).filter(|entry| !entry.is_empty())
}

fn is_library(entry: &[u8]) -> bool {
    entry.ends_with(LIBRARY)
}

/// Prints a line if the program at `path` below `directory` will not have the library. With
/// `by_name`, searches as execvp(3) does.
///
/// # Safety
/// `path` is NULL or a C string; `environment` is NULL or a NULL-terminated array of C strings.
pub(crate) unsafe fn report(directory: c_int, path: *const c_char, environment: Strings, by_name: bool) {
    if !path.is_null() {
        // SAFETY: `path` is a C string, and the environment is valid by the caller's promise.
        unsafe { report_as(CStr::from_ptr(path).to_bytes(), directory, path, environment, by_name) };
    }
}

/// As [`report`], for a program known as `name`.
///
/// # Safety
/// As [`report`]; `path` is not NULL.
pub(crate) unsafe fn report_as(name: &[u8], directory: c_int, path: *const c_char, environment: Strings, by_name: bool) {
    let Some(known) = KNOWN.get().filter(|known| !known.is_silent) else { return };
    // SAFETY: `path` is a C string by the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    let found = match by_name && !path.to_bytes().contains(&b'/') {
        true => search(path.to_bytes()),
        false => program::look(directory, path, by_name),
    };
    let Some(found) = found else { return };
    // SAFETY: the environment is valid by the caller's promise. If no variable loaded this library
    // here, children also get it without one.
    let cause = known.entry.map_or(found.cause, |own| unsafe { Given::by(environment, own) }.cause(found.cause));
    if let Some(cause) = cause
        && !found.is_ours()
        && reported::is_first(&found, cause)
    {
        warn(known, name, &found, cause);
    }
}

/// As [`report`], for the program of a descriptor.
///
/// # Safety
/// As [`report`].
pub(crate) unsafe fn report_descriptor(fd: c_int, environment: Strings) {
    use std::io::Write;
    if KNOWN.get().is_none_or(|known| known.is_silent) {
        return;
    }
    let mut name = [0; 32];
    let _ = write!(&mut name[..], "/proc/self/fd/{fd}\0");
    if let Ok(path) = CStr::from_bytes_until_nul(&name) {
        // SAFETY: `path` is a C string, and the environment is valid by the caller's promise.
        unsafe { report(libc::AT_FDCWD, path.as_ptr(), environment, false) };
    }
}

/// As [`report`], for the shell of system(3) and popen(3), with the environment of this process.
pub(crate) fn report_shell() {
    // SAFETY: the path is a C string, and the environment is libc's own.
    unsafe { report(libc::AT_FDCWD, c"/bin/sh".as_ptr(), own_environment(), false) };
}

/// The current environment of this process.
pub(crate) fn own_environment() -> Strings {
    // SAFETY: this reads libc's variable. A program that changes the environment in another thread
    // during an exec breaks the exec in any case.
    unsafe { crate::environ }.cast_const().cast()
}

/// The directories of PATH, which execvp(3) searches.
///
/// # Safety
/// The environment does not change while the result is used.
pub(crate) unsafe fn search_path<'a>() -> impl Iterator<Item = &'a [u8]> {
    // SAFETY: the name ends with a NUL; the value does not change by the caller's promise.
    let path = unsafe {
        let value = libc::getenv(c"PATH".as_ptr());
        if value.is_null() { DEFAULT_PATH } else { CStr::from_ptr(value).to_bytes() }
    };
    path.split(|byte| *byte == b':').map(|folder| if folder.is_empty() { b".".as_slice() } else { folder })
}

/// Searches PATH for a program.
fn search(name: &[u8]) -> Option<Found> {
    // SAFETY: the result is used at once, while no code changes the environment.
    unsafe { search_path() }.find_map(|folder| {
        let mut buffer = [0; PATH_BYTES_MAX];
        let end = folder.len() + 1 + name.len();
        buffer.get_mut(..folder.len())?.copy_from_slice(folder);
        *buffer.get_mut(folder.len())? = b'/';
        buffer.get_mut(folder.len() + 1..end)?.copy_from_slice(name);
        program::look(libc::AT_FDCWD, CStr::from_bytes_until_nul(&buffer).ok()?, true)
    })
}

/// Whether an environment leads the loader to the library, and the library to the mounts.
struct Given {
    own_library: bool,
    /// The library in another file. `millrace exec` adds it for programs of another C library.
    other_library: bool,
    mounts: bool,
}

impl Given {
    /// # Safety
    /// `environment` is NULL or a NULL-terminated array of C strings.
    unsafe fn by(environment: Strings, own: &[u8]) -> Self {
        let mut given = Self { own_library: false, other_library: false, mounts: false };
        let mut at = environment;
        // SAFETY: `at` has not passed the array's NULL, by the caller's promise.
        while let Some(variable) = unsafe { crate::ffi::take(at) }.filter(|variable| !variable.is_null()) {
            // SAFETY: a C string of that array.
            let variable = unsafe { CStr::from_ptr(variable) }.to_bytes();
            if let Some(list) = variable.strip_prefix(b"LD_PRELOAD=") {
                given.own_library = entries(list).any(|entry| entry == own);
                given.other_library = entries(list).any(|entry| entry != own && is_library(entry));
            } else if let Some(lines) = value_of(variable, mounts::VARIABLE) {
                given.mounts = !lines.is_empty();
            }
            at = at.wrapping_add(1);
        }
        given
    }

    /// Why the library does not reach a program. `of_file` is the cause in its file, if there is one.
    fn cause(&self, of_file: Option<Cause>) -> Option<Cause> {
        match of_file {
            Some(Cause::CLibrary) if self.other_library => None,
            Some(cause) => Some(cause),
            None if !self.own_library && !self.other_library => Some(Cause::NoLibrary),
            None => (!self.mounts).then_some(Cause::NoMounts),
        }
    }
}

/// This library's entry of LD_PRELOAD, if a process with this environment would lack the library or its mounts.
///
/// # Safety
/// `environment` is NULL or a NULL-terminated array of C strings.
pub(crate) unsafe fn missing_in(environment: Strings) -> Option<&'static [u8]> {
    let own = KNOWN.get()?.entry?;
    // SAFETY: `environment` is such an array by the caller's promise.
    unsafe { Given::by(environment, own) }.cause(None).map(|_| own)
}

fn value_of<'a>(variable: &'a [u8], name: &CStr) -> Option<&'a [u8]> {
    variable.strip_prefix(name.to_bytes())?.strip_prefix(b"=")
}

fn warn(known: &Known, path: &[u8], found: &Found, cause: Cause) {
    let interpreter = found.interpreter();
    let (open, close) = if interpreter.is_empty() { ("", "") } else { (" (by ", ")") };
    messages::warn_before_exec(format_args!(
        "warning: {}{open}{}{close} finds nothing below {}: {cause}; {}`millrace mount {} DIR` is for such programs",
        Shown(path),
        Shown(interpreter),
        Shown(known.path),
        if matches!(cause, Cause::NoLibrary | Cause::NoMounts) { "pass on LD_PRELOAD and MILLRACE_*, or: " } else { "" },
        known.url
    ));
}

/// A path, shown with `?` for control characters and bytes that are not UTF-8.
struct Shown<'a>(&'a [u8]);

impl Display for Shown<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        for chunk in self.0.utf8_chunks() {
            chunk.valid().chars().try_for_each(|shown| to.write_char(if shown.is_control() { '?' } else { shown }))?;
            if !chunk.invalid().is_empty() {
                to.write_char('?')?;
            }
        }
        Ok(())
    }
}
