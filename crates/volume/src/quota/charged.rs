//! How much of a file's size the quota has charged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use super::account::Quota;
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::limits::OFFSET_MAX;
use crate::lock::locked;
use crate::sys;

/// Sizes that no file has (`OFFSET_MAX` is the largest): the size of this file was not read yet.
const UNKNOWN: u64 = u64::MAX;
/// Its last name is gone, and its bytes are given back.
const GONE: u64 = u64::MAX - 1;
const _: () = assert!(OFFSET_MAX < GONE);

/// The size that a file is charged for.
pub(crate) struct Charged {
    size: AtomicU64,
    /// Shared by writers, exclusive while the charge is made to agree with the size.
    pub(super) writers: RwLock<()>,
    /// One caller at a time charges for this file: two at once would charge the same bytes twice, and near the limit be refused.
    growing: Mutex<()>,
}

impl Default for Charged {
    fn default() -> Self {
        Self { size: AtomicU64::new(UNKNOWN), writers: RwLock::default(), growing: Mutex::default() }
    }
}

impl Charged {
    /// The charge is not known any more.
    pub(super) fn forget(&self) {
        self.size.store(UNKNOWN, Ordering::SeqCst);
    }

    /// The last name is gone: what the file was charged for, if it still was; `there` where its size was never read.
    pub(super) fn release(&self, there: u64) -> u64 {
        match self.size.swap(GONE, Ordering::SeqCst) {
            GONE => 0,
            UNKNOWN => there,
            charged => charged,
        }
    }

    fn exchange(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.size.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
    }

    /// Charges for `size` at least. Whether that took some of the quota.
    pub(super) fn raise(&self, size: u64, quota: &Quota, descriptor: &Descriptor) -> Result<bool, Error> {
        let mut now = self.size.load(Ordering::SeqCst);
        if now == UNKNOWN {
            let there = sys::stat_untimed(descriptor)?.size;
            now = self.exchange(UNKNOWN, there).map_or_else(|now| now, |_| there);
        }
        if size <= now {
            return Ok(false);
        }
        let _one = locked(&self.growing);
        now = self.size.load(Ordering::SeqCst);
        while size > now {
            quota.take(size - now)?;
            match self.exchange(now, size) {
                Ok(_) => return Ok(true),
                Err(other) => {
                    quota.adjust(size - now, 0);
                    now = other;
                }
            }
        }
        Ok(false)
    }

    /// Charges for the size there is. Only while no write to the file is in flight.
    pub(super) fn set(&self, size: u64, quota: &Quota) {
        let mut now = self.size.load(Ordering::SeqCst);
        while now < GONE {
            match self.exchange(now, size) {
                Ok(_) => return quota.adjust(now, size),
                Err(other) => now = other,
            }
        }
    }
}
