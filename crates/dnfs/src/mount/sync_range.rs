//! COMMITs that a program starts and does not wait for (`sync_file_range(2)`): the keeper sends them.

use crate::sys::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;

use super::{FileRef, Mount};
use crate::error::Error;

impl Mount {
    /// Starts to make the whole file stable, whatever the range: COMMIT has a range, but Millrace's filer and other servers
    /// flush the whole file. Does not wait. Does nothing if nothing is retained (`retain=0`), without a keeper, and while the
    /// keeper has another file to commit.
    ///
    /// **Durability**: nothing is durable when this returns.
    pub fn start_sync(&self, file: FileRef) {
        let Some(slot) = self.segment.slot(file).filter(|slot| slot.has_retained()) else { return };
        if slot.commit_sender.load(Acquire) == 0
            && let Ok(Some(retention)) = self.retention()
        {
            retention.ask_for_commit(file);
        }
    }

    /// Waits for the COMMIT that [`Self::start_sync`] started, and for one of another process in flight.
    ///
    /// # Errors
    /// [`crate::FsError::WritesLost`] if writes were lost and no [`Self::sync`] with this cursor has reported that; the next
    /// one still does.
    pub fn wait_for_started_sync(&self, file: FileRef, cursor: &AtomicU32) -> Result<(), Error> {
        let slot = self.live(file)?;
        if slot.has_retained()
            && let Ok(Some(retention)) = self.retention()
        {
            retention.wait_for_commit_of(file);
        }
        self.retention.members().wait_for_commit_in_flight(slot);
        self.tell_of_loss(file, cursor)
    }

    /// As [`Self::sync`], but leaves a loss for the next [`Self::sync`] to report.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn sync_untold(&self, file: FileRef, cursor: &AtomicU32) -> Result<(), Error> {
        self.commit_writes(file, self.live(file)?)?;
        self.tell_of_loss(file, cursor)
    }

    fn tell_of_loss(&self, file: FileRef, cursor: &AtomicU32) -> Result<(), Error> {
        let slot = self.live(file)?;
        if slot.has_unreported_loss(cursor.load(Acquire)) { Err(slot.loss_error().into()) } else { Ok(()) }
    }
}
