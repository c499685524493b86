//! For whom something is made, and what that caller may do with what is found.

use crate::error::Error;
use crate::types::{Attr, Owner, SetAttr};

/// Judges an object by its attributes, at a moment when what it allows can be done at once.
pub type Judge<'j> = dyn Fn(&Attr) -> Result<(), Error> + 'j;

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
}

impl From<Owner> for Creator<'_> {
    /// One that may do everything.
    fn from(owner: Owner) -> Self {
        Self { owner, in_group: &|_| true, may_add: Ok(()), may_take: &|_| Ok(()) }
    }
}

impl Creator<'_> {
    /// What is set on a new object of this group that is no directory: as the host does for a user without privilege
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
