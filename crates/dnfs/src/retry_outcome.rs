//! The outcome of a resent non-idempotent call. A server that lost its reply cache, or never had one, executes the call twice
//! and refuses the second execution. Used only if the call was resent.
//!
//! The call counts as successful only with evidence: the object has the access time that the call gave it, whose nanoseconds are
//! random ([`marked`]). Without evidence the refusal is final: another client may have made or removed the name, and two clients
//! that use a name as a lock must not both succeed. Millrace's filer repeats the answer to the first transmission, so its
//! refusals are those of the first transmission.

use crate::error::Error;
use crate::file::{Attributes, Created, FileHandle, FileKind, FileTime, FsError, SetAttributes, SetTime};
use crate::protocol::FileProtocol;
use crate::sys::random::random;

/// An access time that identifies an object that this process creates: now, with random nanoseconds.
pub(crate) fn mark() -> FileTime {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    FileTime { seconds: i64::try_from(now.as_secs()).unwrap_or_default(), nanoseconds: (random() % 1_000_000_000) as u32 }
}

/// The same attributes, with an access time of [`mark`] unless they set one.
pub(crate) fn marked(set: &SetAttributes) -> SetAttributes {
    let atime = if matches!(set.atime, SetTime::To(_)) { set.atime } else { SetTime::To(mark()) };
    SetAttributes { atime, ..*set }
}

/// RENAME succeeded if the old name is gone and the new name is that object. No process of this host renames it meanwhile, since
/// the names are locked. With `exact` the refusal is final: the server repeats its first answer.
pub(crate) fn renamed(
    client: &dyn FileProtocol,
    to: (&FileHandle, &[u8]),
    fileid: Option<u64>,
    exact: bool,
    error: Error,
) -> Result<(), Error> {
    if exact || fileid.is_none() || error.fs_error() != Some(FsError::NotFound) {
        return Err(error);
    }
    match found(client, to.0, to.1)? {
        Some((_, attributes)) if fileid == Some(attributes.fileid) => Ok(()),
        _ => Err(error),
    }
}

/// CREATE (GUARDED), MKDIR, SYMLINK and MKNOD succeeded if the object has the kind and the access time that the call gave.
pub(crate) fn created(
    client: &dyn FileProtocol,
    (dir, name): (&FileHandle, &[u8]),
    kind: FileKind,
    given: SetTime,
    error: Error,
) -> Result<Created, Error> {
    if error.fs_error() != Some(FsError::Exists) {
        return Err(error);
    }
    match found(client, dir, name)? {
        Some((object, attributes)) if attributes.kind == kind && given == SetTime::To(attributes.atime) => {
            Ok((Some(object), Some(attributes)))
        }
        _ => Err(error),
    }
}

/// SETATTR with a guard: the ctime may differ because the first transmission changed the
/// attributes.
pub(crate) fn set_attr(
    client: &dyn FileProtocol,
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

/// The current object of a name. `None` if there is no object.
fn found(client: &dyn FileProtocol, dir: &FileHandle, name: &[u8]) -> Result<Option<(FileHandle, Attributes)>, Error> {
    match client.lookup(dir, name) {
        Ok((object, Some(attributes))) => Ok(Some((object, attributes))),
        Ok((object, None)) => client.getattr(&object).map(|attributes| Some((object, attributes))),
        Err(Error::Fs(FsError::NotFound)) => Ok(None),
        Err(error) => Err(error),
    }
}
