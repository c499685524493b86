//! Open and working directories of programs. A directory is identified by its handle, wherever other hosts move it.

use std::path::Path;

use super::{DirectoryKept, DirectoryPlaceholder, Entry, Mount, Observer, OpenDirectory, Target, Walk};
use crate::error::Error;
use crate::file::{FILE_HANDLE_BYTES_MAX, FileHandle, FsError};
use crate::limits::{LOCATE_ROUNDS_MAX, PATH_BYTES_MAX};
use crate::segment::Segment;

/// Bytes of tag, generation, and the lengths of two handles.
const HEAD_BYTES: usize = 4 + 8 + 1 + 1;
/// Maximum bytes of a directory in the segment.
const BYTES_MAX: usize = HEAD_BYTES + 2 * FILE_HANDLE_BYTES_MAX + PATH_BYTES_MAX;

impl OpenDirectory {
    /// Encodes it for the segment, with a number of the caller.
    fn encode(&self, tag: u32, into: &mut [u8; BYTES_MAX]) -> usize {
        let (handle, parent) = (self.handle.as_bytes(), self.parent.as_bytes());
        let (tag, as_of) = (tag.to_ne_bytes(), self.path_as_of.to_ne_bytes());
        let lengths = [handle.len() as u8, parent.len() as u8];
        let parts: [&[u8]; 6] = [&tag, &as_of, &lengths, handle, parent, &self.path];
        parts.into_iter().fold(0, |at, part| {
            let end = (at + part.len()).min(into.len());
            into[at..end].copy_from_slice(&part[..end - at]);
            end
        })
    }

    fn decode(bytes: &[u8]) -> Option<(Self, u32)> {
        let (tag, rest) = bytes.split_first_chunk()?;
        let (as_of, rest) = rest.split_first_chunk()?;
        let ([length, parent_length], rest) = rest.split_first_chunk()?;
        let (handle, rest) = rest.split_at_checked(usize::from(*length))?;
        let (parent, path) = rest.split_at_checked(usize::from(*parent_length))?;
        let (handle, parent) = (FileHandle::new(handle)?, FileHandle::new(parent)?);
        let directory = Self { handle, path: path.to_vec(), path_as_of: u64::from_ne_bytes(*as_of), parent };
        Some((directory, u32::from_ne_bytes(*tag)))
    }

    fn keep(&self, segment: &Segment, placeholder: DirectoryPlaceholder, kept: DirectoryKept, tag: u32) {
        let mut bytes = [0; BYTES_MAX];
        let length = self.encode(tag, &mut bytes);
        segment.keep_directory(placeholder, kept, &bytes[..length]);
    }
}

fn kept_in(segment: &Segment, placeholder: DirectoryPlaceholder) -> Option<(OpenDirectory, u32)> {
    OpenDirectory::decode(&segment.kept_directory(placeholder)?)
}

impl Mount {
    /// Stores in the segment what a placeholder represents, with a number of the caller. Does not allocate.
    pub fn keep_directory(&self, directory: &OpenDirectory, placeholder: DirectoryPlaceholder, kept: DirectoryKept, tag: u32) {
        directory.keep(&self.segment, placeholder, kept, tag);
    }

    /// What a placeholder represents, and the number that was stored with it.
    #[must_use]
    pub fn kept_directory(&self, placeholder: DirectoryPlaceholder) -> Option<(OpenDirectory, u32)> {
        kept_in(&self.segment, placeholder)
    }

    /// An open directory as an entry without a name, by one GETATTR (RFC 1813 3.3.1).
    ///
    /// # Errors
    /// STALE if it is gone, NOENT if it was removed through this mount; the server's refusal.
    pub fn entry_of_directory(&self, directory: &OpenDirectory) -> Result<Entry, Error> {
        let entry = self.entry_of(&directory.handle).map_err(|error| self.gone(&directory.handle, error))?;
        Ok(Entry { path: directory.path.clone(), path_as_of: directory.path_as_of, ..entry })
    }

    /// Converts the error of a call on a directory: to NOENT if the directory was removed through this mount.
    pub(super) fn gone(&self, directory: &FileHandle, error: Error) -> Error {
        match error {
            Error::Fs(FsError::Stale | FsError::BadHandle) if self.segment.is_removed_directory(directory.as_bytes()) => {
                Error::Fs(FsError::NotFound)
            }
            other => other,
        }
    }

    /// An open directory with its current path. Sends no call if no directory was renamed or removed through this mount
    /// meanwhile: a directory that another host renamed then keeps its former path.
    ///
    /// # Errors
    /// NOENT if it has no path any more; the server's refusal.
    pub fn locate(&self, directory: &OpenDirectory) -> Result<OpenDirectory, Error> {
        for _ in 1..LOCATE_ROUNDS_MAX {
            match self.locate_once(directory) {
                // The directory, or one above it, may have been renamed since the walk or listing.
                Err(Error::Fs(FsError::NotFound)) if self.client.serves(&directory.handle)? => {}
                located => return located,
            }
        }
        self.locate_once(directory)
    }

    fn locate_once(&self, directory: &OpenDirectory) -> Result<OpenDirectory, Error> {
        let now = self.namespace_generation().unwrap_or(0);
        if now != 0 && now == directory.path_as_of {
            return Ok(directory.clone());
        }
        let (handle, parent) = (directory.handle, directory.parent);
        if handle == self.client.parts().root {
            return Ok(OpenDirectory { handle, path: Vec::new(), path_as_of: now, parent });
        }
        if let Ok(Walk::At(entry)) = self.walk(&directory.path, false)
            && entry.object.is_some_and(|object| object.handle == handle)
        {
            return Ok(OpenDirectory { handle, path: entry.path, path_as_of: now, parent });
        }
        Ok(OpenDirectory { handle, path: self.path_upwards(&handle)?, path_as_of: now, parent })
    }

    /// The current path of what a walk found, as [`Self::locate`].
    ///
    /// # Errors
    /// As [`Self::locate`].
    pub fn path_of(&self, entry: &Entry) -> Result<Vec<u8>, Error> {
        if entry.name.is_empty() {
            let found = OpenDirectory::of(entry).map(|directory| self.locate(&directory)).transpose()?;
            return Ok(found.map_or_else(Vec::new, |found| found.path));
        }
        let above = entry.path.len().saturating_sub(entry.name.len() + 1);
        let (handle, path) = (entry.parent, entry.path.get(..above).unwrap_or_default().to_vec());
        let above = self.locate(&OpenDirectory { handle, path, path_as_of: entry.path_as_of, parent: handle })?.path;
        Ok(if above.is_empty() { entry.name.clone() } else { [&above, &b"/"[..], &entry.name].concat() })
    }

    /// The path of a directory, found name by name from the directory up to the root.
    fn path_upwards(&self, directory: &FileHandle) -> Result<Vec<u8>, Error> {
        let root = self.client.parts().root;
        let (mut handle, mut path) = (*directory, Vec::new());
        while handle != root {
            let number = self.client.getattr(&handle).map_err(no_path)?.fileid;
            let parent = self.look_up(&handle, b"..").map_err(no_path)?.handle;
            let listing = self.read_dir(Target::Entry(&self.entry_of(&parent)?))?;
            let is_it = |name: &&[u8]| self.look_up(&parent, name).is_ok_and(|object| object.handle == handle);
            let mut names = listing.iter().filter(|item| item.fileid == number && item.name != b"." && item.name != b"..");
            let name = names.by_ref().map(|item| item.name.as_slice()).find(is_it).filter(|_| parent != handle);
            let Some(name) = name else { return Err(Error::Fs(FsError::NotFound)) };
            path = if path.is_empty() { name.to_vec() } else { [name, b"/", &path].concat() };
            if path.len() > PATH_BYTES_MAX {
                return Err(Error::Fs(FsError::NameTooLong));
            }
            handle = parent;
        }
        Ok(path)
    }
}

/// The error for a directory that has no path because it is gone.
fn no_path(error: Error) -> Error {
    match error {
        Error::Fs(FsError::Stale | FsError::BadHandle) => Error::Fs(FsError::NotFound),
        other => other,
    }
}

impl Observer {
    /// As [`Mount::kept_directory`], of a mount that this process has not attached.
    #[must_use]
    pub fn kept_directory(&self, placeholder: DirectoryPlaceholder) -> Option<(OpenDirectory, u32)> {
        kept_in(&self.segment, placeholder)
    }

    /// As [`Mount::keep_directory`].
    pub fn keep_directory(&self, directory: &OpenDirectory, placeholder: DirectoryPlaceholder, kept: DirectoryKept, tag: u32) {
        directory.keep(&self.segment, placeholder, kept, tag);
    }
}

/// The runtime directory of a mount, if `path` is the kernel's path of a directory placeholder in it that was removed.
#[must_use]
pub fn mount_of_directory_placeholder(path: &[u8]) -> Option<&Path> {
    use std::os::unix::ffi::OsStrExt;
    let path = path.strip_suffix(b" (deleted)")?.strip_suffix(b"/d")?;
    let random = path.iter().rposition(|byte| *byte == b'/')?;
    let mount = path[..random].strip_suffix(b"/d")?;
    (path.len() - random == 17).then(|| Path::new(std::ffi::OsStr::from_bytes(mount)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_comes_back_from_the_segment_as_it_went_in() {
        let handle = FileHandle::new(&[9; FILE_HANDLE_BYTES_MAX]).unwrap();
        let directory = OpenDirectory { handle, path: vec![b'x'; PATH_BYTES_MAX], path_as_of: 77, parent: handle };
        let mut bytes = [0; BYTES_MAX];
        let length = directory.encode(5, &mut bytes);
        assert_eq!(OpenDirectory::decode(&bytes[..length]), Some((directory, 5)));
        assert_eq!(OpenDirectory::decode(&bytes[..HEAD_BYTES]), None);
    }

    #[test]
    fn a_removed_placeholder_names_the_mount_it_is_of() {
        let mount = |path: &'static str| mount_of_directory_placeholder(path.as_bytes()).map(|path| path.to_str().unwrap());
        assert_eq!(mount("/run/millrace/00ff/d/0123456789abcdef/d (deleted)"), Some("/run/millrace/00ff"));
        assert_eq!(mount("/run/millrace/00ff/d/0123456789abcdef/d"), None);
        assert_eq!(mount("/run/millrace/00ff/p/1.1 (deleted)"), None);
    }
}
