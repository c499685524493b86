//! Tracks which writes are not stable yet, under which verifier, and to which descriptions a loss must still be reported.
//!
//! Counters of the slot show whether a COMMIT is due (`dirty`, `clean`) and whether a new verifier means loss (`answered`,
//! `committed`); see the layout. A write counts as dirty before it is sent, so that a killed writer leaves a COMMIT due, and
//! again when it is answered, so that a COMMIT in flight meanwhile does not cover it. Error sequences follow Linux' errseq_t: a
//! counter whose lowest bit shows that some description has seen this value.

use crate::sys::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::address::EndpointIndex;
use crate::file::{FsError, WriteVerifier};

use super::layout::{FLAG_COMMITTED, FLAG_IN_DOUBT, Slot};
use super::verifiers::{EndpointSet, Epoch, Numbers, Verifiers, VerifiersFull};

const SEEN: u32 = 1;

/// Refusals that are reported with their own error; others are reported as the first.
const REFUSALS: [FsError; 4] = [FsError::WritesLost, FsError::NoSpace, FsError::QuotaExceeded, FsError::FileTooLarge];

/// The writes that a COMMIT covers if it is sent now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitTicket {
    answered: u64,
    dirty: u64,
    loss_epoch: Epoch,
    /// The newest epochs.
    pub(crate) sent: Numbers,
    /// Epochs in which the endpoints had all retained data before the COMMIT was sent.
    resent: Numbers,
    /// The endpoints that acknowledged the retained writes.
    endpoints: EndpointSet,
}

impl CommitTicket {
    /// Whether this endpoint acknowledged all retained writes that the COMMIT covers. If not, its verifier says nothing about the
    /// others.
    pub(crate) fn is_of(&self, endpoint: EndpointIndex) -> bool {
        self.endpoints.is_within(endpoint)
    }

    /// Whether the retained writes are stable after a COMMIT that was answered in this epoch.
    pub(crate) fn counts_in(&self, epoch: Epoch) -> bool {
        let resent = self.resent.of(epoch.endpoint());
        // 0: nothing was retained at this endpoint when the COMMIT was sent.
        self.is_of(epoch.endpoint()) && (resent == 0 || resent == epoch.number())
    }
}

/// The acknowledgement of a retained write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// A COMMIT covers the write once the slot's `clean` is at least this.
    pub(crate) count: u64,
    /// The endpoint that has the write.
    pub(crate) endpoint: EndpointIndex,
}

/// Result of a COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// Everything the ticket covers is stable, or its loss is noted.
    Done,
    /// The server restarted before the reply arrived: send another COMMIT.
    Again,
}

fn halves(loss: u64) -> (Epoch, u32) {
    (Epoch::of_word((loss >> 32) as u32), loss as u32)
}

fn joined(epoch: Epoch, error: u32) -> u64 {
    u64::from(epoch.word()) << 32 | u64::from(error)
}

/// The error sequence after another error: a new value only if some description has seen the last one.
fn raised(error: u32) -> u32 {
    if error == 0 || error & SEEN != 0 { (error | SEEN).wrapping_add(1).max(2) } else { error }
}

impl Slot {
    /// Called before an unstable write is sent.
    pub(crate) fn write_starts(&self) {
        self.dirty.fetch_add(1, AcqRel);
    }

    /// Called after an unstable write was answered with `verifier`; `sent` has the newest epochs when it was sent.
    ///
    /// Uncommitted writes of another endpoint count as lost: a COMMIT makes only those of one endpoint stable, and they are not
    /// retained.
    pub(crate) fn write_answered(
        &self,
        verifiers: Verifiers<'_>,
        verifier: WriteVerifier,
        sent: &Numbers,
    ) -> Result<(), VerifiersFull> {
        // The write is counted first: a process that advances the epoch from now on sees a write whose loss it must
        // report.
        let answered = self.answered.fetch_add(1, AcqRel);
        self.dirty.fetch_add(1, AcqRel);
        let epoch = verifiers.epoch_of(verifier, sent)?;
        let mut loss = self.loss.load(Acquire);
        loop {
            let (known, error) = halves(loss);
            let next = if known == epoch {
                return Ok(());
            } else if epoch.is_before(known) {
                joined(known, raised(error)) // the server has restarted since it answered: this write may be lost
            } else {
                let lost = known != Epoch::default() && answered > self.committed.load(Acquire);
                joined(epoch, if lost { raised(error) } else { error })
            };
            match self.loss.compare_exchange(loss, next, AcqRel, Acquire) {
                Ok(_) => return Ok(()),
                Err(current) => loss = current,
            }
        }
    }

    /// Counts a retained write before it is sent.
    pub(crate) fn retained_write_starts(&self) {
        self.count_retained();
    }

    /// Counts a retained write that an endpoint has acknowledged.
    pub(crate) fn retained_write_answered(&self, endpoint: EndpointIndex) -> Answer {
        self.note_endpoint(endpoint); // first: who sees the count sees the endpoint
        Answer { count: self.count_retained(), endpoint }
    }

    /// Notes that an endpoint has retained data of the file.
    pub(crate) fn note_endpoint(&self, endpoint: EndpointIndex) {
        if !EndpointSet::of_word(self.endpoints.load(SeqCst)).contains(endpoint) {
            self.endpoints.fetch_or(EndpointSet::one(endpoint).word(), SeqCst);
        }
    }

    /// Notes that everything retained of the file is stable, whichever endpoint acknowledged it. The caller holds the gate.
    pub(crate) fn clear_endpoints(&self) {
        self.endpoints.store(0, SeqCst);
    }

    fn count_retained(&self) -> u64 {
        let count = self.dirty.fetch_add(1, SeqCst) + 1;
        self.retained.fetch_max(count, SeqCst);
        count
    }

    /// Whether there are unsent coalesced writes.
    pub(crate) fn has_unsent(&self) -> bool {
        self.run.load(SeqCst) != 0
    }

    /// Notes that the server refused coalesced writes, which are lost. The next sync or close of each description reports that.
    pub(crate) fn note_refused(&self, why: FsError) {
        let known = REFUSALS.iter().position(|known| *known == why).unwrap_or(0);
        self.refused.store(known as u16 + 1, Release);
        self.note_loss();
    }

    /// The error for a description whose writes were lost.
    pub(crate) fn loss_error(&self) -> FsError {
        let place = (self.refused.load(Acquire) as usize).checked_sub(1);
        place.and_then(|place| REFUSALS.get(place)).copied().unwrap_or(FsError::WritesLost)
    }

    /// Whether retained writes are not sent yet, in flight or not committed.
    pub(crate) fn has_retained(&self) -> bool {
        self.has_unsent() || self.retained.load(SeqCst) > self.clean.load(SeqCst)
    }

    /// Whether a new state of the server could have lost something: writes were answered that no COMMIT covered.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.answered.load(Acquire) > self.committed.load(Acquire)
    }

    /// Called after another file's reply contained a newer verifier: uncommitted data of this file under an older one is lost.
    /// True if that was not noted before.
    pub(crate) fn server_moved_on(&self, newest: &Numbers) -> bool {
        self.loss
            .fetch_update(AcqRel, Acquire, |loss| {
                let (known, error) = halves(loss);
                let now = Epoch::new(known.endpoint(), newest.of(known.endpoint()));
                let is_lost = known != Epoch::default() && known.is_before(now) && self.has_uncommitted();
                is_lost.then(|| joined(now, raised(error)))
            })
            .is_ok()
    }

    /// Whether a loss was not reported to the holder of `cursor`: data that it reads may be older than what it wrote.
    pub(crate) fn has_unreported_loss(&self, cursor: u32) -> bool {
        halves(self.loss.load(Acquire)).1 != cursor
    }

    /// Notes a loss of uncommitted data for another reason than a verifier: a split write crossed a restart.
    pub(crate) fn note_loss(&self) {
        let _ = self.loss.fetch_update(AcqRel, Acquire, |loss| {
            let (epoch, error) = halves(loss);
            Some(joined(epoch, raised(error)))
        });
    }

    /// Whether a sync must send a COMMIT.
    pub(crate) fn is_dirty(&self) -> bool {
        self.has_unsaved() || self.flags.load(Acquire) & FLAG_IN_DOUBT != 0
    }

    /// Whether a COMMIT is due for writes of this host since the slot was made.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.has_unsent() || self.dirty.load(Acquire) > self.clean.load(Acquire)
    }

    /// Whether the file has uncommitted writes and never had a COMMIT.
    pub(crate) fn is_new_and_unsaved(&self) -> bool {
        self.has_unsaved() && self.flags.load(Acquire) & FLAG_COMMITTED == 0
    }

    /// Whether a COMMIT that was sent after `dirty` was `due` is answered.
    pub(crate) fn is_committed_up_to(&self, due: u64) -> bool {
        self.clean.load(Acquire) >= due && self.flags.load(Acquire) & FLAG_IN_DOUBT == 0
    }

    /// Called before a COMMIT. `None` if nothing is due.
    pub(crate) fn commit_starts(&self, verifiers: Verifiers<'_>) -> Option<CommitTicket> {
        if !self.is_dirty() {
            return None;
        }
        let dirty = self.dirty.load(Acquire);
        let answered = self.answered.load(Acquire);
        let (loss_epoch, _) = halves(self.loss.load(Acquire));
        // The epochs are read after `dirty`: the endpoints had the covered data in these epochs. The endpoints are read last: a
        // resend notes the endpoint that has the data before it moves an epoch.
        let resent = verifiers.resent();
        let endpoints = EndpointSet::of_word(self.endpoints.load(SeqCst));
        Some(CommitTicket { answered, dirty, loss_epoch, sent: verifiers.newest(), resent, endpoints })
    }

    /// Called after a COMMIT was answered with `verifier`.
    pub(crate) fn commit_answered(
        &self,
        verifiers: Verifiers<'_>,
        verifier: WriteVerifier,
        ticket: &CommitTicket,
    ) -> Result<Committed, VerifiersFull> {
        let epoch = verifiers.epoch_of(verifier, &ticket.sent)?;
        if epoch.is_before(ticket.loss_epoch) {
            return Ok(Committed::Again);
        }
        // A newer state of the endpoint, or another endpoint, which says nothing about writes that were not sent to it.
        if epoch != ticket.loss_epoch {
            let uncommitted = ticket.loss_epoch != Epoch::default() && ticket.answered > self.committed.load(Acquire);
            let _ = self.loss.fetch_update(AcqRel, Acquire, |loss| {
                let (known, error) = halves(loss);
                // If several processes find the loss at once, one reports it.
                (known != epoch && !epoch.is_before(known))
                    .then(|| joined(epoch, if uncommitted { raised(error) } else { error }))
            });
        }
        self.committed.fetch_max(ticket.answered, AcqRel);
        self.clean.fetch_max(ticket.dirty, AcqRel);
        self.flags.fetch_and(!FLAG_IN_DOUBT, AcqRel);
        self.flags.fetch_or(FLAG_COMMITTED, AcqRel);
        Ok(Committed::Done)
    }

    /// Called after the server refused a COMMIT: the data counts as lost, once.
    pub(crate) fn commit_refused(&self, ticket: &CommitTicket) {
        self.note_loss();
        self.committed.fetch_max(ticket.answered, AcqRel);
        if self.has_retained() {
            // The loss is reported and the data is dropped: otherwise its records would never be freed.
            self.clean.fetch_max(ticket.dirty, AcqRel);
        }
    }

    /// Cursor of a new open description: it will still see an error that no description has seen.
    pub(crate) fn error_sample(&self) -> u32 {
        let (_, error) = halves(self.loss.load(Acquire));
        if error & SEEN == 0 { 0 } else { error }
    }

    /// Whether there was an error since `cursor`. Moves the cursor, so that the error is reported
    /// once.
    pub(crate) fn error_check(&self, cursor: &AtomicU32) -> bool {
        let before = cursor.load(Acquire);
        let (_, error) = halves(self.loss.load(Acquire));
        if error == before {
            return false;
        }
        let seen = error | SEEN;
        let _ = self.loss.fetch_update(AcqRel, Acquire, |loss| {
            let (epoch, now) = halves(loss);
            (now == error && now != seen).then(|| joined(epoch, seen))
        });
        cursor.compare_exchange(before, seen, AcqRel, Relaxed).is_ok()
    }

    /// Whether there is an error that no description has seen: such a slot is not reused.
    pub(crate) fn has_unseen_error(&self) -> bool {
        let (_, error) = halves(self.loss.load(Acquire));
        error != 0 && error & SEEN == 0
    }

    /// Epoch of the verifier of the uncommitted writes, as a word to compare; 0: there was no verifier.
    pub(crate) fn loss_epoch(&self) -> u32 {
        halves(self.loss.load(Acquire)).0.word()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::blank_slot;
    use super::super::verifiers::tests::{Server, at, first};
    use super::*;

    impl Server {
        fn write(&self, slot: &Slot, verifier: u64) {
            self.write_at(slot, first(verifier));
        }

        fn write_at(&self, slot: &Slot, verifier: WriteVerifier) {
            let sent = self.verifiers().newest();
            slot.write_starts();
            slot.write_answered(self.verifiers(), verifier, &sent).unwrap();
        }

        fn sync(&self, slot: &Slot, verifier: u64, cursor: &AtomicU32) -> bool {
            self.sync_at(slot, first(verifier), cursor)
        }

        fn sync_at(&self, slot: &Slot, verifier: WriteVerifier, cursor: &AtomicU32) -> bool {
            while let Some(ticket) = slot.commit_starts(self.verifiers()) {
                if slot.commit_answered(self.verifiers(), verifier, &ticket) == Ok(Committed::Done) {
                    break;
                }
            }
            slot.error_check(cursor)
        }
    }

    fn cursor(slot: &Slot) -> AtomicU32 {
        AtomicU32::new(slot.error_sample())
    }

    #[test]
    fn new_verifier_at_commit_reports_loss_once_to_each_description_and_then_is_clean() {
        let (server, slot) = (Server::new(), blank_slot());
        let (one, two) = (cursor(&slot), cursor(&slot));
        server.write(&slot, 1);
        assert!(server.sync(&slot, 2, &one));
        assert!(!server.sync(&slot, 2, &one));
        assert!(server.sync(&slot, 2, &two));
        assert!(!server.sync(&slot, 2, &two));
        assert!(!server.sync(&slot, 2, &cursor(&slot)), "seen by then: a new opener starts clean");
        server.write(&slot, 2);
        assert!(!server.sync(&slot, 2, &one));
    }

    #[test]
    fn unseen_error_goes_to_the_next_opener() {
        let (server, slot) = (Server::new(), blank_slot());
        server.write(&slot, 1);
        server.write(&slot, 2);
        assert!(slot.has_unseen_error());
        let opener = cursor(&slot);
        assert!(server.sync(&slot, 2, &opener));
        assert!(!slot.has_unseen_error());
        assert!(!server.sync(&slot, 2, &cursor(&slot)));
    }

    #[test]
    fn committed_writes_are_not_lost_by_a_new_verifier() {
        let (server, slot) = (Server::new(), blank_slot());
        let open = cursor(&slot);
        server.write(&slot, 1);
        assert!(!server.sync(&slot, 1, &open));
        assert!(!slot.is_dirty());
        server.write(&slot, 2);
        assert!(!server.sync(&slot, 2, &open));
    }

    #[test]
    fn write_answered_while_a_commit_is_out_stays_due() {
        let (server, slot) = (Server::new(), blank_slot());
        server.write(&slot, 1);
        slot.write_starts();
        let ticket = slot.commit_starts(server.verifiers()).unwrap();
        slot.write_answered(server.verifiers(), first(1), &ticket.sent).unwrap();
        assert_eq!(slot.commit_answered(server.verifiers(), first(1), &ticket), Ok(Committed::Done));
        assert!(slot.is_dirty());
        let open = cursor(&slot);
        assert!(server.sync(&slot, 2, &open), "and a restart before the next COMMIT loses it");
    }

    #[test]
    fn restart_seen_through_another_file_fails_readers_until_a_sync_reported_it() {
        let (server, slot, other) = (Server::new(), blank_slot(), blank_slot());
        let (open, newcomer) = (cursor(&slot), AtomicU32::new(0));
        server.write(&slot, 1);
        server.write(&other, 2);
        assert!(slot.has_uncommitted() && slot.server_moved_on(&server.verifiers().newest()));
        assert!(!slot.server_moved_on(&server.verifiers().newest()), "noted once");
        assert!(slot.has_unreported_loss(open.load(Relaxed)) && slot.has_unreported_loss(newcomer.load(Relaxed)));
        assert!(server.sync(&slot, 2, &open));
        assert!(!slot.has_unreported_loss(open.load(Relaxed)));
        assert!(!slot.has_unreported_loss(slot.error_sample()), "who opens it from now on knows");
        assert!(!other.has_unreported_loss(0));
    }

    #[test]
    fn killed_writer_leaves_a_commit_due_but_no_error() {
        let (server, slot) = (Server::new(), blank_slot());
        slot.write_starts();
        assert!(slot.is_dirty());
        assert!(!server.sync(&slot, 5, &cursor(&slot)));
        assert!(!slot.is_dirty());
    }

    #[test]
    fn late_reply_under_an_old_verifier_reports_its_own_write_lost() {
        let (server, slot) = (Server::new(), blank_slot());
        let open = cursor(&slot);
        server.write(&slot, 1);
        assert!(!server.sync(&slot, 1, &open));
        slot.write_starts();
        let sent = server.verifiers().newest();
        server.write(&slot, 2);
        slot.write_answered(server.verifiers(), first(1), &sent).unwrap();
        assert!(server.sync(&slot, 2, &open));
        assert!(!server.sync(&slot, 2, &open));
    }

    #[test]
    fn server_that_goes_back_to_an_older_verifier_is_trusted_after_one_report() {
        let (server, slot) = (Server::new(), blank_slot());
        let open = cursor(&slot);
        server.write(&slot, 1);
        server.write(&slot, 2);
        server.write(&slot, 1);
        assert!(server.sync(&slot, 1, &open));
        server.write(&slot, 1);
        assert!(!server.sync(&slot, 1, &open));
    }

    #[test]
    fn refused_commit_is_reported_once() {
        let (server, slot) = (Server::new(), blank_slot());
        let open = cursor(&slot);
        server.write(&slot, 1);
        slot.commit_refused(&slot.commit_starts(server.verifiers()).unwrap());
        assert!(slot.error_check(&open));
        assert!(!server.sync(&slot, 2, &open), "the verifier the server moved because of it is not a second loss");
    }

    #[test]
    fn ten_thousand_restarts_are_each_one_loss_and_no_error() {
        let (server, slot) = (Server::new(), blank_slot());
        let open = cursor(&slot);
        // Every third verifier is 0 or 1 in turn: verifiers come back, and 0 is among them.
        for verifier in (0..10_000u64).map(|restart| if restart % 3 == 0 { restart % 2 } else { restart }) {
            server.write(&slot, verifier);
            assert!(!server.sync(&slot, verifier, &open), "{verifier}");
            server.write(&slot, verifier);
            assert!(server.sync(&slot, verifier + 20_000, &open), "{verifier}");
            assert!(!server.sync(&slot, verifier + 20_000, &open), "{verifier}");
        }
        assert!(server.verifiers().newest().of(EndpointIndex::FIRST) >= 20_000);
    }

    /// A retained write that an endpoint acknowledges.
    fn retained_write(server: &Server, slot: &Slot, verifier: WriteVerifier) -> Answer {
        let sent = server.verifiers().newest();
        slot.retained_write_starts();
        let epoch = server.verifiers().epoch_of(verifier, &sent).unwrap();
        assert!(server.verifiers().resent_by(epoch) <= epoch.number());
        slot.retained_write_answered(epoch.endpoint())
    }

    #[test]
    fn two_endpoints_with_different_verifiers_are_no_restart() {
        let (server, one, two) = (Server::new(), blank_slot(), blank_slot());
        for _ in 0..3 {
            retained_write(&server, &one, at(0, 7));
            retained_write(&server, &two, at(1, 8));
        }
        assert!(server.verifiers().restarted().is_empty());
        let (first, second) = (one.commit_starts(server.verifiers()).unwrap(), two.commit_starts(server.verifiers()).unwrap());
        assert!(first.counts_in(server.verifiers().epoch_of(at(0, 7), &first.sent).unwrap()));
        assert!(second.counts_in(server.verifiers().epoch_of(at(1, 8), &second.sent).unwrap()));
    }

    #[test]
    fn commit_through_another_endpoint_does_not_make_a_retained_write_stable() {
        let (server, slot) = (Server::new(), blank_slot());
        retained_write(&server, &slot, at(0, 7));
        let ticket = slot.commit_starts(server.verifiers()).unwrap();
        for value in [8, 7] {
            let epoch = server.verifiers().epoch_of(at(1, value), &ticket.sent).unwrap();
            assert!(!ticket.is_of(epoch.endpoint()) && !ticket.counts_in(epoch), "not even with an equal verifier: {value}");
        }
        retained_write(&server, &slot, at(1, 8));
        let ticket = slot.commit_starts(server.verifiers()).unwrap();
        for endpoint in [0, 1] {
            assert!(!ticket.is_of(EndpointIndex::new(endpoint)), "each has a part");
        }
    }

    #[test]
    fn restart_of_an_endpoint_between_write_and_commit_is_a_loss_at_that_endpoint_only() {
        let (server, one, two) = (Server::new(), blank_slot(), blank_slot());
        retained_write(&server, &one, at(0, 7));
        retained_write(&server, &two, at(1, 7));
        let (first, second) = (one.commit_starts(server.verifiers()).unwrap(), two.commit_starts(server.verifiers()).unwrap());
        assert!(!first.counts_in(server.verifiers().epoch_of(at(0, 9), &first.sent).unwrap()));
        assert!(second.counts_in(server.verifiers().epoch_of(at(1, 7), &second.sent).unwrap()));
        assert_eq!(server.verifiers().restarted(), EndpointSet::one(EndpointIndex::FIRST));
    }

    #[test]
    fn what_is_not_retained_is_lost_if_the_commit_is_answered_by_another_endpoint() {
        let (server, slot) = (Server::new(), blank_slot());
        let open = cursor(&slot);
        server.write_at(&slot, at(0, 7));
        assert!(server.sync_at(&slot, at(1, 7), &open));
        assert!(!server.sync_at(&slot, at(1, 7), &open));
        server.write_at(&slot, at(1, 7));
        assert!(!server.sync_at(&slot, at(1, 7), &open), "its own endpoint makes it stable");
        server.write_at(&slot, at(0, 7));
        assert!(!server.sync_at(&slot, at(0, 7), &open), "what was stable at the other endpoint is not lost");
    }

    #[test]
    fn restart_of_an_endpoint_without_uncommitted_writes_of_the_file_is_no_loss() {
        let (server, slot, other) = (Server::new(), blank_slot(), blank_slot());
        server.write_at(&slot, at(1, 7));
        server.write_at(&other, at(0, 7));
        server.write_at(&other, at(0, 8));
        assert!(!slot.server_moved_on(&server.verifiers().newest()));
        server.write_at(&other, at(1, 9));
        assert!(slot.server_moved_on(&server.verifiers().newest()));
    }
}
