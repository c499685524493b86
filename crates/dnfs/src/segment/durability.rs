//! Tracks which writes are not stable yet, under which verifier, and to which descriptions a loss must still be reported.
//!
//! Counters of the slot show whether a COMMIT is due (`dirty`, `clean`) and whether a new verifier means loss (`answered`,
//! `committed`); see the layout. A write counts as dirty before it is sent, so that a killed writer leaves a COMMIT due, and
//! again when it is answered, so that a COMMIT in flight meanwhile does not cover it. Error sequences follow Linux' errseq_t: a
//! counter whose lowest bit shows that some description has seen this value.

use crate::sys::atomic::AtomicU32;
use crate::sys::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::file::FsError;

use super::layout::{FLAG_COMMITTED, FLAG_IN_DOUBT, Header, Slot};

const SEEN: u32 = 1;

/// Refusals that are reported with their own error; others are reported as the first.
const REFUSALS: [FsError; 4] = [FsError::WritesLost, FsError::NoSpace, FsError::QuotaExceeded, FsError::FileTooLarge];

/// The verifiers of one server in the order in which they were seen: epoch n is the n-th, and epoch 0 means that there is no
/// verifier yet. The log contains the last verifiers, epoch n at index (n − 1) modulo its length.
#[derive(Clone, Copy)]
pub(crate) struct Verifiers<'a> {
    pub(crate) header: &'a Header,
    pub(crate) log: &'a [AtomicU64],
}

/// More verifiers than can be numbered: 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VerifiersFull;

/// Bits of a log entry for the verifier. The bits above contain the round of the log, so that one compare-and-swap fills an
/// entry and a process that was stopped for long overwrites nothing.
const VERIFIER_BITS: u32 = 48;

impl Verifiers<'_> {
    /// The newest epoch, taken before a request is sent.
    pub(crate) fn newest(&self) -> u32 {
        self.header.epoch.load(Acquire)
    }

    /// Epoch of the verifier in a reply to a request sent when `sent` was the newest.
    ///
    /// Only the epochs since then are searched. If a server returns an older verifier now, it has gone back, which is a new
    /// state and not a late reply. The same holds for a verifier that the log no longer contains: at worst a loss is reported
    /// that did not happen.
    pub(crate) fn epoch_of(&self, verifier: u64, sent: u32) -> Result<u32, VerifiersFull> {
        loop {
            let newest = self.header.epoch.load(Acquire);
            let oldest = newest.saturating_sub(self.log.len() as u32 - 1).max(sent).max(1);
            for epoch in (oldest..=newest).rev() {
                let (place, entry) = self.entry(epoch, verifier);
                if place.load(Acquire) == entry {
                    return Ok(epoch);
                }
            }
            let next = newest.checked_add(1).ok_or(VerifiersFull)?;
            let (place, entry) = self.entry(next, verifier);
            let found = place.load(Acquire);
            if found >> VERIFIER_BITS != entry >> VERIFIER_BITS {
                let _ = place.compare_exchange(found, entry, AcqRel, Acquire);
            }
            // The epoch advances whichever process filled the entry, so that no process waits for one that was killed in
            // between.
            let _ = self.header.epoch.compare_exchange(newest, next, AcqRel, Acquire);
        }
    }

    /// The log entry of an epoch, and its value for this verifier.
    fn entry(&self, epoch: u32, verifier: u64) -> (&AtomicU64, u64) {
        let count = self.log.len() as u32;
        let round = u64::from((epoch - 1) / count + 1); // never 0, the value of an unused entry
        // The verifier is mixed first, since verifiers may be times of which only some bits differ. Two verifiers
        // collide once in 2^48.
        let mixed = (verifier ^ verifier >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (&self.log[((epoch - 1) % count) as usize], round << VERIFIER_BITS | mixed >> (u64::BITS - VERIFIER_BITS))
    }
}

/// The writes that a COMMIT covers if it is sent now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitTicket {
    answered: u64,
    dirty: u64,
    loss_epoch: u32,
    pub(crate) sent: u32,
    /// Epoch in which the server had all retained data before the COMMIT was sent.
    pub(crate) resent: u32,
}

/// Result of a COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// Everything the ticket covers is stable, or its loss is noted.
    Done,
    /// The server restarted before the reply arrived: send another COMMIT.
    Again,
}

fn halves(loss: u64) -> (u32, u32) {
    ((loss >> 32) as u32, loss as u32)
}

fn joined(epoch: u32, error: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(error)
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

    /// Called after an unstable write was answered with `verifier`; `sent` is the newest epoch when it was sent.
    pub(crate) fn write_answered(&self, verifiers: Verifiers<'_>, verifier: u64, sent: u32) -> Result<(), VerifiersFull> {
        // The write is counted first: a process that advances the epoch from now on sees a write whose loss it must
        // report.
        let answered = self.answered.fetch_add(1, AcqRel);
        self.dirty.fetch_add(1, AcqRel);
        let epoch = verifiers.epoch_of(verifier, sent)?;
        let mut loss = self.loss.load(Acquire);
        loop {
            let (known, error) = halves(loss);
            let next = match known.cmp(&epoch) {
                core::cmp::Ordering::Equal => return Ok(()),
                // The server has restarted since it answered: this write may be lost.
                core::cmp::Ordering::Greater => joined(known, raised(error)),
                core::cmp::Ordering::Less => {
                    let lost = known != 0 && answered > self.committed.load(Acquire);
                    joined(epoch, if lost { raised(error) } else { error })
                }
            };
            match self.loss.compare_exchange(loss, next, AcqRel, Acquire) {
                Ok(_) => return Ok(()),
                Err(current) => loss = current,
            }
        }
    }

    /// Counts a retained write that is sent or was answered. A COMMIT covers it once `clean` is at least the returned value.
    pub(crate) fn retained_write_counts(&self) -> u64 {
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
        self.refused.store(known as u32 + 1, Release);
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
    pub(crate) fn server_moved_on(&self, newest: u32) -> bool {
        self.loss
            .fetch_update(AcqRel, Acquire, |loss| {
                let (known, error) = halves(loss);
                (known != 0 && known < newest && self.has_uncommitted()).then(|| joined(newest, raised(error)))
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
        // The epoch is read after `dirty`: the server had the covered data in this epoch.
        let resent = verifiers.header.resent.load(SeqCst);
        Some(CommitTicket { answered, dirty, loss_epoch, sent: verifiers.newest(), resent })
    }

    /// Called after a COMMIT was answered with `verifier`.
    pub(crate) fn commit_answered(
        &self,
        verifiers: Verifiers<'_>,
        verifier: u64,
        ticket: CommitTicket,
    ) -> Result<Committed, VerifiersFull> {
        let epoch = verifiers.epoch_of(verifier, ticket.sent)?;
        if epoch < ticket.loss_epoch {
            return Ok(Committed::Again);
        }
        if epoch > ticket.loss_epoch {
            let uncommitted = ticket.loss_epoch != 0 && ticket.answered > self.committed.load(Acquire);
            let _ = self.loss.fetch_update(AcqRel, Acquire, |loss| {
                let (known, error) = halves(loss);
                // If several processes find the loss at once, one reports it.
                (known < epoch).then(|| joined(epoch, if uncommitted { raised(error) } else { error }))
            });
        }
        self.committed.fetch_max(ticket.answered, AcqRel);
        self.clean.fetch_max(ticket.dirty, AcqRel);
        self.flags.fetch_and(!FLAG_IN_DOUBT, AcqRel);
        self.flags.fetch_or(FLAG_COMMITTED, AcqRel);
        Ok(Committed::Done)
    }

    /// Called after the server refused a COMMIT: the data counts as lost, once.
    pub(crate) fn commit_refused(&self, ticket: CommitTicket) {
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

    /// Epoch of the verifier of the uncommitted writes.
    pub(crate) fn loss_epoch(&self) -> u32 {
        halves(self.loss.load(Acquire)).0
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::VERIFIER_COUNT;
    use super::super::tests::{blank_header, blank_slot};
    use super::*;

    struct Server {
        header: Box<Header>,
        log: Vec<AtomicU64>,
    }

    impl Server {
        fn new() -> Self {
            Self { header: blank_header(), log: (0..VERIFIER_COUNT).map(|_| AtomicU64::new(0)).collect() }
        }

        fn verifiers(&self) -> Verifiers<'_> {
            Verifiers { header: &self.header, log: &self.log }
        }

        fn write(&self, slot: &Slot, verifier: u64) {
            let sent = self.verifiers().newest();
            slot.write_starts();
            slot.write_answered(self.verifiers(), verifier, sent).unwrap();
        }

        fn sync(&self, slot: &Slot, verifier: u64, cursor: &AtomicU32) -> bool {
            while let Some(ticket) = slot.commit_starts(self.verifiers()) {
                if slot.commit_answered(self.verifiers(), verifier, ticket) == Ok(Committed::Done) {
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
        slot.write_answered(server.verifiers(), 1, 1).unwrap();
        assert_eq!(slot.commit_answered(server.verifiers(), 1, ticket), Ok(Committed::Done));
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
        assert!(slot.has_uncommitted() && slot.server_moved_on(server.verifiers().newest()));
        assert!(!slot.server_moved_on(server.verifiers().newest()), "noted once");
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
        slot.write_answered(server.verifiers(), 1, sent).unwrap();
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
        slot.commit_refused(slot.commit_starts(server.verifiers()).unwrap());
        assert!(slot.error_check(&open));
        assert!(!server.sync(&slot, 2, &open), "the verifier the server moved because of it is not a second loss");
    }

    #[test]
    fn two_processes_that_learn_of_a_restart_at_once_agree_on_its_epoch() {
        let server = Server::new();
        std::thread::scope(|scope| {
            let seen: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (1..=3_000).map(|v| server.verifiers().epoch_of(v, 0).unwrap()).collect::<Vec<_>>()))
                .collect();
            let seen: Vec<_> = seen.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(seen.iter().all(|epochs| *epochs == seen[0]));
        });
        assert_eq!(server.verifiers().newest(), 3_000);
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
        assert!(server.verifiers().newest() >= 20_000);
    }

    #[test]
    fn reply_later_than_the_log_reaches_is_taken_for_a_new_state_of_the_server() {
        let server = Server::new();
        let sent = server.verifiers().epoch_of(1, 0).unwrap();
        for verifier in 2..=u64::from(VERIFIER_COUNT) {
            server.verifiers().epoch_of(verifier, sent).unwrap();
        }
        assert_eq!(server.verifiers().epoch_of(1, sent), Ok(sent), "the log still holds it");
        let next = u64::from(VERIFIER_COUNT) + 1;
        assert_eq!(server.verifiers().epoch_of(next, sent), Ok(VERIFIER_COUNT + 1));
        assert_eq!(server.verifiers().epoch_of(1, sent), Ok(VERIFIER_COUNT + 2));
    }

    #[test]
    fn verifiers_beyond_all_numbers_are_an_error_not_a_wrong_answer() {
        let server = Server::new();
        server.header.epoch.store(u32::MAX, Relaxed);
        assert_eq!(server.verifiers().epoch_of(77, u32::MAX), Err(VerifiersFull));
    }
}
