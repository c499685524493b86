//! Ground in directories of this host.

use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::placement::Part;
use crate::placement::owner;
use crate::placement::restore::{self, Method};
use crate::placement::spread::Spread;
use crate::placement::workdir::{self, make_directory, own, remove_tree};
use crate::sys::User;

/// A directory with one directory for each part.
pub(crate) struct Host {
    root: PathBuf,
    parts: Vec<Part>,
    /// The root is ours to remove: it lies below a target.
    made: bool,
}

impl Host {
    /// In a directory of the work directory, which removes it.
    pub(super) fn within(root: &Path, parts: Vec<Part>, user: &User) -> Result<Self, LabError> {
        let host = Self { root: root.to_owned(), parts, made: false };
        host.make_parts(user)?;
        Ok(host)
    }

    /// In a new directory below `target`, which Millrace did not make.
    pub(super) fn below(target: &Path, parts: Vec<Part>, user: &User) -> Result<(Self, Vec<String>), LabError> {
        let removed = workdir::sweep_below(target).iter().map(|path| path.display().to_string()).collect();
        let root = target.join(owner::unique_name());
        make_directory(&root, 0o711)?;
        let host = Self { root, parts, made: true };
        workdir::write_mark(&host.root, &host.root)?;
        host.make_parts(user)?;
        Ok((host, removed))
    }

    fn make_parts(&self, user: &User) -> Result<(), LabError> {
        for part in &self.parts {
            let path = self.root.join(part.name());
            if !path.exists() {
                make_directory(&path, 0o700)?;
                own(&path, user)?;
            }
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Extents can be shared within one file system only.
    pub(super) fn method(&self, own: Method) -> Method {
        if self.made { Method::Copy } else { own }
    }

    pub(super) fn restore(
        &self,
        master: &Path,
        seen: &dyn Fn(Part) -> PathBuf,
        own: Method,
        user: &User,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), LabError> {
        let (method, spread) = (self.method(own), Spread::of(master, &self.parts, seen)?);
        let mut done = 0;
        for (place, piece) in spread.pieces.iter().enumerate() {
            let to = self.root.join(piece.part.name()).join(&piece.name);
            let before = done;
            let mut more = |bytes| progress(before + bytes);
            done += restore::restore(&piece.from, &to, piece.leave_out, method, user, &mut more)?.bytes;
            // Behind every link lies a further piece, whose sync takes the link along.
            for link in spread.links.iter().filter(|_| place == 0) {
                let at = to.join(link.directory.unwrap_or_default()).join(&link.name);
                std::os::unix::fs::symlink(&link.to, &at).map_err(LabError::file("make a symbolic link", &at))?;
                std::os::unix::fs::lchown(&at, Some(user.uid), Some(user.gid))
                    .map_err(LabError::file("change the owner of", &at))?;
            }
        }
        Ok(())
    }

    pub(super) fn clear(&self) -> Result<(), LabError> {
        self.parts.iter().try_for_each(|part| workdir::empty_directory(&self.root.join(part.name())))
    }

    pub(super) fn remove(mut self) -> Result<(), LabError> {
        let mine = std::mem::take(&mut self.made);
        if mine { remove_tree(&self.root) } else { Ok(()) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.made
            && let Err(error) = remove_tree(&self.root)
        {
            eprintln!("millrace: cannot {error}");
        }
    }
}
