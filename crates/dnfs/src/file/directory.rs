//! Names in a directory.

use super::{Attributes, FileHandle};

/// Where a listing goes on; the default is its beginning. Only the server understands it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryPosition {
    pub(crate) cookie: u64,
    pub(crate) verifier: [u8; 8],
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Number of the object.
    pub fileid: u64,
    /// Its attributes, if the server sent them.
    pub attributes: Option<Attributes>,
    /// Its handle, if the server sent it.
    pub handle: Option<FileHandle>,
}
