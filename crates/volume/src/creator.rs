//! For whom something is made, and what that caller may do with what is found.

use std::cell::Cell;

use crate::acl::Subject;
use crate::error::Error;
use crate::types::{Owner, SetAttr};
use crate::wcc::Wcc;

/// Checks access to an object, at a moment at which no other caller can change the object before the operation.
pub type Judge<'j> = dyn Fn(&Subject<'_>) -> Result<(), Error> + 'j;

/// For whom something is made.
#[derive(Clone, Copy)]
pub struct Creator<'c> {
    /// Who owns it, unless the attributes to set name somebody else.
    pub owner: Owner,
    /// Whether the caller may have the set-group-id bit on a program of this group: is in it, or is root.
    pub in_group: &'c dyn Fn(u32) -> bool,
    /// Whether a name may be added to the directory.
    pub may_add: Result<(), Error>,
    /// Whether an existing file may be taken as if it had just been made.
    pub may_take: &'c Judge<'c>,
    /// On an exclusive volume, receives the attributes of the directory around the change.
    pub dir_wcc: Option<&'c Cell<Option<Wcc>>>,
}

impl From<Owner> for Creator<'_> {
    /// One that may do everything.
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

    /// What is set on a new object of this group that is not a directory: as the host does for a user without privilege
    /// (inode_init_owner), a program gets the set-group-id bit for a group of the caller only. In a set-group-id directory the
    /// group is the directory's.
    pub(crate) fn settable(&self, set: SetAttr, gid: u32) -> SetAttr {
        const PROGRAM_OF_GROUP: u32 = libc::S_ISGID | libc::S_IXGRP;
        let foreign = |mode: &u32| mode & PROGRAM_OF_GROUP == PROGRAM_OF_GROUP && !(self.in_group)(gid);
        match set.mode.filter(foreign) {
            Some(mode) => SetAttr { mode: Some(mode & !libc::S_ISGID), ..set },
            None => set,
        }
    }
}
