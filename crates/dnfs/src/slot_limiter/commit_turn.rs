//! One COMMIT at a time of each file: whoever comes meanwhile waits for the next one, which covers all who came before it was sent.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};

use super::Members;
use super::members::Owner;
use crate::limits::COMMIT_TURN_MS;
use crate::segment::layout::Slot;
use crate::sys::fork;

/// Who sends the COMMIT that a caller needs.
pub(crate) enum CommitTurn<'s> {
    /// Nobody: one that another sent meanwhile covered everything.
    Covered,
    /// This caller; the next may when this is dropped.
    Mine(CommitGuard<'s>),
    /// This caller, whatever others do.
    Beside,
}

/// The right to send the COMMIT of a file, given back when dropped.
pub(crate) struct CommitGuard<'s> {
    slot: &'s Slot,
    owner: Owner,
    fork_generation: u32,
}

impl Members {
    /// Waits until `is_covered` or it is this caller's turn. Beside the others goes who cannot wait (a signal handler inside another
    /// call, `is_nested`), and whose predecessor failed. From one that takes very long the turn is taken.
    pub(crate) fn commit_turn<'s>(
        &self,
        slot: &'s Slot,
        is_nested: impl Fn() -> bool,
        is_covered: impl Fn() -> bool,
    ) -> CommitTurn<'s> {
        let Some(owner) = self.owner() else { return CommitTurn::Beside };
        let turn = match self.take_turn(slot, owner) {
            Ok(guard) => CommitTurn::Mine(guard),
            Err(found) if found == owner || is_nested() => CommitTurn::Beside,
            Err(_) => self.wait_for_turn(slot, owner, &is_covered),
        };
        // Asked again: the COMMIT before this one may have ended just before the turn was taken.
        if matches!(turn, CommitTurn::Mine(_)) && is_covered() { CommitTurn::Covered } else { turn }
    }

    /// The turn without waiting for it; none while another has it. [`CommitTurn::Beside`] where turns cannot be had.
    pub(crate) fn try_commit_turn<'s>(&self, slot: &'s Slot) -> Option<CommitTurn<'s>> {
        let Some(owner) = self.owner() else { return Some(CommitTurn::Beside) };
        self.take_turn(slot, owner).ok().map(CommitTurn::Mine)
    }

    /// Waits until no COMMIT of the file is in flight that was when this was called; for a time only.
    pub(crate) fn wait_for_commit_in_flight(&self, slot: &Slot) {
        let found = slot.commit_sender.load(Acquire);
        if found == 0 || self.owner().is_none_or(|owner| owner == found) {
            return;
        }
        let begun = Instant::now();
        slot.commit_ended.wait_until(|overdue| {
            let now = self.sender(slot, overdue);
            (now != found || begun.elapsed() >= Duration::from_millis(COMMIT_TURN_MS)).then_some(())
        });
    }

    fn take_turn<'s>(&self, slot: &'s Slot, owner: Owner) -> Result<CommitGuard<'s>, Owner> {
        let fork_generation = fork::fork_generation();
        slot.commit_sender.compare_exchange(0, owner, AcqRel, Acquire).map(|_| CommitGuard { slot, owner, fork_generation })
    }

    fn wait_for_turn<'s>(&self, slot: &'s Slot, owner: Owner, is_covered: &impl Fn() -> bool) -> CommitTurn<'s> {
        let failures = slot.commit_failures.load(Acquire);
        let begun = Instant::now();
        slot.commit_ended.wait_until(|overdue| {
            if is_covered() {
                return Some(CommitTurn::Covered);
            }
            self.sender(slot, overdue);
            if slot.commit_failures.load(Acquire) != failures {
                return Some(CommitTurn::Beside); // each learns of it by its own, and none waits for the other's time-out
            }
            match self.take_turn(slot, owner) {
                Ok(guard) => Some(CommitTurn::Mine(guard)),
                // Of one that is stopped, or waits for a server that this caller may reach: taken, so that it is waited for once.
                Err(holder) if begun.elapsed() >= Duration::from_millis(COMMIT_TURN_MS) => {
                    let _ = slot.commit_sender.compare_exchange(holder, 0, AcqRel, Relaxed);
                    self.take_turn(slot, owner).ok().map(CommitTurn::Mine)
                }
                Err(_) => None,
            }
        })
    }

    /// Who sends a COMMIT now; one who died does not.
    fn sender(&self, slot: &Slot, overdue: bool) -> Owner {
        let holder = slot.commit_sender.load(Acquire);
        if overdue && holder != 0 && self.is_gone(holder) {
            let _ = slot.commit_sender.compare_exchange(holder, 0, AcqRel, Relaxed);
            return 0;
        }
        holder
    }
}

impl CommitTurn<'_> {
    /// The COMMIT had no answer, or a refusal.
    pub(crate) fn failed(&self) {
        if let Self::Mine(guard) = self {
            guard.slot.commit_failures.fetch_add(1, AcqRel);
        }
    }
}

impl Drop for CommitGuard<'_> {
    fn drop(&mut self) {
        if self.fork_generation == fork::fork_generation() {
            let _ = self.slot.commit_sender.compare_exchange(self.owner, 0, SeqCst, Relaxed);
            self.slot.commit_ended.notify(u32::MAX); // one sends the next, and those it covers wait on
        }
    }
}
