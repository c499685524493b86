//! The operations of the filer, in terms of no protocol version: each checks the caller's access to
//! objects of one volume, and acts.
//!
//! A protocol's handlers decode a call, run an operation, and encode its result. An operation takes
//! a [`State`], which says whether the call names an open file. NFSv3 has no open files (RFC 1813
//! 4.4), so its calls are all [`State::None`].

pub mod access;
mod attributes;
mod create;
mod data;
mod names;

use volume::{Attr, Error, Node, Subject, Volume, Wcc};

use crate::limits::FILE_BYTES_MAX;
use access::Caller;
pub(crate) use create::New;

/// Which open file a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The call names no open file, so the filer checks the caller's rights for each call.
    None,
}

/// Acts on one volume for a caller.
#[derive(Clone, Copy)]
pub(crate) struct Operator<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) caller: &'a Caller,
    /// The group of new objects, if the filer acts for one user only.
    pub(crate) own_group: Option<u32>,
}

/// The end of an operation that changes a directory or an object: its result, and the attributes
/// around the change if the volume has read them.
pub(crate) type Changed<T> = (Result<T, Error>, Option<Wcc>);

impl Operator<'_> {
    /// An object with its attributes and its ACL, for access checks.
    fn subject<'s>(&'s self, node: &'s Node) -> Result<Subject<'s>, Error> {
        Ok(self.volume.subject(node, self.volume.attr(node)?))
    }

    /// Runs a change of a file's content. It clears set-id bits unless the caller is root.
    fn keeping_roots_set_id<T>(&self, change: impl FnOnce() -> T) -> T {
        if self.caller.uid == 0 { volume::keeping_set_id(change) } else { change() }
    }
}

/// Refuses what the caller may not do.
const fn allowed(may: bool) -> Result<(), Error> {
    if may { Ok(()) } else { Err(Error::Access) }
}

/// Refuses a file that would become larger than the filer serves.
fn size_allowed(size: Option<u64>) -> Result<(), Error> {
    if size.is_some_and(|size| size > FILE_BYTES_MAX) { Err(Error::TooBig) } else { Ok(()) }
}

/// Refuses every object but a directory.
fn require_directory(attr: &Attr) -> Result<(), Error> {
    if attr.kind == volume::Kind::Directory { Ok(()) } else { Err(Error::NotDirectory) }
}
