//! Mapped files after their mappings: written to the server and forgotten once no process has one.

use core::sync::atomic::Ordering::{Acquire, SeqCst};

use super::super::{FileRef, Mount};
use crate::error::Error;
use crate::file::{FsError, Stability};
use crate::segment::layout::{FLAG_MAPPED, FLAG_MAPPED_UNSURE, FLAG_STORED, Slot};

impl Mount {
    /// To be called when a process has unmapped a file and closed its pin.
    pub fn unmapped(&self, file: FileRef) {
        if !self.has_keeper() {
            let _ = self.tend_mapped(file, false); // else its keeper does it, if nobody maps the file again at once
        }
        self.closed(file);
    }

    /// Mapped files, for [`Self::tend_mapped`].
    pub(in super::super) fn mapped_files(&self) -> impl Iterator<Item = (FileRef, &Slot)> {
        self.segment.live_files().filter(|(_, slot)| slot.is_mapped())
    }

    /// Whether a look at a mapped file is due: nobody maps it, or somebody was killed who changed it.
    pub(in super::super) fn is_left(&self, file: FileRef, slot: &Slot) -> bool {
        slot.flags.load(Acquire) & FLAG_MAPPED_UNSURE != 0 || matches!(self.segment.is_mapped(file), Ok(false))
    }

    /// Sees to a mapped file, unless somebody alive is changing it: what was stored is written if asked for, or if no process has a mapping;
    /// then the file in memory goes, too.
    ///
    /// **Stability**: what is written is stable.
    pub(in super::super) fn tend_mapped(&self, file: FileRef, write: bool) -> Result<(), Error> {
        let Some(slot) = self.segment.slot(file).filter(|slot| slot.is_mapped()) else { return Ok(()) };
        let Some(_guard) = self.retention.members().try_lock_for_writing(slot) else { return Ok(()) };
        self.repair(file, slot, true)?;
        let is_over = !self.segment.is_mapped(file)?;
        if slot.has_stores() && (is_over || write) {
            match self.as_writer(slot, |writer| writer.send_stores(file, slot, 0..u64::MAX, Stability::DataSync)) {
                // Gone from the server: nothing of it needs to stay.
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
