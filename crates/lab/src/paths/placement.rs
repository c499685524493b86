//! The place of a configuration's files on a storage path, kept for all its runs.

use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::paths::storage::{StartOrder, Storage};
use crate::placement::KeptState;
use crate::placement::part::{DATA, Part};
use crate::placement::restore::Method;
use crate::placement::workdir::WorkDir;
use crate::plan::{Layout, Tuning};
use crate::sys::User;

/// The order to place the files of a configuration.
pub(crate) struct PlacementOrder<'a> {
    /// Existing storage that Millrace did not create; `None` for Millrace's own.
    pub(crate) target: Option<&'a str>,
    /// Parts with their own volumes; the data comes first.
    pub(crate) parts: Vec<Part>,
    /// Layout of the parts.
    pub(crate) layout: Layout,
    /// Settings of the configuration.
    pub(crate) tuning: &'a Tuning,
    /// This program, for starting Millrace's processes.
    pub(crate) program: &'a Path,
    /// Whether the contents of a device may be destroyed.
    pub(crate) overwrite: bool,
    pub(crate) work: &'a WorkDir,
    /// The user the database runs as.
    pub(crate) user: &'a User,
}

/// The place of a configuration's files, kept for all its runs.
pub(crate) trait Placement {
    /// The parts with their own volumes; the data comes first.
    fn parts(&self) -> &[Part];

    /// Path of a part for the database.
    fn database_finds(&self, part: Part) -> PathBuf;

    /// Method of copying the loaded state here, if `own` is the method within the work directory: `reflink`, `copy` or `nfs`.
    fn method(&self, own: Method) -> &'static str;

    /// Copies a kept state here; `progress` is called with the bytes copied.
    ///
    /// Durability: on stable storage when it returns.
    fn restore(&mut self, state: &KeptState, own: Method, user: &User, progress: &mut dyn FnMut(u64)) -> Result<(), LabError>;

    /// Directory of a copy's files below all servers, if this host has them in its page cache between runs. `None` if they are on
    /// another host, or left the page cache with an unmount.
    fn cached_files(&self) -> Option<&Path> {
        None
    }

    /// Starts the processes that serve the files of one run.
    ///
    /// # Errors
    /// A process does not start. Those that did are stopped.
    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError>;

    /// Removes the copy after a run.
    fn clear(&mut self) -> Result<(), LabError>;

    /// Removes everything that was created here. The error names what could not be removed.
    fn remove(self: Box<Self>) -> Result<(), LabError>;
}

impl dyn Placement + '_ {
    /// Path of the cluster's directory for the database.
    pub(crate) fn data(&self) -> PathBuf {
        self.database_finds(Part::Data).join(DATA)
    }

    /// Directory for finished log segments, as a path for the database; `None` if they are not archived.
    pub(crate) fn archive(&self) -> Option<PathBuf> {
        self.parts().contains(&Part::Archive).then(|| self.database_finds(Part::Archive))
    }
}
