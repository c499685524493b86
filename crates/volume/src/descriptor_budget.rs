//! The descriptors that all volumes of this process keep open together.
//!
//! RLIMIT_NOFILE limits the process, so there is one budget for the process. While more than a
//! quarter of it is free, a volume keeps what it opened. Then a volume that has used its share
//! closes one descriptor for each one that it opens. When the budget is used up, the volume with
//! the most descriptors closes some. So a volume whose clients read every file takes none from a
//! small one.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use host::Unpoisoned;

use crate::limits::{DESCRIPTORS_MAX, DESCRIPTORS_MIN, DESCRIPTORS_RESERVED, EVICTED_TOGETHER};
use crate::sys;

/// The budget of a process.
#[derive(Default)]
pub(crate) struct DescriptorBudget {
    open: AtomicUsize,
    count_max: AtomicUsize,
    volumes: AtomicUsize,
    caches: Mutex<Vec<Weak<dyn Evict>>>,
}

/// The open descriptors of one volume, as the budget sees them.
pub(crate) trait Evict: Send + Sync {
    /// Number of open descriptors.
    fn open_count(&self) -> usize;

    /// Closes up to `count` descriptors that are unused and need no flush. Returns how many it closed.
    fn evict_clean(&self, count: usize) -> usize;
}

/// The number of open descriptors of one volume.
pub(crate) struct OpenCount {
    budget: Arc<DescriptorBudget>,
    open: AtomicUsize,
}

impl OpenCount {
    pub(crate) fn new(budget: &Arc<DescriptorBudget>) -> Arc<Self> {
        Arc::new(Self { budget: Arc::clone(budget), open: AtomicUsize::new(0) })
    }

    pub(crate) fn budget(&self) -> &DescriptorBudget {
        &self.budget
    }

    pub(crate) fn get(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// One open descriptor. It counts for its volume and for the process while this exists.
pub(crate) struct Counted(Arc<OpenCount>);

impl Counted {
    pub(crate) fn new(count: &Arc<OpenCount>) -> Self {
        count.open.fetch_add(1, Ordering::Relaxed);
        count.budget.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }

    /// Counts another descriptor of the same file.
    pub(crate) fn another(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.budget.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a volume must do before it opens another descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Nothing.
    Free,
    /// Close one of its own.
    OwnShareUsed,
    /// Make the volume with the most descriptors close some.
    Full,
}

impl DescriptorBudget {
    /// The budget of this process: half of RLIMIT_NOFILE without the reserve. The other half is for
    /// connections and for descriptors that are open only during one call.
    pub(crate) fn of_process() -> &'static Arc<Self> {
        static BUDGET: OnceLock<Arc<DescriptorBudget>> = OnceLock::new();
        let budget = BUDGET.get_or_init(Arc::default);
        let spare = sys::descriptor_limit().saturating_sub(DESCRIPTORS_RESERVED) / 2;
        let count_max = usize::try_from(spare).unwrap_or(DESCRIPTORS_MAX).clamp(DESCRIPTORS_MIN, DESCRIPTORS_MAX);
        budget.count_max.store(count_max, Ordering::Relaxed);
        budget
    }

    /// Adds the descriptors of a volume.
    pub(crate) fn add(&self, cache: Weak<dyn Evict>) {
        self.volumes.fetch_add(1, Ordering::Relaxed);
        let mut caches = self.caches.lock().unpoisoned();
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(cache);
    }

    /// Notes that a volume was closed.
    pub(crate) fn removed(&self) {
        self.volumes.fetch_sub(1, Ordering::Relaxed);
    }

    /// The room for another descriptor of a volume that has `own` descriptors.
    pub(crate) fn room(&self, own: usize) -> Room {
        let (open, count_max) = (self.open.load(Ordering::Relaxed), self.count_max.load(Ordering::Relaxed));
        if open >= count_max {
            return Room::Full;
        }
        let is_share_used = || own >= count_max / self.volumes.load(Ordering::Relaxed).max(1);
        if open >= count_max - count_max / 4 && is_share_used() { Room::OwnShareUsed } else { Room::Free }
    }

    /// Closes descriptors that are unused and need no flush. Takes them from the volume with the
    /// most descriptors that has such ones. Returns how many it closed.
    pub(crate) fn evict_clean(&self) -> usize {
        let mut caches: Vec<_> = self.caches.lock().unpoisoned().iter().filter_map(Weak::upgrade).collect();
        caches.sort_by_cached_key(|cache| std::cmp::Reverse(cache.open_count()));
        caches.iter().map(|cache| cache.evict_clean(EVICTED_TOGETHER)).find(|closed| *closed > 0).unwrap_or(0)
    }
}

/// Calls `open`, which makes a descriptor. On EMFILE or ENFILE, closes cached descriptors of the
/// volumes of this process and calls `open` again. A server uses this for its own files and for
/// accept.
pub fn opening<T, E: Into<io::Error>>(mut open: impl FnMut() -> Result<T, E>) -> io::Result<T> {
    let is_short = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    match open().map_err(Into::into) {
        Err(error) if is_short(&error) && close_spare_descriptors() => open().map_err(Into::into),
        other => other,
    }
}

/// Closes cached descriptors of the volumes of this process. Returns false if all are in use.
pub fn close_spare_descriptors() -> bool {
    DescriptorBudget::of_process().evict_clean() > 0
}

#[cfg(test)]
impl DescriptorBudget {
    pub(crate) fn with_bound(count_max: usize) -> Arc<Self> {
        Arc::new(Self { count_max: AtomicUsize::new(count_max), ..Self::default() })
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}
