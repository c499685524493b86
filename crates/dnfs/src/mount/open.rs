//! Opening files, and what the last close has to do.

use core::sync::atomic::Ordering::{AcqRel, Acquire};

use super::attributes::new_file;
use super::{Entry, FileRef, Mount, Object, OpenHow, handle_of};
use crate::error::Error;
use crate::file::{AccessRights, Attributes, FileHandle, FileKind, FsError};
use crate::limits::IN_FLIGHT_MS;
use crate::segment::layout::{FLAG_REMOVING, FLAG_SILLY, Slot};
use crate::segment::runtime_dir::PLACEHOLDER_PATH_BYTES_MAX;
use crate::sys::clock::sleep;
use std::os::fd::BorrowedFd;
use std::time::Duration;

impl Mount {
    /// Opens, and if asked makes, the file of a name: its slot. The caller then opens the placeholder and calls
    /// [`Self::opened`].
    ///
    /// **Stability**: a file made is stable when it returns.
    ///
    /// # Errors
    /// As open(2); STALE when it was removed meanwhile: walk again.
    pub fn open(&self, entry: &Entry, how: &OpenHow) -> Result<FileRef, Error> {
        self.sweep_now_and_then();
        let (file, object, created) = match entry.object {
            Some(object) => {
                self.may_open(&object, how)?;
                (self.enter(&object, false)?, object, false)
            }
            None if !how.create => return Err(Error::Fs(FsError::NotFound)),
            None if entry.must_be_directory || how.directory => return Err(Error::Fs(FsError::IsDirectory)),
            None => {
                let (file, object) = self.create(entry, how)?;
                (file, object, true)
            }
        };
        if !created && self.segment.name_changes() != entry.seen {
            // The name may have been taken since the walk, and the slot be a new one of a file that is gone. From here
            // on a removal changes the slot's generation.
            self.client.getattr(&object.handle)?;
        }
        if let Some(slot) = self.segment.slot(file) {
            self.rest_size(file, slot);
            self.revalidate_mapped(file)?;
        }
        if how.truncate && !created && object.attr.kind == FileKind::Regular {
            self.truncate(file, 0)?;
        }
        Ok(file)
    }

    /// Path of the placeholder of an open file, ended by a NUL.
    #[must_use]
    pub fn placeholder_path(&self, file: FileRef) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        self.segment.directory().placeholder_array(file)
    }

    /// The file whose placeholder this path names.
    #[must_use]
    pub fn file_of_placeholder(&self, path: &[u8]) -> Option<FileRef> {
        self.segment.directory().file_of_placeholder(path)
    }

    /// To be called with a fresh open of the placeholder: from here on the file stays until the description ends.
    ///
    /// # Errors
    /// STALE when the file was removed in between: close the placeholder and walk again.
    pub fn opened(&self, file: FileRef, placeholder: BorrowedFd<'_>) -> Result<(), Error> {
        self.segment.mark_open(file, placeholder)?;
        let slot = self.live(file)?;
        if slot.flags.load(Acquire) & FLAG_REMOVING != 0 {
            // Whoever was removing it holds no lock: it died. Did the server do it, once it got the call?
            sleep(Duration::from_millis(IN_FLIGHT_MS));
            self.client.getattr(&handle_of(slot)?)?;
            slot.flags.fetch_and(!FLAG_REMOVING, AcqRel);
        }
        Ok(())
    }

    /// [`Self::opened`] for an open of the placeholder that somebody else made, of a file that is open anyhow.
    pub fn opened_elsewhere(&self, file: FileRef, placeholder: BorrowedFd<'_>) {
        let _ = self.segment.mark_open(file, placeholder); // else the description it was opened by keeps the file
    }

    /// To be called after a descriptor of the file was closed. If that was the last one anywhere, a file unlinked while
    /// open is removed.
    pub fn closed(&self, file: FileRef) {
        let Some(slot) = self.segment.slot(file) else { return };
        if slot.flags.load(Acquire) & FLAG_SILLY != 0 {
            self.remove_if_unopened(file);
        } else {
            self.rest_size(file, slot);
        }
        self.sweep_now_and_then();
    }

    /// Puts right what killed processes left of the size of a file that nobody has open.
    fn rest_size(&self, file: FileRef, slot: &Slot) {
        if !slot.size_needs_rest() {
            return;
        }
        let Ok(Some(_unopened)) = self.segment.if_unopened(file) else { return };
        if slot.size_known().is_none() {
            self.refresh_size(file, slot);
        }
        slot.size_rest();
    }

    /// The slot of an object, made if there is none.
    pub(super) fn enter(&self, object: &Object, created: bool) -> Result<FileRef, Error> {
        let file = self.slot_for(&new_file(&object.handle, &object.attr, created))?;
        let removing = self.segment.slot(file).is_none_or(|slot| slot.flags.load(Acquire) & FLAG_REMOVING != 0);
        if removing {
            // Wait for whoever is removing it, or find that it died, and see what the server did.
            let prober = self.segment.wait_for_prober(file)?;
            if let (Some(slot), Some(_)) = (self.segment.slot(file), &prober)
                && slot.flags.fetch_and(!FLAG_REMOVING, AcqRel) & FLAG_REMOVING != 0
            {
                sleep(Duration::from_millis(IN_FLIGHT_MS)); // its call may still be on its way
            }
            drop(prober);
            self.client.getattr(&object.handle)?;
            if self.segment.slot(file).is_none() {
                return Err(Error::Fs(FsError::Stale));
            }
        }
        Ok(file)
    }

    fn may_open(&self, object: &Object, how: &OpenHow) -> Result<(), Error> {
        let refused = match object.attr.kind {
            _ if how.create && how.exclusive => FsError::Exists,
            FileKind::Symlink => return Err(FsError::SymlinkLoop.into()), // O_NOFOLLOW
            FileKind::Directory if how.write || how.truncate || how.create && !how.directory => FsError::IsDirectory,
            FileKind::Directory | FileKind::Regular if how.directory && object.attr.kind == FileKind::Regular => {
                FsError::NotDirectory
            }
            FileKind::Directory | FileKind::Regular => return self.permitted(object, how),
            _ => FsError::NoDevice, // devices, sockets and pipes of the server are none of this host
        };
        Err(Error::Fs(refused))
    }

    /// Whether the caller's rights allow it. The server checks each call by itself, but lets an owner do everything
    /// (version 3 knows no open), and a cached directory may have spared it a question.
    fn permitted(&self, object: &Object, how: &OpenHow) -> Result<(), Error> {
        let write = how.write || how.truncate;
        let allowed = if self.who.uid == 0 {
            // What root may do depends on the export.
            let change = AccessRights::MODIFY | AccessRights::EXTEND;
            let wanted =
                if how.read { AccessRights::READ } else { AccessRights::NONE } | if write { change } else { AccessRights::NONE };
            let granted = self.client.access(&object.handle, wanted)?;
            (!how.read || granted.has_any(AccessRights::READ)) && (!write || granted.has_any(change))
        } else {
            let bits = self.permission_bits(&object.attr);
            (!how.read || bits & 0o4 != 0) && (!write || bits & 0o2 != 0)
        };
        if allowed { Ok(()) } else { Err(Error::Fs(FsError::AccessDenied)) }
    }

    /// Whether the caller may read or write an object that is not a regular file: the question that comes before what is not NFS.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`], and the server's refusal to answer.
    pub fn may_use(&self, object: &Object, read: bool, write: bool) -> Result<(), Error> {
        self.permitted(object, &OpenHow { read, write, ..OpenHow::default() })
    }

    /// Whether the server lets the caller add and remove names in a directory (RFC 1813 3.3.4).
    ///
    /// # Errors
    /// The server's refusal.
    pub fn may_change_names(&self, directory: &FileHandle) -> Result<bool, Error> {
        let change = AccessRights::MODIFY | AccessRights::EXTEND;
        Ok(self.client.access(directory, change)?.has_any(change))
    }

    /// Whether the caller may search a directory; the server is asked where the mode denies it.
    pub(super) fn may_search(&self, directory: &FileHandle, attr: &Attributes) -> Result<bool, Error> {
        let search = AccessRights::LOOKUP;
        Ok(self.permission_bits(attr) & 0o1 != 0 || self.client.access(directory, search)?.has_any(search))
    }

    /// The three bits of the mode that hold for the caller.
    fn permission_bits(&self, attr: &Attributes) -> u32 {
        if attr.uid == self.who.uid {
            attr.mode >> 6 & 0o7
        } else if attr.gid == self.who.gid || self.who.groups.as_slice().contains(&attr.gid) {
            attr.mode >> 3 & 0o7
        } else {
            attr.mode & 0o7
        }
    }
}
