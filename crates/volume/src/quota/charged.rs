//! The size for which the quota has charged a file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use host::Unpoisoned;

use super::account::Quota;
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::limits::OFFSET_MAX;
use crate::sys;

/// The size of this file was not read yet. No file has this size: `OFFSET_MAX` is the largest.
const UNKNOWN: u64 = u64::MAX;
/// The last name of the file is gone, and its bytes were credited.
const GONE: u64 = u64::MAX - 1;
const _: () = assert!(OFFSET_MAX < GONE);

/// The size for which a file is charged.
pub(crate) struct Charged {
    size: AtomicU64,
    /// Held shared by writers, exclusively while the charge is set to the size of the file.
    pub(super) writers: RwLock<()>,
    /// One caller at a time charges for this file. Two would charge the same bytes twice, and near the limit one would fail.
    growing: Mutex<()>,
}

impl Default for Charged {
    fn default() -> Self {
        Self { size: AtomicU64::new(UNKNOWN), writers: RwLock::default(), growing: Mutex::default() }
    }
}

impl Charged {
    /// Forgets the charge; the size is read at the next write.
    pub(super) fn forget(&self) {
        self.size.store(UNKNOWN, Ordering::SeqCst);
    }

    /// Called when the last name is gone. Returns the bytes to credit: the charge, 0 if it was credited before, or `there` if the
    /// size was not read.
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

    /// Charges the file for at least `size`. Returns whether that charged more than before.
    pub(super) fn raise(&self, size: u64, quota: &Quota, descriptor: &Descriptor) -> Result<bool, Error> {
        let mut now = self.size.load(Ordering::SeqCst);
        if now == UNKNOWN {
            let there = sys::stat_untimed(descriptor)?.size;
            now = self.exchange(UNKNOWN, there).map_or_else(|now| now, |_| there);
        }
        if size <= now {
            return Ok(false);
        }
        let _one = self.growing.lock().unpoisoned();
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

    /// Charges the file for its actual size. Called only while no write to it is in flight.
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
