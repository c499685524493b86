//! The environment of a program that is stored on a mount. It leads the loader to this library, and
//! the library to the mounts.
//!
//! A program of the host with another environment finds nothing on the mounts, and is reported
//! (`reach`). A program that is stored there would search for its own files beside it, and create
//! directories on the host instead.

use super::image::Image;
use crate::raw;
use crate::raw::programs::Strings;
use crate::reach::{self, own_environment};
use libc::c_char;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

const LIBRARIES: &[u8] = b"LD_PRELOAD=";
/// Prefix of a copy's name in LD_PRELOAD. No other program writes the number of a descriptor in this form.
const COPY: &[u8] = b"/proc/self/fd/./";
const SETTINGS: &[u8] = b"MILLRACE_";

/// The settings with which this process was started. `env` clears its own environment before it
/// executes a program.
static OWN: OnceLock<Vec<CString>> = OnceLock::new();

/// Stores the settings. Called by the constructor if there are mounts.
pub(crate) fn learn() {
    // SAFETY: no other thread runs yet.
    let all = unsafe { strings_of(own_environment()) };
    let settings = all.into_iter().map(text).filter(|string| string.starts_with(SETTINGS));
    let _ = OWN.set(settings.filter_map(|string| CString::new(string).ok()).collect());
}

/// An environment with added variables.
pub(crate) struct Environment {
    _libraries: CString,
    strings: Vec<*const c_char>,
}

impl Environment {
    /// The environment to use instead of `given`, so that the loader has this library and the
    /// copies of those that the program needs. `None` if nothing is missing.
    ///
    /// # Safety
    /// `given` is NULL, or a NULL-terminated array of C strings that outlives the result.
    pub(crate) unsafe fn complete(given: Strings, copies: &[Image]) -> Option<Self> {
        // SAFETY: `given` is such an array by the caller's promise.
        let (missing, given) = unsafe { (reach::missing_in(given), strings_of(given)) };
        if missing.is_none() && copies.is_empty() {
            return None;
        }
        let listed = given.iter().find_map(|string| text(*string).strip_prefix(LIBRARIES));
        let entries: Vec<Vec<u8>> =
            missing.into_iter().chain(listed).filter(|list| !list.is_empty()).map(<[u8]>::to_vec).collect();
        let copies = copies.iter().map(|copy| [COPY, copy.fd().to_string().as_bytes()].concat());
        let list = entries.into_iter().chain(copies).collect::<Vec<_>>().join(&b':');
        let libraries = CString::new([LIBRARIES, &list].concat()).ok()?;
        let is_kept = |string: &*const c_char| {
            !text(*string).starts_with(LIBRARIES) && (missing.is_none() || !text(*string).starts_with(SETTINGS))
        };
        let settings = missing.and(OWN.get()).into_iter().flatten().map(|setting| setting.as_ptr());
        let strings =
            given.into_iter().filter(is_kept).chain([libraries.as_ptr()]).chain(settings).chain([std::ptr::null()]).collect();
        Some(Self { _libraries: libraries, strings })
    }

    /// The array for the kernel.
    pub(crate) fn strings(&self) -> Strings {
        self.strings.as_ptr()
    }
}

/// Closes the copies of libraries, which the loader no longer needs, and removes them from
/// LD_PRELOAD, where children would search for them. Called by the constructor.
pub(crate) fn forget_copies() {
    // SAFETY: the name ends with a NUL.
    let list = unsafe { libc::getenv(c"LD_PRELOAD".as_ptr()) };
    if list.is_null() {
        return;
    }
    let entries = text(list).to_vec();
    let Some(begin) = entries.windows(COPY.len()).position(|part| part == COPY) else { return };
    for entry in entries[begin..].split(|byte| *byte == b':') {
        let number = entry.strip_prefix(COPY).and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        let _ = number.map(raw::close);
    }
    // SAFETY: the copies are at the end of a string of this process' own environment, after at
    // least one entry and a colon.
    unsafe { list.add(begin.saturating_sub(1)).write(0) };
}

/// LD_LIBRARY_PATH of an environment.
///
/// # Safety
/// `environment` is NULL, or a NULL-terminated array of C strings that live for `'a`.
pub(crate) unsafe fn library_path<'a>(environment: Strings) -> &'a [u8] {
    // SAFETY: `environment` is such an array by the caller's promise.
    let all = unsafe { strings_of(environment) };
    all.into_iter().find_map(|string| text(string).strip_prefix(b"LD_LIBRARY_PATH=")).unwrap_or_default()
}

fn text<'a>(string: *const c_char) -> &'a [u8] {
    // SAFETY: a C string of an environment, which is valid as long as the result is used here.
    unsafe { CStr::from_ptr(string) }.to_bytes()
}

/// The strings of an array.
///
/// # Safety
/// `at` is NULL, or a NULL-terminated array of C strings.
pub(super) unsafe fn strings_of(mut at: Strings) -> Vec<*const c_char> {
    let mut strings = Vec::new();
    // SAFETY: `at` has not passed the array's NULL, by the caller's promise.
    while let Some(string) = unsafe { crate::ffi::take(at) }.filter(|string| !string.is_null()) {
        strings.push(string);
        at = at.wrapping_add(1);
    }
    strings
}
