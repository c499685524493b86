//! The open descriptors of a volume: at most one per node. An eviction clock closes those that were
//! not used since its last round.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError, Weak};

use host::Unpoisoned;

use crate::descriptor_budget::{DescriptorBudget, Evict, OpenCount, Room};
use crate::limits::DESCRIPTORS_MIN;
use crate::node::NodeInner;

/// The nodes with a descriptor, in the order of the eviction clock.
pub(crate) struct DescriptorCache {
    count: Arc<OpenCount>,
    clock: Mutex<VecDeque<Weak<NodeInner>>>,
    /// The length of `clock` at which nodes without a descriptor are removed from it: twice its
    /// length after the last removal. So the removal costs about two checks for each open.
    sweep_at: AtomicUsize,
}

impl DescriptorCache {
    pub(crate) fn new(budget: &Arc<DescriptorBudget>) -> Arc<Self> {
        let (count, sweep_at) = (OpenCount::new(budget), AtomicUsize::new(2 * DESCRIPTORS_MIN));
        let cache = Arc::new(Self { count, clock: Mutex::default(), sweep_at });
        budget.add(Arc::downgrade(&cache) as Weak<dyn Evict>);
        cache
    }

    /// The count of open descriptors.
    pub(crate) fn count(&self) -> &Arc<OpenCount> {
        &self.count
    }

    /// Notes that the node got a descriptor.
    pub(crate) fn opened(&self, node: &Arc<NodeInner>) {
        let mut clock = self.clock.lock().unpoisoned();
        if clock.len() > self.sweep_at.load(Ordering::Relaxed) {
            // A node in the clock without a descriptor belongs to a removed file. The weak
            // reference keeps the memory of the node, and the node table may still have the node.
            clock
                .retain(|node| node.upgrade().is_some_and(|node| node.descriptor.try_lock().map_or(true, |slot| slot.is_some())));
            self.sweep_at.store(2 * clock.len().max(DESCRIPTORS_MIN), Ordering::Relaxed);
        }
        clock.push_back(Arc::downgrade(node));
    }

    /// Closes unused descriptors so that another one fits. `Some` if none could be closed and a
    /// descriptor of this volume needs a flush. The caller then flushes the returned node and calls
    /// this again.
    pub(crate) fn make_room(&self) -> Option<Arc<NodeInner>> {
        let closed = match self.count.budget().room(self.open_count()) {
            Room::Free => return None,
            Room::OwnShareUsed => self.evict_clean(1),
            Room::Full => self.count.budget().evict_clean(),
        };
        if closed > 0 { None } else { self.oldest_dirty() }
    }

    /// As [`Self::make_room`], after the host refused a descriptor although the budget had room.
    pub(crate) fn make_room_now(&self) -> Option<Arc<NodeInner>> {
        if self.count.budget().evict_clean() > 0 { None } else { self.oldest_dirty() }
    }

    /// The first node of the clock whose descriptor needs a flush.
    fn oldest_dirty(&self) -> Option<Arc<NodeInner>> {
        let clock = self.clock.lock().unpoisoned();
        clock.iter().filter_map(Weak::upgrade).find(|node| node.is_dirty() && !node.is_device())
    }
}

impl Evict for DescriptorCache {
    fn open_count(&self) -> usize {
        self.count.get()
    }

    fn evict_clean(&self, count: usize) -> usize {
        let mut clock = self.clock.lock().unpoisoned();
        let mut closed = 0;
        // Two passes: the first one clears the marks of use.
        for _ in 0..2 * clock.len() {
            let Some(weak) = clock.pop_front() else { break };
            let Some(node) = weak.upgrade() else { continue };
            if node.used.swap(false, Ordering::Relaxed) || node.is_device() {
                clock.push_back(weak);
                continue;
            }
            // If another caller holds the lock, it uses the descriptor.
            let slot = match node.descriptor.try_lock() {
                Ok(slot) => Some(slot),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            match slot {
                Some(slot) if slot.is_none() => continue,
                Some(mut slot) if !node.is_dirty() => *slot = None,
                _ => {
                    clock.push_back(weak);
                    continue;
                }
            }
            closed += 1;
            if closed == count {
                break;
            }
        }
        closed
    }
}

impl Drop for DescriptorCache {
    fn drop(&mut self) {
        self.count.budget().removed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{Access, Descriptor};
    use crate::handle::Named;
    use crate::limits::{EVICTED_TOGETHER, KERNEL_HANDLE_BYTES_MAX};
    use crate::store::directory::Directory;
    use crate::store::{SnapshotId, Store};
    use crate::sys::{self, KernelHandle};
    use crate::types::Kind;

    fn store() -> Arc<dyn Store> {
        Arc::new(Directory::open(&std::env::temp_dir(), SnapshotId::LIVE).unwrap().unwrap())
    }

    fn opened(cache: &Arc<DescriptorCache>, number: u8) -> Arc<NodeInner> {
        let identity = KernelHandle { kind: 1, len: 1, bytes: [number; KERNEL_HANDLE_BYTES_MAX] };
        let named = Named { identity, kind: Kind::File, fileid: u64::from(number), parent_hint: 0 };
        let node = Arc::new(NodeInner::new(store(), named));
        let fd = sys::open_path("/dev/null".as_ref(), libc::O_RDWR, 0).unwrap();
        *node.descriptor.lock().unpoisoned() = Some(Arc::new(Descriptor::new(fd, Access::ReadWrite, cache.count())));
        cache.opened(&node);
        node
    }

    fn is_open(node: &Arc<NodeInner>) -> bool {
        node.descriptor.lock().unpoisoned().is_some()
    }

    #[test]
    fn unused_descriptors_are_closed_first_and_dirty_ones_never() {
        let cache = DescriptorCache::new(&DescriptorBudget::with_bound(3));
        let nodes: Vec<_> = (0..3).map(|number| opened(&cache, number)).collect();
        nodes[0].mark_change();
        nodes[1].used.store(false, Ordering::Relaxed);
        assert_eq!(cache.evict_clean(1), 1);
        assert_eq!(nodes.iter().map(is_open).collect::<Vec<_>>(), [true, false, true], "the dirty and the used one stay");
        assert_eq!(cache.open_count(), 2);
        nodes[2].mark_change();
        let late = opened(&cache, 3);
        late.mark_change();
        let dirty = cache.make_room().expect("a node that must be flushed first");
        dirty.mark_flushed(dirty.change_mark(), true);
        assert!(cache.make_room().is_none());
        assert_eq!(cache.open_count(), 2, "flushed, then closed");
    }

    #[test]
    fn all_volumes_share_one_budget_and_the_one_with_the_most_descriptors_closes_some() {
        let budget = DescriptorBudget::with_bound(64);
        let (large, small) = (DescriptorCache::new(&budget), DescriptorCache::new(&budget));
        let small_nodes: Vec<_> = (0..8).map(|number| opened(&small, number)).collect();
        let large_nodes: Vec<_> = (0..56).map(|number| opened(&large, number)).collect();
        assert_eq!(budget.open_count(), 64);
        assert!(small.make_room().is_none());
        assert_eq!((large.open_count(), small.open_count()), (56 - EVICTED_TOGETHER, 8));
        assert!(small_nodes.iter().all(is_open), "the small volume loses nothing");
        drop((small, small_nodes, large_nodes));
        assert_eq!(budget.open_count(), 0);
    }

    #[test]
    fn a_volume_that_has_its_share_leaves_the_last_quarter_to_others_also_when_it_must_flush() {
        let budget = DescriptorBudget::with_bound(64);
        let (large, other) = (DescriptorCache::new(&budget), DescriptorCache::new(&budget));
        let nodes: Vec<_> = (0..48).map(|number| opened(&large, number)).collect();
        nodes.iter().for_each(|node| node.mark_change());
        assert!(large.make_room().is_some(), "it flushes one of its own");
        assert!(other.make_room().is_none());
        nodes[0].mark_flushed(nodes[0].change_mark(), true);
        assert!(large.make_room().is_none());
        assert!(!is_open(&nodes[0]));
    }

    #[test]
    fn nodes_of_removed_files_do_not_accumulate_in_the_clock() {
        let cache = DescriptorCache::new(&DescriptorBudget::with_bound(1000));
        let nodes: Vec<_> = (0..20 * DESCRIPTORS_MIN).map(|number| opened(&cache, number as u8)).collect();
        // The node table still has the first half of them.
        nodes.iter().for_each(|node| *node.descriptor.lock().unpoisoned() = None);
        let kept = nodes.into_iter().take(10 * DESCRIPTORS_MIN).collect::<Vec<_>>();
        (0..20 * DESCRIPTORS_MIN).for_each(|number| drop(opened(&cache, number as u8)));
        assert!(cache.clock.lock().unpoisoned().len() <= 2 * DESCRIPTORS_MIN + 1, "{}", kept.len());
    }
}
