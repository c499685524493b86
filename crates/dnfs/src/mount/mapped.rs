//! Shared mappings of files (docs/design/016-shared-mappings.md). A file in memory has the bytes of a mapped file, and programs
//! map that file. The client finds what programs store there by comparison with what the server is known to have, and writes it
//! to the server.
//!
//! A caller that changes a mapped file at the server holds the file's lock (`Slot::writer`) until the file in memory has the
//! change too.

mod backing;
mod tending;
mod write_back;

use core::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use std::io::IoSliceMut;

use super::{FileRef, Mount, handle_of};
use crate::error::Error;
use crate::file::{Attributes, FsError};
use crate::payload::Payload;
use crate::segment::layout::{FLAG_MAPPED, FLAG_MAPPED_UNSURE, FLAG_STORED, Slot};
use crate::segment::local;
use crate::slot_limiter::WriterGuard;
use crate::sys::local_file::Errno;
use crate::sys::region::Region;
use backing::{Backing, NoBacking, STEP_BYTES, Seen, seen_of};

/// What a program needs to map a file.
#[derive(Debug)]
pub struct Mapped {
    /// Descriptor to map and close. It is read-only if the program's is.
    pub to_map: i32,
    /// Descriptor, marked as this library's, that stays open while the process has a mapping of the file. `None` if the process
    /// has one already.
    pub pin: Option<i32>,
}

/// Why a file cannot be mapped.
#[derive(Debug)]
pub enum MapRefusal {
    /// The runtime directory's file system has too little space.
    NoRoom {
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        free: u64,
    },
    /// The server refuses the READ, or the shared state cannot be used.
    Failed(Error),
}

impl From<NoBacking> for MapRefusal {
    fn from(cause: NoBacking) -> Self {
        match cause {
            NoBacking::NoRoom(needed, free) => Self::NoRoom { needed, free },
            NoBacking::Failed(errno) => Self::Failed(failed(errno)),
        }
    }
}

impl From<Error> for MapRefusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn failed(errno: Errno) -> Error {
    local("use a mapped file")(errno).into()
}

impl Slot {
    /// Whether a file in memory has the bytes too.
    pub(super) fn is_mapped(&self) -> bool {
        self.flags.load(Acquire) & FLAG_MAPPED != 0
    }

    /// Whether that file may have bytes that the server does not have.
    pub(super) fn has_stores(&self) -> bool {
        self.flags.load(Acquire) & FLAG_STORED != 0
    }
}

/// A change of a mapped file in progress. It lasts until the file in memory has the change too.
pub(super) struct Entered<'m> {
    slot: &'m Slot,
    /// This change has set `FLAG_MAPPED_UNSURE`.
    says_unsure: bool,
    guard: Option<WriterGuard<'m>>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.says_unsure && self.guard.as_ref().is_none_or(WriterGuard::is_held) {
            self.slot.flags.fetch_and(!FLAG_MAPPED_UNSURE, AcqRel);
        }
    }
}

impl Mount {
    /// What a program needs to map an open file MAP_SHARED. `may_write`: its descriptor may write. `stores`: it is about to
    /// store into the mapping. `is_pinned`: it has a mapping of the file. The bytes are those that the server has now, and
    /// newer stores of this host.
    ///
    /// # Errors
    /// [`MapRefusal`].
    pub fn map_shared(&self, file: FileRef, may_write: bool, stores: bool, is_pinned: bool) -> Result<Mapped, MapRefusal> {
        loop {
            match self.map_shared_once(file, may_write, stores, is_pinned) {
                Err(MapRefusal::Failed(Error::TakenOver)) => {} // the file's lock was taken over
                done => return done,
            }
        }
    }

    fn map_shared_once(&self, file: FileRef, may_write: bool, stores: bool, is_pinned: bool) -> Result<Mapped, MapRefusal> {
        let slot = self.live(file)?;
        let pin = if is_pinned { None } else { Some(self.segment.pin_mapped(file).map_err(Error::from)?) };
        let guard = self.retention.members().lock_for_writing(slot);
        self.repair(file, slot, guard.is_some())?;
        let directory = self.segment.directory();
        // From here on, new writes wait for the lock. A write that began before checks again when it is done.
        slot.flags.fetch_or(FLAG_MAPPED, SeqCst);
        let mut backing = match Backing::open(directory, file).map_err(failed)? {
            Some(backing) => {
                self.merge_if_changed(file, slot, &backing)?;
                backing
            }
            None => self.make_backing(file, slot).inspect_err(|_| {
                slot.flags.fetch_and(!FLAG_MAPPED, AcqRel);
            })?,
        };
        if stores {
            backing.make_known(&|| self.segment.members().renew_leases())?;
            self.note_writer(slot);
            slot.flags.fetch_or(FLAG_STORED, SeqCst);
        }
        let to_map = Backing::open_to_map(directory, file, may_write).map_err(failed)?;
        drop(guard);
        Ok(Mapped { to_map: to_map.into_raw(), pin: pin.map(crate::sys::internal_fd::InternalFd::into_raw) })
    }

    fn make_backing<'m>(&'m self, file: FileRef, slot: &Slot) -> Result<Backing<'m>, MapRefusal> {
        self.send_unsent(file, slot)?;
        let attr = self.current_attributes(slot, &handle_of(slot)?)?;
        let backing = Backing::make(self.segment.directory(), file, attr.size, |offset, to| {
            self.read_at_server(file, slot, offset, &mut [IoSliceMut::new(to)]).map_err(MapRefusal::from)
        })?;
        backing.note_seen(Some(seen_of(&attr)));
        Ok(backing)
    }

    /// Applies changes that other hosts made at the server. The caller holds the file's lock.
    fn merge_if_changed(&self, file: FileRef, slot: &Slot, backing: &Backing<'_>) -> Result<(), Error> {
        if self.single_owner && Backing::seen(self.segment.directory(), file).is_some() {
            return Ok(());
        }
        self.send_unsent(file, slot)?;
        let attr = self.current_attributes(slot, &handle_of(slot)?)?;
        if Backing::seen(self.segment.directory(), file) == Some(seen_of(&attr)) {
            return Ok(());
        }
        backing.set_size(attr.size).map_err(failed)?;
        self.merge_range(file, slot, backing, 0, attr.size)?;
        backing.note_seen(Some(seen_of(&attr)));
        Ok(())
    }

    fn merge_range(&self, file: FileRef, slot: &Slot, backing: &Backing<'_>, start: u64, end: u64) -> Result<(), Error> {
        let mut buffer = Region::map(3 * STEP_BYTES).map_err(|_| failed(Errno(libc::ENOMEM)))?;
        let (server, others) = buffer.split_at_mut(STEP_BYTES);
        let mut at = start;
        while at < end {
            let Some(to) = server.get_mut(..(end - at).min(STEP_BYTES as u64) as usize) else { break };
            let got = self.read_at_server(file, slot, at, &mut [IoSliceMut::new(to)])?;
            let Some(got) = server.get(..got).filter(|got| !got.is_empty()) else { break };
            if at + got.len() as u64 > backing.size().map_err(failed)? {
                backing.set_size(at + got.len() as u64).map_err(failed)?;
            }
            backing.merge(at, got, others).map_err(failed)?;
            at += got.len() as u64;
        }
        Ok(())
    }

    /// Completes in memory a change whose process was killed. The caller holds the file's lock if `is_locked`.
    fn repair(&self, file: FileRef, slot: &Slot, is_locked: bool) -> Result<(), Error> {
        if !is_locked || slot.flags.load(Acquire) & FLAG_MAPPED_UNSURE == 0 {
            return Ok(());
        }
        if let Some(backing) = Backing::open(self.segment.directory(), file).map_err(failed)? {
            backing.note_seen(None);
            self.merge_if_changed(file, slot, &backing)?;
        }
        slot.flags.fetch_and(!FLAG_MAPPED_UNSURE, AcqRel);
        Ok(())
    }

    /// Close-to-open: when this returns, the mappings show what other hosts wrote to the file.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn revalidate_mapped(&self, file: FileRef) -> Result<(), Error> {
        let Some(slot) = self.segment.slot(file).filter(|slot| slot.is_mapped() && !self.single_owner) else { return Ok(()) };
        self.send_unsent(file, slot)?;
        let attr = self.current_attributes(slot, &handle_of(slot)?)?;
        if Backing::seen(self.segment.directory(), file) == Some(seen_of(&attr)) {
            return Ok(());
        }
        self.again(|| {
            let guard = self.retention.members().lock_for_writing(slot);
            self.repair(file, slot, guard.is_some())?;
            match Backing::open(self.segment.directory(), file).map_err(failed)? {
                Some(backing) => self.merge_if_changed(file, slot, &backing),
                None => Ok(()),
            }
        })
    }

    /// Whether a read is answered from memory. Programs may store there at any time, so the caller must not cache the result.
    #[must_use]
    pub fn has_stores(&self, file: FileRef) -> bool {
        self.segment.slot(file).is_some_and(Slot::has_stores)
    }

    /// Reads what the mappings show. `None` if no process has a mapping any more.
    pub(super) fn read_mapped(
        &self,
        file: FileRef,
        slot: &Slot,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<Option<usize>, Error> {
        if self.shared_use {
            self.revalidate_mapped(file)?;
        }
        let fd = match Backing::open_bytes(self.segment.directory(), file) {
            Ok(fd) if slot.has_stores() => fd,
            Ok(_) | Err(Errno(libc::ENOENT)) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let mut done = 0;
        for buffer in bufs {
            let mut filled = 0;
            while let Some(to) = buffer.get_mut(filled..).filter(|to| !to.is_empty()) {
                match Backing::read(&fd, offset + done as u64, to).map_err(failed)? {
                    0 => return Ok(Some(done)),
                    got => (filled, done) = (filled + got, done + got),
                }
            }
        }
        Ok(Some(done))
    }

    /// Called before a file is written at the server up to `end`, or set to that size. `None` if no process maps it.
    ///
    /// # Errors
    /// NOSPC if the mappings cannot grow with the file.
    pub(super) fn enter_mapped<'m>(&'m self, file: FileRef, slot: &'m Slot, end: u64) -> Result<Option<Entered<'m>>, Error> {
        if !slot.is_mapped() {
            return Ok(None);
        }
        let guard = self.retention.members().lock_for_writing(slot);
        if !slot.is_mapped() {
            return Ok(None);
        }
        self.repair(file, slot, guard.is_some())?;
        if let Some(backing) = Backing::open(self.segment.directory(), file).map_err(failed)? {
            backing.reserve(end).map_err(|_| Error::Fs(FsError::NoSpace))?;
        }
        let before = slot.flags.fetch_or(FLAG_MAPPED_UNSURE, AcqRel);
        Ok(Some(Entered { slot, says_unsure: before & FLAG_MAPPED_UNSURE == 0, guard }))
    }

    /// Called after `bytes` of a payload were written (0 if the server refused): makes the mappings show them.
    pub(super) fn leave_mapped(
        &self,
        file: FileRef,
        slot: &Slot,
        entered: Option<Entered<'_>>,
        offset: u64,
        payload: &Payload<'_, '_>,
        bytes: usize,
    ) {
        if !slot.is_mapped() {
            return;
        }
        let was_entered = entered.is_some();
        // A write that began before there was a mapping does not know what was written after it.
        let _entered = entered.or_else(|| self.enter_mapped(file, slot, 0).ok().flatten());
        let Ok(Some(backing)) = Backing::open(self.segment.directory(), file) else { return };
        if was_entered && bytes == payload.len() {
            let mut applied = Ok(());
            payload.each(0..bytes, |at, part| applied = applied.and_then(|()| backing.apply(offset + at as u64, part)));
            backing.note_seen(self.seen_now(slot).filter(|_| applied.is_ok()));
        } else {
            backing.note_seen(None);
            let _ = self.merge_range(file, slot, &backing, offset, offset + payload.available() as u64);
        }
    }

    /// As [`Self::leave_mapped`], after the size was set.
    pub(super) fn leave_mapped_resized(
        &self,
        file: FileRef,
        slot: &Slot,
        entered: Option<Entered<'_>>,
        size: Option<u64>,
        attr: Option<&Attributes>,
    ) {
        if !slot.is_mapped() {
            return;
        }
        let was_entered = entered.is_some();
        let _entered = entered.or_else(|| self.enter_mapped(file, slot, 0).ok().flatten());
        let Ok(Some(backing)) = Backing::open(self.segment.directory(), file) else { return };
        backing.note_seen(attr.filter(|attr| was_entered && Some(attr.size) == size).map(seen_of));
        match size {
            Some(size) if was_entered => drop(backing.set_size(size)),
            _ => drop(self.merge_if_changed(file, slot, &backing)),
        }
    }

    /// The attributes of the server's reply to a change. The caller holds the file's lock.
    fn seen_now(&self, slot: &Slot) -> Option<Seen> {
        Some((slot.attr_record()?.mtime, slot.size_known()?))
    }
}
