//! Types for creating and writing files.

use crate::address::EndpointIndex;

use super::{Attributes, DeviceNumbers, FileHandle, SetAttributes};

/// What a write guarantees when it returns. A later value guarantees more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// The server has the data; a crash of the server may lose it until a commit.
    Unstable,
    /// Data and what is needed to read it are stable: O_DSYNC.
    DataSync,
    /// All attributes too: O_SYNC.
    FileSync,
}

/// A value that the server changes if it may have lost unstable writes. Verifiers of two endpoints are never equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteVerifier {
    /// The endpoint that sent it.
    pub endpoint: EndpointIndex,
    /// The value.
    pub bytes: [u8; 8],
}

/// Makes an exclusive creation repeatable. The client chooses it, and the server keeps it with the
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateVerifier(pub [u8; 8]);

/// How a regular file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Create the file, or use the existing one.
    Unchecked(SetAttributes),
    /// Create the file; [`super::FsError::Exists`] if the name exists.
    Guarded(SetAttributes),
    /// Create the file. A repetition with the same verifier counts as the same creation.
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
    /// Free bytes that the caller may use.
    pub available_bytes: u64,
    /// Files that the file system can hold.
    pub total_files: u64,
    /// Files that can still be created.
    pub free_files: u64,
    /// Files that the caller can still create.
    pub available_files: u64,
}
