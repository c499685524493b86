//! Which leases the current call of each thread holds. The leases of a call that a signal handler interrupted, or that the
//! thread left by `longjmp`, are not among them.
//!
//! The preload library registers each call here. A thread's entry is found by the address of its control block. Signal handlers
//! use this module too, so it has no thread-local variable.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use super::members::Owner;
use crate::limits::{LEASE_THREADS_MAX, THREAD_LEASES_MAX};
use crate::process::this_process;
use crate::sys::raw::thread_id;
use crate::sys::stack_mark::{MarkPlace, StackMark};

/// Entries that a search for a thread examines.
const PROBES: usize = 32;

struct Thread {
    /// Address of its control block; 0: free.
    id: AtomicU64,
    fork_generation: AtomicU32,
    /// The leases of the current call are those from `base` to `count`.
    base: AtomicU32,
    count: AtomicU32,
    /// Number of marked calls that the thread is in: each one interrupts the one before. Calls that the thread left by a jump count too.
    depth: AtomicU32,
    /// Stack mark of the innermost call.
    innermost: MarkPlace,
    /// 1 while a call has disabled the thread's cancellation, and for a moment before and after.
    uncancelled: AtomicU32,
    leases: [Listed; THREAD_LEASES_MAX],
}

struct Listed {
    owner: AtomicU64,
    /// Address of the mount's table; the lowest bit is set if the lease is strong.
    table: AtomicUsize,
}

static THREADS: [Thread; LEASE_THREADS_MAX] = [const { Thread::new() }; LEASE_THREADS_MAX];

/// A call of the program into the library. It ends when this is dropped.
#[derive(Debug)]
pub struct CallFrame {
    thread: Option<u16>,
    base: u32,
    count: u32,
    depth: u32,
    outer: (u64, u64),
    /// The thread's `uncancelled` before this call.
    uncancelled: u32,
    mark: StackMark,
}

/// Begins a call. Leases of an earlier call of the same thread do not belong to it.
#[must_use]
#[inline]
pub fn begin_call() -> CallFrame {
    let mut frame =
        CallFrame { thread: None, base: 0, count: 0, depth: 0, outer: (0, 0), uncancelled: 0, mark: StackMark::new() };
    if let Some((place, thread)) = Thread::current() {
        frame.thread = Some(place as u16);
        (frame.base, frame.count) = (thread.base.load(Relaxed), thread.count.load(Relaxed));
        (frame.depth, frame.outer) = (thread.depth.load(Relaxed), thread.innermost.noted());
        frame.uncancelled = thread.uncancelled.load(Relaxed);
        thread.base.store(frame.count, Relaxed);
    }
    frame
}

/// Whether the thread is in a call, so that the caller is a signal handler that interrupted it. A call that the thread left
/// does not count.
#[must_use]
pub fn is_inside_call() -> bool {
    let Some((_, thread)) = Thread::current() else { return false };
    if thread.depth.load(Relaxed) == 0 {
        return false;
    }
    let is_left = thread.innermost.is_left();
    if is_left {
        // A jump normally goes to code outside any call, so the thread left the outer calls too.
        thread.depth.store(0, Relaxed);
    }
    !is_left
}

impl CallFrame {
    /// Marks the caller's stack frame, which contains `self`, and notes that the call is about to disable the thread's
    /// cancellation. The notes are complete before either takes effect, so that the thread may leave the call by a jump at any
    /// instruction: the next call then finds both. `self` must not move afterwards.
    #[inline]
    pub fn mark(&self) {
        if let Some(thread) = self.thread() {
            self.mark.set(&thread.innermost);
            thread.depth.store(self.depth + 1, Relaxed);
            thread.uncancelled.store(1, Relaxed);
        }
    }

    /// Notes that this call no longer disables cancellation: the state is that before the call.
    #[inline]
    pub fn note_cancellation_restored(&self) {
        if let Some(thread) = self.thread() {
            thread.uncancelled.store(self.uncancelled, Relaxed);
        }
    }

    /// Whether the thread left an earlier call by a jump while that call had disabled its cancellation. The caller enables it
    /// again, so this call clears the note of the earlier one.
    #[cold]
    pub fn take_left_uncancelled(&mut self) -> bool {
        let is_left = self.uncancelled == 1 && (self.depth == 0 || MarkPlace::at(self.outer).is_left());
        if is_left {
            self.uncancelled = 0;
        }
        is_left
    }

    #[inline]
    fn thread(&self) -> Option<&'static Thread> {
        self.thread.and_then(|place| THREADS.get(usize::from(place)))
    }
}

impl Drop for CallFrame {
    #[inline]
    fn drop(&mut self) {
        if let Some(thread) = self.thread() {
            // This also removes inner calls that are still registered: the thread left them.
            thread.count.store(self.count, Relaxed);
            thread.base.store(self.base, Relaxed);
            thread.depth.store(self.depth, Relaxed);
            thread.innermost.restore(self.outer);
        }
    }
}

impl CallFrame {
    /// Notes that the current call holds this lease of the mount with this table. False if there is no free entry; the thread
    /// then neither renews nor checks the lease.
    pub(super) fn note(table: usize, owner: Owner, is_strong: bool) -> bool {
        let Some((_, thread)) = Thread::current() else { return false };
        let mut count = thread.count.load(Relaxed) as usize;
        if count == THREAD_LEASES_MAX {
            if thread.base.load(Relaxed) == 0 {
                return false; // all entries belong to this call
            }
            thread.drop_oldest();
            count -= 1;
        }
        // The count is stored first, so that a signal handler uses the next entry.
        thread.count.store(count as u32 + 1, Release);
        if let Some(place) = thread.leases.get(count) {
            place.table.store(table | usize::from(is_strong), Relaxed);
            place.owner.store(owner, Release);
        }
        true
    }

    /// Removes the note of a lease.
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

    /// Calls `visit` for each lease of this table that the current call holds, with whether it is strong. False if this
    /// thread's leases are not noted.
    #[inline]
    pub(super) fn each(table: usize, mut visit: impl FnMut(Owner, bool)) -> bool {
        let Some((_, thread)) = Thread::current() else { return false };
        let (base, count) = (thread.base.load(Relaxed) as usize, thread.count.load(Relaxed) as usize);
        for place in thread.leases.iter().take(count).skip(base) {
            let (owner, of) = (place.owner.load(Acquire), place.table.load(Relaxed));
            if owner != 0 && of & !1 == table {
                visit(owner, of & 1 == 1);
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

    /// The entry of the calling thread, and its index. `None` if other threads use all entries that this thread may have.
    #[inline]
    fn current() -> Option<(usize, &'static Self)> {
        let id = thread_id();
        let start = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        for step in 0..PROBES {
            let place = start.wrapping_add(step) % LEASE_THREADS_MAX;
            let thread = &THREADS[place];
            let found = thread.id.load(Relaxed);
            if found == id || (found == 0 && thread.id.compare_exchange(0, id, AcqRel, Relaxed).is_ok()) {
                let generation = this_process().identity.generation();
                if thread.fork_generation.load(Relaxed) != generation {
                    // After a fork, the copied leases belong to the parent.
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

    /// Frees an entry: removes the lowest one. It belongs to the outermost call, or to a call that the thread left.
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

    /// A call that the thread leaves by a jump, before (0) or after (1) it has marked its frame. The frame is then overwritten.
    #[inline(never)]
    fn leave_after(steps: u32) {
        let call = std::mem::ManuallyDrop::new(begin_call());
        if steps > 0 {
            call.mark();
            call.mark.overwrite();
        }
    }

    #[test]
    fn a_call_that_was_left_at_any_step_keeps_no_later_call_from_being_cancelled() {
        std::thread::spawn(|| {
            for steps in [0, 1, 0, 1, 1] {
                leave_after(steps);
                assert!(!is_inside_call());
                let mut call = begin_call();
                call.mark();
                assert_eq!(call.take_left_uncancelled(), steps == 1);
                assert!(is_inside_call());
                call.note_cancellation_restored();
                drop(call);
                let mut call = begin_call();
                assert!(!call.take_left_uncancelled(), "the earlier call had taken it");
            }
        })
        .join()
        .unwrap();
    }
}
