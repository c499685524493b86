//! The environment of a program that is stored on a mount: one that leads the loader to this library, and the library to the mounts.
//!
//! A program of the host that is given another environment finds nothing on the mounts, and is named (`reach`). One that was found
//! there would look for its own files beside it, and make directories on the host instead.

use super::image::Image;
use crate::raw;
use crate::raw::programs::Strings;
use crate::reach::{self, own_environment};
use libc::c_char;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

const LIBRARIES: &[u8] = b"LD_PRELOAD=";
/// What a copy is called there: no other program writes the number of a descriptor so.
const COPY: &[u8] = b"/proc/self/fd/./";
const SETTINGS: &[u8] = b"MILLRACE_";

/// The settings that this process was started with: `env` forgets its own environment before it executes a program.
static OWN: OnceLock<Vec<CString>> = OnceLock::new();

/// Remembers them. Called by the constructor, when there are mounts.
pub(crate) fn learn() {
    // SAFETY: no other thread yet.
    let all = unsafe { strings_of(own_environment()) };
    let settings = all.into_iter().map(text).filter(|string| string.starts_with(SETTINGS));
    let _ = OWN.set(settings.filter_map(|string| CString::new(string).ok()).collect());
}

/// An environment to which something was added.
pub(crate) struct Environment {
    _libraries: CString,
    strings: Vec<*const c_char>,
}

impl Environment {
    /// What is to be given in the place of `given`, so that the loader has this library and copies of those that the program needs; none
    /// if nothing is missing.
    ///
    /// # Safety
    /// A NULL-terminated array of strings that outlives this, or NULL.
    pub(crate) unsafe fn complete(given: Strings, copies: &[Image]) -> Option<Self> {
        // SAFETY: the caller's array.
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

/// Once the loader has them, copies of libraries are nobody's business any more: they are closed, and taken out of LD_PRELOAD, where
/// children would look for them. For the constructor.
pub(crate) fn forget_copies() {
    // SAFETY: getenv with a NUL-terminated name.
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
    // SAFETY: they stand at the end of a string that is this process' own, behind at least one entry and a colon.
    unsafe { list.add(begin.saturating_sub(1)).write(0) };
}

/// LD_LIBRARY_PATH of an environment.
///
/// # Safety
/// A NULL-terminated array of strings that stay for `'a`, or NULL.
pub(crate) unsafe fn library_path<'a>(environment: Strings) -> &'a [u8] {
    // SAFETY: the caller's array.
    let all = unsafe { strings_of(environment) };
    all.into_iter().find_map(|string| text(string).strip_prefix(b"LD_LIBRARY_PATH=")).unwrap_or_default()
}

fn text<'a>(string: *const c_char) -> &'a [u8] {
    // SAFETY: a string of an array that the caller promised for as long as it is used here.
    unsafe { CStr::from_ptr(string) }.to_bytes()
}

/// The strings of an array.
///
/// # Safety
/// A NULL-terminated array of strings, or NULL.
pub(super) unsafe fn strings_of(mut at: Strings) -> Vec<*const c_char> {
    let mut strings = Vec::new();
    // SAFETY: the caller's array.
    while let Some(string) = unsafe { crate::ffi::take(at) }.filter(|string| !string.is_null()) {
        strings.push(string);
        at = at.wrapping_add(1);
    }
    strings
}
