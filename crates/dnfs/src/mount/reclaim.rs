//! Frees slots if the segment is full: reuses those of closed files, after a COMMIT of their unstable data.

use super::{FileRef, Mount};
use crate::error::Error;
use crate::file::FsError;
use crate::limits::{RECLAIM_COMMITS, RECLAIM_ROUNDS_MAX};
use crate::segment::layout::Slot;
use crate::segment::{NewFile, SegmentError};

impl Mount {
    /// Leaves only `count` of the slots that were never used. For tests, which cannot open enough files to use them.
    #[doc(hidden)]
    pub fn leave_slots(&self, count: u32) {
        self.segment.leave_slots(count);
    }

    /// Forgets some closed files to make room in the runtime directory's file system. Returns false if no closed file can be
    /// forgotten.
    #[must_use]
    pub fn make_room(&self) -> bool {
        let free_some = || self.segment.free_some().unwrap_or(false);
        free_some() || self.commit_closed() && free_some()
    }

    /// Returns the slot of a file. Inserts one if necessary.
    pub(super) fn slot_for(&self, file: &NewFile<'_>) -> Result<FileRef, Error> {
        for _ in 0..RECLAIM_ROUNDS_MAX {
            match self.segment.find_or_insert(file) {
                // Before it returns this error, `find_or_insert` reuses the slots of closed files
                // whose data is stable.
                Err(error) if error.is_full() && self.commit_closed() => {}
                other => return Ok(other?.0),
            }
        }
        Err(SegmentError::Full.into())
    }

    /// Sends COMMITs for some closed files that have uncommitted data. Returns false if no such file exists.
    fn commit_closed(&self) -> bool {
        let mut settled = 0;
        for (file, slot) in self.segment.live_files_from_hand() {
            if !(slot.has_unsaved() || slot.has_unseen_error()) || !self.is_closed(file) {
                continue;
            }
            settled += u32::from(self.no_longer_needed(file, slot));
            if settled == RECLAIM_COMMITS {
                break;
            }
        }
        settled > 0
    }

    fn is_closed(&self, file: FileRef) -> bool {
        matches!(self.segment.if_unopened(file), Ok(Some(_)))
    }

    /// Whether a closed file no longer needs its slot. A file with an unreported error needs it, because only its next opener
    /// can get the error, unless the server has removed the file.
    fn no_longer_needed(&self, file: FileRef, slot: &Slot) -> bool {
        let asked = if slot.has_unsaved() { self.commit_unopened(file) } else { self.ask_for(slot) };
        match asked {
            Err(Error::Fs(FsError::Stale | FsError::BadHandle)) => match self.segment.if_unopened(file) {
                Ok(Some(unopened)) => self.segment.release(file, &unopened).is_ok(),
                _ => false,
            },
            Err(_) => false,
            Ok(()) => !slot.has_unseen_error(),
        }
    }

    fn ask_for(&self, slot: &Slot) -> Result<(), Error> {
        self.client.getattr(&super::handle_of(slot)?).map(|_| ())
    }

    /// Commits a file that the caller need not have open. The file is pinned, so that its slot is not reused for another file
    /// whose writes would count as stable.
    pub(super) fn commit_unopened(&self, file: FileRef) -> Result<(), Error> {
        let Some(pinned) = self.segment.pin(file)? else { return Ok(()) };
        let done = self.live(file).and_then(|slot| self.commit_writes(file, slot));
        drop(pinned);
        self.closed(file);
        done
    }
}
