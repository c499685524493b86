//! The quota limits the total size of the files of a volume. It is checked before a call makes a file larger.
//!
//! The sizes of files count, holes included, because the volume knows a size without asking the host, also while many
//! processes write to one file. Each node in memory has the size for which its file is charged. Writers of one file run in
//! parallel. A caller that truncates the file, or wrote less than it charged, waits for them, so that it reads the actual size.

pub(crate) mod account;
pub(crate) mod charged;
mod growth;
mod release;
mod walk;

pub(crate) use growth::Growth;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use host::Unpoisoned;

use crate::error::Error;
use crate::node::NodeInner;
use crate::types::FsStat;
use crate::volume::{Volume, VolumeInner};

/// A limit and how much of it is used, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    /// The largest total size of the files.
    pub limit_bytes: u64,
    /// Their total size.
    pub used_bytes: u64,
}

impl Volume {
    /// Sets or removes the limit of the total size. A limit below the current total only stops growth. Setting a limit when
    /// there is no limit walks the tree. Writes meanwhile may be counted twice or not at all, until the volume is opened again.
    ///
    /// **Errors**: the tree could not be walked; then there is still no limit.
    pub fn set_quota(&self, limit_bytes: Option<u64>) -> Result<(), Error> {
        let quota = &self.0.quota;
        let _one = quota.setting.lock().unpoisoned();
        match limit_bytes {
            None => quota.counting.store(false, Ordering::SeqCst),
            Some(limit) if quota.counting.load(Ordering::SeqCst) => quota.limit.store(limit, Ordering::SeqCst),
            Some(limit) => {
                quota.limit.store(u64::MAX, Ordering::SeqCst);
                let counted = self.0.count_anew();
                if counted.is_err() {
                    quota.counting.store(false, Ordering::SeqCst);
                }
                counted?;
                quota.limit.store(limit, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// The quota, if there is one.
    #[must_use]
    pub fn quota(&self) -> Option<QuotaUse> {
        let quota = &self.0.quota;
        let limit_bytes = quota.limit.load(Ordering::SeqCst);
        quota.counting.load(Ordering::SeqCst).then(|| QuotaUse { limit_bytes, used_bytes: quota.used() })
    }
}

impl VolumeInner {
    /// Whether sizes are counted at all.
    pub(crate) fn counts_sizes(&self) -> bool {
        self.quota.counting.load(Ordering::Relaxed)
    }

    /// Counts all sizes again if they are counted, after a power cut has changed files.
    pub(crate) fn recount(&self) {
        if self.counts_sizes() {
            // If the walk fails, the total is too low: the files that were not counted are charged only for growth.
            let _ = self.count_anew();
        }
    }

    /// The free space of the store, limited by the quota.
    pub(crate) fn within_quota(&self, store: FsStat) -> FsStat {
        if !self.counts_sizes() {
            return store;
        }
        let limit = self.quota.limit.load(Ordering::SeqCst);
        let left = limit.saturating_sub(self.quota.used());
        let (free_bytes, available_bytes) = (store.free_bytes.min(left), store.available_bytes.min(left));
        FsStat { total_bytes: store.total_bytes.min(limit), free_bytes, available_bytes, ..store }
    }

    /// Forgets all charges, and walks the tree to count the sizes.
    fn count_anew(&self) -> Result<(), Error> {
        self.nodes.for_each(|node: &Arc<NodeInner>| node.charged.forget());
        self.quota.used.store(0, Ordering::SeqCst);
        self.quota.counting.store(true, Ordering::SeqCst);
        let there = self.sizes_in_tree()?;
        self.quota.adjust(0, there);
        Ok(())
    }
}
