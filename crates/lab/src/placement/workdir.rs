//! The work directory: created here, marked with its owner, removed at the end.
//!
//! Nothing is written outside it, except for a runtime directory in `/dev/shm` with the
//! same mark. A killed run leaves its directories. The next run finds the mark
//! of an owner that is no longer alive, and removes them.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::host::{changed_settings, kernel_mount};
use crate::placement::owner::{self, MARK, Owner, PREFIX};
use crate::sys::User;

const RUNTIME_BASE: &str = "/dev/shm";

/// Directories of one comparison, removed when dropped unless kept.
#[derive(Debug)]
pub(crate) struct WorkDir {
    root: PathBuf,
    runtime: Option<PathBuf>,
    keep: bool,
}

impl WorkDir {
    /// Creates the work directory below `base`, and the database's runtime directory.
    ///
    /// # Errors
    /// A directory or mark cannot be created. What was created before is removed.
    pub(crate) fn create(base: &Path, user: &User, keep: bool) -> Result<Self, LabError> {
        let name = owner::unique_name(PREFIX);
        let root = base.join(&name);
        make_directory(&root, 0o711)?;
        let mut work = Self { root, runtime: None, keep };
        write_mark(&work.root, &work.root)?;
        for (part, mode) in [("bin", 0o755), ("logs", 0o711), ("state", 0o700)] {
            make_directory(&work.root.join(part), mode)?;
        }
        for part in ["run", "master"] {
            work.directory_for(part, user)?;
        }
        let shared = Path::new(RUNTIME_BASE);
        let runtime = if shared.is_dir() { shared.join(&name) } else { work.root.join("runtime") };
        make_directory(&runtime, 0o700)?;
        work.runtime = Some(runtime.clone());
        write_mark(&runtime, &work.root)?;
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

    /// Creates a directory that only `user` can access.
    pub(crate) fn directory_for(&self, part: &str, user: &User) -> Result<PathBuf, LabError> {
        let path = self.path(part);
        make_directory(&path, 0o700)?;
        own(&path, user)?;
        Ok(path)
    }

    /// Removes everything now. The error names what could not be removed.
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
/// Returns the removed ones. Does not change directories without a readable mark.
///
/// First, `end_on_paths` ends what storage paths left for a directory, changed settings of the kernel are restored, and mounts are
/// unmounted. If that fails, the directory stays.
pub(crate) fn sweep_stale(base: &Path, end_on_paths: &dyn Fn(&Path) -> Result<(), LabError>) -> Vec<PathBuf> {
    let end_all = |directory: &Path| {
        end_on_paths(directory)?;
        changed_settings::end_left_behind(directory)?;
        kernel_mount::end_left_behind(directory)
    };
    let end = |directory: &Path| match end_all(directory) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("millrace: cannot remove {}: {error}", directory.display());
            false
        }
    };
    [base, Path::new(RUNTIME_BASE)].into_iter().flat_map(|place| sweep(place, PREFIX, &end)).collect()
}

/// The same below one directory, for names with this prefix. Nothing is ever attached there.
pub(crate) fn sweep_below(place: &Path, prefix: &str) -> Vec<PathBuf> {
    sweep(place, prefix, &|_| true)
}

fn sweep(place: &Path, prefix: &str, ready: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(prefix);
        let real = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let dead = || fs::read(path.join(MARK)).is_ok_and(|mark| Owner::is_dead(&mark));
        if ours && real && dead() && ready(&path) && remove_tree(&path).is_ok() {
            removed.push(path);
        }
    }
    removed
}

/// Marks `directory` as a part of the work directory `whole`.
pub(crate) fn write_mark(directory: &Path, whole: &Path) -> Result<(), LabError> {
    let path = directory.join(MARK);
    fs::write(&path, Owner::this_process(whole).text()?).map_err(LabError::file("write the owner mark", path))
}

/// Removes the contents of `directory`, except for its mark.
pub(crate) fn empty_directory(directory: &Path) -> Result<(), LabError> {
    for entry in fs::read_dir(directory).map_err(LabError::file("list", directory))?.flatten() {
        let path = entry.path();
        if entry.file_name() == MARK {
            continue;
        }
        let removed =
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(LabError::file("remove", path))?;
    }
    Ok(())
}

pub(crate) fn make_directory(path: &Path, mode: u32) -> Result<(), LabError> {
    fs::DirBuilder::new()
        .mode(mode)
        .create(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(LabError::file("create directory", path))
}

pub(crate) fn own(path: &Path, user: &User) -> Result<(), LabError> {
    std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).map_err(LabError::file("change the owner of", path))
}

/// Removes a directory tree. A missing tree is not an error.
pub(crate) fn remove_tree(path: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LabError::file("remove", path)(error)),
        _ => Ok(()),
    }
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
        let mut owner: serde_json::Value = serde_json::from_slice(&fs::read(live.path(MARK)).unwrap()).unwrap();
        owner["start_ticks"] = (owner["start_ticks"].as_u64().unwrap() + 1).into(); // the same pid, another process
        fs::write(dead.join(MARK), serde_json::to_vec(&owner).unwrap()).unwrap();
        // /dev/shm is swept too, and may contain directories of a killed comparison of this host.
        assert!(sweep_stale(base.path(), &|_| Ok(())).contains(&dead));
        assert!(!dead.exists() && foreign.is_dir() && live.root().is_dir());
    }
}
