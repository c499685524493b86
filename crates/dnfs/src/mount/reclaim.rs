//! Slots for more files than the segment has places: those of closed files are given away, and what keeps one of them,
//! data not yet stable, is committed first.

use super::{FileRef, Mount};
use crate::error::Error;
use crate::file::FsError;
use crate::limits::{RECLAIM_COMMITS, RECLAIM_ROUNDS_MAX};
use crate::segment::layout::Slot;
use crate::segment::{NewFile, SegmentError};

impl Mount {
    /// For tests, which have not the time for so many files: leaves this many slots of those that were never used.
    #[doc(hidden)]
    pub fn leave_slots(&self, count: u32) {
        self.segment.leave_slots(count);
    }

    /// The slot of a file, made if there is none.
    pub(super) fn slot_for(&self, file: &NewFile<'_>) -> Result<FileRef, Error> {
        for _ in 0..RECLAIM_ROUNDS_MAX {
            match self.segment.find_or_insert(file) {
                // The slots of closed files that are stable were tried by then.
                Err(SegmentError::Full | SegmentError::NoSlots { .. }) if self.commit_closed() => {}
                other => return Ok(other?.0),
            }
        }
        Err(SegmentError::Full.into())
    }

    /// Makes some files stable that nobody has open. False when there are none.
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

    /// Whether a closed file no longer needs its slot. One with an error that nobody was told does: only its next opener can
    /// be told. Not so when the file is gone from the server.
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

    /// COMMIT for a file this caller need not have open: pinned, so that the slot does not come to stand for another file
    /// whose writes would count as stable.
    pub(super) fn commit_unopened(&self, file: FileRef) -> Result<(), Error> {
        let Some(pinned) = self.segment.pin(file)? else { return Ok(()) };
        let done = self.live(file).and_then(|slot| self.commit_writes(file, slot));
        drop(pinned);
        self.closed(file);
        done
    }
}
