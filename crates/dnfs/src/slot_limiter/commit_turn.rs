//! One COMMIT at a time for each file. Callers that arrive meanwhile share the next one, which covers all that arrived before
//! it was sent.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};

use super::Members;
use super::leases::{Lease, Strength};
use super::members::Owner;
use crate::limits::COMMIT_TURN_MS;
use crate::segment::layout::Slot;

/// Whether a caller sends the COMMIT that it needs.
pub(crate) enum CommitTurn<'s> {
    /// No: another caller's COMMIT has covered everything.
    Covered,
    /// Yes. The next caller may send when the guard is dropped.
    Mine(CommitGuard<'s>),
    /// Yes, at the same time as other callers.
    Beside,
}

/// The right to send the COMMIT of a file, released when dropped.
pub(crate) struct CommitGuard<'s> {
    slot: &'s Slot,
    lease: Lease<'s>,
}

impl Members {
    /// Waits until `is_covered` returns true or it is this caller's turn. Returns [`CommitTurn::Beside`] if the caller cannot
    /// wait (`is_nested`: it is a signal handler inside another call) or if the COMMIT it waited for failed. After
    /// `COMMIT_TURN_MS` the caller takes the turn from its holder.
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
        // The previous COMMIT may have ended just before the turn was taken.
        if matches!(turn, CommitTurn::Mine(_)) && is_covered() { CommitTurn::Covered } else { turn }
    }

    /// Takes the turn without waiting. `None` if another caller holds it. [`CommitTurn::Beside`] if this process can hold no
    /// lease.
    pub(crate) fn try_commit_turn<'s>(&'s self, slot: &'s Slot) -> Option<CommitTurn<'s>> {
        let Some(lease) = self.lease(Strength::Weak) else { return Some(CommitTurn::Beside) };
        take_turn(slot, &lease).is_ok().then(|| CommitTurn::Mine(CommitGuard { slot, lease }))
    }

    /// Waits until the COMMIT that is in flight now has ended, `COMMIT_TURN_MS` at most.
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
                return Some(Err(CommitTurn::Beside)); // each waiter sends its own COMMIT and does not wait for the others' time-outs
            }
            match take_turn(slot, &lease) {
                Ok(()) => Some(Ok(())),
                // The holder waits for a server that this caller may reach. The turn is taken, so that a caller waits for it
                // once only.
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

    /// The sender of the COMMIT in flight. Frees the turn first if its holder died or was stopped.
    fn sender(&self, slot: &Slot, overdue: bool) -> Owner {
        let holder = slot.commit_sender.load(Acquire);
        if holder != 0 && (overdue || self.is_of_other_call(holder)) && self.is_gone(holder) {
            let _ = slot.commit_sender.compare_exchange(holder, 0, AcqRel, Relaxed);
            return 0;
        }
        holder
    }
}

/// Takes the turn, or returns its holder.
fn take_turn(slot: &Slot, lease: &Lease<'_>) -> Result<(), Owner> {
    slot.commit_sender.compare_exchange(0, lease.owner(), AcqRel, Acquire).map(|_| ())
}

impl CommitTurn<'_> {
    /// Notes that the COMMIT got no reply or an error.
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
            self.slot.commit_ended.notify(u32::MAX); // one waiter sends the next COMMIT; those it covers wait for it
        }
    }
}
