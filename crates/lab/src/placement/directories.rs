//! Placement of files in directories of this host.

use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::placement::owner;
use crate::placement::part::Part;
use crate::placement::restore::{self, Method};
use crate::placement::spread::{KeptState, Spread};
use crate::placement::workdir::{self, WorkDir, make_directory, own, remove_tree};
use crate::sys::User;

/// A directory with one directory for each part.
pub(crate) struct Directories {
    root: PathBuf,
    parts: Vec<Part>,
    /// Whether the comparison must remove the root, because it is below a target.
    made: bool,
}

impl Directories {
    /// In the directory `name` of the work directory, which removes it. Configurations may share it, one run at a time.
    pub(crate) fn within(work: &WorkDir, name: &str, parts: Vec<Part>, user: &User) -> Result<Self, LabError> {
        let root = work.path(name);
        if !root.exists() {
            work.directory_for(name, user)?;
        }
        let directories = Self { root, parts, made: false };
        directories.make_parts(user)?;
        Ok(directories)
    }

    /// In a new directory below `target`, which Millrace did not create.
    pub(crate) fn below(target: &Path, parts: Vec<Part>, user: &User) -> Result<(Self, Vec<String>), LabError> {
        let removed = workdir::sweep_below(target, owner::PREFIX).iter().map(|path| path.display().to_string()).collect();
        let root = target.join(owner::unique_name(owner::PREFIX));
        make_directory(&root, 0o711)?;
        let directories = Self { root, parts, made: true };
        workdir::write_mark(&directories.root, &directories.root)?;
        directories.make_parts(user)?;
        Ok((directories, removed))
    }

    /// Creates the missing directories of the parts.
    pub(crate) fn make_parts(&self, user: &User) -> Result<(), LabError> {
        for part in &self.parts {
            let path = self.of(*part);
            if !path.exists() {
                make_directory(&path, 0o700)?;
                own(&path, user)?;
            }
        }
        Ok(())
    }

    /// The parent directory of the parts' directories.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The parts with their own directories; the data comes first.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The copy method: extents can be shared only within one file system.
    pub(crate) fn method(&self, own: Method) -> Method {
        if self.made { Method::Copy } else { own }
    }

    /// The directory of one part.
    pub(crate) fn of(&self, part: Part) -> PathBuf {
        self.root.join(part.name())
    }

    /// Copies a kept state here; `seen` returns the path of a part for the database. Durable when it returns.
    pub(crate) fn restore(
        &self,
        state: &KeptState,
        seen: &dyn Fn(Part) -> PathBuf,
        own: Method,
        user: &User,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), LabError> {
        let (method, spread) = (self.method(own), Spread::of(state, &self.parts, seen)?);
        let mut done = 0;
        for (place, piece) in spread.pieces.iter().enumerate() {
            let to = self.of(piece.part).join(&piece.name);
            let before = done;
            let mut more = |bytes| progress(before + bytes);
            done += restore::restore(&piece.from, &to, piece.leave_out, method, user, &mut more)?.bytes;
            // A further piece follows after every link; its sync includes the link.
            for link in spread.links.iter().filter(|_| place == 0) {
                let at = to.join(link.directory.unwrap_or_default()).join(&link.name);
                std::os::unix::fs::symlink(&link.to, &at).map_err(LabError::file("make a symbolic link", &at))?;
                std::os::unix::fs::lchown(&at, Some(user.uid), Some(user.gid))
                    .map_err(LabError::file("change the owner of", &at))?;
            }
        }
        Ok(())
    }

    /// Removes the copy after a run.
    pub(crate) fn clear(&self) -> Result<(), LabError> {
        self.parts.iter().try_for_each(|part| workdir::empty_directory(&self.of(*part)))
    }

    /// Removes everything that was created here. The error names what could not be removed.
    pub(crate) fn remove(mut self) -> Result<(), LabError> {
        let mine = std::mem::take(&mut self.made);
        if mine { remove_tree(&self.root) } else { Ok(()) }
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        if self.made
            && let Err(error) = remove_tree(&self.root)
        {
            eprintln!("millrace: cannot {error}");
        }
    }
}
