//! Which leases the current call of each thread holds: those of a call that was interrupted by a signal handler, or left by `longjmp`, are
//! not among them.
//!
//! The preload library counts its calls here. A thread's entry is found by its control block, without a thread-local variable of
//! our own, since signal handlers come here too.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use super::members::Owner;
use crate::limits::{LEASE_THREADS_MAX, THREAD_LEASES_MAX};
use crate::sys::fork::fork_generation;
use crate::sys::raw::thread_id;
use crate::sys::stack_mark::{MarkPlace, StackMark};

/// Entries searched for a thread.
const PROBES: usize = 32;

struct Thread {
    /// Address of its control block; 0: free.
    id: AtomicU64,
    fork_generation: AtomicU32,
    /// The leases of the current call are those from `base` to `count`.
    base: AtomicU32,
    count: AtomicU32,
    /// Calls that it is in, one interrupted by the next; those that were left are counted, too.
    depth: AtomicU32,
    /// Where the last of them is.
    innermost: MarkPlace,
    /// 1 while a call has the thread's cancellation switched off.
    uncancelled: AtomicU32,
    leases: [Listed; THREAD_LEASES_MAX],
}

struct Listed {
    owner: AtomicU64,
    /// Of which mount, and whether it is strong (lowest bit).
    table: AtomicUsize,
}

static THREADS: [Thread; LEASE_THREADS_MAX] = [const { Thread::new() }; LEASE_THREADS_MAX];

/// A call of a program, until dropped.
#[derive(Debug)]
pub struct CallFrame {
    thread: Option<u16>,
    base: u32,
    count: u32,
    depth: u32,
    outer: (u64, u64),
    mark: StackMark,
}

/// Begins a call of a program: what an earlier call of the same thread holds is not this one's.
#[must_use]
#[inline]
pub fn begin_call() -> CallFrame {
    let mut frame = CallFrame { thread: None, base: 0, count: 0, depth: 0, outer: (0, 0), mark: StackMark::new() };
    if let Some((place, thread)) = Thread::current() {
        frame.thread = Some(place as u16);
        (frame.base, frame.count) = (thread.base.load(Relaxed), thread.count.load(Relaxed));
        (frame.depth, frame.outer) = (thread.depth.load(Relaxed), thread.innermost.noted());
        thread.base.store(frame.count, Relaxed);
        thread.depth.store(frame.depth + 1, Relaxed);
    }
    frame
}

/// Whether the thread is in a call of a program: this is a signal handler that interrupted it. A call that was left does not count.
#[must_use]
pub fn is_inside_call() -> bool {
    let Some((_, thread)) = Thread::current() else { return false };
    if thread.depth.load(Relaxed) == 0 {
        return false;
    }
    let is_left = thread.innermost.is_left();
    if is_left {
        // A jump goes to where the program is in no call, as a rule: the calls below it were left, too.
        thread.depth.store(0, Relaxed);
    }
    !is_left
}

/// Whether the thread's cancellation is off because it left a call by a jump.
#[must_use]
pub fn left_cancellation_off() -> bool {
    !is_inside_call() && Thread::current().is_some_and(|(_, thread)| thread.uncancelled.load(Relaxed) == 1)
}

impl CallFrame {
    /// Notes that this call has switched the thread's cancellation off, or on again.
    #[inline]
    pub fn note_cancellation(&self, is_off: bool) {
        if let Some(thread) = self.thread.and_then(|place| THREADS.get(usize::from(place))) {
            thread.uncancelled.store(u32::from(is_off), Relaxed);
        }
    }

    /// Marks the caller's frame, in which this lies, so that it is known when it was left. Not to be moved from here on.
    #[inline]
    pub fn mark(&self) {
        if let Some(thread) = self.thread.and_then(|place| THREADS.get(usize::from(place))) {
            self.mark.set(&thread.innermost);
        }
    }
}

impl Drop for CallFrame {
    #[inline]
    fn drop(&mut self) {
        if let Some(thread) = self.thread.and_then(|place| THREADS.get(usize::from(place))) {
            // Also of calls above this one, which were left if they are still there.
            thread.count.store(self.count, Relaxed);
            thread.base.store(self.base, Relaxed);
            thread.depth.store(self.depth, Relaxed);
            thread.innermost.restore(self.outer);
        }
    }
}

impl CallFrame {
    /// The current call holds this lease, of the mount of this table. False when there is no place to note it: nobody renews it, nor checks it.
    pub(super) fn note(table: usize, owner: Owner, is_strong: bool) -> bool {
        let Some((_, thread)) = Thread::current() else { return false };
        let mut count = thread.count.load(Relaxed) as usize;
        if count == THREAD_LEASES_MAX {
            if thread.base.load(Relaxed) == 0 {
                return false; // all of them are of this call
            }
            thread.drop_oldest();
            count -= 1;
        }
        // Counted first: a handler that comes in notes its own after it.
        thread.count.store(count as u32 + 1, Release);
        if let Some(place) = thread.leases.get(count) {
            place.table.store(table | usize::from(is_strong), Relaxed);
            place.owner.store(owner, Release);
        }
        true
    }

    /// It no longer does.
    pub(super) fn forget(table: usize, owner: Owner) {
        let Some((_, thread)) = Thread::current() else { return };
        let count = thread.count.load(Relaxed) as usize;
        let is_it = |place: &Listed| place.owner.load(Relaxed) == owner && place.table.load(Relaxed) & !1 == table;
        let Some(at) = thread.leases.iter().take(count).rposition(is_it) else { return };
        for place in at..count - 1 {
            thread.copy(place + 1, place);
        }
        thread.leases[count - 1].owner.store(0, Relaxed);
        thread.count.store(count as u32 - 1, Release);
    }

    /// The leases of this table that the current call holds, and whether they are strong. False when those of this thread are not noted.
    #[inline]
    pub(super) fn each(table: usize, mut look: impl FnMut(Owner, bool)) -> bool {
        let Some((_, thread)) = Thread::current() else { return false };
        let (base, count) = (thread.base.load(Relaxed) as usize, thread.count.load(Relaxed) as usize);
        for place in thread.leases.iter().take(count).skip(base) {
            let (owner, of) = (place.owner.load(Acquire), place.table.load(Relaxed));
            if owner != 0 && of & !1 == table {
                look(owner, of & 1 == 1);
            }
        }
        true
    }
}

impl Thread {
    const fn new() -> Self {
        Self {
            id: AtomicU64::new(0),
            fork_generation: AtomicU32::new(0),
            base: AtomicU32::new(0),
            count: AtomicU32::new(0),
            depth: AtomicU32::new(0),
            innermost: MarkPlace::new(),
            uncancelled: AtomicU32::new(0),
            leases: [const { Listed { owner: AtomicU64::new(0), table: AtomicUsize::new(0) } }; THREAD_LEASES_MAX],
        }
    }

    /// The entry of the calling thread, and its place. `None` when those that it may have are other threads'.
    #[inline]
    fn current() -> Option<(usize, &'static Self)> {
        let id = thread_id();
        let start = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        for step in 0..PROBES {
            let place = start.wrapping_add(step) % LEASE_THREADS_MAX;
            let thread = &THREADS[place];
            let found = thread.id.load(Relaxed);
            if found == id || (found == 0 && thread.id.compare_exchange(0, id, AcqRel, Relaxed).is_ok()) {
                let generation = fork_generation();
                if thread.fork_generation.load(Relaxed) != generation {
                    // In a child the leases are the parent's.
                    thread.count.store(0, Relaxed);
                    thread.base.store(0, Relaxed);
                    thread.depth.store(0, Relaxed);
                    thread.uncancelled.store(0, Relaxed);
                    thread.fork_generation.store(generation, Relaxed);
                }
                return Some((place, thread));
            }
        }
        None
    }

    fn copy(&self, from: usize, to: usize) {
        let (from, to) = (&self.leases[from], &self.leases[to]);
        to.owner.store(0, Relaxed);
        to.table.store(from.table.load(Relaxed), Relaxed);
        to.owner.store(from.owner.load(Relaxed), Relaxed);
    }

    /// Makes room: what stands lowest belongs to the call that began first, or was left long ago.
    #[cold]
    fn drop_oldest(&self) {
        for place in 1..THREAD_LEASES_MAX {
            self.copy(place, place - 1);
        }
        self.count.store(THREAD_LEASES_MAX as u32 - 1, Relaxed);
        self.base.store(self.base.load(Relaxed).saturating_sub(1), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> Vec<Owner> {
        let mut held = Vec::new();
        CallFrame::each(64, |owner, _| held.push(owner));
        held
    }

    #[test]
    fn a_call_holds_what_it_took_and_not_what_the_interrupted_one_below_it_holds() {
        let outer = begin_call();
        CallFrame::note(64, 2, true);
        let inner = begin_call();
        CallFrame::note(64, 4, true);
        assert_eq!(held(), [4]);
        CallFrame::forget(64, 4);
        drop(inner);
        assert_eq!(held(), [2]);
        CallFrame::forget(64, 2);
        assert!(held().is_empty());
        drop(outer);
    }

    #[test]
    fn a_call_with_more_leases_than_are_noted_learns_it_and_keeps_those_that_are() {
        let call = begin_call();
        let places = THREAD_LEASES_MAX as u64;
        assert!((1..=places).all(|number| CallFrame::note(64, 2 * number, true)));
        assert!(!CallFrame::note(64, 2 * places + 2, true));
        assert_eq!(held().len(), THREAD_LEASES_MAX);
        drop(call);
    }

    #[test]
    fn calls_that_were_left_hold_nothing_for_those_that_follow_however_many_they_were() {
        let outermost = begin_call();
        for number in 0..100 {
            std::mem::forget(begin_call());
            CallFrame::note(64, 2 * number + 2, true);
            let call = begin_call();
            assert!(held().is_empty());
            CallFrame::note(64, 1 << 20, true);
            assert_eq!(held(), [1 << 20]);
            CallFrame::forget(64, 1 << 20);
            drop(call);
        }
        drop(outermost);
        assert!(held().is_empty());
    }
}
