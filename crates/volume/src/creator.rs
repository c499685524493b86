//! The caller that creates an object: the owner to set, and its rights.

use std::cell::Cell;

use crate::error::Error;
use crate::subject::Subject;
use crate::types::{Owner, SetAttr};
use crate::wcc::Wcc;

/// Checks access to an object, while no other caller can change the object before the operation.
pub type Judge<'j> = dyn Fn(&Subject<'_>) -> Result<(), Error> + 'j;

/// The caller that creates an object.
#[derive(Clone, Copy)]
pub struct Creator<'c> {
    /// The owner of the object, unless the attributes to set name another one.
    pub owner: Owner,
    /// Whether the caller may set the set-group-id bit of a program of this group: it is a member, or root.
    pub in_group: &'c dyn Fn(u32) -> bool,
    /// Whether a name may be added to the directory.
    pub may_add: Result<(), Error>,
    /// Checks whether the caller may set the size of an existing file.
    pub may_take: &'c Judge<'c>,
    /// On an exclusive volume, receives the attributes of the directory around the change.
    pub dir_wcc: Option<&'c Cell<Option<Wcc>>>,
}

impl From<Owner> for Creator<'_> {
    /// A caller with all rights.
    fn from(owner: Owner) -> Self {
        Self { owner, in_group: &|_| true, may_add: Ok(()), may_take: &|_| Ok(()), dir_wcc: None }
    }
}

impl Creator<'_> {
    pub(crate) fn report(&self, dir_wcc: Option<Wcc>) {
        if let Some(place) = self.dir_wcc {
            place.set(dir_wcc);
        }
    }

    /// The attributes that may be set on a new object of this group that is not a directory. A program gets the set-group-id bit only
    /// if the caller is in its group, as the host does for a user without privilege (inode_init_owner). In a set-group-id directory
    /// the group is the directory's.
    pub(crate) fn settable(&self, set: SetAttr, gid: u32) -> SetAttr {
        const PROGRAM_OF_GROUP: u32 = libc::S_ISGID | libc::S_IXGRP;
        let foreign = |mode: &u32| mode & PROGRAM_OF_GROUP == PROGRAM_OF_GROUP && !(self.in_group)(gid);
        match set.mode.filter(foreign) {
            Some(mode) => SetAttr { mode: Some(mode & !libc::S_ISGID), ..set },
            None => set,
        }
    }
}
