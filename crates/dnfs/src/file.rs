//! Files as the mount layer and its users see them: types that belong to no version of the protocol.
//!
//! `crate::nfs3` converts NFSv3's structures to these types. No other module, and no other crate, sees those structures.

mod access;
mod attributes;
mod directory;
mod error;
mod handle;
mod write;

pub use access::AccessRights;
pub use attributes::{Attributes, DeviceNumbers, FileKind, FileTime, SetAttributes, SetTime};
pub use directory::{DirectoryEntry, DirectoryPosition};
pub use error::FsError;
pub use handle::{FILE_HANDLE_BYTES_MAX, FileHandle};
pub use write::{CreateMode, CreateVerifier, Created, SpaceUse, SpecialFile, Stability, WriteVerifier};
