//! Where the files of an arm's database are put: directories of this host, or a directory on an export.
//!
//! On storage that is not ours everything happens inside one new directory with our mark; it
//! is removed at the end, and by the next comparison when this one is killed.

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
