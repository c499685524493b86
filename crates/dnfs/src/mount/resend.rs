//! Resends retained data after the server's write verifier changed, and prevents older data from being used meanwhile
//! (docs/design/010-retention.md).

use super::io::{full, number};
use super::{Mount, handle_of};
use crate::error::Error;
use crate::file::{Attributes, FileHandle, FsError, Stability, WriteVerifier};
use crate::limits::RESEND_ROUNDS_MAX;
use crate::retention::layout::{CHUNK_BYTES, Record};
use crate::retention::{Extent, PIECE_BYTES_MAX, Retention, State};
use crate::segment::layout::Slot;
use crate::segment::{CommitTicket, SegmentError, local};
use crate::slot_limiter::begin_call;
use crate::sys::local_file::Errno;
use crate::sys::region::Region;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::io::IoSlice;

/// A record to send: its order number and its chunk, big-endian, so that sorting is by order.
type Entry = [u8; 16];

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

    /// Whether a reply has the newest state of the file. `resent` was read before the call was sent. If false, the caller must
    /// ask again; what the server had lost has been resent.
    pub(super) fn is_current(&self, slot: &Slot, resent: u32) -> Result<bool, Error> {
        let retained = slot.has_retained(); // before `resent` is read the second time
        if self.segment.resent() != resent {
            return Ok(resent == 0); // the first reply sets it and resends nothing
        }
        if !retained {
            return Ok(true);
        }
        self.ask_verifier(slot)?;
        if self.segment.verifiers().newest() <= resent {
            return Ok(true);
        }
        self.settle(false).map(|()| false)
    }

    /// Attributes from the server that include what this host wrote.
    pub(super) fn current_attributes(&self, slot: &Slot, handle: &FileHandle) -> Result<Attributes, Error> {
        loop {
            let resent = self.segment.resent();
            let attributes = self.client.getattr(handle)?;
            if self.is_current(slot, resent)? {
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
            verifiers.epoch_of(number(verifier), sent).map_err(full)?;
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

    /// Whether a COMMIT answered with `verifier` covers the writes of its ticket. If not, the client has resent what the server
    /// lost.
    pub(super) fn commit_counts(&self, verifier: u64, ticket: CommitTicket) -> Result<bool, Error> {
        if self.segment.header().retain_bytes.load(Relaxed) == 0 {
            return Ok(true);
        }
        let epoch = self.segment.verifiers().epoch_of(verifier, ticket.sent).map_err(full)?;
        // Nothing was retained when the COMMIT was sent, so it covers no retained write.
        if ticket.resent == 0 {
            self.segment.resent_by(epoch);
            return Ok(true);
        }
        if epoch > self.segment.resent() {
            self.settle(false)?;
        }
        Ok(epoch == ticket.resent)
    }

    /// Resends retained data if the server's verifier is newer than at the last time. With `force`, also completes what killed
    /// processes left.
    ///
    /// # Errors
    /// The time of a soft mount is over.
    pub(super) fn settle(&self, force: bool) -> Result<(), Error> {
        let Some(retention) = self.retention_if_there()? else { return Ok(()) };
        if retention.owner().is_none() {
            return self.await_settled(retention);
        }
        loop {
            match self.settle_once(retention, force) {
                Err(Error::TakenOver) if self.segment.members().may_send() => {} // only the gate was taken over
                done => return done,
            }
        }
    }

    fn settle_once(&self, retention: &Retention, force: bool) -> Result<(), Error> {
        let gate = retention.locks().close_gate(retention.lease().ok_or(SegmentError::Retained)?);
        self.finish_truncation(retention)?;
        let verifiers = self.segment.verifiers();
        if verifiers.newest() > self.segment.resent() {
            self.resend_all(retention)?;
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
        self.resend_all(retention)
    }

    /// Resends all records in order, under one verifier. The caller holds the gate.
    pub(super) fn resend_all(&self, retention: &Retention) -> Result<(), Error> {
        let verifiers = self.segment.verifiers();
        let records = retention.records();
        let mut list = Region::map(records.len().max(1) * size_of::<Entry>()).map_err(|_| SegmentError::Retained)?;
        let (entries, _) = list.as_chunks_mut::<16>();
        let mut count = 0;
        for (chunk, record) in records.iter().enumerate() {
            if retention.is_to_be_sent(&self.segment, record)
                && let (Some(extent), Some(entry)) = (record.extent(), entries.get_mut(count))
            {
                *entry = ((u128::from(extent.order) << 64) | chunk as u128).to_be_bytes();
                count += 1;
            }
        }
        let entries = entries.get_mut(..count).unwrap_or_default();
        entries.sort_unstable();
        let mut target = verifiers.newest();
        let mut rounds = 0;
        while let Some(newer) = self.send_entries(retention, entries, target, rounds >= RESEND_ROUNDS_MAX)? {
            target = newer;
            rounds += 1;
        }
        for entry in entries.iter() {
            let Some(record) = records.get(chunk_of(entry)) else { continue };
            let Some(slot) = self.segment.slot(record.file()) else { continue };
            let life = record.life();
            if life.state() == State::Published {
                // If the writer died, the record is completed for it; if it was stopped, the record still belongs to it.
                let answer = slot.retained_write_counts();
                if retention.has_died(record) { record.answered(life, answer) } else { record.settle(life, Some(answer)) }
            }
            slot.attr_doubt();
        }
        self.segment.header().resent.fetch_max(target.max(1), SeqCst);
        Ok(())
    }

    /// Sends all entries once. Returns the epoch of a reply that is newer than `target`, if there
    /// was one.
    fn send_entries(&self, retention: &Retention, entries: &[Entry], target: u32, stable: bool) -> Result<Option<u32>, Error> {
        let mut buffer = Region::map(PIECE_BYTES_MAX).map_err(|_| SegmentError::Retained)?;
        let mut rest = entries;
        while !rest.is_empty() {
            let (extent, taken) = gather(retention, rest, &mut buffer);
            let (sent, behind) = rest.split_at(taken);
            rest = behind;
            let Some((extent, slot)) = extent.and_then(|extent| Some((extent, self.segment.slot(extent.file)?))) else {
                continue;
            };
            let handle = handle_of(slot)?;
            let newest = self.segment.verifiers().newest();
            match self.send_extent(&extent, &handle, &buffer, stable) {
                Ok(Some(verifier)) => {
                    let epoch = self.segment.verifiers().epoch_of(number(verifier), newest).map_err(full)?;
                    if epoch != target {
                        return Ok(Some(epoch));
                    }
                }
                Ok(None) => {}
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
        Ok(None)
    }

    /// Sends one extent. Returns the verifier of the reply, or `None` if the write was stable.
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
        let mut done = client.write(handle, extent.offset, &[IoSlice::new(bytes)], how)?;
        if let Some(rest) = bytes.get(done.bytes..).filter(|rest| !rest.is_empty()) {
            // The server refused the rest: sent alone, it gets an error that shows the reason.
            done = client.write(handle, extent.offset + done.bytes as u64, &[IoSlice::new(rest)], how)?;
            if done.bytes < rest.len() {
                return Err(FsError::Io.into());
            }
        }
        Ok((!stable).then_some(done.verifier))
    }
}

fn chunk_of(entry: &Entry) -> usize {
    u128::from_be_bytes(*entry) as u64 as usize
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
