//! The file on which this process last did a certain operation.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::FileRef;
use crate::sys::clock::monotonic_ms;

/// A file and a time, read and set atomically.
#[derive(Debug, Default)]
pub(super) struct Latest(AtomicU64);

impl Latest {
    pub(super) fn note(&self, file: FileRef) {
        self.0.store(Self::packed(file, monotonic_ms()), Relaxed);
    }

    /// How long ago the operation was done on this file, in ms. `None` if another file was the last.
    pub(super) fn age_ms(&self, file: FileRef) -> Option<u32> {
        let last = self.0.load(Relaxed);
        let now = Self::packed(file, monotonic_ms());
        (now >> 32 == last >> 32).then(|| (now as u32).wrapping_sub(last as u32))
    }

    const fn packed(file: FileRef, ms: u64) -> u64 {
        // A generation in use is odd, so that the initial value matches no file.
        (file.slot as u64 & 0xffff) << 48 | (file.generation as u64 & 0xffff) << 32 | ms & 0xffff_ffff
    }
}
