//! Files whose last name was removed while they are open. NFSv3 has no open. So the client renames the file to a hidden name in
//! the same directory, `.nfs` and numbers, and removes that name when no process has the file open.

use super::{FileRef, Mount, handle_of};
use crate::error::Error;
use crate::file::{FileHandle, FsError};
use crate::limits::SWEEP_PAUSE_MS;
use crate::segment::layout::FLAG_REMOVING;
use crate::sys::clock::monotonic_ms;
use crate::sys::random::random;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

impl Mount {
    /// Removes files of killed processes: those without a name that no process has open.
    pub fn sweep(&self) {
        for file in self.segment.silly_files() {
            self.remove_if_unopened(file);
        }
    }

    /// As [`Self::sweep`], if there may be such files and the last search was a while ago. The last close may go unnoticed: a
    /// descriptor that a fork copied is closed by the exec or the exit of the child.
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

    /// Whether the file's last name was removed while it was open, so that its last close removes the file.
    #[must_use]
    pub fn is_unlinked(&self, file: FileRef) -> bool {
        self.segment.silly_name(file).is_some()
    }

    /// A hidden name for a file.
    pub(super) fn silly_name_for(&self, fileid: u64) -> Vec<u8> {
        format!(".nfs{fileid:016x}{:08x}", random() as u32).into_bytes()
    }

    /// Removes the silly name of a file if no process has it open. If that fails, a later sweep does it.
    pub(super) fn remove_if_unopened(&self, file: FileRef) {
        let Ok(Some(unopened)) = self.segment.if_unopened(file) else { return };
        let Some(name) = self.segment.silly_name(file) else { return };
        let Some(slot) = self.segment.slot(file) else { return };
        let Some(parent) = FileHandle::new(name.parent()) else { return };
        // If this process is killed, the next opener of the file asks the server first.
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
            Err(_) => return, // the call may have succeeded
        }
        // The file may have other names. It still has its former name if a process was killed before its rename or
        // link.
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
