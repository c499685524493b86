//! The place of an arm's files on a storage path, kept for all its runs.

use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::paths::storage::{StartOrder, Storage};
use crate::placement::KeptState;
use crate::placement::part::{DATA, Part};
use crate::placement::restore::Method;
use crate::placement::workdir::WorkDir;
use crate::plan::{Layout, Tuning};
use crate::sys::User;

/// What is to be put in place for an arm.
pub(crate) struct PlacementOrder<'a> {
    /// Storage that Millrace did not make; `None` for its own.
    pub(crate) target: Option<&'a str>,
    /// What lies on volumes of its own; the data comes first.
    pub(crate) parts: Vec<Part>,
    /// How they are kept apart.
    pub(crate) layout: Layout,
    /// Settings of the arm.
    pub(crate) tuning: &'a Tuning,
    /// This program, for processes of ours.
    pub(crate) program: &'a Path,
    /// What is on a device may be destroyed.
    pub(crate) overwrite: bool,
    pub(crate) work: &'a WorkDir,
    /// The user the database runs as.
    pub(crate) user: &'a User,
}

/// The place of an arm's files, kept for all its runs.
pub(crate) trait Placement {
    /// What lies apart here; the data comes first.
    fn parts(&self) -> &[Part];

    /// Where the database finds a part.
    fn database_finds(&self, part: Part) -> PathBuf;

    /// How the loaded state comes here, where `own` is the way within the work directory: `reflink`, `copy` or `nfs`.
    fn method(&self, own: Method) -> &'static str;

    /// Brings a copy of a kept state here; `progress` is called with the bytes done.
    ///
    /// Durability: on stable storage when it returns.
    fn restore(&mut self, state: &KeptState, own: Method, user: &User, progress: &mut dyn FnMut(u64)) -> Result<(), LabError>;

    /// Where the files of a copy lie below all servers, if this host has them in its page cache between runs; `None` where they lie
    /// elsewhere, or left the page cache with a mount.
    fn cached_files(&self) -> Option<&Path> {
        None
    }

    /// Starts what serves the files of one run.
    ///
    /// # Errors
    /// When a process does not start. Those that did are stopped.
    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError>;

    /// Removes the copy after a run.
    fn clear(&mut self) -> Result<(), LabError>;

    /// Removes everything that was made here and says what could not be removed.
    fn remove(self: Box<Self>) -> Result<(), LabError>;
}

impl dyn Placement + '_ {
    /// The cluster's directory as the database finds it.
    pub(crate) fn data(&self) -> PathBuf {
        self.database_finds(Part::Data).join(DATA)
    }

    /// Where finished log segments are to be copied, as the database finds it; none when they are not.
    pub(crate) fn archive(&self) -> Option<PathBuf> {
        self.parts().contains(&Part::Archive).then(|| self.database_finds(Part::Archive))
    }
}
