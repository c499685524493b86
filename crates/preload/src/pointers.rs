//! Whether a pointer of the program leads to memory that can be read or written. If it does not, a
//! system call returns EFAULT, but code of this library would end the program by SIGSEGV.
//!
//! The kernel is asked once about a page, and some of the usable pages are remembered. If the
//! program unmaps a remembered page and then passes a pointer into it, the program dies of SIGSEGV.

use crate::raw;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE_BYTES: usize = 4096;
const REMEMBERED: usize = 64;

/// Pages known to be readable, and pages known to be writable. A value is a page's number plus one,
/// at the index of the number modulo [`REMEMBERED`].
static READABLE: [AtomicUsize; REMEMBERED] = [const { AtomicUsize::new(0) }; REMEMBERED];
static WRITABLE: [AtomicUsize; REMEMBERED] = [const { AtomicUsize::new(0) }; REMEMBERED];

/// The intended use of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The library reads it.
    Read,
    /// The library writes to it.
    Write,
}

/// Whether the memory from `at` on can be used so. Checks only its first and its last page.
pub(crate) fn lead_to(at: usize, bytes: usize, wanted: Use) -> bool {
    let Some(last) = at.checked_add(bytes.max(1) - 1) else { return false };
    let (first, last) = (at / PAGE_BYTES, last / PAGE_BYTES);
    page_is(first, wanted) && (last == first || page_is(last, wanted))
}

/// Length of the string at `at` in bytes, without its NUL. `None` if the string runs into unmapped memory.
///
/// # Safety
/// Mapped memory of the string stays mapped during the call.
pub(crate) unsafe fn string_length(at: usize) -> Option<usize> {
    let mut length = 0;
    loop {
        let here = at.checked_add(length)?;
        if !page_is(here / PAGE_BYTES, Use::Read) {
            return None;
        }
        let within = PAGE_BYTES - here % PAGE_BYTES;
        // SAFETY: the rest of a page that can be read.
        let found = unsafe { libc::strnlen(here as *const libc::c_char, within) };
        length += found;
        if found < within {
            return Some(length);
        }
    }
}

fn page_is(page: usize, wanted: Use) -> bool {
    let known = match wanted {
        Use::Read => &READABLE,
        Use::Write => &WRITABLE,
    };
    let place = &known[page % REMEMBERED];
    if place.load(Ordering::Relaxed) == page + 1 {
        return true;
    }
    let usable = raw::page_is_usable(page * PAGE_BYTES, PAGE_BYTES, wanted == Use::Write).unwrap_or(true);
    if usable {
        place.store(page + 1, Ordering::Relaxed);
    }
    usable
}
