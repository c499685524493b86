//! A target is looked at before anything is made.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::error::LabError;
use crate::host::procfs;
use crate::paths::StoragePath;
use crate::placement::export::as_user;
use crate::placement::nfs_tree::NfsTree;
use crate::plan::{Arm, PathSpec, Target};
use crate::sys::{self, User};

/// What was found out about a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The target as named.
    pub(crate) target: String,
    /// What it is: `ext4 mounted at /mnt/x`, `NFS export of filer`.
    pub(crate) what: String,
    /// Bytes free there.
    pub(crate) free_bytes: u64,
    /// It is served by this very host.
    pub(crate) this_host: bool,
}

/// Looks at the target of an arm; none when it has none.
///
/// # Errors
/// When the database could not work there: not there, not allowed, of another kind than the path says, or smaller than
/// `needed_bytes`.
pub(crate) fn check(arm: &Arm, user: &User, needed_bytes: u64) -> Result<Option<Facts>, LabError> {
    let facts = match &arm.path.target {
        Some(Target::Directory(path)) => check_directory(&arm.path, path, user)?,
        Some(Target::Nfs(url)) => check_export(url, user)?,
        Some(Target::Iscsi(_) | Target::Device(_)) | None => return Ok(None),
    };
    if facts.free_bytes < needed_bytes {
        return Err(LabError::Missing {
            what: format!(
                "work on {}: {} MiB are needed, {} MiB are free",
                facts.target,
                needed_bytes >> 20,
                facts.free_bytes >> 20
            ),
            hint: "name a larger target, or load fewer warehouses with --warehouses".to_owned(),
        });
    }
    Ok(Some(facts))
}

/// The database's user must be able to walk to `base`.
pub(crate) fn check_reachable(base: &Path, user: &User) -> Result<(), LabError> {
    let base = fs::canonicalize(base).map_err(LabError::file("find", base))?;
    for directory in base.ancestors() {
        let facts = fs::metadata(directory).map_err(LabError::file("look at", directory))?;
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

fn check_directory(path: &PathSpec, directory: &Path, user: &User) -> Result<Facts, LabError> {
    let shown = directory.display();
    if !fs::metadata(directory).map_err(LabError::file("look at the target", directory))?.is_dir() {
        return Err(LabError::Missing {
            what: format!("work on {shown}: it is no directory"),
            hint: "mount the storage and name the directory it is mounted on".to_owned(),
        });
    }
    check_reachable(directory, user)?;
    let real = fs::canonicalize(directory).map_err(LabError::file("find", directory))?;
    let (kind, point) = procfs::mount_of(&real).unwrap_or_default();
    let over_nfs = kind.starts_with("nfs");
    if over_nfs != (path.kind == StoragePath::Knfs) {
        let (found, hint) = if over_nfs {
            ("an NFS mount of the kernel", format!("call it what it is: --path knfs={shown}"))
        } else {
            ("no NFS mount", "mount the export first, or measure it as --path local=DIR".to_owned())
        };
        return Err(LabError::Missing {
            what: format!("measure {} on {shown}: it is {found} ({kind} at {})", path.name(), point.display()),
            hint,
        });
    }
    let free_bytes = sys::free_bytes(directory).map_err(LabError::file("ask for free space of", directory))?;
    let what = format!("{kind} mounted at {}", point.display());
    Ok(Facts { target: shown.to_string(), what, free_bytes, this_host: false })
}

fn check_export(url: &str, user: &User) -> Result<Facts, LabError> {
    let parsed = as_user(url, user)?;
    let tree = NfsTree::mount(&parsed)?;
    let free_bytes = tree.free_bytes()?;
    let this_host = tree.server().ip().is_loopback();
    let what = format!("NFS export of {}{}", tree.server(), if this_host { ", which is this host" } else { "" });
    Ok(Facts { target: url.to_owned(), what, free_bytes, this_host })
}
