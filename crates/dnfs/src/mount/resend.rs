//! Resends retained data after the server's write verifier changed, and prevents older data from being used meanwhile
//! (docs/design/010-retention.md).

use super::io::full;
use super::{FileRef, Mount, handle_of};
use crate::address::EndpointIndex;
use crate::error::Error;
use crate::file::{Attributes, FileHandle, FsError, Stability, WriteVerifier};
use crate::limits::RESEND_ROUNDS_MAX;
use crate::retention::layout::{CHUNK_BYTES, Record};
use crate::retention::{ENTRY_BYTES, Entry, Extent, PIECE_BYTES_MAX, Retention, Scope, State, chunk_of};
use crate::segment::layout::Slot;
use crate::segment::{CommitTicket, EndpointSet, Epoch, SegmentError, local};
use crate::slot_limiter::begin_call;
use crate::sys::local_file::Errno;
use crate::sys::region::Region;
use core::sync::atomic::Ordering::Relaxed;
use std::io::IoSlice;

/// Why this process cannot map the area of retained data: a limit of the process (EFBIG, ENOMEM),
/// or no lock.
fn not_mapped(errno: Errno) -> SegmentError {
    match errno {
        Errno(libc::EFBIG | libc::ENOMEM) => local("find memory for written data")(errno),
        _ => SegmentError::Retained,
    }
}

impl Mount {
    /// The mapped area of retained data. `None` if nothing is retained.
    ///
    /// # Errors
    /// If there is an area and this process cannot map it.
    pub(super) fn retention(&self) -> Result<Option<&Retention>, Error> {
        if self.retention.is_mapped() {
            return Ok(Some(&self.retention));
        }
        let retain_bytes = &self.segment.header().retain_bytes;
        if retain_bytes.load(Relaxed) == 0 {
            return Ok(None);
        }
        let mapped = self.retention.map(retain_bytes).map_err(not_mapped)?;
        Ok(mapped.then_some(&self.retention))
    }

    /// The area, if a process has created it.
    pub(super) fn retention_if_there(&self) -> Result<Option<&Retention>, Error> {
        let mapped = self.retention.is_mapped() || self.retention.map_if_there().map_err(not_mapped)?;
        Ok(mapped.then_some(&self.retention))
    }

    /// Whether a reply has the newest state of the file. `resends` was read before the call was sent. If false, the caller must
    /// ask again; what the server had lost has been resent.
    pub(super) fn is_current(&self, slot: &Slot, resends: u32) -> Result<bool, Error> {
        let retained = slot.has_retained(); // before `resends` is read the second time
        if self.segment.resends() != resends {
            return Ok(false);
        }
        if !retained {
            return Ok(true);
        }
        self.ask_verifier(slot)?;
        if self.segment.verifiers().restarted().is_empty() {
            return Ok(self.segment.resends() == resends); // another process may have resent meanwhile
        }
        self.settle(false).map(|()| false)
    }

    /// Attributes from the server that include what this host wrote.
    pub(super) fn current_attributes(&self, slot: &Slot, handle: &FileHandle) -> Result<Attributes, Error> {
        loop {
            let resends = self.segment.resends();
            let attributes = self.client.getattr(handle)?;
            if self.is_current(slot, resends)? {
                return Ok(attributes);
            }
        }
    }

    /// Asks for the verifier if a connection was made since the last request for it.
    fn ask_verifier(&self, slot: &Slot) -> Result<(), Error> {
        let verifiers = self.segment.verifiers();
        let sent = verifiers.newest();
        let answer = self.client.state().verifier_after_connect(|| match self.client.verifier(&handle_of(slot)?) {
            // This user may not write to the file, or the file is gone: ask with a retained file.
            Err(Error::Fs(_)) => self.ask_by_retained(),
            other => other.map(Some),
        })?;
        if let Some(verifier) = answer {
            verifiers.epoch_of(verifier, &sent).map_err(full)?;
        }
        Ok(())
    }

    fn ask_by_retained(&self) -> Result<Option<WriteVerifier>, Error> {
        let Some(retention) = self.retention_if_there()? else { return Ok(None) };
        let live = retention.records().iter().filter(|record| record.life().state() == State::Answered);
        for extent in live.filter_map(Record::extent) {
            let Some(slot) = self.segment.slot(extent.file) else { continue };
            let Ok(client) = self.acting_as(extent.credentials) else { continue };
            match client.verifier(&handle_of(slot)?) {
                Ok(verifier) => return Ok(Some(verifier)),
                Err(Error::Fs(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether the writes of a COMMIT's ticket are stable after it was answered with `verifier`. If not, the client has resent what
    /// the server lost. Data that another endpoint acknowledged becomes stable by a FILE_SYNC resend.
    pub(super) fn commit_counts(
        &self,
        (file, slot): (FileRef, &Slot),
        verifier: WriteVerifier,
        ticket: &CommitTicket,
    ) -> Result<bool, Error> {
        if self.segment.header().retain_bytes.load(Relaxed) == 0 {
            return Ok(true);
        }
        let verifiers = self.segment.verifiers();
        let epoch = verifiers.epoch_of(verifier, &ticket.sent).map_err(full)?;
        if !ticket.is_of(epoch.endpoint()) {
            return self.resend_stable(file, slot).map(|()| true);
        }
        if epoch.number() > verifiers.resent_by(epoch) {
            self.settle(false)?;
        }
        Ok(ticket.counts_in(epoch))
    }

    /// Resends what is retained of a file, FILE_SYNC: endpoints have it that did not answer its COMMIT.
    #[cold]
    fn resend_stable(&self, file: FileRef, slot: &Slot) -> Result<(), Error> {
        let Some(retention) = self.retention_if_there()? else { return Ok(()) };
        self.again(|| {
            let _gate = self.gate(retention)?;
            self.resend(retention, Scope::File(file))?;
            slot.clear_endpoints();
            Ok(())
        })
    }

    /// Resends the retained data of endpoints whose verifier is newer than at the last time. With `force`, also completes what killed
    /// processes left.
    ///
    /// # Errors
    /// The time of a soft mount is over.
    pub(super) fn settle(&self, force: bool) -> Result<(), Error> {
        let Some(retention) = self.retention_if_there()? else { return Ok(()) };
        if retention.owner().is_none() {
            return self.await_settled(retention);
        }
        self.again(|| self.settle_once(retention, force))
    }

    fn settle_once(&self, retention: &Retention, force: bool) -> Result<(), Error> {
        let gate = retention.locks().close_gate(retention.lease().ok_or(SegmentError::Retained)?);
        self.finish_truncation(retention)?;
        if !self.segment.verifiers().restarted().is_empty() {
            self.resend_lost(retention)?;
            gate.free_dead();
        } else if force || gate.has_dead {
            self.finish_writes(retention, &gate)?;
        }
        drop(gate);
        Ok(())
    }

    /// Called after this call sent a WRITE whose block locks another process had taken over. The server may have executed it
    /// late, over newer data, so the newer data is resent as far as it is retained. Does nothing if the server fences: it then
    /// executed nothing late.
    pub(super) fn restore_newer(&self) -> Result<(), Error> {
        if self.client.state().route.uses_attach() {
            return Ok(());
        }
        let Some(retention) = self.retention_if_there()? else { return Ok(()) };
        let _call = begin_call(); // a new call, which holds no revoked lease
        let _gate = retention.locks().close_gate(retention.lease().ok_or(SegmentError::Retained)?);
        self.finish_truncation(retention)?;
        self.resend(retention, Scope::All)
    }

    /// Resends what endpoints that restarted may have lost, and what may have reached no endpoint. The caller holds the gate.
    pub(super) fn resend_lost(&self, retention: &Retention) -> Result<(), Error> {
        self.resend(retention, Scope::Endpoints(self.segment.verifiers().restarted()))
    }

    /// Resends the records of a scope in order, under one verifier of one endpoint. The caller holds the gate.
    fn resend(&self, retention: &Retention, scope: Scope) -> Result<(), Error> {
        let verifiers = self.segment.verifiers();
        let newest = verifiers.newest();
        let restored = match scope {
            Scope::All => verifiers.known(),
            Scope::Endpoints(lost) => lost,
            Scope::File(_) => EndpointSet::default(),
        };
        let records = retention.records();
        let mut list = Region::map(records.len().max(1) * ENTRY_BYTES).map_err(|_| SegmentError::Retained)?;
        let (entries, _) = list.as_chunks_mut::<ENTRY_BYTES>();
        let count = retention.fill_entries(&self.segment, scope, entries);
        let entries = entries.get(..count).unwrap_or_default();
        let mut rounds = if matches!(scope, Scope::File(_)) { RESEND_ROUNDS_MAX } else { 0 };
        let by = loop {
            match self.send_entries(retention, entries, rounds >= RESEND_ROUNDS_MAX)? {
                Round::Mixed if rounds > 2 * RESEND_ROUNDS_MAX => return Err(FsError::WritesLost.into()), // they are still retained
                Round::Mixed => rounds += 1,
                Round::Done(by) => break by,
            }
        };
        for entry in entries {
            let Some(record) = records.get(chunk_of(entry)) else { continue };
            let Some(slot) = self.segment.slot(record.file()) else { continue };
            if let Some(by) = by {
                note_sent(retention, record, slot, by.endpoint());
            }
            slot.attr_doubt();
        }
        verifiers.note_resent(restored, &newest, by);
        Ok(())
    }

    /// Sends all entries once: under one verifier, or stable.
    fn send_entries(&self, retention: &Retention, entries: &[Entry], stable: bool) -> Result<Round, Error> {
        let verifiers = self.segment.verifiers();
        let mut buffer = Region::map(PIECE_BYTES_MAX).map_err(|_| SegmentError::Retained)?;
        let mut by: Option<Epoch> = None;
        let mut rest = entries;
        while !rest.is_empty() {
            let (extent, taken) = gather(retention, rest, &mut buffer);
            let (sent, after) = rest.split_at(taken);
            rest = after;
            let Some((extent, slot)) = extent.and_then(|extent| Some((extent, self.segment.slot(extent.file)?))) else {
                continue;
            };
            let handle = handle_of(slot)?;
            let newest = verifiers.newest();
            match self.send_extent(&extent, &handle, &buffer, stable) {
                Ok(None) => return Ok(Round::Mixed),
                Ok(Some(verifier)) => {
                    let epoch = verifiers.epoch_of(verifier, &newest).map_err(full)?;
                    if !stable && by.is_some_and(|by| by != epoch) {
                        return Ok(Round::Mixed);
                    }
                    by = Some(epoch);
                }
                Err(Error::Fs(refused)) => {
                    // The error is noted before the data is freed, so that the next fsync reports it.
                    match refused {
                        FsError::NoSpace | FsError::QuotaExceeded => slot.note_refused(refused),
                        _ => slot.note_loss(),
                    }
                    sent.iter()
                        .filter_map(|entry| retention.records().get(chunk_of(entry)))
                        .for_each(|record| record.free(record.life()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Round::Done(by))
    }

    /// Sends one extent. Sends COMMIT as well if the server returned less stability than requested (RFC 1813 3.3.7). Returns the
    /// verifier of the replies, or `None` if they had different ones.
    fn send_extent(
        &self,
        extent: &Extent,
        handle: &FileHandle,
        bytes: &[u8],
        stable: bool,
    ) -> Result<Option<WriteVerifier>, Error> {
        let client = self.acting_as(extent.credentials)?;
        let how = if stable { Stability::FileSync } else { Stability::Unstable };
        let bytes = bytes.get(..extent.length as usize).unwrap_or_default();
        let first = client.write(handle, extent.offset, &[IoSlice::new(bytes)], how)?;
        let mut is_one = !first.verifier_changed;
        let mut committed = first.committed;
        if let Some(rest) = bytes.get(first.bytes..).filter(|rest| !rest.is_empty()) {
            // The server refused the rest: sent alone, it gets an error that shows the reason.
            let done = client.write(handle, extent.offset + first.bytes as u64, &[IoSlice::new(rest)], how)?;
            if done.bytes < rest.len() {
                return Err(FsError::Io.into());
            }
            is_one &= !done.verifier_changed && done.verifier == first.verifier;
            committed = committed.min(done.committed);
        }
        if committed < how {
            let (verifier, _) = client.commit(handle)?;
            is_one &= verifier == first.verifier;
        } else if stable {
            is_one = true; // no verifier counts
        }
        Ok(is_one.then_some(first.verifier))
    }
}

/// How a round of a resend ended.
enum Round {
    /// The server has all entries. Contains the epoch of the replies, or `None` if there was no reply.
    Done(Option<Epoch>),
    /// The replies had different verifiers.
    Mixed,
}

/// Notes that an endpoint has a record that was resent. The caller holds the gate.
fn note_sent(retention: &Retention, record: &Record, slot: &Slot, endpoint: EndpointIndex) {
    let life = record.life();
    if life.state() != State::Published {
        slot.note_endpoint(endpoint);
        record.move_to(endpoint);
        return;
    }
    // If the writer died, the record is completed for it; if it was stopped, the record still belongs to it.
    let answer = slot.retained_write_answered(endpoint);
    if retention.has_died(record) { record.answered(life, answer) } else { record.settle(life, Some(answer)) }
}

/// Joins the first records that are adjacent in file and order. Returns their extent, with the data in the buffer, and their
/// number.
fn gather(retention: &Retention, entries: &[Entry], buffer: &mut [u8]) -> (Option<Extent>, usize) {
    let mut joined: Option<Extent> = None;
    let mut taken = 0;
    for entry in entries {
        let chunk = chunk_of(entry);
        let Some(extent) = retention.records().get(chunk).and_then(Record::extent) else {
            taken += 1;
            continue;
        };
        let fits = joined.is_none_or(|before| {
            before.file == extent.file
                && before.credentials == extent.credentials
                && before.end() == extent.offset
                && (before.length + extent.length) as usize <= PIECE_BYTES_MAX
        });
        if !fits {
            break;
        }
        let start = joined.map_or(0, |before| before.length as usize);
        if let Some(place) = buffer.get_mut(start..start + (extent.length as usize).min(CHUNK_BYTES)) {
            retention.load(chunk, place);
        }
        joined = Some(Extent { length: start as u32 + extent.length, ..joined.unwrap_or(extent) });
        taken += 1;
    }
    (joined, taken)
}
