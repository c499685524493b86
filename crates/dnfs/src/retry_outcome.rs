//! The outcome of a retransmitted non-idempotent call. A server that lost its reply cache (or never had one) executes it
//! twice, and refuses the second time what it did the first. Looked at only when a call really was sent again.

use crate::client::Client;
use crate::error::Error;
use crate::file::{Attributes, Created, FileHandle, FileKind, FsError, SetAttributes, SetTime};

/// REMOVE and RMDIR: a name that is gone was removed by the first sending.
pub(crate) fn removed(outcome: Result<(), Error>, resent: bool) -> Result<(), Error> {
    match outcome {
        Err(Error::Fs(FsError::NotFound)) if resent => Ok(()),
        other => other,
    }
}

/// RENAME: the old name is gone and the new one is there; with a known number it must be that object.
pub(crate) fn renamed(client: &Client, to: (&FileHandle, &[u8]), fileid: Option<u64>, error: Error) -> Result<(), Error> {
    if error.fs_error() != Some(FsError::NotFound) {
        return Err(error);
    }
    match found(client, to.0, to.1)? {
        Some((_, attributes)) if fileid.is_none_or(|fileid| fileid == attributes.fileid) => Ok(()),
        _ => Err(error),
    }
}

/// GUARDED CREATE: the file of that name with the access time that was given is the one the first sending made; where none was given, an
/// empty one.
pub(crate) fn created_file(
    client: &Client,
    dir: &FileHandle,
    name: &[u8],
    atime: SetTime,
    error: Error,
) -> Result<Created, Error> {
    let created = created_of_kind(client, dir, name, FileKind::Regular, error)?;
    let is_ours = |attributes: Attributes| match atime {
        SetTime::To(given) => attributes.atime == given,
        // Somebody else's file may have been written to; ours cannot have been yet.
        _ => attributes.size == 0,
    };
    if created.1.is_some_and(is_ours) { Ok(created) } else { Err(Error::Fs(FsError::Exists)) }
}

/// MKDIR: a directory of that name is the one the first sending made.
pub(crate) fn created_directory(client: &Client, dir: &FileHandle, name: &[u8], error: Error) -> Result<Created, Error> {
    created_of_kind(client, dir, name, FileKind::Directory, error)
}

/// SYMLINK: a link of that name with the same text is the one the first sending made.
pub(crate) fn created_symlink(
    client: &Client,
    dir: &FileHandle,
    name: &[u8],
    target: &[u8],
    error: Error,
) -> Result<Created, Error> {
    let created = created_of_kind(client, dir, name, FileKind::Symlink, error)?;
    let mut text = Vec::new();
    if let Some(object) = &created.0 {
        client.readlink(object, &mut text)?;
    }
    if text == target { Ok(created) } else { Err(Error::Fs(FsError::Exists)) }
}

/// Any creation: an object of that name and kind is the one the first sending made.
pub(crate) fn created_of_kind(
    client: &Client,
    dir: &FileHandle,
    name: &[u8],
    kind: FileKind,
    error: Error,
) -> Result<Created, Error> {
    if error.fs_error() != Some(FsError::Exists) {
        return Err(error);
    }
    match found(client, dir, name)? {
        Some((object, attributes)) if attributes.kind == kind => Ok((Some(object), Some(attributes))),
        _ => Err(error),
    }
}

/// LINK: the name is there and is that file.
pub(crate) fn linked(
    client: &Client,
    file: &FileHandle,
    dir: &FileHandle,
    name: &[u8],
    error: Error,
) -> Result<Option<Attributes>, Error> {
    if error.fs_error() != Some(FsError::Exists) {
        return Err(error);
    }
    let wanted = client.getattr(file)?;
    match found(client, dir, name)? {
        Some((_, attributes)) if (attributes.fsid, attributes.fileid) == (wanted.fsid, wanted.fileid) => Ok(Some(attributes)),
        _ => Err(error),
    }
}

/// SETATTR with a guard: the ctime moved because the first sending changed the attributes.
pub(crate) fn set_attr(
    client: &Client,
    object: &FileHandle,
    set: &SetAttributes,
    error: Error,
) -> Result<Option<Attributes>, Error> {
    let now = client.getattr(object)?;
    let same = set.mode.is_none_or(|mode| mode == now.mode)
        && set.uid.is_none_or(|uid| uid == now.uid)
        && set.gid.is_none_or(|gid| gid == now.gid)
        && set.size.is_none_or(|size| size == now.size);
    if same { Ok(Some(now)) } else { Err(error) }
}

/// What stands under a name now; none when nothing does.
fn found(client: &Client, dir: &FileHandle, name: &[u8]) -> Result<Option<(FileHandle, Attributes)>, Error> {
    match client.lookup(dir, name) {
        Ok((object, Some(attributes))) => Ok(Some((object, attributes))),
        Ok((object, None)) => client.getattr(&object).map(|attributes| Some((object, attributes))),
        Err(Error::Fs(FsError::NotFound)) => Ok(None),
        Err(error) => Err(error),
    }
}
