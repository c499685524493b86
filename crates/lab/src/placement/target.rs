//! Facts about a named target before anything is created on it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ::host::mount_table::is_nfs;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::error::LabError;
use crate::host::serving::Serving;
use crate::host::{listener, procfs};
use crate::placement::export::as_user;
use crate::placement::nfs_tree::NfsTree;
use crate::placement::owner;
use crate::sys::{self, User};

/// Facts about a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetFacts {
    /// The target as the user named it.
    pub(crate) target: String,
    /// Its description: `ext4 mounted at /mnt/x`, `NFS export of filer`.
    pub(crate) what: String,
    /// Free bytes.
    pub(crate) free_bytes: u64,
    /// Whether this host serves it.
    pub(crate) this_host: bool,
}

impl TargetFacts {
    /// Refuses a target with less than `needed_bytes` free.
    ///
    /// # Errors
    /// [`LabError::Missing`].
    pub(crate) fn check_space(&self, needed_bytes: u64) -> Result<(), LabError> {
        if self.free_bytes >= needed_bytes {
            return Ok(());
        }
        Err(LabError::Missing {
            what: format!(
                "work on {}: {} MiB are needed, {} MiB are free",
                self.target,
                needed_bytes >> 20,
                self.free_bytes >> 20
            ),
            hint: "name a larger target, or load fewer warehouses with --warehouses".to_owned(),
        })
    }
}

/// Checks that the database's user can reach `base`.
pub(crate) fn check_reachable(base: &Path, user: &User) -> Result<(), LabError> {
    let base = fs::canonicalize(base).map_err(LabError::file("find", base))?;
    for directory in base.ancestors() {
        let facts = fs::metadata(directory).map_err(LabError::file("inspect", directory))?;
        let mode = facts.permissions().mode();
        let owner = facts.uid() == user.uid;
        if mode & 0o001 == 0 && !(owner && mode & 0o100 != 0) {
            return Err(LabError::Missing {
                what: format!("work below {}: user {} may not enter {}", base.display(), user.name, directory.display()),
                hint: "name another place with --work or as the target, for example below /var/tmp".to_owned(),
            });
        }
    }
    Ok(())
}

/// Checks that this user can create directories in `base`.
pub(crate) fn check_writable(base: &Path) -> Result<(), LabError> {
    let rights = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, base, rights, AtFlags::EACCESS).map_err(|error| LabError::file("write to", base)(error.into()))
}

/// An existing directory in which this user can create directories, and that the database's user can reach.
pub(crate) struct DirectoryFacts {
    /// File system type, `nfs4` for example.
    pub(crate) file_system: String,
    /// Its mount point.
    pub(crate) mount_point: PathBuf,
    free_bytes: u64,
    serving: Serving,
}

impl DirectoryFacts {
    /// Checks a directory of this host.
    ///
    /// # Errors
    /// It does not exist, is not a directory, this user may not write to it, or `user` may not enter it.
    pub(crate) fn of(directory: &Path, user: &User) -> Result<Self, LabError> {
        if !fs::metadata(directory).map_err(LabError::file("use the target", directory))?.is_dir() {
            return Err(LabError::Missing {
                what: format!("work on {}: it is not a directory", directory.display()),
                hint: "mount the storage and name the directory it is mounted on".to_owned(),
            });
        }
        check_reachable(directory, user)?;
        check_writable(directory)?;
        let real = fs::canonicalize(directory).map_err(LabError::file("find", directory))?;
        let mount = procfs::mount_of(&real);
        let (file_system, mount_point) = mount.map(|mount| (mount.kind, mount.directory)).unwrap_or_default();
        let free_bytes = sys::free_bytes(directory).map_err(LabError::file("ask for free space of", directory))?;
        // After the questions above, which a client over a network has sent to its server.
        let serving = Serving::of(&real);
        Ok(Self { file_system, mount_point, free_bytes, serving })
    }

    /// Whether it is on an NFS mount of the kernel.
    pub(crate) fn over_nfs(&self) -> bool {
        is_nfs(&self.file_system)
    }

    /// Converts the facts to those of a target.
    pub(crate) fn of_target(&self, target: &str) -> TargetFacts {
        let what = format!("{} mounted at {}{}", self.file_system, self.mount_point.display(), self.serving.clause());
        let this_host = self.serving.is_on_this_host();
        TargetFacts { target: target.to_owned(), what, free_bytes: self.free_bytes, this_host }
    }
}

/// Checks an export with Millrace's client, as the database's user.
///
/// # Errors
/// It cannot be reached or mounted, or that user may not write to it.
pub(crate) fn export_facts(url: &str, user: &User) -> Result<TargetFacts, LabError> {
    let tree = NfsTree::mount(&as_user(url, user)?)?;
    tree.check_writable(&owner::unique_name(owner::PREFIX))?;
    let free_bytes = tree.free_bytes()?;
    let this_host = listener::is_of_this_host(tree.server().ip());
    let what = format!("NFS export of {}{}", tree.server(), if this_host { ", which is this host" } else { "" });
    Ok(TargetFacts { target: url.to_owned(), what, free_bytes, this_host })
}
