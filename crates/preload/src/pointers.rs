//! Whether a pointer of the program leads to memory that may be read or written: a system call answers EFAULT where it does not, and
//! code of ours would end the program by SIGSEGV.
//!
//! The kernel is asked once for a page; some pages that it said yes to are remembered. A program that unmaps one of those and then
//! passes a pointer into it dies of SIGSEGV.

use crate::raw;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE_BYTES: usize = 4096;
const REMEMBERED: usize = 64;

/// Pages known to be readable, and writable: their numbers plus one, each at the place that its number gives.
static READABLE: [AtomicUsize; REMEMBERED] = [const { AtomicUsize::new(0) }; REMEMBERED];
static WRITABLE: [AtomicUsize; REMEMBERED] = [const { AtomicUsize::new(0) }; REMEMBERED];

/// What memory is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// To be read.
    Read,
    /// To be written to.
    Write,
}

/// Whether memory from `at` on may be used so: its first page and its last one are looked at.
pub(crate) fn lead_to(at: usize, bytes: usize, wanted: Use) -> bool {
    let Some(last) = at.checked_add(bytes.max(1) - 1) else { return false };
    let (first, last) = (at / PAGE_BYTES, last / PAGE_BYTES);
    page_is(first, wanted) && (last == first || page_is(last, wanted))
}

/// The string at `at`, without its NUL: how many bytes. None when it leads out of memory.
///
/// # Safety
/// What is memory stays so during the call.
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
