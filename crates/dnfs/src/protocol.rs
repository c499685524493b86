//! The interface of a file protocol: what [`crate::mount`] needs of an export, in types of no protocol version. NFSv3 (`crate::nfs3`) is
//! the one implementation.
//!
//! A file is a handle, which the protocol makes and nobody else looks into. State that a protocol needs for an open file or for a
//! lock is its own, found by that handle.

use crate::client_state::ClientState;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{
    AccessRights, Attributes, CreateMode, Created, DirectoryEntry, DirectoryPosition, FileHandle, FileTime, SetAttributes,
    SpaceUse, SpecialFile, Stability, WriteVerifier,
};
use crate::io_codec::IoCodec;
use crate::limits::SLOTS_MAX;
use crate::payload::Payload;
use crate::url::NfsUrl;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::AtomicU32;

/// The server's reply to a successful COMMIT.
pub(crate) type Stable = (WriteVerifier, Option<Attributes>);

/// Receives an entry of a directory. Returns false to end the listing there.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(&DirectoryEntry<'_>) -> bool;

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDone {
    /// Bytes in the buffers, from their start. Fewer than requested only at the end of the file.
    pub bytes: usize,
    /// The end of the file was reached.
    pub eof: bool,
    /// Attributes of the file after the last READ, if the server sent them.
    pub attr: Option<Attributes>,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteDone {
    /// Bytes written, from the start of the buffers. Fewer than given only if the server refused the rest.
    pub bytes: usize,
    /// The lowest stability of the replies.
    pub committed: Stability,
    /// The verifier of the last reply.
    pub verifier: WriteVerifier,
    /// The replies had different verifiers: unstable data that was written first may be lost.
    pub verifier_changed: bool,
    /// Attributes of the file after the last WRITE, if the server sent them.
    pub attr: Option<Attributes>,
}

/// A mounted export, as one version of the protocol accesses it.
pub trait FileProtocol: core::fmt::Debug + Send + Sync {
    /// What a client has in any version.
    fn state(&self) -> &ClientState;

    /// As [`Self::state`], for a client that no other thread uses yet.
    fn state_mut(&mut self) -> &mut ClientState;

    /// The same client for calls with other credentials, with its own connections. Reads no file and sends no call.
    ///
    /// # Errors
    /// No memory for the table of `slots=`.
    fn with_credentials(&self, url: &NfsUrl, who: &Credentials) -> Result<Box<dyn FileProtocol>, Error>;

    /// How READ and WRITE look on the wire, for callers that drive a connection themselves.
    fn io_codec(&self) -> &'static IoCodec;

    /// Sends NULL (RFC 1813 3.3.0), which shows whether the server answers.
    ///
    /// # Errors
    /// No answer, or a refusal of the server's RPC layer.
    fn null(&self) -> Result<(), Error>;

    /// Attributes of an object (RFC 1813 3.3.1).
    ///
    /// # Errors
    /// The server's refusal.
    fn getattr(&self, object: &FileHandle) -> Result<Attributes, Error>;

    /// Changes attributes (RFC 1813 3.3.2); `guard` is the ctime that the object must have. Returns its attributes afterwards.
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    fn setattr(&self, object: &FileHandle, set: &SetAttributes, guard: Option<FileTime>) -> Result<Option<Attributes>, Error>;

    /// Handle and attributes of a name (RFC 1813 3.3.3).
    ///
    /// # Errors
    /// The server's refusal.
    fn lookup(&self, dir: &FileHandle, name: &[u8]) -> Result<(FileHandle, Option<Attributes>), Error>;

    /// Which of these rights the caller has (RFC 1813 3.3.4).
    ///
    /// # Errors
    /// The server's refusal.
    fn access(&self, object: &FileHandle, rights: AccessRights) -> Result<AccessRights, Error>;

    /// Replaces `target` by the text of a symbolic link (RFC 1813 3.3.5).
    ///
    /// # Errors
    /// The server's refusal.
    fn readlink(&self, link: &FileHandle, target: &mut Vec<u8>) -> Result<(), Error>;

    /// Creates a regular file (RFC 1813 3.3.8).
    ///
    /// **Durability**: the name is stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    fn create(&self, dir: &FileHandle, name: &[u8], mode: CreateMode) -> Result<Created, Error>;

    /// Creates a directory (RFC 1813 3.3.9).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    fn mkdir(&self, dir: &FileHandle, name: &[u8], attributes: &SetAttributes) -> Result<Created, Error>;

    /// Creates a symbolic link with this text (RFC 1813 3.3.10).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    fn symlink(&self, dir: &FileHandle, name: &[u8], target: &[u8], attributes: &SetAttributes) -> Result<Created, Error>;

    /// Creates a device, socket or pipe (RFC 1813 3.3.11).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    fn mknod(&self, dir: &FileHandle, name: &[u8], what: SpecialFile, attributes: &SetAttributes) -> Result<Created, Error>;

    /// Removes a name that is not a directory (RFC 1813 3.3.12).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    fn remove(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error>;

    /// Removes an empty directory (RFC 1813 3.3.13).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    fn rmdir(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error>;

    /// Renames (RFC 1813 3.3.14); an object with the new name is replaced.
    ///
    /// **Durability**: stable when it returns.
    ///
    /// `fileid` is the number of the object, if it is known. After a retransmission only this object counts as the renamed
    /// one.
    ///
    /// # Errors
    /// The server's refusal.
    fn rename_object(
        &self,
        from_dir: &FileHandle,
        from: &[u8],
        to_dir: &FileHandle,
        to: &[u8],
        fileid: Option<u64>,
    ) -> Result<(), Error>;

    /// Gives a file another name (RFC 1813 3.3.15). Returns its attributes afterwards.
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    fn link(&self, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Result<Option<Attributes>, Error>;

    /// Space and files of the export (RFC 1813 3.3.18).
    ///
    /// # Errors
    /// The server's refusal.
    fn fsstat(&self, object: &FileHandle) -> Result<SpaceUse, Error>;

    /// Names, attributes and handles from a position on (RFC 1813 3.3.16, 3.3.17), as many as one reply holds, until `visit` returns
    /// false. Returns the position of the next call; `None` at the end of the directory. `refused` becomes 1 if the server refuses to
    /// send attributes with the names.
    ///
    /// # Errors
    /// The server's refusal; [`crate::FsError::BadCookie`] means that the caller must start again.
    fn list(
        &self,
        dir: &FileHandle,
        from: DirectoryPosition,
        refused: &AtomicU32,
        visit: Visit<'_>,
    ) -> Result<Option<DirectoryPosition>, Error>;

    /// Reads from `offset` into `bufs`, end to end (RFC 1813 3.3.6).
    ///
    /// # Errors
    /// The server's refusal. If the server refuses a later part, the data before it is returned.
    fn read(&self, file: &FileHandle, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<ReadDone, Error>;

    /// As [`Self::write`], for a payload. Calls `keep` with it and the end of a call's bytes before that call is sent, while
    /// the server works on the calls before it.
    fn write_payload(
        &self,
        file: &FileHandle,
        offset: u64,
        payload: &mut Payload<'_, '_>,
        how: Stability,
        keep: &mut dyn FnMut(&Payload<'_, '_>, usize),
    ) -> Result<WriteDone, Error>;

    /// Writes bytes that are all available, UNSTABLE, in calls as large as possible (`gathered_bytes` of its state).
    ///
    /// # Errors
    /// As of [`Self::write`].
    fn write_gathered(&self, file: &FileHandle, offset: u64, bytes: &[u8]) -> Result<WriteDone, Error>;

    /// Makes unstable writes of the whole file stable (RFC 1813 3.3.21). Returns the verifier, to compare with that of the
    /// writes, and attributes.
    ///
    /// # Errors
    /// The server's refusal.
    fn commit(&self, file: &FileHandle) -> Result<Stable, Error>;

    /// As [`Self::commit`], for several files in flight together. Places without a handle are skipped. `answered` gets the
    /// place of each file with the server's reply, except for NFS3ERR_JUKEBOX and unknown handles.
    ///
    /// # Errors
    /// The server does not answer, on a soft mount, or a handle does not belong to this protocol version.
    fn commit_together(
        &self,
        files: &[Option<FileHandle>; SLOTS_MAX],
        answered: &mut dyn FnMut(usize, Result<Stable, Error>),
    ) -> Result<(), Error>;

    /// Whether the server knows a handle. Does not wait for the export.
    fn serves(&self, root: &FileHandle) -> Result<bool, Error>;

    /// Whether the server knows another root of the volume, the directory of another URL. Then the volume is there.
    fn serves_another_root(&self) -> Result<bool, Error>;

    /// Checks that the server answers and has the volume.
    ///
    /// # Errors
    /// No answer; the server refuses the handles of all roots of the volume.
    fn check_volume(&self) -> Result<(), Error>;

    /// Reports once that the server now exports another volume. Returns the error of a call on the old one.
    fn volume_replaced(&self) -> Error;

    /// As [`Self::rename_object`], for an object whose number is not known.
    ///
    /// # Errors
    /// The server's refusal.
    fn rename(&self, from_dir: &FileHandle, from: &[u8], to_dir: &FileHandle, to: &[u8]) -> Result<(), Error> {
        self.rename_object(from_dir, from, to_dir, to, None)
    }

    /// Writes `bufs`, end to end, at `offset` (RFC 1813 3.3.7).
    ///
    /// **Durability**: as in `committed` of the result; `Unstable` data needs a [`Self::commit`] that returns the same
    /// verifier.
    ///
    /// # Errors
    /// The server's refusal. If the server refuses a later part, the write of the data before it is returned.
    fn write(&self, file: &FileHandle, offset: u64, bufs: &[IoSlice<'_>], how: Stability) -> Result<WriteDone, Error> {
        self.write_payload(file, offset, &mut Payload::Given(bufs), how, &mut |_, _| ())
    }

    /// The server's current verifier, by a WRITE of no bytes (RFC 1813 3.3.7: it succeeds and changes nothing).
    ///
    /// # Errors
    /// The server's refusal.
    fn verifier(&self, file: &FileHandle) -> Result<WriteVerifier, Error> {
        Ok(self.write(file, 0, &[], Stability::Unstable)?.verifier)
    }
}
