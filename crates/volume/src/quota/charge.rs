//! Charging a file for the size it gets, before it has it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Quota;
use crate::error::Error;
use crate::limits::OFFSET_MAX;
use crate::node::{Descriptor, Node, locked};
use crate::sys;
use crate::volume::VolumeInner;

/// Sizes that no file has (`OFFSET_MAX` is the largest): nobody has looked at this file yet.
const UNKNOWN: u64 = u64::MAX;
/// Its last name is gone, and its bytes are given back.
const GONE: u64 = u64::MAX - 1;
const _: () = assert!(OFFSET_MAX < GONE);

/// The size that a file is charged for.
pub(crate) struct Charged {
    size: AtomicU64,
    /// Shared by writers, exclusive for who makes the charge agree with the size.
    turns: RwLock<()>,
    /// One at a time takes room for this file: two at once would take the same room twice, and near the limit be refused.
    growing: Mutex<()>,
}

impl Default for Charged {
    fn default() -> Self {
        Self { size: AtomicU64::new(UNKNOWN), turns: RwLock::default(), growing: Mutex::default() }
    }
}

impl Charged {
    /// Nothing is known of the file any more.
    pub(super) fn forget(&self) {
        self.size.store(UNKNOWN, Ordering::SeqCst);
    }

    /// The last name is gone: what the file was charged for, if it still was; `there` where nobody had looked yet.
    pub(super) fn leave(&self, there: u64) -> u64 {
        match self.size.swap(GONE, Ordering::SeqCst) {
            GONE => 0,
            UNKNOWN => there,
            charged => charged,
        }
    }

    fn exchange(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.size.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
    }

    /// Charges for `size` at least. Whether that took room.
    fn raise(&self, size: u64, quota: &Quota, descriptor: &Descriptor) -> Result<bool, Error> {
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
                    quota.move_charge(size - now, 0);
                    now = other;
                }
            }
        }
        Ok(false)
    }

    /// Charges for the size there is. Only while nobody writes to the file.
    fn settle(&self, size: u64, quota: &Quota) {
        let mut now = self.size.load(Ordering::SeqCst);
        while now < GONE {
            match self.exchange(now, size) {
                Ok(_) => return quota.move_charge(now, size),
                Err(other) => now = other,
            }
        }
    }
}

/// A write under way, charged for. Unless it is said to have [arrived](Growth::arrived) whole, the file is charged for the
/// size it has when this is dropped.
#[must_use]
pub(crate) struct Growth<'n> {
    volume: &'n VolumeInner,
    node: &'n Node,
    turn: Option<RwLockReadGuard<'n, ()>>,
    charged: bool,
}

impl Growth<'_> {
    /// All that was charged for is there.
    pub(crate) fn arrived(mut self) {
        self.charged = false;
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        self.turn = None;
        if self.charged {
            drop(self.volume.size_turn(self.node));
        }
    }
}

/// A size being set. The file is charged for the size it has when this is dropped.
#[must_use]
pub(crate) struct Sizing<'n> {
    volume: &'n VolumeInner,
    node: &'n Node,
    _turn: RwLockWriteGuard<'n, ()>,
}

impl Drop for Sizing<'_> {
    fn drop(&mut self) {
        // A file that cannot be looked at is gone, and was given back with its name.
        let looked = self.volume.descriptor(self.node).and_then(|descriptor| Ok(sys::stat_untimed(&*descriptor)?));
        if let Ok(stat) = looked {
            self.node.0.charged.settle(stat.size, &self.volume.quota);
        }
    }
}

/// Room taken for a file that is not there yet; given back when this is dropped.
#[must_use]
pub(crate) struct Reserved<'v> {
    quota: &'v Quota,
    bytes: u64,
}

impl Reserved<'_> {
    /// The file is there.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.quota.move_charge(self.bytes, 0);
    }
}

impl VolumeInner {
    /// Charges a regular file for a write of `len` bytes at `offset`.
    ///
    /// **Errors**: [`Error::NoSpace`] beyond the limit; then nothing is charged.
    pub(crate) fn grow<'n>(
        &'n self,
        node: &'n Node,
        descriptor: &Descriptor,
        offset: u64,
        len: usize,
    ) -> Result<Growth<'n>, Error> {
        let mut growth = Growth { volume: self, node, turn: None, charged: false };
        // A write of nothing makes no file larger, wherever it is.
        if self.counts_sizes() && len > 0 {
            let charged = &node.0.charged;
            growth.turn = Some(charged.turns.read().unwrap_or_else(PoisonError::into_inner));
            growth.charged = charged.raise(offset.saturating_add(len as u64), &self.quota, descriptor)?;
        }
        Ok(growth)
    }

    /// Charges a regular file for a size that is to be set, and keeps writers away until it is.
    ///
    /// **Errors**: as [`Self::grow`].
    pub(crate) fn resize<'n>(&'n self, node: &'n Node, descriptor: &Descriptor, size: u64) -> Result<Option<Sizing<'n>>, Error> {
        let turn = self.size_turn(node);
        if turn.is_some() {
            node.0.charged.raise(size, &self.quota, descriptor)?;
        }
        Ok(turn)
    }

    /// Room for a file that is made with this size.
    ///
    /// **Errors**: [`Error::NoSpace`] when there is none.
    pub(crate) fn reserve(&self, size: Option<u64>) -> Result<Reserved<'_>, Error> {
        let bytes = size.filter(|_| self.counts_sizes()).unwrap_or(0);
        if bytes > 0 {
            self.quota.take(bytes)?;
        }
        Ok(Reserved { quota: &self.quota, bytes })
    }

    fn size_turn<'n>(&'n self, node: &'n Node) -> Option<Sizing<'n>> {
        self.counts_sizes().then(|| {
            let turn = node.0.charged.turns.write().unwrap_or_else(PoisonError::into_inner);
            Sizing { volume: self, node, _turn: turn }
        })
    }
}
