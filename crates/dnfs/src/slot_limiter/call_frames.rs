//! Which leases the current call of each thread holds. The leases of a call that a signal handler interrupted, or that the
//! thread left by `longjmp`, are not among them.
//!
//! The preload library registers each call here. The entries of the threads are a part of [`crate::process::Process`].

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::members::Owner;
use crate::limits::THREAD_LEASES_MAX;
use crate::process::{CallingThread, NotedLease, this_process};
use crate::sys::stack_mark::{MarkPlace, StackMark};

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
    if let Some((place, thread)) = this_process().calling_thread() {
        frame.thread = Some(place);
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
    let Some((_, thread)) = this_process().calling_thread() else { return false };
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
    fn thread(&self) -> Option<&'static CallingThread> {
        self.thread.and_then(|place| this_process().calls.get(place))
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
        let Some((_, thread)) = this_process().calling_thread() else { return false };
        let mut count = thread.count.load(Relaxed) as usize;
        if count == THREAD_LEASES_MAX {
            if thread.base.load(Relaxed) == 0 {
                return false; // all entries belong to this call
            }
            thread.drop_oldest_lease();
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
        let Some((_, thread)) = this_process().calling_thread() else { return };
        let count = thread.count.load(Relaxed) as usize;
        let is_it = |place: &NotedLease| place.owner.load(Relaxed) == owner && place.table.load(Relaxed) & !1 == table;
        let Some(at) = thread.leases.iter().take(count).rposition(is_it) else { return };
        for place in at..count - 1 {
            thread.copy_lease(place + 1, place);
        }
        thread.leases[count - 1].owner.store(0, Relaxed);
        thread.count.store(count as u32 - 1, Release);
    }

    /// Calls `visit` for each lease of this table that the current call holds, with whether it is strong. False if this
    /// thread's leases are not noted.
    #[inline]
    pub(super) fn each(table: usize, mut visit: impl FnMut(Owner, bool)) -> bool {
        let Some((_, thread)) = this_process().calling_thread() else { return false };
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
