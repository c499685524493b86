//! Opens files, and does what the last close requires.

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
    /// Opens the file of a name, creates it if requested, and returns its slot. The caller then opens the placeholder and calls
    /// [`Self::opened`].
    ///
    /// **Stability**: a created file is stable when this returns.
    ///
    /// # Errors
    /// As open(2); STALE if it was removed meanwhile: walk again.
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
            // The name may have been removed since the walk, and the slot may be a new one of a removed file. From here on a
            // removal changes the slot's generation.
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

    /// The caller passes a new open of the placeholder. From here on the file keeps its slot until that open file
    /// description is closed.
    ///
    /// # Errors
    /// STALE if the file was removed in between: close the placeholder and walk again.
    pub fn opened(&self, file: FileRef, placeholder: BorrowedFd<'_>) -> Result<(), Error> {
        self.segment.mark_open(file, placeholder)?;
        let slot = self.live(file)?;
        if slot.flags.load(Acquire) & FLAG_REMOVING != 0 {
            // The process that was removing the file holds no lock, so it died. Its call may have reached the server.
            sleep(Duration::from_millis(IN_FLIGHT_MS));
            self.client.getattr(&handle_of(slot)?)?;
            slot.flags.fetch_and(!FLAG_REMOVING, AcqRel);
        }
        Ok(())
    }

    /// As [`Self::opened`], if another process opened the placeholder of a file that is already open.
    pub fn opened_elsewhere(&self, file: FileRef, placeholder: BorrowedFd<'_>) {
        let _ = self.segment.mark_open(file, placeholder); // if this fails, the description by which it was opened keeps the file
    }

    /// Called after a descriptor of the file was closed. If no other descriptor is open anywhere, a file that was unlinked
    /// while open is removed.
    pub fn closed(&self, file: FileRef) {
        let Some(slot) = self.segment.slot(file) else { return };
        if slot.flags.load(Acquire) & FLAG_SILLY != 0 {
            self.remove_if_unopened(file);
        } else {
            self.rest_size(file, slot);
        }
        self.sweep_now_and_then();
    }

    /// Repairs the size of a file that no process has open, if killed processes left the size
    /// unknown.
    fn rest_size(&self, file: FileRef, slot: &Slot) {
        if !slot.size_needs_rest() {
            return;
        }
        let Ok(Some(_unopened)) = self.segment.if_unopened(file) else { return };
        self.refresh_size(file, slot);
        slot.size_rest();
    }

    /// Returns the slot of an object. Inserts one if necessary.
    pub(super) fn enter(&self, object: &Object, created: bool) -> Result<FileRef, Error> {
        let file = self.slot_for(&new_file(&object.handle, &object.attr, created))?;
        let removing = self.segment.slot(file).is_none_or(|slot| slot.flags.load(Acquire) & FLAG_REMOVING != 0);
        if removing {
            // Waits for the process that is removing the file. If that process died, the GETATTR below finds out whether
            // the file still exists.
            let prober = self.segment.wait_for_prober(file)?;
            if let (Some(slot), Some(_)) = (self.segment.slot(file), &prober)
                && slot.flags.fetch_and(!FLAG_REMOVING, AcqRel) & FLAG_REMOVING != 0
            {
                sleep(Duration::from_millis(IN_FLIGHT_MS)); // its call may still be in flight
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
            _ => FsError::NoDevice, // devices, sockets and pipes of the server do not exist on this host
        };
        Err(Error::Fs(refused))
    }
}
