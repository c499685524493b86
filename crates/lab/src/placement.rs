//! Placement of the files of a configuration's database: directories of this host, or a directory on an export.
//!
//! On existing storage, everything is inside one new directory with the owner's mark. It
//! is removed at the end, or by the next comparison if this one is killed.

pub(crate) mod directories;
pub(crate) mod export;
mod nfs_tree;
pub(crate) mod owner;
pub(crate) mod part;
pub(crate) mod restore;
mod spread;
pub(crate) mod target;
pub(crate) mod workdir;

pub(crate) use part::{DATA, Part};
pub(crate) use spread::{KeptState, space_name};
