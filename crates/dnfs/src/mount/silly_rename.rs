//! Files that lost their name while open. Version 3 of the protocol has no open: the name is exchanged for one that
//! programs do not see, `.nfs` and numbers in the same directory, and that one removed when nobody has the file open.

use super::{FileRef, Mount, handle_of};
use crate::error::Error;
use crate::file::{FileHandle, FsError};
use crate::limits::SWEEP_PAUSE_MS;
use crate::segment::layout::FLAG_REMOVING;
use crate::sys::clock::monotonic_ms;
use crate::sys::random::random;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

impl Mount {
    /// Removes what killed processes left: files without a name that nobody has open.
    pub fn sweep(&self) {
        for file in self.segment.silly_files() {
            self.remove_if_unopened(file);
        }
    }

    /// [`Self::sweep`], if there is anything to look for and the last look was a while ago. The last close may go unseen:
    /// a descriptor that a fork copied ends with the exec or the exit of the child.
    pub(super) fn sweep_now_and_then(&self) {
        if !self.segment.has_silly_files() {
            return;
        }
        let now_ms = monotonic_ms();
        let last_ms = self.swept_ms.load(Relaxed);
        let due = now_ms.saturating_sub(last_ms) >= SWEEP_PAUSE_MS;
        if due && self.swept_ms.compare_exchange(last_ms, now_ms, Relaxed, Relaxed).is_ok() {
            self.sweep();
        }
    }

    /// Whether the file lost its name while open, so that its last close has something to remove.
    #[must_use]
    pub fn is_unlinked(&self, file: FileRef) -> bool {
        self.segment.silly_name(file).is_some()
    }

    /// A name no program uses, for a file.
    pub(super) fn silly_name_for(&self, fileid: u64) -> Vec<u8> {
        format!(".nfs{fileid:016x}{:08x}", random() as u32).into_bytes()
    }

    /// Removes the silly name of a file if nobody has it open. What can't be done now is done by a later sweep.
    pub(super) fn remove_if_unopened(&self, file: FileRef) {
        let Ok(Some(unopened)) = self.segment.if_unopened(file) else { return };
        let Some(name) = self.segment.silly_name(file) else { return };
        let Some(slot) = self.segment.slot(file) else { return };
        let Some(parent) = FileHandle::new(name.parent()) else { return };
        // Whoever opens the file once this process was killed asks the server first.
        slot.flags.fetch_or(FLAG_REMOVING, AcqRel);
        let removed = self.client_of_remover(slot).remove(&parent, name.name());
        let settled = || slot.flags.fetch_and(!FLAG_REMOVING, AcqRel);
        match removed {
            Ok(()) | Err(Error::Fs(FsError::Stale)) => {}
            Err(Error::Fs(FsError::NotFound)) if !name.may_still_come() => {}
            Err(Error::Fs(_)) => {
                settled();
                return;
            }
            Err(_) => return, // it may have been done
        }
        // It may have other names, and a process killed before its rename or link left it the one it had.
        let named = !matches!(
            handle_of(slot).and_then(|handle| self.client.getattr(&handle)),
            Err(Error::Fs(FsError::Stale | FsError::BadHandle))
        );
        if named {
            let _ = self.segment.silly_end(file);
            slot.attr_doubt();
            settled();
        } else {
            let _ = self.segment.release(file, &unopened);
        }
    }
}
