//! Changes of names. Each change is stable when it returns, because the server replies only then.

use core::sync::atomic::Ordering::AcqRel;

use super::{Entry, FileRef, Mount, Object};
use crate::error::Error;
use crate::file::{FileHandle, FileKind, FsError, SetAttributes, SpecialFile};
use crate::limits::REMOVE_ROUNDS_MAX;
use crate::segment::layout::FLAG_REMOVING;
use crate::segment::{Pinned, Unopened};

/// How to remove a name of a file.
enum Removal<'s> {
    /// No process has the file open, and no process can open it while this exists.
    Unopened(Unopened<'s>),
    /// The file is open and needs another name, even if it has other names now, since those may be removed at this moment.
    /// It is pinned, so that no process removes the new name while it is being given.
    Open(Pinned),
}

impl Mount {
    /// Creates a directory (RFC 1813 3.3.9).
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn mkdir(&self, entry: &Entry, mode: u32) -> Result<(), Error> {
        absent(entry)?;
        let set = SetAttributes { mode: Some(mode & 0o7777), ..SetAttributes::default() };
        self.client.mkdir(&entry.parent, &entry.name, &set).map(|_| ())
    }

    /// Creates a symbolic link with the text `target` (RFC 1813 3.3.10).
    ///
    /// # Errors
    /// As symlink(2).
    pub fn symlink(&self, entry: &Entry, target: &[u8]) -> Result<(), Error> {
        absent(entry)?;
        if entry.must_be_directory {
            return Err(Error::Fs(FsError::NotFound));
        }
        let set = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
        self.client.symlink(&entry.parent, &entry.name, target, &set).map(|_| ())
    }

    /// Creates a device, pipe or socket (RFC 1813 3.3.11). Returns the object.
    ///
    /// # Errors
    /// As mknod(2).
    pub fn mknod(&self, entry: &Entry, what: SpecialFile, mode: u32) -> Result<Object, Error> {
        absent(entry)?;
        let set = SetAttributes { mode: Some(mode & 0o7777), ..SetAttributes::default() };
        match self.client.mknod(&entry.parent, &entry.name, what, &set)? {
            (Some(handle), Some(attr)) => Ok(Object { handle, attr }),
            (Some(handle), None) => Ok(Object { handle, attr: self.client.getattr(&handle)? }),
            (None, _) => self.look_up(&entry.parent, &entry.name),
        }
    }

    /// Text of a symbolic link (RFC 1813 3.3.5).
    ///
    /// # Errors
    /// As readlink(2).
    pub fn readlink(&self, entry: &Entry) -> Result<Vec<u8>, Error> {
        let object = present(entry)?;
        if object.attr.kind != FileKind::Symlink {
            return Err(Error::Fs(FsError::InvalidArgument));
        }
        let mut target = Vec::new();
        self.client.readlink(&object.handle, &mut target)?;
        Ok(target)
    }

    /// Gives a file a second name (RFC 1813 3.3.15).
    ///
    /// # Errors
    /// As link(2).
    pub fn link(&self, from: &Entry, to: &Entry) -> Result<(), Error> {
        let object = present(from)?;
        absent(to)?;
        if object.attr.kind == FileKind::Directory {
            return Err(Error::Fs(FsError::NotOwner));
        }
        let done = self.client.link(&object.handle, &to.parent, &to.name);
        self.segment.name_changed();
        self.doubt(&object.handle);
        done.map(|_| ())
    }

    /// Removes a name of a file (RFC 1813 3.3.12). An open file stays readable until its last close.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn unlink(&self, entry: &Entry) -> Result<(), Error> {
        self.again(|| self.unlink_once(entry))
    }

    fn unlink_once(&self, entry: &Entry) -> Result<(), Error> {
        present(entry)?;
        let _lock = self.segment.lock_name(entry.parent.as_bytes(), &entry.name)?;
        let object = self.current(entry)?.ok_or(Error::Fs(FsError::NotFound))?;
        let remove = || self.client.remove(&entry.parent, &entry.name);
        match object.attr.kind {
            FileKind::Directory => return Err(Error::Fs(FsError::IsDirectory)),
            FileKind::Symlink => return self.segment.change_namespace(remove)?,
            _ => {}
        }
        let (file, removal) = self.removal_of(&object)?;
        match removal {
            Removal::Unopened(unopened) => self.take_name(file, &object, &unopened, remove),
            // Another name of the file was already replaced by a hidden one. The slot stores one hidden name, and one keeps
            // the data.
            Removal::Open(pinned) if self.has_silly_name(file) => self.end_silly(file, pinned, true, remove()),
            Removal::Open(pinned) => {
                let (name, noted) = self.note_silly(file, &entry.parent, object.attr.fileid)?;
                let fileid = Some(object.attr.fileid);
                let done = self.client.rename_object(&entry.parent, &entry.name, &entry.parent, &name, fileid);
                self.end_silly(file, pinned, noted, done)
            }
        }
    }

    /// Removes an empty directory (RFC 1813 3.3.13). Open files in it whose names were removed are moved out of it.
    ///
    /// # Errors
    /// As rmdir(2).
    pub fn rmdir(&self, entry: &Entry) -> Result<(), Error> {
        self.again(|| self.rmdir_once(entry))
    }

    fn rmdir_once(&self, entry: &Entry) -> Result<(), Error> {
        let object = present(entry)?;
        if object.attr.kind != FileKind::Directory {
            return Err(Error::Fs(FsError::NotDirectory));
        }
        let remove = || self.client.rmdir(&entry.parent, &entry.name);
        let removed = match self.segment.change_namespace(remove)? {
            Err(Error::Fs(FsError::NotEmpty | FsError::Exists)) if self.clear_silly(&object.handle, &entry.parent) => {
                self.segment.change_namespace(remove)?
            }
            other => other,
        };
        removed.inspect(|()| self.segment.directory_removed(object.handle.as_bytes()))
    }

    /// Renames (RFC 1813 3.3.14). A file replaced while open stays readable until its last close.
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename(&self, from: &Entry, to: &Entry) -> Result<(), Error> {
        self.again(|| self.rename_once(from, to))
    }

    fn rename_once(&self, from: &Entry, to: &Entry) -> Result<(), Error> {
        present(from)?;
        let _locks = self.segment.lock_names((from.parent.as_bytes(), &from.name), (to.parent.as_bytes(), &to.name))?;
        let object = self.current(from)?.ok_or(Error::Fs(FsError::NotFound))?;
        let target = self.current(to)?;
        let directory = object.attr.kind == FileKind::Directory;
        if to.must_be_directory && !directory {
            return Err(Error::Fs(FsError::NotDirectory));
        }
        let rename = || {
            let fileid = Some(object.attr.fileid);
            self.client.rename_object(&from.parent, &from.name, &to.parent, &to.name, fileid)
        };
        let change = || match target {
            Some(target) if target.handle == object.handle => Ok(()), // two names of one file: nothing to do
            Some(target) if directory && target.attr.kind != FileKind::Directory => Err(Error::Fs(FsError::NotDirectory)),
            Some(target) if !directory && target.attr.kind == FileKind::Directory => Err(Error::Fs(FsError::IsDirectory)),
            Some(target) if !moves_paths(&target) => self.replace(to, &target, &rename),
            _ => rename(),
        };
        let done = if moves_paths(&object) || target.is_some_and(|target| moves_paths(&target)) {
            self.segment.change_namespace(change)?
        } else {
            change()
        };
        if let (Ok(()), Some(target)) = (&done, target)
            && target.attr.kind == FileKind::Directory
            && target.handle != object.handle
        {
            self.segment.directory_removed(target.handle.as_bytes());
        }
        self.doubt(&object.handle);
        done
    }

    /// Renames over a file, which stays available to programs that have it open.
    fn replace(&self, to: &Entry, target: &Object, rename: &dyn Fn() -> Result<(), Error>) -> Result<(), Error> {
        let (file, removal) = self.removal_of(target)?;
        match removal {
            Removal::Unopened(unopened) => self.take_name(file, target, &unopened, rename),
            Removal::Open(pinned) if self.has_silly_name(file) => self.end_silly(file, pinned, true, rename()),
            Removal::Open(pinned) => {
                let (name, noted) = self.note_silly(file, &to.parent, target.attr.fileid)?;
                let linked = match self.client.link(&target.handle, &to.parent, &name) {
                    // A killed process, or this call when it was first sent, created the name: no other process creates
                    // such names.
                    Err(Error::Fs(FsError::Exists)) if noted || self.stands_for(&to.parent, &name, target) => Ok(()),
                    other => other.map(|_| ()),
                };
                let done = match linked {
                    // The second name is created before the rename, so that the target's name is never missing, not even after
                    // a crash.
                    Ok(()) => rename().inspect_err(|_| drop(self.client.remove(&to.parent, &name))),
                    // The file system has no hard links, or the file may have no more of them.
                    Err(Error::Fs(refused)) if refused != FsError::Exists => self.replace_without_link(to, target, &name, rename),
                    Err(error) => Err(error),
                };
                self.end_silly(file, pinned, noted, done)
            }
        }
    }

    fn stands_for(&self, parent: &FileHandle, name: &[u8], object: &Object) -> bool {
        self.look_up(parent, name).is_ok_and(|found| found.attr.fileid == object.attr.fileid)
    }

    /// Renames over an open file that can have no second name. The file is renamed first, as by a Linux client, and renamed back
    /// if the other rename fails. Its name is missing for a moment.
    fn replace_without_link(
        &self,
        to: &Entry,
        target: &Object,
        name: &[u8],
        rename: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let fileid = Some(target.attr.fileid);
        match self.client.rename_object(&to.parent, &to.name, &to.parent, name, fileid) {
            Err(Error::Fs(FsError::NotFound)) => return rename(), // removed by another host
            other => other?,
        }
        rename().inspect_err(|_| {
            let _ = self.client.rename_object(&to.parent, name, &to.parent, &to.name, fileid);
            self.segment.name_changed();
        })
    }

    /// Decides how to remove a name of a file.
    fn removal_of(&self, object: &Object) -> Result<(FileRef, Removal<'_>), Error> {
        for _ in 0..REMOVE_ROUNDS_MAX {
            let file = match self.enter(object, false) {
                Err(Error::Fs(FsError::Stale)) => continue,
                other => other?,
            };
            let unopened = self.segment.if_unopened(file)?;
            if self.segment.slot(file).is_none() {
                continue; // the slot was given to another file meanwhile
            }
            let removal = match unopened {
                Some(unopened) => Removal::Unopened(unopened),
                None => match self.segment.pin(file)? {
                    Some(pinned) => Removal::Open(pinned),
                    None => continue,
                },
            };
            return Ok((file, removal));
        }
        Err(Error::Fs(FsError::Delayed))
    }

    /// Removes a name of a file that no process has open. Openers wait at the placeholder's lock meanwhile.
    fn take_name(
        &self,
        file: FileRef,
        object: &Object,
        unopened: &Unopened<'_>,
        remove: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(slot) = self.segment.slot(file) else { return remove() };
        self.send_unsent(file, slot)?; // the file may have other names
        slot.flags.fetch_or(FLAG_REMOVING, AcqRel);
        let done = remove();
        // A silly name that a killed process noted may still appear at the server: the sweep removes it.
        if done.is_ok() && unopened.is_held() && object.attr.nlink <= 1 && self.segment.silly_name(file).is_none() {
            self.segment.release(file, unopened)?;
        } else {
            self.segment.name_changed();
            slot.attr_doubt();
            slot.flags.fetch_and(!FLAG_REMOVING, AcqRel);
        }
        done
    }

    /// Notes the silly name that a file is about to get. A name that a killed process noted before is reused: its call may
    /// still arrive, and the slot has room for one note.
    fn note_silly(&self, file: FileRef, parent: &FileHandle, fileid: u64) -> Result<(Vec<u8>, bool), Error> {
        if let Some(silly) = self.segment.silly_name(file).filter(|silly| silly.parent() == parent.as_bytes()) {
            return Ok((silly.name().to_vec(), true));
        }
        let name = self.silly_name_for(fileid);
        self.segment.silly_begin(file, parent.as_bytes(), &name)?;
        self.note_remover(file);
        Ok((name, false))
    }

    /// Whether the server has renamed the file to its silly name, so that its data stays even if its other names are removed.
    fn has_silly_name(&self, file: FileRef) -> bool {
        self.segment.silly_name(file).is_some_and(|silly| silly.is_given())
    }

    fn end_silly(&self, file: FileRef, pinned: Pinned, noted: bool, done: Result<(), Error>) -> Result<(), Error> {
        if done.is_ok() {
            self.segment.silly_done(file);
            drop(pinned);
            // All processes may have closed the file meanwhile.
            self.remove_if_unopened(file);
        } else if !noted {
            self.segment.silly_end(file)?;
        }
        done
    }

    /// Moves open files without a name out of a directory that is about to be removed. Returns whether there were any.
    fn clear_silly(&self, directory: &FileHandle, to: &FileHandle) -> bool {
        self.sweep();
        let mut moved = false;
        for file in self.segment.silly_files() {
            let Some(silly) = self.segment.silly_name(file).filter(|silly| silly.parent() == directory.as_bytes()) else {
                continue;
            };
            // The file's name and the note of the name do not change at once. The pin keeps a sweep
            // from removing the file in between.
            let Ok(Some(_pinned)) = self.segment.pin(file) else { continue };
            let name = self.silly_name_for(u64::from(file.slot));
            if self.client.rename(directory, silly.name(), to, &name).is_ok() {
                moved |= self.segment.silly_begin(file, to.as_bytes(), &name).is_ok();
            }
        }
        moved
    }

    /// Marks attributes as outdated that an operation changed without returning them.
    fn doubt(&self, handle: &FileHandle) {
        if let Some(slot) = self.segment.find(handle.as_bytes()).and_then(|file| self.segment.slot(file)) {
            slot.attr_doubt();
        }
    }
}

/// Whether paths through this object change with its name.
fn moves_paths(object: &Object) -> bool {
    matches!(object.attr.kind, FileKind::Directory | FileKind::Symlink)
}

fn present(entry: &Entry) -> Result<Object, Error> {
    entry.object.ok_or(Error::Fs(FsError::NotFound))
}

fn absent(entry: &Entry) -> Result<(), Error> {
    if entry.object.is_some() { Err(Error::Fs(FsError::Exists)) } else { Ok(()) }
}
