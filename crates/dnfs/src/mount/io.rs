//! Reads, writes and appends to open files. Nothing here allocates.

use std::io::{IoSlice, IoSliceMut};
use std::time::Instant;

use crate::sys::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;

use super::attributes::record_of;
use super::{FileRef, Mount, handle_of};
use crate::error::Error;
use crate::file::{Attributes, FileHandle, FsError, Stability};
use crate::limits::{SMALL_FILE_BYTES_MAX, WRITE_ROUNDS_MAX};
use crate::options::{ClosePolicy, StablePolicy};
use crate::payload::{LazyBuffer, Payload};
use crate::protocol::WriteDone;
use crate::segment::layout::{FLAG_STORED, Slot};
use crate::segment::{AttrMoment, SegmentError, VerifiersFull};
use crate::slot_limiter::{Locked, WriterGuard};

/// A state of a file's data, for [`Mount::changes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    writes: u64,
    sizes: u32,
    resends: u32,
}

impl Mount {
    /// Reads from `offset` into `bufs`. Returns the bytes read, fewer than requested only at the end of the file. Returns what
    /// the server has, even if it lost writes: for a caller that only reads.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn read(&self, file: FileRef, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<usize, Error> {
        let slot = self.live(file)?;
        if slot.flags.load(Acquire) & FLAG_STORED != 0
            && let Some(bytes) = self.read_mapped(file, slot, offset, bufs)?
        {
            return Ok(bytes);
        }
        let begun = Instant::now();
        self.locks.wait_for_writer(slot);
        let bytes = self.read_at_server(file, slot, offset, bufs)?;
        self.cell().reads.note(begun.elapsed(), bytes, self.client.parts().rtmax);
        Ok(bytes)
    }

    /// Reads from the server. Returns no data that is older than a finished write of this host.
    pub(super) fn read_at_server(
        &self,
        file: FileRef,
        slot: &Slot,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<usize, Error> {
        let handle = handle_of(slot)?;
        self.send_unsent(file, slot)?;
        loop {
            let resends = self.segment.resends();
            let done = self.client.read(&handle, offset, bufs)?;
            if self.is_current(slot, resends)? {
                return Ok(done.bytes);
            }
        }
    }

    /// The changes of an open file's data by processes of this host. If it is the same before and after a READ, the READ
    /// returned what they wrote, and no write or size change has ended since.
    #[must_use]
    pub fn changes(&self, file: FileRef) -> Option<Changes> {
        let slot = self.segment.slot(file)?;
        Some(Changes {
            writes: slot.size_events.load(Acquire),
            sizes: slot.size_sets.load(Acquire),
            resends: self.segment.resends(),
        })
    }

    /// Whether data may be read ahead: not if other hosts write at any time.
    #[must_use]
    pub const fn may_read_ahead(&self) -> bool {
        !self.shared_use && !self.locks.has_one_writer()
    }

    /// As [`Self::read`], for an open description that may also write and whose position in the error sequence is `cursor`.
    ///
    /// # Errors
    /// The server's refusal. [`FsError::WritesLost`] while there is a loss that no [`Self::sync`] with this cursor has reported
    /// yet: the server has older data than was written, and the caller must not base a change of the file on it.
    pub fn read_to_change(
        &self,
        file: FileRef,
        cursor: &AtomicU32,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<usize, Error> {
        let bytes = self.read(file, offset, bufs)?;
        let slot = self.live(file)?;
        // The check follows the reply, because one before it would miss a restart of the server in
        // between.
        self.check_verifier(file, slot)?;
        self.check_writeback_error(file, cursor).map(|()| bytes)
    }

    /// Writes `bufs` at `offset`. Returns the bytes written, fewer than given only if the server refused the rest.
    ///
    /// **Stability**: as requested; [`Stability::Unstable`] data needs a [`Self::sync`].
    ///
    /// # Errors
    /// The server's refusal; FBIG beyond the largest offset.
    pub fn write(&self, file: FileRef, offset: u64, bufs: &[IoSlice<'_>], how: Stability) -> Result<usize, Error> {
        self.write_payload(file, offset, &mut Payload::Given(bufs), how)
    }

    /// Writes the data of the source of `lazy` at `offset`. Reads each part while the parts before it are in flight. Returns
    /// the bytes written, fewer than were read only if the server refused the rest.
    ///
    /// **Stability**, **errors**: as [`Self::write`].
    pub fn write_from(&self, file: FileRef, offset: u64, lazy: &mut LazyBuffer<'_>, how: Stability) -> Result<usize, Error> {
        if lazy.fill(1) == 0 {
            return Ok(0);
        }
        let part = 0..usize::MAX;
        self.write_payload(file, offset, &mut Payload::Lazy(lazy, part), how)
    }

    fn write_payload(&self, file: FileRef, offset: u64, payload: &mut Payload<'_, '_>, how: Stability) -> Result<usize, Error> {
        loop {
            match self.write_once(file, offset, payload, how) {
                Err(Error::TakenOver) => {} // the write is repeated
                done => return done,
            }
        }
    }

    pub(super) fn write_once(
        &self,
        file: FileRef,
        offset: u64,
        payload: &mut Payload<'_, '_>,
        how: Stability,
    ) -> Result<usize, Error> {
        let slot = self.live(file)?;
        let length_max = payload.len();
        if length_max == 0 {
            return Ok(0);
        }
        if offset.checked_add(length_max as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Error::Fs(FsError::FileTooLarge));
        }
        let entered = self.enter_mapped(file, slot, offset + length_max as u64)?;
        let done = self.write_to_server(file, slot, offset, payload, how);
        self.leave_mapped(file, slot, entered, offset, payload, *done.as_ref().unwrap_or(&0));
        done
    }

    /// The part of [`Self::write`] that sends to the server and updates the slot.
    pub(super) fn write_to_server(
        &self,
        file: FileRef,
        slot: &Slot,
        offset: u64,
        payload: &mut Payload<'_, '_>,
        how: Stability,
    ) -> Result<usize, Error> {
        let is_flushed_next = how == Stability::Unstable && self.log_writes.write_begins(file);
        let is_stable = is_flushed_next || self.is_a_whole_file((file, slot), offset, payload);
        let how = if is_stable { how.max(Stability::DataSync) } else { how };
        if self.gather_write(file, slot, offset, payload, how)? {
            return Ok(payload.len());
        }
        let (handle, wanted) = (handle_of(slot)?, self.wanted(how));
        let begun = Instant::now();
        let writing = self.locks.lock_for_writing(slot);
        let size_moment = slot.size_moment();
        let written = match self.retention()? {
            Some(retention) if retention.owner().is_some() => {
                self.write_retained(retention, (file, slot, &handle), offset, payload, wanted)
            }
            Some(_) => self.write_as_outsider((file, slot, &handle), offset, payload, wanted),
            None => self.write_until_acknowledged(file, slot, &handle, offset, payload, wanted).map(|done| done.bytes),
        };
        let bytes = match written {
            Ok(bytes) if bytes == payload.len() => bytes,
            other => {
                // Parts after the refused one may have been written.
                self.refresh_size(file, slot);
                other?
            }
        };
        if !slot.size_grew(offset + bytes as u64, size_moment) {
            self.refresh_size(file, slot);
        }
        drop(writing);
        self.cell().writes.note(begun.elapsed(), bytes, self.client.parts().wtmax);
        Ok(bytes)
    }

    /// Writes `bufs` at the current end of the file. Returns the bytes written and their offset. Appends of this host are
    /// serialised, as under an inode's lock: they do not overlap, and no reader sees a hole where one is in flight.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn append(&self, file: FileRef, bufs: &[IoSlice<'_>], how: Stability) -> Result<(usize, u64), Error> {
        let slot = self.live(file)?;
        self.again(|| {
            let _alone = self.lock_file(file, slot)?;
            if self.shared_use || slot.size_known().is_none() {
                self.fetch(file, slot)?;
            }
            let offset = slot.size.load(Acquire);
            self.write_once(file, offset, &mut Payload::Given(bufs), how).map(|bytes| (bytes, offset))
        })
    }

    /// Waits until no other call appends to the file or sets its size. `None` if this call already holds the lock.
    ///
    /// # Errors
    /// ENOLCK if this process can hold no lock; the errors of settling the writes of a process that died or was stopped.
    pub(super) fn lock_file<'s>(&'s self, file: FileRef, slot: &'s Slot) -> Result<Option<WriterGuard<'s>>, Error> {
        let lock = match self.segment.members().lock_file(slot) {
            Locked::Held(lock) => lock,
            Locked::Already => return Ok(None),
            Locked::Taken | Locked::Refused => return Err(SegmentError::Retained.into()),
        };
        if lock.was_left() {
            // The last holder may have sent an append. The server has executed it by now, or never will.
            self.settle(true)?;
            self.send_unsent(file, slot)?;
            self.refresh_size(file, slot);
            slot.size_rest();
        }
        Ok(Some(lock))
    }

    /// Notices that the server restarted and lost uncommitted writes of this file, before data that was read is trusted.
    fn check_verifier(&self, file: FileRef, slot: &Slot) -> Result<(), Error> {
        if self.detect_loss(slot)? {
            self.refresh_size(file, slot); // the file may have become shorter
        }
        Ok(())
    }

    /// The part of [`Self::check_verifier`] that asks for the server's verifier, if a connection was made since. True if it
    /// found a loss that was not noted before.
    pub(super) fn detect_loss(&self, slot: &Slot) -> Result<bool, Error> {
        if !slot.has_uncommitted() {
            return Ok(false);
        }
        let verifiers = self.segment.verifiers();
        let sent = verifiers.newest();
        if let Some(verifier) = self.verifier_after_connect(slot)? {
            verifiers.epoch_of(verifier, &sent).map_err(full)?;
        }
        Ok(slot.server_moved_on(&verifiers.newest()))
    }

    /// Writes until all parts were answered under one verifier, and the server has the data as stable as requested.
    pub(super) fn write_until_acknowledged(
        &self,
        file: FileRef,
        slot: &Slot,
        handle: &FileHandle,
        offset: u64,
        payload: &mut Payload<'_, '_>,
        wanted: Stability,
    ) -> Result<WriteDone, Error> {
        let verifiers = self.segment.verifiers();
        for round in 1.. {
            let (sent, moment) = (verifiers.newest(), slot.attr_moment());
            if wanted == Stability::Unstable {
                slot.write_starts();
                self.note_writer(slot);
            }
            let done = self.client.write_payload(handle, offset, payload, wanted, &mut |_, _| ())?;
            note_attributes(file, slot, done.attr.as_ref(), moment);
            if done.committed == Stability::Unstable {
                if done.verifier_changed && round < WRITE_ROUNDS_MAX {
                    // The server restarted during the write and may have lost the first parts. The payload is still
                    // here.
                    slot.write_starts();
                    continue;
                }
                slot.write_answered(verifiers, done.verifier, &sent).map_err(full)?;
                if done.verifier_changed {
                    slot.note_loss();
                }
            }
            if done.committed < wanted {
                // A server must not return less stability than requested (RFC 1813 3.3.7); some do.
                self.make_stable(file, slot)?;
            }
            return Ok(done);
        }
        Err(FsError::WritesLost.into())
    }

    /// Whether this is probably the whole content of a new file. A stable write then needs no COMMIT at close. A Linux client
    /// does the same for a file that one WRITE can carry.
    fn is_a_whole_file(&self, (file, slot): (FileRef, &Slot), offset: u64, payload: &Payload<'_, '_>) -> bool {
        const SECTOR_BYTES: usize = 512;
        offset == 0
            && matches!(payload, Payload::Given(_))
            && payload.len() < SMALL_FILE_BYTES_MAX
            && !payload.len().is_multiple_of(SECTOR_BYTES)
            && self.close == ClosePolicy::Commit
            && self.last_made.age_ms(file).is_some()
            && slot.size_known() == Some(0)
            && !slot.has_unsaved()
    }

    pub(super) fn wanted(&self, how: Stability) -> Stability {
        if self.stable == StablePolicy::Always { Stability::FileSync } else { how }
    }
}

/// Stores the attributes of a WRITE reply. If the server omits them, times and space must be fetched.
pub(super) fn note_attributes(file: FileRef, slot: &Slot, attr: Option<&Attributes>, moment: AttrMoment) {
    match attr {
        Some(attr) => slot.attr_apply(file.generation, record_of(attr), moment),
        None => slot.attr_doubt(),
    }
}

pub(super) fn full(_: VerifiersFull) -> Error {
    SegmentError::VerifiersFull.into()
}
