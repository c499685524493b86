//! Makes written data stable: fsync, close, sync. Nothing here allocates.

use crate::sys::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

use super::attributes::record_of;
use super::io::full;
use super::{FileRef, Mount, handle_of};
use crate::client::Client;
use crate::error::Error;
use crate::file::{Attributes, FileHandle, FileKind, FsError, WriteVerifier};
use crate::limits::SLOTS_MAX;
use crate::options::ClosePolicy;
use crate::segment::layout::Slot;
use crate::segment::{AttrMoment, CommitTicket, Committed, Pinned};
use crate::slot_limiter::CommitTurn;

/// A COMMIT in flight. The slot belongs to its file until it is done.
struct Begun<'m> {
    file: FileRef,
    slot: &'m Slot,
    sent: Sent,
    pinned: Pinned,
    turn: CommitTurn<'m>,
}

/// The state when a COMMIT was sent.
struct Sent {
    ticket: CommitTicket,
    loss_epoch: u32,
    moment: AttrMoment,
}

/// The server's reply to a COMMIT.
type Answer = Result<(WriteVerifier, Option<Attributes>), Error>;

impl Mount {
    /// Position of a new open description in the error sequence of a file. The caller keeps it with the description and passes
    /// it to [`Self::sync`].
    #[must_use]
    pub fn error_cursor(&self, file: FileRef) -> u32 {
        self.live(file).map_or(0, Slot::error_sample)
    }

    /// Makes everything written to the file so far, by any process, stable (RFC 1813 3.3.21). Sends no call if everything is
    /// stable.
    ///
    /// # Errors
    /// [`FsError::WritesLost`] when writes were lost, once for each cursor; the server's refusal of COMMIT.
    pub fn sync(&self, file: FileRef, cursor: &AtomicU32) -> Result<(), Error> {
        let refused = self.write_back(file, 0..u64::MAX);
        self.sync_written(file, cursor).and(refused) // earlier writes are made stable in any case
    }

    /// As [`Self::sync`], without the data that programs stored into mappings of the file: the caller has written that before.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn sync_written(&self, file: FileRef, cursor: &AtomicU32) -> Result<(), Error> {
        let slot = self.live(file)?;
        if self.kind(file) == FileKind::Directory {
            return Ok(()); // names are stable when the server answers
        }
        self.log_writes.flushed(file);
        let refused = self.commit_writes(file, slot).err();
        let lost = slot.error_check(cursor);
        if lost {
            self.refresh_size(file, slot); // a WRITE may have noticed the loss; it does not ask for the size
        }
        match (refused, lost) {
            (Some(error), _) => Err(error),
            (None, true) => Err(slot.loss_error().into()),
            (None, false) => Ok(()),
        }
    }

    /// Called before a descriptor that may write is closed. Makes what was written to the file so far, by any process, stable,
    /// as a Linux NFS client does at each close (`nfs_file_flush`). Sends no call if everything is stable, or with the option
    /// `close=nothing`.
    ///
    /// A program that has several new files open, such as a database that creates tables, closes them one after the other and
    /// would wait for a COMMIT each time. So this also commits, once for each file, those of `others` that never had a COMMIT.
    /// The program has these files open for writing.
    ///
    /// # Errors
    /// As [`Self::sync`], for errors of this call and for errors that were not reported before. An error returned here
    /// still counts as unreported: the next [`Self::sync`] returns it too.
    pub fn flush(&self, file: FileRef, others: impl Iterator<Item = FileRef>) -> Result<(), Error> {
        // If there is no slot, the volume was replaced, and what was not committed is lost.
        let slot = self.segment.slot(file).ok_or(Error::Fs(FsError::Stale))?;
        if self.close == ClosePolicy::Nothing {
            return self.send_unsent(file, slot); // so that other hosts see what was written, stable or not
        }
        let seen = slot.error_sample();
        self.write_back(file, 0..u64::MAX)?;
        if slot.has_unsaved() {
            let is_new = |other: &FileRef| *other != file && self.segment.slot(*other).is_some_and(Slot::is_new_and_unsaved);
            let mut others = others.filter(is_new).peekable();
            if others.peek().is_some() {
                let mut refused = Ok(());
                self.commit_together(std::iter::once(file).chain(others), |other, ended| {
                    if other == file {
                        refused = ended;
                    }
                })?;
                refused?;
            }
            self.commit_writes(file, slot)?;
        }
        if slot.has_unreported_loss(seen) { Err(slot.loss_error().into()) } else { Ok(()) }
    }

    /// Makes everything written to any file of the export stable. Errors are still reported to the programs that sync the files
    /// themselves.
    ///
    /// # Errors
    /// The first of them.
    pub fn sync_all(&self) -> Result<(), Error> {
        let mut first = Ok(());
        for (file, _) in self.segment.live_files().filter(|(_, slot)| slot.has_stores()) {
            first = first.and(self.write_back(file, 0..u64::MAX));
        }
        let mut dirty = self.segment.live_files().filter(|(_, slot)| slot.has_unsaved()).map(|(file, _)| file);
        let mut note = |file: FileRef, ended: Result<(), Error>| {
            let is_lost = self.segment.slot(file).is_some_and(Slot::has_unseen_error);
            let ended = if is_lost && ended.is_ok() { Err(FsError::WritesLost.into()) } else { ended };
            if first.is_ok() {
                first = ended;
            }
        };
        while self.commit_together(&mut dirty, &mut note)? {}
        for (file, slot) in self.segment.live_files().filter(|(_, slot)| slot.is_dirty()) {
            let committed = match self.commit_unopened(file) {
                Ok(()) if slot.has_unseen_error() => Err(FsError::WritesLost.into()),
                Err(Error::Fs(FsError::Stale)) => Ok(()), // removed: nothing of it needs to stay
                other => other,
            };
            first = first.and(committed);
        }
        first
    }

    /// Sends COMMIT until nothing written before this call is unstable. Notes a loss in the slot and does not return it.
    pub(super) fn commit_writes(&self, file: FileRef, slot: &Slot) -> Result<(), Error> {
        self.commit_as_allowed(file, slot, |_| true)
    }

    /// As [`Self::commit_writes`], by one client. `is_refusal` returns which errors mean that the data is lost.
    pub(super) fn commit_writes_by(
        &self,
        client: &Client,
        file: FileRef,
        slot: &Slot,
        is_refusal: impl Fn(&Error) -> bool,
    ) -> Result<(), Error> {
        self.send_unsent(file, slot)?;
        let verifiers = self.segment.verifiers();
        if !slot.is_dirty() {
            return Ok(());
        }
        let turn = self.commit_turn(slot, slot.dirty.load(SeqCst));
        if matches!(turn, CommitTurn::Covered) {
            self.cell().shared_commits.fetch_add(1, Relaxed);
            return Ok(());
        }
        while let Some(ticket) = slot.commit_starts(verifiers) {
            let loss_epoch = slot.loss_epoch();
            let begun = Instant::now();
            let writing = self.locks.lock_for_writing(slot);
            let sent = Sent { ticket, loss_epoch, moment: slot.attr_moment() };
            let answer = client.commit(&handle_of(slot)?);
            drop(writing);
            if matches!(answer, Err(Error::TakenOver)) {
                continue; // the file's lock was taken over, and nothing was sent
            }
            self.cell().commits.note_call(begun.elapsed());
            if self.commit_ended(file, slot, &sent, answer, &is_refusal).inspect_err(|_| turn.failed())? {
                break;
            }
        }
        Ok(())
    }

    /// The turn for the COMMIT that makes everything counted up to `due` stable.
    fn commit_turn<'s>(&'s self, slot: &'s Slot, due: u64) -> CommitTurn<'s> {
        if self.locks.has_one_writer() {
            return CommitTurn::Beside; // the turn's holder may wait for the file, which this caller may have locked
        }
        let is_nested = || self.client.state().pool.is_in_use_by_this_thread();
        self.retention.members().commit_turn(slot, is_nested, || slot.is_committed_up_to(due))
    }

    /// Applies the reply to a COMMIT. Returns false if the caller must send another COMMIT.
    fn commit_ended(
        &self,
        file: FileRef,
        slot: &Slot,
        sent: &Sent,
        answer: Answer,
        is_refusal: impl Fn(&Error) -> bool,
    ) -> Result<bool, Error> {
        let (verifier, attr) = answer.inspect_err(|error| {
            if is_refusal(error) {
                slot.commit_refused(&sent.ticket);
            }
        })?;
        if let Some(attr) = attr {
            slot.attr_apply(file.generation, record_of(&attr), sent.moment);
        }
        if !self.commit_counts((file, slot), verifier, &sent.ticket)? {
            return Ok(false);
        }
        let outcome = slot.commit_answered(self.segment.verifiers(), verifier, &sent.ticket).map_err(full)?;
        if outcome != Committed::Done {
            return Ok(false);
        }
        if sent.loss_epoch != 0 && slot.loss_epoch() != sent.loss_epoch {
            self.refresh_size(file, slot); // the file may have become shorter
        }
        self.retention.begin_run_again();
        Ok(true)
    }

    /// Sends COMMITs, in flight together, for files to which this user wrote: the server's flushes of them overlap. Calls
    /// `ended` for each finished COMMIT, with the refusal if it is final. All other files still need a COMMIT of their own.
    /// False if there was at most one file: nothing was sent then.
    ///
    /// # Errors
    /// The server does not answer, on a soft mount.
    fn commit_together(
        &self,
        files: impl Iterator<Item = FileRef>,
        mut ended: impl FnMut(FileRef, Result<(), Error>),
    ) -> Result<bool, Error> {
        if self.locks.has_one_writer() {
            return Ok(false); // each would stay locked during the wait for the others
        }
        let Some(writer) = self.credentials_number() else { return Ok(false) };
        let mut begun: [Option<Begun<'_>>; SLOTS_MAX] = std::array::from_fn(|_| None);
        let mut handles = [None; SLOTS_MAX];
        let mut count = 0;
        let is_mine = |slot: &Slot| slot.writer_credentials.load(Relaxed) == writer + 1;
        for file in files {
            let Some(slot) = self.segment.slot(file).filter(|slot| slot.has_unsaved() && is_mine(slot)) else { continue };
            if begun.iter().flatten().any(|other| other.file == file) {
                continue; // another descriptor has committed it
            }
            let (Some(place), Some(handle)) = (begun.get_mut(count), handles.get_mut(count)) else { break };
            (*place, *handle) = self.begin_commit(file, slot).unzip();
            count += usize::from(place.is_some());
            if count == SLOTS_MAX {
                break;
            }
        }
        let mut done = Ok(());
        if count > 1 {
            let start = Instant::now();
            let is_refusal = |error: &Error| matches!(error, Error::Fs(refused) if is_final(*refused));
            done = self.client.commit_together(&handles, &mut |number, answer| {
                let Some(Begun { file, slot, sent, turn, .. }) = begun.get(number).and_then(Option::as_ref) else { return };
                self.cell().commits.note_call(start.elapsed());
                match self.commit_ended(*file, slot, sent, answer, is_refusal).inspect_err(|_| turn.failed()) {
                    Ok(true) => ended(*file, Ok(())),
                    Err(error) if is_refusal(&error) => ended(*file, Err(error)),
                    _ => {}
                }
            });
        }
        for over in begun.into_iter().flatten() {
            drop(over.turn);
            drop(over.pinned);
            self.closed(over.file);
        }
        done.map(|()| count > 1)
    }

    fn begin_commit<'m>(&'m self, file: FileRef, slot: &'m Slot) -> Option<(Begun<'m>, FileHandle)> {
        // The order matters: the slot must keep its file while it is examined.
        let pinned = self.segment.pin(file).ok()??;
        self.send_unsent(file, slot).ok()?;
        let turn = self.retention.members().try_commit_turn(slot)?;
        let ticket = slot.commit_starts(self.segment.verifiers())?;
        let sent = Sent { ticket, loss_epoch: slot.loss_epoch(), moment: slot.attr_moment() };
        Some((Begun { file, slot, sent, pinned, turn }, handle_of(slot).ok()?))
    }

    /// Makes a write stable for which the server returned less stability than requested.
    pub(super) fn make_stable(&self, file: FileRef, slot: &Slot) -> Result<(), Error> {
        let before = slot.error_sample();
        self.commit_writes(file, slot)?;
        if slot.has_unseen_error() || slot.error_sample() != before { Err(FsError::WritesLost.into()) } else { Ok(()) }
    }
}

/// Whether a refusal of COMMIT means that the data is lost. Otherwise another user may be allowed to commit, or the file is
/// gone.
const fn is_final(refused: FsError) -> bool {
    !matches!(refused, FsError::Stale | FsError::BadHandle | FsError::AccessDenied | FsError::NotOwner)
}
