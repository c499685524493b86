//! The file creation mask. This library applies it, because the server has no mask.

use crate::hook::hooks;
use crate::outcome::Out;
use crate::raw;
use libc::mode_t;
use std::sync::atomic::{AtomicU32, Ordering};

/// The mask as the program last set it.
static UMASK: AtomicU32 = AtomicU32::new(0o022);

/// Reads the mask. Called once, by the constructor.
pub(crate) fn learn() {
    let mask = raw::umask(0o077);
    raw::umask(mask);
    UMASK.store(mask, Ordering::Relaxed);
}

/// A mode without the bits of the mask.
pub(crate) fn masked(mode: mode_t) -> u32 {
    mode & 0o7777 & !UMASK.load(Ordering::Relaxed)
}

hooks! {
    /// umask(2).
    fn umask(mask: mode_t) -> mode_t = SYS_umask {
        UMASK.store(mask & 0o777, Ordering::Relaxed);
        Err(Out::Pass)
    }
}
