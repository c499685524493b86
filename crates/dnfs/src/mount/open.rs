//! Opening files, and what the last close has to do.

use core::sync::atomic::Ordering::{AcqRel, Acquire};

use super::attributes::new_file;
use super::{Entry, FileRef, Mount, Object, OpenHow, handle_of};
use crate::error::Error;
use crate::file::{FileKind, FsError};
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
        self.refresh_size(file, slot);
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
            FileKind::Directory | FileKind::Regular => return self.check_open(object, how),
            _ => FsError::NoDevice, // devices, sockets and pipes of the server are none of this host
        };
        Err(Error::Fs(refused))
    }
}
