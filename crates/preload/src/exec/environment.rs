//! The environment of a program that is stored on a mount: one that leads the loader to this library, and the library to the mounts.
//!
//! A program of the host that is given another environment finds nothing on the mounts, and is named (`reach`). One that was found
//! there would look for its own files beside it, and make directories on the host instead.

use crate::reach::{self, Strings, own_environment};
use libc::c_char;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

const LIBRARIES: &[u8] = b"LD_PRELOAD=";
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
    /// What is to be given in the place of `given`; none if that has all.
    ///
    /// # Safety
    /// A NULL-terminated array of strings that outlives this, or NULL.
    pub(crate) unsafe fn complete(given: Strings) -> Option<Self> {
        // SAFETY: the caller's array.
        let (own, given) = unsafe { (reach::missing_in(given)?, strings_of(given)) };
        let listed = given.iter().find_map(|string| text(*string).strip_prefix(LIBRARIES)).unwrap_or_default();
        let separator: &[u8] = if listed.is_empty() { b"" } else { b":" };
        let libraries = CString::new([LIBRARIES, own, separator, listed].concat()).ok()?;
        let is_kept = |string: &*const c_char| !text(*string).starts_with(LIBRARIES) && !text(*string).starts_with(SETTINGS);
        let settings = OWN.get()?.iter().map(|setting| setting.as_ptr());
        let strings =
            given.into_iter().filter(is_kept).chain([libraries.as_ptr()]).chain(settings).chain([std::ptr::null()]).collect();
        Some(Self { _libraries: libraries, strings })
    }

    /// The array for the kernel.
    pub(crate) fn strings(&self) -> Strings {
        self.strings.as_ptr()
    }
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
