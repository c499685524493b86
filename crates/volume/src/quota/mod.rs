//! How large the files of a volume may be together, checked before a call that would make them larger is answered.
//!
//! What counts is the sizes of files, holes included: a size is known without asking the host, also while many write to one
//! file. Each node in memory knows up to which size its file is charged for. Writers of one file go side by side; whoever cuts
//! it, or finds that less came than was charged, waits for them, so that the size it sees is the size there is.

pub(crate) mod account;
pub(crate) mod charged;
mod growth;
mod release;
mod walk;

pub(crate) use growth::Growth;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::lock::locked;
use crate::node::NodeInner;
use crate::types::FsStat;
use crate::volume::{Volume, VolumeInner};

/// A limit and what of it is used, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    /// How large files may be together.
    pub limit_bytes: u64,
    /// How large they are.
    pub used_bytes: u64,
}

impl Volume {
    /// Sets or removes the limit of all sizes together. A limit below what is there only stops growth. With the first
    /// one the tree is walked; what others write meanwhile may be counted twice or not at all, until the volume is opened again.
    ///
    /// **Errors**: the tree could not be walked; then nothing has changed.
    pub fn set_quota(&self, limit_bytes: Option<u64>) -> Result<(), Error> {
        let quota = &self.0.quota;
        let _one = locked(&quota.setting);
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

    /// Counts again if sizes are counted: all may be others than they were.
    pub(crate) fn recount(&self) {
        if self.counts_sizes() {
            // Where it cannot be walked now it could before: what was charged stays off by what was taken back.
            let _ = self.count_anew();
        }
    }

    /// Free space as the quota leaves it.
    pub(crate) fn within_quota(&self, store: FsStat) -> FsStat {
        if !self.counts_sizes() {
            return store;
        }
        let limit = self.quota.limit.load(Ordering::SeqCst);
        let left = limit.saturating_sub(self.quota.used());
        let (free_bytes, available_bytes) = (store.free_bytes.min(left), store.available_bytes.min(left));
        FsStat { total_bytes: store.total_bytes.min(limit), free_bytes, available_bytes, ..store }
    }

    /// Forgets all charges and walks the tree for new ones.
    fn count_anew(&self) -> Result<(), Error> {
        self.nodes.for_each(|node: &Arc<NodeInner>| node.charged.forget());
        self.quota.used.store(0, Ordering::SeqCst);
        self.quota.counting.store(true, Ordering::SeqCst);
        let there = self.sizes_in_tree()?;
        self.quota.adjust(0, there);
        Ok(())
    }
}
