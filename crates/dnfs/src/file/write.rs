//! Words for creating and writing files.

use super::{Attributes, DeviceNumbers, FileHandle, SetAttributes};

/// What a write promises when it returns; a later value promises more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// The server has it; a crash of the server may lose it until a commit.
    Unstable,
    /// Data and what is needed to read it are stable: O_DSYNC.
    DataSync,
    /// All attributes too: O_SYNC.
    FileSync,
}

/// Changes when the server may have lost unstable writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteVerifier(pub [u8; 8]);

/// Makes an exclusive creation repeatable: chosen by the client, kept by the server with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateVerifier(pub [u8; 8]);

/// How a regular file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Create, or take the file that is there.
    Unchecked(SetAttributes),
    /// Create; [`super::FsError::Exists`] when the name exists.
    Guarded(SetAttributes),
    /// Create; repeated with the same verifier it is the same creation.
    Exclusive(CreateVerifier),
}

/// An object that is neither file, directory nor link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialFile {
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    Character(DeviceNumbers),
    /// Block device.
    Block(DeviceNumbers),
}

/// A new object: its handle and attributes, as far as the server sent them.
pub type Created = (Option<FileHandle>, Option<Attributes>);

/// Space and files of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUse {
    /// Size in bytes.
    pub total_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Free bytes the caller may use.
    pub available_bytes: u64,
    /// Files it can hold.
    pub total_files: u64,
    /// Files that can still be created.
    pub free_files: u64,
    /// Files the caller can still create.
    pub available_files: u64,
}
