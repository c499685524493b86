//! The limit of a quota, and how much of it is charged.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::error::Error;

/// The quota of a volume.
#[derive(Default)]
pub(crate) struct Quota {
    /// Whether sizes are counted: only while there is a limit.
    pub(super) counting: AtomicBool,
    pub(super) limit: AtomicU64,
    /// Can be below zero while the tree is walked and files change.
    pub(super) used: AtomicI64,
    /// Held during a change of the limit.
    pub(super) setting: Mutex<()>,
}

impl Quota {
    pub(super) fn used(&self) -> u64 {
        u64::try_from(self.used.load(Ordering::SeqCst)).unwrap_or(0)
    }

    /// Charges `bytes`, or fails with [`Error::NoSpace`] if the limit does not allow it.
    pub(super) fn take(&self, bytes: u64) -> Result<(), Error> {
        let limit = i64::try_from(self.limit.load(Ordering::SeqCst)).unwrap_or(i64::MAX);
        let bytes = i64::try_from(bytes).map_err(|_| Error::NoSpace)?;
        let fits = |used: i64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).map(drop).map_err(|_| Error::NoSpace)
    }

    /// Changes the charge of a file from one size to another, whatever the limit.
    pub(super) fn adjust(&self, from: u64, to: u64) {
        self.used.fetch_add(to.cast_signed() - from.cast_signed(), Ordering::SeqCst);
    }
}
