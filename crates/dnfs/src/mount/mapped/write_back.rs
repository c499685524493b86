//! Writes to the server what programs stored into mappings.

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use std::io::IoSlice;

use super::super::{FileRef, Mount};
use super::backing::Backing;
use super::failed;
use crate::error::Error;
use crate::file::Stability;
use crate::payload::Payload;
use crate::segment::layout::Slot;
use crate::sys::local_file::Errno;

/// The failure of sending a run.
struct Refused(Error);

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self(failed(errno))
    }
}

impl Mount {
    /// Writes what programs of this host stored into shared mappings of a file, between these offsets, as far as the server
    /// does not have it. Costs one load if no program may have stored anything.
    ///
    /// **Stability**: as a write, UNSTABLE: a [`Self::sync`] makes it stable.
    ///
    /// # Errors
    /// The server's refusal; the next call tries again what the server refused.
    pub fn write_back(&self, file: FileRef, range: Range<u64>) -> Result<(), Error> {
        let Some(slot) = self.segment.slot(file).filter(|slot| slot.has_stores()) else { return Ok(()) };
        self.again(|| {
            let guard = self.retention.members().lock_for_writing(slot);
            self.repair(file, slot, guard.is_some())?;
            self.as_writer(slot, |writer| writer.send_stores(file, slot, range.clone(), Stability::Unstable))
        })
    }

    /// Sends stored bytes. The caller holds the file's lock.
    pub(super) fn send_stores(&self, file: FileRef, slot: &Slot, range: Range<u64>, how: Stability) -> Result<(), Error> {
        let Some(backing) = Backing::open(self.segment.directory(), file).map_err(failed)? else { return Ok(()) };
        let sent = backing.each_difference(range, &|| self.segment.members().renew_leases(), |offset, bytes| {
            self.write_to_server(file, slot, offset, &mut Payload::Given(&[IoSlice::new(bytes)]), how).map_err(Refused)
        });
        let sent = sent.map_err(|Refused(error)| error).inspect_err(|_| backing.note_seen(None))?;
        if sent {
            backing.note_seen(self.seen_now(slot));
        }
        Ok(())
    }

    /// Calls `act` with the mount of the user that mapped the file for storing: another user may not be allowed to write.
    pub(super) fn as_writer(&self, slot: &Slot, act: impl FnOnce(&Self) -> Result<(), Error>) -> Result<(), Error> {
        let noted = slot.writer_credentials.load(Relaxed);
        match noted.checked_sub(1).filter(|number| self.credentials_number() != Some(*number)) {
            None => act(self),
            Some(number) => match self.credentials_of_number(number) {
                Some(who) => act(&self.with_credentials(&who)?),
                None => act(self),
            },
        }
    }
}
