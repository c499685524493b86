//! One COMMIT at a time of each file: whoever comes meanwhile waits for the next one, which covers all who came before it was sent.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};

use super::Members;
use super::leases::{Lease, Strength};
use super::members::Owner;
use crate::limits::COMMIT_TURN_MS;
use crate::segment::layout::Slot;

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
    lease: Lease<'s>,
}

impl Members {
    /// Waits until `is_covered` or it is this caller's turn. Beside the others goes who cannot wait (a signal handler inside another
    /// call, `is_nested`), and whose predecessor failed. From one that takes very long the turn is taken.
    pub(crate) fn commit_turn<'s>(
        &'s self,
        slot: &'s Slot,
        is_nested: impl Fn() -> bool,
        is_covered: impl Fn() -> bool,
    ) -> CommitTurn<'s> {
        let Some(lease) = self.lease(Strength::Weak) else { return CommitTurn::Beside };
        let turn = match take_turn(slot, &lease) {
            Ok(()) => CommitTurn::Mine(CommitGuard { slot, lease }),
            Err(found) if self.is_of_this_call(found) || is_nested() => CommitTurn::Beside,
            Err(_) => self.wait_for_turn(slot, lease, &is_covered),
        };
        // Asked again: the COMMIT before this one may have ended just before the turn was taken.
        if matches!(turn, CommitTurn::Mine(_)) && is_covered() { CommitTurn::Covered } else { turn }
    }

    /// The turn without waiting for it; none while another has it. [`CommitTurn::Beside`] where turns cannot be had.
    pub(crate) fn try_commit_turn<'s>(&'s self, slot: &'s Slot) -> Option<CommitTurn<'s>> {
        let Some(lease) = self.lease(Strength::Weak) else { return Some(CommitTurn::Beside) };
        take_turn(slot, &lease).is_ok().then(|| CommitTurn::Mine(CommitGuard { slot, lease }))
    }

    /// Waits until no COMMIT of the file is in flight that was when this was called; for a time only.
    pub(crate) fn wait_for_commit_in_flight(&self, slot: &Slot) {
        let found = slot.commit_sender.load(Acquire);
        if found == 0 || self.is_of_this_call(found) {
            return;
        }
        let begun = Instant::now();
        slot.commit_ended.wait_until(|overdue| {
            let now = self.sender(slot, overdue);
            (now != found || begun.elapsed() >= Duration::from_millis(COMMIT_TURN_MS)).then_some(())
        });
    }

    fn wait_for_turn<'s>(&'s self, slot: &'s Slot, lease: Lease<'s>, is_covered: &impl Fn() -> bool) -> CommitTurn<'s> {
        let failures = slot.commit_failures.load(Acquire);
        let begun = Instant::now();
        let is_mine = slot.commit_ended.wait_until(|overdue| {
            self.renew_leases();
            if is_covered() {
                return Some(Err(CommitTurn::Covered));
            }
            self.sender(slot, overdue);
            if slot.commit_failures.load(Acquire) != failures {
                return Some(Err(CommitTurn::Beside)); // each learns of it by its own, and none waits for the other's time-out
            }
            match take_turn(slot, &lease) {
                Ok(()) => Some(Ok(())),
                // Of one that waits for a server that this caller may reach: taken, so that it is waited for once.
                Err(holder) if begun.elapsed() >= Duration::from_millis(COMMIT_TURN_MS) => {
                    let _ = slot.commit_sender.compare_exchange(holder, 0, AcqRel, Relaxed);
                    take_turn(slot, &lease).is_ok().then_some(Ok(()))
                }
                Err(_) => None,
            }
        });
        match is_mine {
            Ok(()) => CommitTurn::Mine(CommitGuard { slot, lease }),
            Err(other) => other,
        }
    }

    /// Who sends a COMMIT now; one who died or was stopped does not.
    fn sender(&self, slot: &Slot, overdue: bool) -> Owner {
        let holder = slot.commit_sender.load(Acquire);
        if holder != 0 && (overdue || self.is_of_other_call(holder)) && self.is_gone(holder) {
            let _ = slot.commit_sender.compare_exchange(holder, 0, AcqRel, Relaxed);
            return 0;
        }
        holder
    }
}

/// Takes the turn, or tells who has it.
fn take_turn(slot: &Slot, lease: &Lease<'_>) -> Result<(), Owner> {
    slot.commit_sender.compare_exchange(0, lease.owner(), AcqRel, Acquire).map(|_| ())
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
        if self.lease.is_of_this_process() {
            let _ = self.slot.commit_sender.compare_exchange(self.lease.owner(), 0, SeqCst, Relaxed);
            self.slot.commit_ended.notify(u32::MAX); // one sends the next, and those it covers wait on
        }
    }
}
