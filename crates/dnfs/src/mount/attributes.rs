//! Attributes and sizes: from the segment if it has them, otherwise from the server.

use super::{Entry, FileRef, Mount, Target, handle_of};
use crate::error::Error;
use crate::file::{Attributes, DeviceNumbers, FileHandle, FileKind, FsError, SetAttributes};
use crate::limits::{ATTRIBUTE_AGE_MS_MAX, SIZE_ROUNDS_MAX};
use crate::segment::layout::{FLAG_UNLINKED, Slot};
use crate::segment::{AttrMoment, AttrRecord, NewFile, packed_time, unpacked_time};
use crate::sys::atomic::AtomicU32;
use crate::sys::clock::monotonic_ms;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

impl Mount {
    /// Attributes of an open file. Sends no call if the server returned them a short time ago, or if only this host changes the
    /// export.
    ///
    /// # Errors
    /// The server's refusal; STALE if the file is gone.
    pub fn attr(&self, file: FileRef) -> Result<Attributes, Error> {
        let slot = self.live(file)?;
        self.send_unsent(file, slot)?; // the reply contains its times
        self.revalidate(file, slot);
        if !self.shared_use
            && let (Some(record), Some(size)) = (slot.attr_record(), slot.size_known())
        {
            return Ok(compose(slot, record, size));
        }
        self.fetch(file, slot)
    }

    /// Size of an open file in bytes, as every process of this host sees it.
    #[must_use]
    pub fn size(&self, file: FileRef) -> u64 {
        let Ok(slot) = self.live(file) else { return 0 };
        self.revalidate(file, slot);
        match slot.size_known() {
            Some(size) if !self.shared_use => size,
            _ => self.fetch(file, slot).map_or_else(|_| slot.size.load(Acquire), |attr| attr.size),
        }
    }

    /// As [`Self::size`], for an open description that may also write and whose position in the error sequence is `cursor`.
    ///
    /// # Errors
    /// [`FsError::WritesLost`] while there is a loss that no [`Self::sync`] with this cursor has reported yet. The file may
    /// have become shorter, and a write at its end would overwrite data of others that can be recovered.
    pub fn size_to_change(&self, file: FileRef, cursor: &AtomicU32) -> Result<u64, Error> {
        let size = self.size(file);
        self.check_writeback_error(file, cursor).map(|()| size)
    }

    /// As [`Self::attr`], for an open description as in [`Self::size_to_change`].
    ///
    /// # Errors
    /// As both.
    pub fn attr_to_change(&self, file: FileRef, cursor: &AtomicU32) -> Result<Attributes, Error> {
        let attr = self.attr(file)?;
        self.check_writeback_error(file, cursor).map(|()| attr)
    }

    /// Checks whether a writeback error must still be reported to this description. Called after data or size were read: a
    /// process that reduces a size because of a loss has noted the loss before.
    pub(super) fn check_writeback_error(&self, file: FileRef, cursor: &AtomicU32) -> Result<(), Error> {
        let slot = self.live(file)?;
        if slot.has_unreported_loss(cursor.load(Relaxed)) { Err(slot.loss_error().into()) } else { Ok(()) }
    }

    /// Kind of an open file.
    #[must_use]
    pub fn kind(&self, file: FileRef) -> FileKind {
        self.live(file).map_or(FileKind::Regular, Slot::kind)
    }

    /// Attributes of what a walk found.
    ///
    /// # Errors
    /// NOENT if it found nothing.
    pub fn stat(&self, entry: &Entry) -> Result<Attributes, Error> {
        entry.object.map(|object| object.attr).ok_or(Error::Fs(FsError::NotFound))
    }

    /// Makes an open file `length` bytes long (RFC 1813 3.3.2). **Stability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn truncate(&self, file: FileRef, length: u64) -> Result<(), Error> {
        self.set_attr(Target::File(file), &SetAttributes { size: Some(length), ..SetAttributes::default() })
    }

    /// Asks the server for size and attributes if they are too old: another host may have changed the file.
    fn revalidate(&self, file: FileRef, slot: &Slot) {
        if self.single_owner || self.shared_use {
            return;
        }
        if monotonic_ms().saturating_sub(slot.checked_ms.load(Relaxed)) > ATTRIBUTE_AGE_MS_MAX {
            self.refresh_size(file, slot);
        }
    }

    /// Asks the server for the attributes, and stores the reply.
    pub(super) fn fetch(&self, file: FileRef, slot: &Slot) -> Result<Attributes, Error> {
        let handle = handle_of(slot)?;
        self.send_unsent(file, slot)?;
        let (moment, size_moment) = (slot.attr_moment(), slot.size_moment());
        let attr = self.current_attributes(slot, &handle)?;
        slot.attr_apply(file.generation, record_of(&attr), moment);
        self.note_shorter(slot, attr.size)?;
        let size = match slot.size_known() {
            // The size is being set by a process: the server's value is the newest, and valid for this caller only.
            None => attr.size,
            Some(_) if self.shared_use => {
                let _ = slot.size_fetched(attr.size, size_moment);
                slot.size.load(Acquire)
            }
            Some(size) => size,
        };
        Ok(compose(slot, record_of(&attr), size))
    }

    /// Asks the server for the size, and again if a write of this host came in between. Returns the
    /// size.
    pub(super) fn refresh_size(&self, file: FileRef, slot: &Slot) -> u64 {
        for _ in 0..SIZE_ROUNDS_MAX {
            if self.send_unsent(file, slot).is_err() {
                break;
            }
            let (moment, size_moment) = (slot.attr_moment(), slot.size_moment());
            let Ok(attr) = handle_of(slot).and_then(|handle| self.current_attributes(slot, &handle)) else { break };
            slot.attr_apply(file.generation, record_of(&attr), moment);
            if self.note_shorter(slot, attr.size).is_err() {
                break;
            }
            if slot.size_fetched(attr.size, size_moment) {
                slot.checked_ms.store(monotonic_ms(), Relaxed);
                return attr.size;
            }
        }
        slot.size.load(Acquire)
    }

    /// Notes a possible loss if the file is shorter than the known size: the server may have lost writes. The caller returns the
    /// new size only afterwards, so that no writer appends at the shorter end.
    fn note_shorter(&self, slot: &Slot, size: u64) -> Result<(), Error> {
        let shorter = slot.size_known().is_none_or(|known| size < known);
        if shorter { self.detect_loss(slot).map(|_| ()) } else { Ok(()) }
    }

    /// Attributes from the server, with newer values of this host: the size, and later changes.
    pub(super) fn known_better(&self, handle: &FileHandle, attr: Attributes) -> Attributes {
        let Some(file) = self.segment.find(handle.as_bytes()) else { return attr };
        let Some(slot) = self.segment.slot(file) else { return attr };
        // The server's reply is older than coalesced writes, which another process may have sent meanwhile.
        if slot.kind() == FileKind::Regular
            && (slot.has_unsent() || slot.has_unsaved() && slot.attr_record().is_none())
            && let Ok(newer) = self.fetch(file, slot)
            && self.segment.slot(file).is_some()
        {
            return newer;
        }
        slot.attr_apply(file.generation, record_of(&attr), AttrMoment::UNKNOWN);
        if self.shared_use {
            return attr;
        }
        if !self.single_owner && slot.kind() == FileKind::Regular {
            // Close-to-open: changes of another host are visible from here on. A size that this host changed meanwhile also
            // costs a call.
            if slot.size_known().is_some_and(|known| known != attr.size) {
                self.refresh_size(file, slot);
            } else {
                slot.checked_ms.store(monotonic_ms(), Relaxed);
            }
        }
        let record = slot.attr_record().unwrap_or_else(|| record_of(&attr));
        let better = compose(slot, record, slot.size_known().unwrap_or(attr.size));
        if self.segment.slot(file).is_some() { better } else { attr }
    }
}

/// Initial contents of a new slot.
pub(super) fn new_file<'a>(handle: &'a FileHandle, attr: &Attributes, created: bool) -> NewFile<'a> {
    NewFile {
        handle: handle.as_bytes(),
        kind: attr.kind,
        fsid: attr.fsid,
        fileid: attr.fileid,
        rdev: u64::from(attr.rdev.major) << 32 | u64::from(attr.rdev.minor),
        size: attr.size,
        attr: record_of(attr),
        checked_ms: monotonic_ms(),
        created,
    }
}

/// The attributes that a record contains.
pub(super) fn record_of(attr: &Attributes) -> AttrRecord {
    AttrRecord {
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        used: attr.used,
        atime: packed_time(attr.atime),
        mtime: packed_time(attr.mtime),
        ctime: packed_time(attr.ctime),
    }
}

fn compose(slot: &Slot, record: AttrRecord, size: u64) -> Attributes {
    let rdev = slot.rdev.load(Relaxed);
    let unlinked = slot.flags.load(Acquire) & FLAG_UNLINKED != 0;
    Attributes {
        kind: slot.kind(),
        mode: record.mode,
        // One of its names on the server is the silly one, which programs do not see.
        nlink: record.nlink.saturating_sub(u32::from(unlinked)),
        uid: record.uid,
        gid: record.gid,
        size,
        used: record.used,
        rdev: DeviceNumbers { major: (rdev >> 32) as u32, minor: rdev as u32 },
        fsid: slot.fsid.load(Relaxed),
        fileid: slot.fileid.load(Relaxed),
        atime: unpacked_time(record.atime),
        mtime: unpacked_time(record.mtime),
        ctime: unpacked_time(record.ctime),
    }
}
