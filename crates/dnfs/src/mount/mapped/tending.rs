//! Writes mapped files to the server, and removes their files in memory once no process has a mapping.

use core::sync::atomic::Ordering::{Acquire, SeqCst};

use super::super::{FileRef, Mount};
use crate::error::Error;
use crate::file::{FsError, Stability};
use crate::segment::layout::{FLAG_MAPPED, FLAG_MAPPED_UNSURE, FLAG_STORED, Slot};

impl Mount {
    /// Called when a process has unmapped a file and closed its pin.
    pub fn unmapped(&self, file: FileRef) {
        if !self.has_keeper() {
            let _ = self.tend_mapped(file, false); // if this fails, the keeper does it unless a process maps the file again
        }
        self.closed(file);
    }

    /// Mapped files, for [`Self::tend_mapped`].
    pub(in super::super) fn mapped_files(&self) -> impl Iterator<Item = (FileRef, &Slot)> {
        self.segment.live_files().filter(|(_, slot)| slot.is_mapped())
    }

    /// Whether a mapped file needs attention: no process maps it, or a process was killed while it changed the file.
    pub(in super::super) fn is_left(&self, file: FileRef, slot: &Slot) -> bool {
        slot.flags.load(Acquire) & FLAG_MAPPED_UNSURE != 0 || matches!(self.segment.is_mapped(file), Ok(false))
    }

    /// Writes back a mapped file, unless a live process is changing it. Stored bytes are written if `write` is set or if no
    /// process has a mapping; in the latter case the file in memory is removed.
    ///
    /// **Stability**: what is written is stable.
    pub(in super::super) fn tend_mapped(&self, file: FileRef, write: bool) -> Result<(), Error> {
        let Some(slot) = self.segment.slot(file).filter(|slot| slot.is_mapped()) else { return Ok(()) };
        let Some(_guard) = self.retention.members().try_lock_for_writing(slot) else { return Ok(()) };
        self.repair(file, slot, true)?;
        let is_over = !self.segment.is_mapped(file)?;
        if slot.has_stores() && (is_over || write) {
            match self.as_writer(slot, |writer| writer.send_stores(file, slot, 0..u64::MAX, Stability::DataSync)) {
                // The server has removed the file, so nothing of it is needed.
                Err(Error::Fs(FsError::Stale | FsError::BadHandle)) if is_over => {}
                other => other?,
            }
        }
        if is_over {
            slot.flags.fetch_and(!(FLAG_MAPPED | FLAG_STORED | FLAG_MAPPED_UNSURE), SeqCst);
            self.segment.directory().remove_mapped(file);
        }
        Ok(())
    }
}
