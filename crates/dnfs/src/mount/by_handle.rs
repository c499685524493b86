//! Names and objects by handle instead of path, for a caller that gets directories by number, as a FUSE file system does from
//! the kernel.

use super::{Entry, FileRef, Mount, Object, PathEnd, handle_of};
use crate::error::Error;
use crate::file::{FileHandle, FsError};
use crate::limits::COMPONENT_BYTES_MAX;

impl Mount {
    /// A name in a directory and what it stands for, by one LOOKUP (RFC 1813 3.3.3); symbolic links are not followed. The entry's
    /// path is empty.
    ///
    /// # Errors
    /// The server's refusal, except NOENT, which gives an entry without an object; NAMETOOLONG; STALE if the server exports
    /// another volume now.
    pub fn entry_in(&self, directory: &FileHandle, name: &[u8]) -> Result<Entry, Error> {
        if name.len() > COMPONENT_BYTES_MAX {
            return Err(Error::Fs(FsError::NameTooLong));
        }
        self.check_volume()?;
        let seen = self.segment.name_changes();
        let object = match self.look_up(directory, name) {
            Ok(object) => Some(object),
            Err(Error::Fs(FsError::NotFound)) => None,
            Err(error) => return Err(error),
        };
        Ok(Entry {
            parent: *directory,
            name: name.to_vec(),
            path: Vec::new(),
            object,
            must_be_directory: false,
            end: PathEnd::Name,
            assumed: false,
            seen,
            path_as_of: 0,
        })
    }

    /// The object of a handle with its attributes, by one GETATTR (RFC 1813 3.3.1), as an entry without a name. For calls that
    /// change or read the object and not its name.
    ///
    /// # Errors
    /// The server's refusal; STALE if the object is gone, or the server exports another volume now.
    pub fn entry_of(&self, handle: &FileHandle) -> Result<Entry, Error> {
        self.check_volume()?;
        let seen = self.segment.name_changes();
        let attr = self.known_better(handle, self.client.getattr(handle)?);
        let object = Some(Object { handle: *handle, attr });
        Ok(Entry {
            parent: self.client.parts().root,
            name: Vec::new(),
            path: Vec::new(),
            object,
            must_be_directory: false,
            end: PathEnd::Name,
            assumed: false,
            seen,
            path_as_of: 0,
        })
    }

    /// Handle of an open file.
    ///
    /// # Errors
    /// STALE if it is no longer open.
    pub fn handle(&self, file: FileRef) -> Result<FileHandle, Error> {
        handle_of(self.live(file)?)
    }

    /// # Errors
    /// STALE if the server exports another volume now.
    pub(super) fn check_volume(&self) -> Result<(), Error> {
        if self.segment.is_retired() { Err(Error::Fs(FsError::Stale)) } else { Ok(()) }
    }
}
