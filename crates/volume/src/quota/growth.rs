//! Charges a file for its new size before it gets that size.

use std::sync::{RwLockReadGuard, RwLockWriteGuard};

use host::Unpoisoned;

use super::account::Quota;
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::node::Node;
use crate::sys;
use crate::volume::VolumeInner;

/// A write in flight that is charged. Unless it has [arrived](Growth::arrived) whole, dropping this charges the file for its
/// actual size.
#[must_use]
pub(crate) struct Growth<'n> {
    volume: &'n VolumeInner,
    node: &'n Node,
    writer: Option<RwLockReadGuard<'n, ()>>,
    charged: bool,
}

impl Growth<'_> {
    /// All bytes are written, so the charge is right.
    pub(crate) fn arrived(mut self) {
        self.charged = false;
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        self.writer = None;
        if self.charged {
            drop(self.volume.lock_size(self.node));
        }
    }
}

/// A size being set. Dropping this charges the file for its actual size.
#[must_use]
pub(crate) struct Sizing<'n> {
    volume: &'n VolumeInner,
    node: &'n Node,
    _alone: RwLockWriteGuard<'n, ()>,
}

impl Drop for Sizing<'_> {
    fn drop(&mut self) {
        // A file whose size cannot be read is gone, and was credited when its last name was removed.
        let stat = self.volume.descriptor(self.node).and_then(|descriptor| Ok(sys::stat_untimed(&*descriptor)?));
        if let Ok(stat) = stat {
            self.node.0.charged.set(stat.size, &self.volume.quota);
        }
    }
}

/// Bytes charged for a file that does not exist yet. Dropping this credits them.
#[must_use]
pub(crate) struct Reserved<'v> {
    quota: &'v Quota,
    bytes: u64,
}

impl Reserved<'_> {
    /// The file exists: the charge stays.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.quota.adjust(self.bytes, 0);
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
        let mut growth = Growth { volume: self, node, writer: None, charged: false };
        // A write of no bytes makes no file larger, whatever its offset.
        if self.counts_sizes() && len > 0 {
            let charged = &node.0.charged;
            growth.writer = Some(charged.writers.read().unpoisoned());
            growth.charged = charged.raise(offset.saturating_add(len as u64), &self.quota, descriptor)?;
        }
        Ok(growth)
    }

    /// Charges a regular file for a size before it is set. Other writers wait until the result is dropped.
    ///
    /// **Errors**: as [`Self::grow`].
    pub(crate) fn resize<'n>(&'n self, node: &'n Node, descriptor: &Descriptor, size: u64) -> Result<Option<Sizing<'n>>, Error> {
        let sizing = self.lock_size(node);
        if sizing.is_some() {
            node.0.charged.raise(size, &self.quota, descriptor)?;
        }
        Ok(sizing)
    }

    /// Charges for a new file of this size.
    ///
    /// **Errors**: [`Error::NoSpace`] beyond the limit.
    pub(crate) fn reserve(&self, size: Option<u64>) -> Result<Reserved<'_>, Error> {
        let bytes = size.filter(|_| self.counts_sizes()).unwrap_or(0);
        if bytes > 0 {
            self.quota.take(bytes)?;
        }
        Ok(Reserved { quota: &self.quota, bytes })
    }

    fn lock_size<'n>(&'n self, node: &'n Node) -> Option<Sizing<'n>> {
        self.counts_sizes().then(|| {
            let alone = node.0.charged.writers.write().unpoisoned();
            Sizing { volume: self, node, _alone: alone }
        })
    }
}
