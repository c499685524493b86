//! Changes attributes.

use super::attributes::record_of;
use super::{FileRef, Mount, Target, handle_of};
use crate::error::Error;
use crate::file::{FileHandle, FileKind, FsError, SetAttributes};
use crate::limits::SAME_OWNER_MS_MAX;
use crate::segment::AttrRecord;
use crate::segment::layout::Slot;
use crate::slot_limiter::WriterGuard;

impl Mount {
    /// Changes attributes (RFC 1813 3.3.2). **Stability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal; NOENT for a name without an object.
    pub fn set_attr(&self, target: Target<'_>, set: &SetAttributes) -> Result<(), Error> {
        let (file, handle, kind) = match target {
            Target::File(file) => {
                let slot = self.live(file)?;
                (Some(file), handle_of(slot)?, slot.kind())
            }
            Target::Entry(entry) => {
                let object = entry.object.ok_or(Error::Fs(FsError::NotFound))?;
                (self.segment.find(object.handle.as_bytes()), object.handle, object.attr.kind)
            }
        };
        if let (Target::File(file), Some(slot)) = (target, file.and_then(|file| self.segment.slot(file)))
            && self.last_set.age_ms(file).is_some_and(|age_ms| age_ms <= SAME_OWNER_MS_MAX)
            && !self.shared_use
            && slot.attr_record().is_some_and(|known| {
                // For other users the server decides: it refuses this to a user that may only write, even if that user
                // has just set the times.
                [0, known.uid].contains(&self.who.uid) && gives_the_same_owner(set, kind, &known)
            })
        {
            return Ok(());
        }
        let change = || match file.and_then(|file| self.segment.slot(file).map(|slot| (file, slot))) {
            Some((file, slot)) => self.set_known(file, slot, &handle, set),
            None => self.client.setattr(&handle, set, None).map(|_| ()),
        };
        // The rights on a directory are part of what cached handles depend on.
        self.again(|| if kind == FileKind::Directory { self.segment.change_namespace(change)? } else { change() })
    }

    fn set_known(&self, file: FileRef, slot: &Slot, handle: &FileHandle, set: &SetAttributes) -> Result<(), Error> {
        self.settle_before(file, slot, set)?;
        let alone = if set.size.is_some() { self.lock_file(file, slot)? } else { None };
        let entered = match set.size {
            Some(size) => {
                let entered = self.enter_mapped(file, slot, size)?;
                slot.size_set_starts();
                entered
            }
            None => None,
        };
        let (moment, size_moment) = (slot.attr_moment(), slot.size_moment());
        let done = match set.size {
            Some(_) => self.set_size(file, slot, handle, set),
            None => self.client.setattr(handle, set, None),
        };
        if let Some(size) = set.size {
            let known = match &done {
                Ok(_) => slot.size_set(size, size_moment),
                Err(_) => true, // refused: the server changed nothing
            };
            if !known {
                self.refresh_size(file, slot);
            }
            if alone.as_ref().is_none_or(WriterGuard::is_held) {
                slot.size_set_ends();
            } // otherwise the process that took the lock over has asked for the size
            let attr = done.as_ref().ok().and_then(Option::as_ref);
            self.leave_mapped_resized(file, slot, entered, done.is_ok().then_some(size), attr);
        }
        match done? {
            Some(attr) => slot.attr_apply(file.generation, record_of(&attr), moment),
            None => slot.attr_doubt(),
        }
        self.last_set.note(file);
        Ok(())
    }
}

impl Mount {
    /// Before the attributes of a file change: sends its coalesced writes, and commits what is retained unless only the size
    /// changes. A later WRITE, or its resend after a restart of the server, would set the times to that moment and clear set-ID
    /// bits, and the server may refuse it to a former owner. A Linux client does the same (`nfs_setattr`). Sends no call if
    /// nothing is retained. The file's next sync reports a refusal or a loss.
    fn settle_before(&self, file: FileRef, slot: &Slot, set: &SetAttributes) -> Result<(), Error> {
        if *set == (SetAttributes { size: set.size, ..SetAttributes::default() }) {
            return self.send_unsent(file, slot);
        }
        let written = self.write_back(file, 0..u64::MAX);
        let committed = self.commit_retained(file, slot);
        match written {
            Err(Error::Fs(_)) => committed,
            other => other.and(committed),
        }
    }
}

/// Whether a change has no effect: it sets only owner and group, to those that a regular file has. A file with set-ID bits
/// would lose them.
fn gives_the_same_owner(set: &SetAttributes, kind: FileKind, known: &AttrRecord) -> bool {
    let owner = SetAttributes { uid: set.uid, gid: set.gid, ..SetAttributes::default() };
    let is_same = set.uid.is_none_or(|uid| uid == known.uid) && set.gid.is_none_or(|gid| gid == known.gid);
    *set == owner && is_same && kind == FileKind::Regular && known.mode & 0o6000 == 0
}
