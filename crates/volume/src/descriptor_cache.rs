//! The bounded cache of open descriptors: one per node at most, oldest unused closed first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::limits::{DESCRIPTORS_MAX, DESCRIPTORS_MIN, DESCRIPTORS_RESERVED};
use crate::lock::locked;
use crate::node::NodeInner;
use crate::sys;

/// Which nodes have a descriptor, in the order of the eviction clock.
pub(crate) struct DescriptorCache {
    pub(crate) open: Arc<AtomicUsize>,
    count_max: usize,
    clock: Mutex<VecDeque<Weak<NodeInner>>>,
}

impl DescriptorCache {
    /// Sized by RLIMIT_NOFILE: half of what is left after the reserve.
    pub(crate) fn new() -> Self {
        let spare = sys::descriptor_limit().saturating_sub(DESCRIPTORS_RESERVED) / 2;
        let count_max = usize::try_from(spare).unwrap_or(DESCRIPTORS_MAX).clamp(DESCRIPTORS_MIN, DESCRIPTORS_MAX);
        Self { open: Arc::default(), count_max, clock: Mutex::default() }
    }

    /// Notes that the node got a descriptor.
    pub(crate) fn opened(&self, node: &Arc<NodeInner>) {
        locked(&self.clock).push_back(Arc::downgrade(node));
    }

    /// Closes unused descriptors until one more fits. `None`: it does. `Some`: all are waiting
    /// for a flush; this one is to be flushed and the call made again.
    pub(crate) fn evict_for_one(&self) -> Option<Arc<NodeInner>> {
        if self.open.load(Ordering::Relaxed) < self.count_max {
            return None;
        }
        self.evict(1)
    }

    /// The same after the host refused one more descriptor: gives several back, whatever the bound is.
    pub(crate) fn evict_several(&self) -> Option<Arc<NodeInner>> {
        self.evict(16)
    }

    fn evict(&self, count: usize) -> Option<Arc<NodeInner>> {
        let mut clock = locked(&self.clock);
        let mut dirty = None;
        let mut closed = 0;
        // Twice round: the first pass clears the marks of use.
        for _ in 0..2 * clock.len() {
            let Some(weak) = clock.pop_front() else { break };
            let Some(node) = weak.upgrade() else { continue };
            if node.used.swap(false, Ordering::Relaxed) || node.is_device() {
                clock.push_back(weak);
                continue;
            }
            let mut slot = locked(&node.descriptor);
            if slot.is_none() {
                continue;
            }
            if node.is_dirty() {
                drop(slot);
                clock.push_back(weak);
                dirty = Some(node);
                continue;
            }
            *slot = None;
            closed += 1;
            if closed == count {
                return None;
            }
        }
        if closed > 0 { None } else { dirty }
    }
}

#[cfg(test)]
impl DescriptorCache {
    pub(crate) fn with_bound(count_max: usize) -> Self {
        Self { open: Arc::default(), count_max, clock: Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{Access, Descriptor};
    use crate::limits::KERNEL_HANDLE_BYTES_MAX;
    use crate::sys::KernelHandle;
    use crate::types::Kind;

    fn opened(cache: &DescriptorCache, number: u8) -> Arc<NodeInner> {
        let identity = KernelHandle { kind: 1, len: 1, bytes: [number; KERNEL_HANDLE_BYTES_MAX] };
        let node = Arc::new(NodeInner::new(identity, Kind::File, u64::from(number), 0));
        let fd = sys::open_path("/dev/null".as_ref(), libc::O_RDWR, 0).unwrap();
        *locked(&node.descriptor) = Some(Arc::new(Descriptor::new(fd, Access::ReadWrite, &cache.open)));
        cache.opened(&node);
        node
    }

    #[test]
    fn unused_descriptors_are_closed_first_and_dirty_ones_never() {
        let cache = DescriptorCache::with_bound(3);
        let nodes: Vec<_> = (0..3).map(|number| opened(&cache, number)).collect();
        nodes[0].mark_change();
        nodes[1].used.store(false, Ordering::Relaxed);
        assert!(cache.evict_for_one().is_none());
        let open: Vec<_> = nodes.iter().map(|node| locked(&node.descriptor).is_some()).collect();
        assert_eq!(open, [true, false, true], "the dirty and the used one stay");
        assert_eq!(cache.open.load(Ordering::Relaxed), 2);
        nodes[2].mark_change();
        let late = opened(&cache, 3);
        late.mark_change();
        let dirty = cache.evict_for_one().expect("one that has to be flushed first");
        dirty.mark_flushed(dirty.change_mark(), true);
        assert!(cache.evict_for_one().is_none());
        assert_eq!(cache.open.load(Ordering::Relaxed), 2, "flushed, then closed");
    }
}
