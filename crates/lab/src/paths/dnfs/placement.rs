//! Placement of the database's files on exports that it uses over Direct NFS.

use std::path::{Path, PathBuf};

use super::storage::{DnfsStorage, OtherFiler, mount_path};
use crate::error::LabError;
use crate::paths::filers;
use crate::paths::placement::Placement;
use crate::paths::storage::{StartOrder, Storage};
use crate::placement::KeptState;
use crate::placement::directories::Directories;
use crate::placement::export::ExportDirectory;
use crate::placement::part::Part;
use crate::placement::restore::Method;
use crate::sys::User;

/// Directories of this host that Millrace's filers serve, one filer for each part.
pub(super) struct Served {
    pub(super) directories: Directories,
}

/// A directory on an existing export.
pub(super) struct Export {
    pub(super) directory: ExportDirectory,
}

fn mounted(part: Part) -> PathBuf {
    PathBuf::from(mount_path(part))
}

impl Placement for Served {
    fn parts(&self) -> &[Part] {
        self.directories.parts()
    }

    fn database_finds(&self, part: Part) -> PathBuf {
        mounted(part)
    }

    fn method(&self, own: Method) -> &'static str {
        self.directories.method(own).name()
    }

    fn restore(&mut self, state: &KeptState, own: Method, user: &User, progress: &mut dyn FnMut(u64)) -> Result<(), LabError> {
        self.directories.restore(state, &mounted, own, user, progress)
    }

    fn cached_files(&self) -> Option<&Path> {
        Some(self.directories.root())
    }

    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError> {
        let filers = filers::serve(&self.directories, order)?;
        Ok(Box::new(DnfsStorage::of_filers(order, filers)))
    }

    fn clear(&mut self) -> Result<(), LabError> {
        self.directories.clear()
    }

    fn remove(self: Box<Self>) -> Result<(), LabError> {
        self.directories.remove()
    }
}

impl Placement for Export {
    fn parts(&self) -> &[Part] {
        self.directory.parts()
    }

    fn database_finds(&self, part: Part) -> PathBuf {
        mounted(part)
    }

    fn method(&self, _own: Method) -> &'static str {
        "nfs"
    }

    fn restore(&mut self, state: &KeptState, _own: Method, _user: &User, progress: &mut dyn FnMut(u64)) -> Result<(), LabError> {
        self.directory.restore(state, &mounted, progress)
    }

    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError> {
        let filer = OtherFiler::new(self.directory.server(), self.directory.name());
        Ok(Box::new(DnfsStorage::of_exports(order, self.directory.urls(), filer)))
    }

    fn clear(&mut self) -> Result<(), LabError> {
        self.directory.clear()
    }

    fn remove(self: Box<Self>) -> Result<(), LabError> {
        self.directory.remove()
    }
}
