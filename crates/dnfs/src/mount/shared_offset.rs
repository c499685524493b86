//! Writes at the offset of an open file description that several processes share (fork, exec, SCM_RIGHTS).
//!
//! A writer reserves its range: it moves the offset first. If it is killed before the server has the bytes, the next writer would
//! leave zeros there. So writers of a shared offset take turns under the file's lock, and note in the file's slot where the
//! reserved range ends. A writer that finds such a note moves the offset back to the end of the file.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use super::{FileRef, Mount};
use crate::error::Error;
use crate::file::Stability;
use crate::payload::{LazyBuffer, Payload};
use crate::segment::layout::Slot;
use crate::segment::local;
use crate::sys::local_file::{move_offset, set_offset};

impl Mount {
    /// Writes `bufs` at the offset of a description, and moves the offset by the bytes written.
    ///
    /// # Errors
    /// As [`Self::write`]; ENOLCK if this process can hold no lock.
    pub fn write_at_shared_offset(
        &self,
        file: FileRef,
        description: BorrowedFd<'_>,
        bufs: &[IoSlice<'_>],
        how: Stability,
    ) -> Result<usize, Error> {
        self.write_in_turn(file, description, &mut Payload::Given(bufs), how)
    }

    /// As [`Self::write_at_shared_offset`], for the source of `lazy`, as in [`Self::write_from`].
    ///
    /// # Errors
    /// As [`Self::write_at_shared_offset`].
    pub fn write_from_at_shared_offset(
        &self,
        file: FileRef,
        description: BorrowedFd<'_>,
        lazy: &mut LazyBuffer<'_>,
        how: Stability,
    ) -> Result<usize, Error> {
        if lazy.fill(1) == 0 {
            return Ok(0);
        }
        self.write_in_turn(file, description, &mut Payload::Lazy(lazy, 0..usize::MAX), how)
    }

    fn write_in_turn(
        &self,
        file: FileRef,
        description: BorrowedFd<'_>,
        payload: &mut Payload<'_, '_>,
        how: Stability,
    ) -> Result<usize, Error> {
        let slot = self.live(file)?;
        self.again(|| {
            let _turn = self.lock_file(file, slot)?;
            self.undo_left_reservation(file, slot, description)?;
            let length = payload.len() as u64;
            let end = reserve(slot, description, length)?;
            let done = self.write_once(file, end - length, payload, how);
            if !matches!(done, Err(Error::TakenOver)) {
                // The taker of the lock may have used the range already, and undone the reservation.
                let unused = length - *done.as_ref().unwrap_or(&0) as u64;
                if unused > 0 {
                    move_offset(description, -(unused as i64)).map_err(local("move the offset of a file"))?;
                }
                let _ = slot.offset_reserved.compare_exchange(end, 0, AcqRel, Relaxed);
            }
            done
        })
    }

    /// Moves the offset back over a range that a writer reserved before it was killed or its lock was taken over, as far as the
    /// server does not have the range. The caller holds the file's lock.
    fn undo_left_reservation(&self, file: FileRef, slot: &Slot, description: BorrowedFd<'_>) -> Result<(), Error> {
        let end = slot.offset_reserved.load(Acquire);
        if end == 0 {
            return Ok(());
        }
        let failed = local("move the offset of a file");
        if move_offset(description, 0).map_err(&failed)? == end {
            let size = self.refresh_size(file, slot);
            if size < end {
                set_offset(description, size).map_err(&failed)?;
            }
        }
        slot.offset_reserved.store(0, SeqCst);
        Ok(())
    }
}

/// Moves the offset over the next `length` bytes and returns their end. Notes nothing if they begin after the end of the file:
/// the program wants a hole there.
fn reserve(slot: &Slot, description: BorrowedFd<'_>, length: u64) -> Result<u64, Error> {
    let moved = |bytes| move_offset(description, bytes).map_err(local("move the offset of a file"));
    let begin = moved(0)?;
    if begin <= slot.size.load(Acquire) {
        slot.offset_reserved.store(begin.saturating_add(length), SeqCst);
    }
    Ok(moved(length as i64)?)
}
