//! Notes calls that have waited for a reply for a second. The waiting process writes them into the segment, for observers.
//!
//! A call that is answered sooner is never noted and costs nothing: a caller that waits notes it after the socket's own
//! timeout. No process waits for a note or depends on one. If the table is full, further calls are not shown.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::time::Duration;
use std::sync::Arc;

use crate::nfs3::procedures::ProcedureName;
use crate::process::this_process;
use crate::segment::layout::{CALL_NOTE_COUNT, CALL_NOTES_OFFSET, CallNote};
use crate::slot_limiter::{Members, Owner};
use crate::sys::clock::monotonic_ns;
use crate::sys::raw::process_id;
use crate::sys::shm::Mapping;

/// The notes of a segment, for one process that writes them.
#[derive(Clone, Debug)]
pub(crate) struct CallNotes {
    memory: Arc<Mapping>,
    members: Arc<Members>,
}

/// Used instead of a procedure while a connection is made.
pub(crate) const CONNECTING: u32 = u32::MAX;

/// A call that this process noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotedCall {
    place: usize,
    owner: Owner,
    fork_generation: u32,
}

/// A call that waits for its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInProgress {
    /// The procedure as RFC 1813 names it, `CONNECT` while a connection is made.
    pub procedure: String,
    /// The waiting process, by its number in its own PID namespace.
    pub pid: u32,
    /// How long it has waited.
    pub waited: Duration,
}

impl CallNotes {
    pub(crate) const fn new(memory: Arc<Mapping>, members: Arc<Members>) -> Self {
        Self { memory, members }
    }

    /// Notes that the calling thread has waited for `waited`. `None` if there is no place, or if this process has no owner word
    /// of its own. Async-signal-safe, does not allocate.
    #[cold]
    pub(crate) fn note(&self, procedure: u32, waited: Duration) -> Option<NotedCall> {
        if this_process().identity.shares_memory() {
            return None; // a note would carry its parent's owner word
        }
        let owner = self.members.owner()?;
        let since_ns = monotonic_ns().saturating_sub(waited.as_nanos() as u64).max(1);
        let free = |note: &CallNote| note.owner.compare_exchange(0, owner, AcqRel, Relaxed).is_ok();
        let left = |note: &CallNote| {
            let before = note.owner.load(Acquire);
            self.members.is_gone(before) && note.owner.compare_exchange(before, owner, AcqRel, Relaxed).is_ok()
        };
        let place = self.notes().iter().position(free).or_else(|| self.notes().iter().position(left))?;
        let note = self.notes().get(place)?;
        note.since_ns.store(0, Release); // left by a killed process
        note.pid.store(process_id(), Relaxed);
        note.procedure.store(procedure, Relaxed);
        note.since_ns.store(since_ns, Release);
        Some(NotedCall { place, owner, fork_generation: this_process().identity.generation() })
    }

    /// Removes the note: the call was answered or given up.
    #[cold]
    pub(crate) fn forget(&self, noted: NotedCall) {
        let Some(note) = self.notes().get(noted.place) else { return };
        // After a fork inside the call, the note belongs to the parent.
        if noted.fork_generation == this_process().identity.generation() && note.owner.load(Acquire) == noted.owner {
            note.since_ns.store(0, Release);
            let _ = note.owner.compare_exchange(noted.owner, 0, AcqRel, Relaxed);
        }
    }

    /// Calls noted by live processes, the one that has waited longest first.
    pub(crate) fn list(&self) -> Vec<CallInProgress> {
        let now_ns = monotonic_ns();
        let mut calls: Vec<_> = self.notes().iter().filter_map(|note| self.read(note, now_ns)).collect();
        calls.sort_by_key(|call| core::cmp::Reverse(call.waited));
        calls
    }

    fn read(&self, note: &CallNote, now_ns: u64) -> Option<CallInProgress> {
        let since_ns = note.since_ns.load(Acquire);
        let (owner, pid, procedure) = (note.owner.load(Acquire), note.pid.load(Relaxed), note.procedure.load(Relaxed));
        let is_whole = since_ns != 0 && owner != 0 && note.since_ns.load(Acquire) == since_ns;
        let name = ProcedureName::of(procedure);
        let procedure = if name.is_known() { name.to_string() } else { "CONNECT".to_owned() };
        let waited = Duration::from_nanos(now_ns.saturating_sub(since_ns));
        (is_whole && !self.members.is_gone(owner)).then_some(CallInProgress { procedure, pid, waited })
    }

    fn notes(&self) -> &[CallNote] {
        self.memory.values(CALL_NOTES_OFFSET, CALL_NOTE_COUNT)
    }
}

#[cfg(test)]
mod tests {
    /// RFC 1813 3.3.6 and 3.3.7.
    const READ: u32 = 6;
    const WRITE: u32 = 7;

    use super::*;
    use crate::segment::Segment;
    use crate::segment::tests::fresh_segment;
    use crate::sys::shm::tests::Child;

    fn notes(segment: &Segment) -> CallNotes {
        segment.members().watch().unwrap();
        CallNotes::new(segment.memory(), Arc::clone(segment.members()))
    }

    #[test]
    fn a_call_is_listed_from_its_note_to_its_end_longest_first() {
        let (_place, segment) = fresh_segment();
        let notes = notes(&segment);
        let read = notes.note(READ, Duration::from_secs(1)).unwrap();
        let write = notes.note(WRITE, Duration::from_secs(5)).unwrap();
        let listed = notes.list();
        assert_eq!(listed.iter().map(|call| call.procedure.as_str()).collect::<Vec<_>>(), ["WRITE", "READ"]);
        assert!(listed.iter().all(|call| call.pid == std::process::id()) && listed[0].waited >= Duration::from_secs(5));
        notes.forget(write);
        notes.forget(read);
        assert_eq!(notes.list(), []);
    }

    #[test]
    fn notes_of_a_killed_process_are_not_listed_and_give_their_places_up() {
        let (_place, segment) = fresh_segment();
        let filled = Child::run(|| {
            let notes = notes(&segment);
            let made = (0..CALL_NOTE_COUNT).filter_map(|_| notes.note(READ, Duration::from_secs(1)));
            assert_eq!(made.count(), CALL_NOTE_COUNT);
            assert!(notes.note(READ, Duration::ZERO).is_none(), "the table is full of living ones");
        });
        assert!(filled.succeeded());
        let notes = notes(&segment);
        assert_eq!(notes.list(), []);
        assert!(notes.note(WRITE, Duration::from_secs(1)).is_some());
        assert_eq!(notes.list().len(), 1);
    }

    #[test]
    fn a_child_forked_inside_a_call_leaves_the_note_of_its_parent() {
        let (_place, segment) = fresh_segment();
        let notes = notes(&segment);
        let noted = notes.note(READ, Duration::from_secs(1)).unwrap();
        let child = Child::run(|| {
            this_process().note_fork();
            notes.forget(noted);
        });
        assert!(child.succeeded());
        assert_eq!(notes.list().len(), 1);
    }
}
