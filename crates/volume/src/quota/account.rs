//! The account of a quota: the limit, and how much of it is charged.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::error::Error;

/// The quota of a volume.
#[derive(Default)]
pub(crate) struct Quota {
    /// Sizes are counted; without a limit they are not.
    pub(super) counting: AtomicBool,
    pub(super) limit: AtomicU64,
    /// Below zero only while files are counted beside writers.
    pub(super) used: AtomicI64,
    /// Held over a change of the limit.
    pub(super) setting: Mutex<()>,
}

impl Quota {
    pub(super) fn used(&self) -> u64 {
        u64::try_from(self.used.load(Ordering::SeqCst)).unwrap_or(0)
    }

    /// Charges that many bytes, if the limit allows.
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
