//! The calls in which the threads of this process are, and the leases that they hold.
//!
//! Signal handlers use this too, so there is no thread-local variable: a thread's entry is found by the address of its control
//! block.

use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use crate::limits::{LEASE_THREADS_MAX, THREAD_LEASES_MAX};
use crate::sys::fork::Identity;
use crate::sys::raw::thread_id;
use crate::sys::stack_mark::MarkPlace;

/// Entries that a search for a thread examines.
const PROBES: usize = 32;

/// An entry for each thread that calls this crate through the preload library ([`crate::CallFrame`]).
pub(crate) struct Calls(pub(super) [CallingThread; LEASE_THREADS_MAX]);

/// The calls of one thread.
pub(crate) struct CallingThread {
    /// Address of its control block; 0: free.
    id: AtomicU64,
    fork_generation: AtomicU32,
    /// The leases of the current call are those from `base` to `count`.
    pub(crate) base: AtomicU32,
    pub(crate) count: AtomicU32,
    /// Number of marked calls that the thread is in: each one interrupts the previous one. Calls that the thread left by a jump
    /// count too.
    pub(crate) depth: AtomicU32,
    /// Stack mark of the innermost call.
    pub(crate) innermost: MarkPlace,
    /// 1 while a call has disabled the thread's cancellation, and for a moment before and after.
    pub(crate) uncancelled: AtomicU32,
    pub(crate) leases: [NotedLease; THREAD_LEASES_MAX],
}

/// A lease that a call holds.
pub(crate) struct NotedLease {
    pub(crate) owner: AtomicU64,
    /// Address of the mount's table; the lowest bit is set if the lease is strong.
    pub(crate) table: AtomicUsize,
}

impl Calls {
    #[cfg(test)]
    pub(super) const fn new() -> Self {
        Self([const { CallingThread::new() }; LEASE_THREADS_MAX])
    }

    pub(crate) fn get(&self, place: u16) -> Option<&CallingThread> {
        self.0.get(usize::from(place))
    }

    /// The entry of the calling thread, and its index. `None` if other threads use all entries that this thread may have.
    #[inline]
    pub(super) fn current(&'static self, identity: &'static Identity) -> Option<(u16, &'static CallingThread)> {
        let id = thread_id();
        let start = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        for step in 0..PROBES {
            let place = start.wrapping_add(step) % LEASE_THREADS_MAX;
            let thread = &self.0[place];
            let found = thread.id.load(Relaxed);
            if found == id || (found == 0 && thread.id.compare_exchange(0, id, AcqRel, Relaxed).is_ok()) {
                let generation = identity.generation();
                if thread.fork_generation.load(Relaxed) != generation {
                    // After a fork, the copied leases belong to the parent.
                    thread.count.store(0, Relaxed);
                    thread.base.store(0, Relaxed);
                    thread.depth.store(0, Relaxed);
                    thread.uncancelled.store(0, Relaxed);
                    thread.fork_generation.store(generation, Relaxed);
                }
                return Some((place as u16, thread));
            }
        }
        None
    }
}

impl CallingThread {
    pub(super) const fn new() -> Self {
        Self {
            id: AtomicU64::new(0),
            fork_generation: AtomicU32::new(0),
            base: AtomicU32::new(0),
            count: AtomicU32::new(0),
            depth: AtomicU32::new(0),
            innermost: MarkPlace::new(),
            uncancelled: AtomicU32::new(0),
            leases: [const { NotedLease { owner: AtomicU64::new(0), table: AtomicUsize::new(0) } }; THREAD_LEASES_MAX],
        }
    }

    /// Copies the note of a lease to another place.
    pub(crate) fn copy_lease(&self, from: usize, to: usize) {
        let (from, to) = (&self.leases[from], &self.leases[to]);
        to.owner.store(0, Relaxed);
        to.table.store(from.table.load(Relaxed), Relaxed);
        to.owner.store(from.owner.load(Relaxed), Relaxed);
    }

    /// Frees a place: removes the lowest note. It belongs to the outermost call, or to a call that the thread left.
    #[cold]
    pub(crate) fn drop_oldest_lease(&self) {
        for place in 1..THREAD_LEASES_MAX {
            self.copy_lease(place, place - 1);
        }
        self.count.store(THREAD_LEASES_MAX as u32 - 1, Relaxed);
        self.base.store(self.base.load(Relaxed).saturating_sub(1), Relaxed);
    }
}
