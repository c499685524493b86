//! Lists directories for programs, and returns the state of the file system.

use core::sync::atomic::Ordering::Relaxed;
use std::collections::HashSet;

use super::{Mount, Target, handle_of};
use crate::error::Error;
use crate::file::{DirectoryPosition, FileHandle, FileKind, FsError, SpaceUse};
use crate::limits::LISTING_ROUNDS_MAX;
use crate::sys::atomic::word;

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirItem {
    /// The name; `.` and `..` are there if the server has them.
    pub name: Vec<u8>,
    /// Number of the object.
    pub fileid: u64,
    /// Its file system: that of the directory, unless the server says otherwise.
    pub fsid: u64,
    /// Its kind, if the server sent it.
    pub kind: Option<FileKind>,
}

impl Mount {
    /// All names of a directory (RFC 1813 3.3.17), without those of files unlinked while open.
    ///
    /// # Errors
    /// The server's refusal; NOTDIR.
    pub fn read_dir(&self, directory: Target<'_>) -> Result<Vec<DirItem>, Error> {
        let (handle, fsid) = match directory {
            Target::File(file) => {
                let slot = self.live(file)?;
                (handle_of(slot)?, slot.fsid.load(Relaxed))
            }
            Target::Entry(entry) => match entry.object {
                None => return Err(Error::Fs(FsError::NotFound)),
                Some(object) if object.attr.kind != FileKind::Directory => return Err(Error::Fs(FsError::NotDirectory)),
                Some(object) => (object.handle, object.attr.fsid),
            },
        };
        let mut items = Vec::new();
        let mut rounds = 0;
        loop {
            match self.list(&handle, fsid, &mut items) {
                // The directory changed so that the server cannot continue: start again.
                Err(Error::Fs(FsError::BadCookie)) if rounds < LISTING_ROUNDS_MAX => {
                    rounds += 1;
                    items.clear();
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        let hidden = self.hidden_names(&handle);
        if !hidden.is_empty() {
            items.retain(|item| !hidden.contains(&item.name));
        }
        Ok(items)
    }

    /// Space and files of the file system of an object (RFC 1813 3.3.18): the export's, or one nested in it.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn fsstat(&self, object: &FileHandle) -> Result<SpaceUse, Error> {
        self.client.fsstat(object)
    }

    /// File system of the root of the mount, as [`crate::Attributes::fsid`].
    #[must_use]
    pub fn fsid(&self) -> u64 {
        self.client.state().parts.fsid
    }

    fn list(&self, directory: &FileHandle, fsid: u64, items: &mut Vec<DirItem>) -> Result<(), Error> {
        let refused = word(&self.segment.header().without_readdirplus);
        let mut position = Some(DirectoryPosition::default());
        while let Some(from) = position {
            position = self.client.list(directory, from, refused, &mut |entry| {
                let (name, fileid) = (entry.name.to_vec(), entry.fileid);
                // For a mount point of the server, the attributes may be those of the nested file system's root and the number
                // that of the directory it is mounted on.
                let of_entry = entry.attributes.filter(|attributes| attributes.fileid == fileid);
                let fsid = of_entry.map_or(fsid, |attributes| attributes.fsid);
                items.push(DirItem { name, fileid, fsid, kind: entry.attributes.map(|attributes| attributes.kind) });
                true
            })?;
        }
        Ok(())
    }

    fn hidden_names(&self, directory: &FileHandle) -> HashSet<Vec<u8>> {
        let silly = self.segment.silly_files().into_iter().filter_map(|file| self.segment.silly_name(file));
        silly.filter(|silly| silly.parent() == directory.as_bytes()).map(|silly| silly.name().to_vec()).collect()
    }
}
