//! The work directory: made here, marked as ours, removed at the end.
//!
//! Nothing outside it is written, save a runtime directory in `/dev/shm` that the same
//! mark names. A run that was killed leaves its directories; the next one finds the mark
//! of an owner that no longer lives and removes them.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::procfs;
use crate::sys::User;

/// Name of the mark inside each directory of ours.
pub(crate) const MARK: &str = ".millrace-owner";
const PREFIX: &str = "millrace-compare-";
const RUNTIME_BASE: &str = "/dev/shm";

/// Who made a directory: a process is named by pid, start time and boot, so that a
/// later process with the same number is not taken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    pid: u32,
    start_ticks: u64,
    boot_id: String,
    directory: PathBuf,
}

/// Directories of one comparison, removed when dropped unless kept.
#[derive(Debug)]
pub(crate) struct WorkDir {
    root: PathBuf,
    runtime: Option<PathBuf>,
    keep: bool,
}

impl WorkDir {
    /// Makes the work directory below `base`, and the database's runtime directory.
    ///
    /// # Errors
    /// When a directory or mark can't be made; what was made until then is removed.
    pub(crate) fn create(base: &Path, user: &User, keep: bool) -> Result<Self, LabError> {
        let name = format!("{PREFIX}{}-{}", std::process::id(), nonce());
        let root = base.join(&name);
        make_directory(&root, 0o711)?;
        let mut work = Self { root, runtime: None, keep };
        work.mark(&work.root)?;
        for (part, mode) in [("bin", 0o755), ("logs", 0o711), ("state", 0o700)] {
            make_directory(&work.root.join(part), mode)?;
        }
        for part in ["run", "master", "local", "export"] {
            work.directory_for(part, user)?;
        }
        let shared = Path::new(RUNTIME_BASE);
        let runtime = if shared.is_dir() { shared.join(&name) } else { work.root.join("runtime") };
        make_directory(&runtime, 0o700)?;
        work.runtime = Some(runtime.clone());
        work.mark(&runtime)?;
        own(&runtime, user)?;
        Ok(work)
    }

    /// Path of a part of the work directory.
    pub(crate) fn path(&self, part: impl AsRef<Path>) -> PathBuf {
        self.root.join(part)
    }

    /// The work directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Directory for the client's shared segment (`MILLRACE_RUNTIME_DIR` of the database).
    pub(crate) fn runtime(&self) -> &Path {
        self.runtime.as_deref().unwrap_or(&self.root)
    }

    /// Makes a directory that belongs to `user` alone.
    pub(crate) fn directory_for(&self, part: &str, user: &User) -> Result<PathBuf, LabError> {
        let path = self.path(part);
        make_directory(&path, 0o700)?;
        own(&path, user)?;
        Ok(path)
    }

    /// Removes everything now and reports what could not be removed.
    pub(crate) fn remove(mut self) -> Result<(), LabError> {
        if self.keep {
            return Ok(());
        }
        self.keep = true; // Drop has nothing left to do.
        self.remove_all()
    }

    fn remove_all(&self) -> Result<(), LabError> {
        let runtime = self.runtime.as_deref().map_or(Ok(()), remove_tree);
        remove_tree(&self.root).and(runtime)
    }

    fn mark(&self, directory: &Path) -> Result<(), LabError> {
        let path = directory.join(MARK);
        let pid = std::process::id();
        let owner = Owner {
            pid,
            start_ticks: procfs::start_ticks(pid).unwrap_or_default(),
            boot_id: procfs::boot_id(),
            directory: self.root.clone(),
        };
        let text = serde_json::to_vec(&owner).map_err(|source| LabError::Record { program: "the owner mark", source })?;
        fs::write(&path, text).map_err(LabError::file("write the owner mark", path))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = self.remove_all()
        {
            eprintln!("millrace: cannot {error}");
        }
    }
}

/// Removes directories below `base` (and in `/dev/shm`) whose mark names a dead owner.
/// Returns what was removed. Directories without a readable mark are never touched.
pub(crate) fn sweep_stale(base: &Path) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    for place in [base, Path::new(RUNTIME_BASE)] {
        let Ok(entries) = fs::read_dir(place) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
            let real = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if ours && real && owner_is_dead(&path) && remove_tree(&path).is_ok() {
                removed.push(path);
            }
        }
    }
    removed
}

fn owner_is_dead(directory: &Path) -> bool {
    let Ok(text) = fs::read(directory.join(MARK)) else { return false };
    let Ok(owner) = serde_json::from_slice::<Owner>(&text) else { return false };
    owner.boot_id != procfs::boot_id() || procfs::start_ticks(owner.pid) != Some(owner.start_ticks)
}

pub(crate) fn make_directory(path: &Path, mode: u32) -> Result<(), LabError> {
    fs::DirBuilder::new()
        .mode(mode)
        .create(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(LabError::file("create directory", path))
}

fn own(path: &Path, user: &User) -> Result<(), LabError> {
    std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).map_err(LabError::file("change the owner of", path))
}

/// Removes a tree of ours; one that is already gone is no error.
pub(crate) fn remove_tree(path: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LabError::file("remove", path)(error)),
        _ => Ok(()),
    }
}

fn nonce() -> String {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.subsec_nanos());
    format!("{nanos:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    fn me() -> User {
        sys::user_by_uid(sys::effective_uid()).expect("this user has a name")
    }

    #[test]
    fn drop_removes_work_and_runtime_directories_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("foreign"), "stays").unwrap();
        let (root, runtime) = {
            let work = WorkDir::create(base.path(), &me(), false).unwrap();
            assert!(work.path("run").is_dir());
            assert!(work.path(MARK).is_file());
            (work.root().to_owned(), work.runtime().to_owned())
        };
        assert!(!root.exists() && !runtime.exists());
        assert!(base.path().join("foreign").exists());
    }

    #[test]
    fn kept_directory_stays() {
        let base = tempfile::tempdir().unwrap();
        let work = WorkDir::create(base.path(), &me(), true).unwrap();
        let (root, runtime) = (work.root().to_owned(), work.runtime().to_owned());
        drop(work);
        assert!(root.is_dir());
        remove_tree(&runtime).unwrap();
    }

    #[test]
    fn sweep_takes_dead_owners_and_spares_live_and_unmarked_ones() {
        let base = tempfile::tempdir().unwrap();
        let live = WorkDir::create(base.path(), &me(), false).unwrap();
        let dead = base.path().join("millrace-compare-dead");
        let foreign = base.path().join("millrace-compare-foreign");
        make_directory(&dead, 0o755).unwrap();
        make_directory(&foreign, 0o755).unwrap();
        let mut owner: Owner = serde_json::from_slice(&fs::read(live.path(MARK)).unwrap()).unwrap();
        owner.start_ticks += 1; // the same pid, another process
        fs::write(dead.join(MARK), serde_json::to_vec(&owner).unwrap()).unwrap();
        assert_eq!(sweep_stale(base.path()), std::slice::from_ref(&dead));
        assert!(!dead.exists() && foreign.is_dir() && live.root().is_dir());
    }
}
