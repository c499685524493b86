//! Coalesced writes (docs/design/021-gathered-writes.md). A small write that continues the previous one is kept in memory that
//! all processes of the mount share, and is sent together with those that follow it. A process that asks the server about the
//! file, or changes the file there, sends them first.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::time::Duration;
use std::io::IoSlice;
use std::time::Instant;

use super::io::{full, note_attributes};
use super::retained::{Attempt, Piece};
use super::sequences::SMALL_BYTES;
use super::{FileRef, Mount, handle_of};
use crate::error::Error;
use crate::file::{FsError, Stability};
use crate::limits::{IN_FLIGHT_MS, KEEPER_START_MS, RUN_WAIT_MS};
use crate::options::StablePolicy;
use crate::payload::Payload;
use crate::process::this_process;
use crate::protocol::WriteDone;
use crate::retention::layout::{CHUNK_BYTES, RUN_CHUNKS, Run};
use crate::retention::{Extent, Gathered, HeldRun, Hold, Retention, WriteGuard};
use crate::segment::SegmentError;
use crate::segment::layout::Slot;
use crate::sys::clock::{monotonic_ms, sleep};
use crate::sys::region::Region;
use crate::sys::signals_blocked::SignalsBlocked;

/// Result of sending a run.
enum Sent {
    /// The server has the data, or refused it.
    Done(Option<FsError>),
    /// The caller must check again.
    Again,
}

impl Mount {
    /// Sends the coalesced writes of a file. Without coalesced writes this costs one load. Data that the server refuses is lost;
    /// the next sync or close of each description reports that.
    ///
    /// # Errors
    /// No answer from the server, on a soft mount. [`SegmentError::Retained`] if no memory or lease is free, or if this is the
    /// keeper and another process has held the run for `RUN_WAIT_MS`.
    pub(super) fn send_unsent(&self, file: FileRef, slot: &Slot) -> Result<(), Error> {
        if slot.has_unsent() { self.send_run(file, slot).map(|_| ()) } else { Ok(()) }
    }

    /// As [`Self::send_unsent`], for an open file, before other hosts read it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn send_written(&self, file: FileRef) -> Result<(), Error> {
        self.segment.slot(file).map_or(Ok(()), |slot| self.send_unsent(file, slot))
    }

    /// Sends the coalesced writes of a file before another write to it. For a while after this, no new run of the file
    /// begins.
    pub(super) fn send_before_write(&self, file: FileRef, slot: &Slot) -> Result<(), Error> {
        slot.run_met_ms.store((monotonic_ms() as u32).max(1), Relaxed);
        match self.send_run(file, slot)? {
            Some(refused) => Err(refused.into()),
            None => Ok(()),
        }
    }

    /// Coalesces a write if that is allowed. Returns whether the write is done.
    ///
    /// # Errors
    /// The server's refusal of the coalesced writes, including this one.
    pub(super) fn gather_write(
        &self,
        file: FileRef,
        slot: &Slot,
        offset: u64,
        payload: &Payload<'_, '_>,
        how: Stability,
    ) -> Result<bool, Error> {
        let bytes = payload.len();
        let follows = self.sequences.follows(file, offset, bytes);
        if !follows || !self.may_gather(slot, payload, how) {
            return Ok(false);
        }
        let Some(retention) = self.retention()?.filter(|retention| self.is_kept(retention)) else { return Ok(false) };
        let (Some(_), Some(credentials)) = (retention.owner(), self.note_writer(slot)) else { return Ok(false) };
        touch(payload);
        let moment = slot.size_moment();
        let write = Extent { file, offset, length: bytes as u32, order: 0, credentials };
        let mut due = None;
        let mut gathered = retention.gather(&self.segment, slot, &write, payload, &mut due);
        if gathered == Gathered::Full {
            if let Some(refused) = self.send_run(file, slot)? {
                return Err(refused.into());
            }
            gathered = retention.gather(&self.segment, slot, &write, payload, &mut due);
        }
        if !matches!(gathered, Gathered::Kept | Gathered::KeptFull) {
            return Ok(false);
        }
        slot.attr_doubt(); // the server sets the file's times when it gets the bytes
        if !slot.size_grew(offset + bytes as u64, moment) {
            self.refresh_size(file, slot);
        }
        if gathered == Gathered::KeptFull
            && let Some(refused) = self.send_run(file, slot)?
        {
            return Err(refused.into());
        }
        if let Some(due) = due
            && !retention.ask_for_commit(due)
        {
            let _ = self.make_space(Some(due));
        }
        Ok(true)
    }

    /// Called if a keeper is alive or was started: the first writes that may be coalesced wait for it.
    pub fn expect_keeper(&self) {
        self.keeper_expected_ms.store(monotonic_ms() + KEEPER_START_MS, Relaxed);
    }

    /// Whether a keeper sends coalesced writes before they are 50 ms old.
    fn is_kept(&self, retention: &Retention) -> bool {
        while !retention.has_keeper() {
            if monotonic_ms() >= self.keeper_expected_ms.load(Relaxed) {
                return false;
            }
            sleep(Duration::from_millis(1));
        }
        true
    }

    fn may_gather(&self, slot: &Slot, payload: &Payload<'_, '_>, how: Stability) -> bool {
        self.gather
            && how == Stability::Unstable
            && payload.len() < SMALL_BYTES
            && matches!(payload, Payload::Given(_))
            && self.stable != StablePolicy::Always
            && !self.client.state().always_stable
            && !self.shared_use
            && !self.locks.has_one_writer()
            && self.client.state().slot_limiter.is_none()
            && !slot.is_mapped()
            && slot.refused.load(Relaxed) == 0
            && !this_process().identity.shares_memory()
    }

    /// Sends the run of a file, if it has one. Returns the server's refusal, if any.
    #[cold]
    fn send_run(&self, file: FileRef, slot: &Slot) -> Result<Option<FsError>, Error> {
        let Some(retention) = self.retention_if_there()? else { return Ok(None) };
        if retention.owner().is_none() {
            return self.await_run_sent(retention, slot).map(|()| None);
        }
        // The keeper waits only this long for a program.
        let longest = self.is_keeper().then_some(Duration::from_millis(RUN_WAIT_MS));
        loop {
            let number = slot.run.load(SeqCst);
            let Some(run) = retention.run(number) else { return Ok(None) };
            let hold = retention.hold(run, longest).ok_or(SegmentError::Retained)?;
            if !run.is_of(file, slot, number) {
                if slot.run.load(SeqCst) == number {
                    return Ok(None); // the slot now belongs to another file
                }
                continue;
            }
            let sent = match hold {
                Hold::Held(held) => self.send_held(retention, held, (file, slot), number),
                Hold::Left => self.send_left(retention, run, (file, slot), number),
            };
            match sent {
                Ok(Sent::Done(refused)) => return Ok(refused),
                Ok(Sent::Again) => {}
                Err(Error::TakenOver) if self.segment.members().may_send() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the bytes of a run whose holder was stopped, as a write of this call, and detaches the run from its file. The run
    /// and its chunks still belong to the holder, which may store to them.
    fn send_left(&self, retention: &Retention, run: &Run, (file, slot): (FileRef, &Slot), number: u32) -> Result<Sent, Error> {
        let mut buffer = Region::map(RUN_CHUNKS * CHUNK_BYTES).map_err(|_| SegmentError::Retained)?;
        let lease = retention.lease().ok_or(SegmentError::Retained)?;
        run.seal();
        let (start, length) = (run.start.load(Relaxed), run.bytes());
        let Some(guard) = retention.locks().lock(lease, file, start, length.max(1)) else {
            self.settle(true)?;
            return Ok(Sent::Again);
        };
        if !run.is_of(file, slot, number) {
            return Ok(Sent::Again); // another process has sent it
        }
        let credentials = run.credentials.load(Relaxed);
        let client = self.acting_as(credentials)?;
        let (start, length) = retention.copy_left_run(run, &mut buffer[..length]);
        let handle = handle_of(slot)?;
        let piece = Piece { file, slot, handle: &handle, offset: start };
        let list = [IoSlice::new(&buffer[..length])];
        let mut payload = Payload::Given(&list);
        let detach = || {
            let _ = slot.run.compare_exchange(number, 0, SeqCst, Relaxed);
        };
        if length == 0 {
            detach();
            return Ok(Sent::Done(None));
        }
        match self.write_locked(retention, &piece, &mut payload, (client, credentials), Stability::Unstable, guard, detach) {
            Ok(Attempt::Done(bytes)) if bytes == length => Ok(Sent::Done(None)),
            Ok(Attempt::Done(_)) => self.refuse_left(slot, number, FsError::NoSpace),
            Ok(Attempt::Again) => Ok(Sent::Again),
            Ok(Attempt::Full(oldest)) => {
                if !retention.wait_for_commit() {
                    self.make_space(oldest)?;
                }
                Ok(Sent::Again)
            }
            Err(Error::Fs(refused)) => self.refuse_left(slot, number, refused),
            Err(error) => Err(error),
        }
    }

    /// Handles the server's refusal of a run whose holder was stopped.
    fn refuse_left(&self, slot: &Slot, number: u32, refused: FsError) -> Result<Sent, Error> {
        slot.note_refused(refused); // first, because the data may only be dropped after the error is noted
        let _ = slot.run.compare_exchange(number, 0, SeqCst, Relaxed);
        slot.attr_doubt();
        Ok(Sent::Done(Some(refused)))
    }

    /// Sends a run. The caller holds its lock.
    fn send_held(
        &self,
        retention: &Retention,
        held: HeldRun<'_>,
        (file, slot): (FileRef, &Slot),
        number: u32,
    ) -> Result<Sent, Error> {
        let run = held.run;
        retention.repair_run(run);
        let (start, length) = (run.start.load(Relaxed), run.bytes());
        if length == 0 {
            let _signals = SignalsBlocked::new();
            retention.end_run(&held, None, slot, number);
            return Ok(Sent::Done(None));
        }
        let lease = retention.lease().ok_or(SegmentError::Retained)?;
        let Some(guard) = retention.locks().lock(lease, file, start, length) else {
            drop(held); // settling waits for writes, and those may wait for this run
            self.settle(true)?;
            return Ok(Sent::Again);
        };
        let size_moment = slot.size_moment();
        let begun = Instant::now();
        let outcome = self.write_run(retention, &held, (file, slot), number, &guard);
        let outcome = match outcome {
            Err(Error::TakenOver) => {
                drop(guard);
                drop(held);
                self.restore_newer()?;
                return Err(Error::TakenOver);
            }
            Err(error) if held.is_of_this_process() => {
                sleep(Duration::from_millis(IN_FLIGHT_MS)); // it may be in flight, and must not arrive after newer data
                return Err(error);
            }
            other => other?,
        };
        drop(guard);
        drop(held);
        let Some((written, refused, moved_on)) = outcome else { return Ok(Sent::Again) };
        if written > 0 {
            let client_bytes = self.client.state().gathered_bytes;
            self.cell().writes.note(begun.elapsed(), written, client_bytes);
        }
        let grew = slot.size_grew(start + written as u64, size_moment);
        if moved_on {
            let _ = self.settle(false); // the next read or sync completes it
        }
        if refused.is_some() || !grew {
            slot.attr_doubt();
            self.refresh_size(file, slot);
        }
        Ok(Sent::Done(refused))
    }

    /// Writes a run. Returns how many bytes the server has, why it refused the others, and whether it restarted since all
    /// retained data was last sent. Returns `None` if nothing was done and the caller must repeat the call. The caller holds
    /// the run's lock and the block locks.
    fn write_run(
        &self,
        retention: &Retention,
        held: &HeldRun<'_>,
        (file, slot): (FileRef, &Slot),
        run_number: u32,
        guard: &WriteGuard<'_>,
    ) -> Result<Option<(usize, Option<FsError>, bool)>, Error> {
        let run = held.run;
        let (start, length) = (run.start.load(Relaxed), run.bytes());
        let mut buffer = Region::map(length).map_err(|_| SegmentError::Retained)?;
        retention.copy_run(run, &mut buffer);
        let client = self.acting_as(run.credentials.load(Relaxed))?;
        let verifiers = self.segment.verifiers();
        let (sent, moment, order) = (verifiers.newest(), slot.attr_moment(), retention.orders_of_run(run));
        let handle = handle_of(slot)?;
        let done = client.write_gathered(&handle, start, &buffer);
        if !guard.is_of_this_process() || !held.is_of_this_process() {
            return Ok(None); // this is a child of a fork: the parent sends the run
        }
        let (done, refused) = match done {
            Ok(done) if done.bytes == length => (Some(done), None),
            Ok(done) => match client.write_gathered(&handle, start + done.bytes as u64, &buffer[done.bytes..]) {
                Err(Error::Fs(refused)) => (Some(done), Some(refused)),
                Ok(_) => return Ok(None),
                Err(error) => return Err(error),
            },
            Err(Error::Fs(refused)) => (None, Some(refused)),
            Err(error) => return Err(error),
        };
        let (mut moved_on, mut endpoint) = (false, None);
        if let Some(WriteDone { verifier, verifier_changed, attr, .. }) = done {
            let epoch = verifiers.epoch_of(verifier, &sent).map_err(full)?;
            let resent = verifiers.resent_by(epoch);
            if verifier_changed || epoch.number() < resent {
                return Ok(None); // the server restarted meanwhile and may have lost the data: the bytes are still here
            }
            (moved_on, endpoint) = (epoch.number() > resent, Some(epoch.endpoint()));
            note_attributes(file, slot, attr.as_ref(), moment);
        }
        let written = done.map_or(0, |done| done.bytes);
        if !held.is_held() || !guard.is_held() {
            return Err(Error::TakenOver); // another process has sent the run and ends it
        }
        let _signals = SignalsBlocked::new();
        if let Some(refused) = refused {
            slot.note_refused(refused); // first, because the data may only be dropped after the error is noted
            run.length.store(written as u32, SeqCst);
        }
        retention.end_run(held, endpoint.map(|endpoint| (endpoint, order)), slot, run_number);
        Ok(Some((written, refused, moved_on)))
    }
}

/// Reads one byte of each page of a payload. An unmapped page then raises SIGSEGV here, where the caller holds no lock and signal
/// handlers can run.
fn touch(payload: &Payload<'_, '_>) {
    const PAGE_BYTES: usize = 4096;
    payload.each(0..payload.len(), |_, bytes| {
        for byte in bytes.iter().step_by(PAGE_BYTES).chain(bytes.last()) {
            core::hint::black_box(*byte);
        }
    });
}
