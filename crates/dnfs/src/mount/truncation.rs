//! Sets the size of a file of which data is retained. A resend must not restore what lies after the new end.

use super::{FileRef, Mount, handle_of};
use crate::error::Error;
use crate::file::{Attributes, FileHandle, SetAttributes};
use crate::retention::{Retention, State};
use crate::segment::SegmentError;
use crate::segment::layout::Slot;
use core::sync::atomic::Ordering::SeqCst;

impl Mount {
    /// SETATTR of a size (RFC 1813 3.3.2).
    pub(super) fn set_size(
        &self,
        file: FileRef,
        slot: &Slot,
        handle: &FileHandle,
        set: &SetAttributes,
    ) -> Result<Option<Attributes>, Error> {
        let Some(retention) = self.retention()? else { return self.client.setattr(handle, set, None) };
        if retention.owner().is_none() {
            return self.set_size_as_outsider(file, slot, handle, set);
        }
        if !slot.has_retained() {
            let done = self.client.setattr(handle, set, None);
            if slot.has_retained() {
                // A write began meanwhile: only the server knows which came first.
                let _gate = self.gate(retention)?;
                self.drop_beyond_the_end(retention, file, slot)?;
            }
            return done;
        }
        let gate = self.gate(retention)?;
        let truncated = &retention.header().truncated_file;
        truncated.store(file.word(), SeqCst);
        let done = self.client.setattr(handle, set, None);
        if !gate.is_held() {
            return done; // the process that took the gate over has handled the retained data
        }
        match (&done, set.size) {
            (Ok(_), Some(size)) => retention.drop_beyond(file, size),
            (Err(Error::Fs(_)), _) => {} // refused: nothing was changed
            // The time of a soft mount is over, and the server may still execute the call.
            _ => self.drop_beyond_the_end(retention, file, slot)?,
        }
        let _ = truncated.compare_exchange(file.word(), 0, SeqCst, SeqCst);
        done
    }

    pub(super) fn gate<'m>(&'m self, retention: &'m Retention) -> Result<crate::retention::Gate<'m>, Error> {
        let gate = retention.locks().close_gate(retention.lease().ok_or(SegmentError::Retained)?);
        self.finish_truncation(retention)?;
        if gate.has_dead {
            self.finish_writes(retention, &gate)?;
        }
        Ok(gate)
    }

    /// Completes a truncation whose process was killed or stopped. None of its calls is in flight any more. The caller holds
    /// the gate.
    pub(super) fn finish_truncation(&self, retention: &Retention) -> Result<(), Error> {
        let truncated = &retention.header().truncated_file;
        let word = truncated.load(SeqCst);
        if word == 0 {
            return Ok(());
        }
        let file = FileRef::of_word(word);
        if let Some(slot) = self.segment.slot(file) {
            self.drop_beyond_the_end(retention, file, slot)?;
        }
        truncated.store(0, SeqCst);
        Ok(())
    }

    /// Drops retained data after the end of the server's file. Does nothing if the server restarted and the retained
    /// data was not resent since: the file may then be shorter than was written. The caller holds the gate.
    fn drop_beyond_the_end(&self, retention: &Retention, file: FileRef, slot: &Slot) -> Result<(), Error> {
        let is_resent = self.segment.verifiers().restarted().is_empty();
        match self.client.getattr(&handle_of(slot)?) {
            Ok(attributes) if is_resent => retention.drop_beyond(file, attributes.size),
            Ok(_) | Err(Error::Fs(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Retention {
    /// Frees the retained data of `file` from byte `size` on. The caller holds the gate.
    fn drop_beyond(&self, file: FileRef, size: u64) {
        let of_file = self
            .records()
            .iter()
            .filter(|record| record.file() == file && matches!(record.life().state(), State::Answered | State::Kept));
        for record in of_file {
            let life = record.life();
            let Some(extent) = record.extent() else { continue };
            if extent.offset >= size {
                record.free(life);
            } else if extent.end() > size {
                record.shorten((size - extent.offset) as u32);
            }
        }
    }
}
