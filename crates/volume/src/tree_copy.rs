//! Copies the directory tree of the volume, by a view that says which name leads to which object.
//!
//! The view is read from the host. The caller can change it before the copy is made, and can change each object of
//! the copy after it has its content and attributes. Hard links stay links, holes stay holes, and blocks are shared
//! if the host can do so. For a consistent copy the caller quiesces the volume first.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::limits::{COPY_BYTES, DEPTH_MAX};
use crate::loss::LIMBO;
use crate::sys::{self, KernelHandle, Listing, RawStat, RawTime};
use crate::volume::VolumeInner;

/// Why a copy was not made, or only in part.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The volume was opened without the loss layer.
    #[error("the volume has no loss layer")]
    NotSupported,
    /// The destination is inside the served directory, where clients would see the copy.
    #[error("{path} lies inside the served directory")]
    Inside {
        /// Where the copy was to go.
        path: PathBuf,
    },
    /// The destination is not empty.
    #[error("{path} is not empty")]
    NotEmpty {
        /// Where the copy was to go.
        path: PathBuf,
    },
    /// The host failed.
    #[error("copy {path}")]
    Io {
        /// The object.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
}

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Copied {
    /// Objects in the copy, without its root.
    pub(crate) objects: u64,
    /// Sizes of the files, in bytes.
    pub(crate) bytes: u64,
}

/// The names of a directory, and the object of each.
pub(crate) type Names = BTreeMap<Box<[u8]>, KernelHandle>;
/// The components of a path below the root.
pub(crate) type Steps = Vec<Box<[u8]>>;

/// The names of all directories, and the path of each object on the host.
pub(crate) struct TreeView {
    pub(crate) directories: HashMap<KernelHandle, Names>,
    /// A path on the host by which each object can be opened.
    pub(crate) places: HashMap<KernelHandle, Steps>,
}

impl TreeView {
    /// The tree of the host, without the loss layer's own directory and without mount points.
    pub(crate) fn take(volume: &VolumeInner) -> io::Result<Self> {
        let root = volume.root.0.identity;
        let mut tree = Self { directories: HashMap::new(), places: HashMap::from([(root, Steps::new())]) };
        let mut todo = vec![root];
        while let Some(dir) = todo.pop() {
            let steps = tree.places.get(&dir).cloned().unwrap_or_default();
            let fd = open(volume, &steps, libc::O_RDONLY | libc::O_DIRECTORY)?;
            let mut listing = Listing::new(sys::open_at(&fd, b".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?, 0)?;
            let mut names = Names::new();
            while let Some(entry) = listing.next_entry()? {
                if matches!(entry.name, b"." | b"..") || (steps.is_empty() && entry.name == LIMBO) {
                    continue;
                }
                let object = sys::open_at(&fd, entry.name, libc::O_PATH, 0)?;
                let stat = sys::stat(&object)?;
                if stat.mount != volume.store.root_stat().mount {
                    continue;
                }
                let identity = volume.store.identify(object.as_fd(), &stat)?;
                names.insert(entry.name.into(), identity);
                if let Entry::Vacant(place) = tree.places.entry(identity) {
                    place.insert(steps.iter().cloned().chain([entry.name.into()]).collect());
                    if stat.mode & libc::S_IFMT == libc::S_IFDIR {
                        todo.push(identity);
                    }
                }
            }
            tree.directories.insert(dir, names);
        }
        Ok(tree)
    }
}

/// Opens the object at a path on the host, one component at a time, without following links.
fn open(volume: &VolumeInner, steps: &[Box<[u8]>], flags: libc::c_int) -> io::Result<OwnedFd> {
    let Some((last, above)) = steps.split_last() else { return sys::open_at(volume.store.root(), b".", flags, 0) };
    if above.len() >= DEPTH_MAX {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    let root = volume.store.root().try_clone_to_owned()?;
    let dir = above.iter().try_fold(root, |dir, step| sys::open_at(&dir, step, libc::O_PATH | libc::O_DIRECTORY, 0))?;
    sys::open_at(&dir, last, flags, 0)
}

/// Checks that `to` is outside the served directory and empty. Makes it if it does not exist.
///
/// **Errors**: [`CopyError`].
pub(crate) fn prepare_destination(volume: &VolumeInner, to: &Path) -> Result<(), CopyError> {
    let failed = |source| CopyError::Io { path: to.to_path_buf(), source };
    let root = std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&volume.store.root())));
    let absolute = std::path::absolute(to).map_err(failed)?;
    let existing = absolute.ancestors().find_map(|path| path.canonicalize().ok());
    if existing.is_some_and(|path| path.starts_with(root.as_deref().unwrap_or(Path::new("/")))) {
        return Err(CopyError::Inside { path: to.to_path_buf() });
    }
    std::fs::create_dir_all(to).map_err(failed)?;
    if std::fs::read_dir(to).map_err(failed)?.next().is_some() {
        return Err(CopyError::NotEmpty { path: to.to_path_buf() });
    }
    Ok(())
}

/// Copies the tree of a view to a prepared destination. Calls `amend` for each object of the copy after it has its
/// content and attributes.
///
/// **Durability**: the copy is not flushed. **Errors**: [`CopyError::Io`]; a partial copy stays.
pub(crate) fn copy_tree(volume: &VolumeInner, tree: TreeView, to: &Path, amend: &Amend<'_>) -> Result<Copied, CopyError> {
    let mut copy = Copy { volume, tree, amend, to, made: HashMap::new(), copied: Copied::default() };
    copy.make()?;
    Ok(copy.copied)
}

/// Changes an object of a copy. Called with the identity of the original and the descriptor of the copy.
pub(crate) type Amend<'a> = dyn Fn(&KernelHandle, BorrowedFd<'_>) -> io::Result<()> + 'a;

/// The copy being made.
struct Copy<'a> {
    volume: &'a VolumeInner,
    tree: TreeView,
    amend: &'a Amend<'a>,
    to: &'a Path,
    /// The first path of each object in the copy.
    made: HashMap<KernelHandle, PathBuf>,
    copied: Copied,
}

impl Copy<'_> {
    fn make(&mut self) -> Result<(), CopyError> {
        let mut directories = vec![(self.volume.root.0.identity, self.to.to_path_buf())];
        let mut next = 0;
        while let Some((dir, path)) = directories.get(next).cloned() {
            next += 1;
            let names = self.tree.directories.remove(&dir).unwrap_or_default();
            for (name, identity) in names {
                let target = path.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&name));
                let made = self.object(&identity, &path, &name, &target);
                if made.map_err(|source| CopyError::Io { path: target.clone(), source })? {
                    directories.push((identity, target));
                }
            }
        }
        // From the leaves up, because making an object changes the times of its directory.
        for (identity, path) in directories.iter().rev() {
            self.set_directory_attributes(identity, path).map_err(|source| CopyError::Io { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// Makes one object; true for a directory.
    fn object(&mut self, identity: &KernelHandle, dir: &Path, name: &[u8], target: &Path) -> io::Result<bool> {
        if let Some(first) = self.made.get(identity) {
            std::fs::hard_link(first, target)?;
            return Ok(false);
        }
        self.made.insert(*identity, target.to_path_buf());
        self.copied.objects += 1;
        let source = self.source(identity, libc::O_PATH)?;
        let stat = sys::stat(&source)?;
        let at = sys::open_path(dir, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        match stat.mode & libc::S_IFMT {
            libc::S_IFDIR => {
                sys::mkdir_at(&at, name, 0o700)?;
                return Ok(true);
            }
            libc::S_IFREG => {
                let copy = sys::open_at(&at, name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o600)?;
                copy_content(&self.source(identity, libc::O_RDONLY)?, &copy, stat.size)?;
                self.set_attributes(identity, &copy, &stat)?;
                self.copied.bytes += sys::stat(&copy)?.size;
            }
            libc::S_IFLNK => {
                let mut link = vec![0; crate::limits::LINK_BYTES_MAX];
                let bytes = sys::read_link(&source, &mut link)?;
                sys::symlink_at(link.get(..bytes).unwrap_or_default(), &at, name)?;
                self.set_attributes(identity, sys::open_at(&at, name, libc::O_PATH, 0)?, &stat)?;
            }
            _ => {
                sys::mknod_at(&at, name, stat.mode, stat.rdev)?;
                self.set_attributes(identity, sys::open_at(&at, name, libc::O_PATH, 0)?, &stat)?;
            }
        }
        Ok(false)
    }

    fn set_directory_attributes(&self, identity: &KernelHandle, path: &Path) -> io::Result<()> {
        let stat = sys::stat(self.source(identity, libc::O_PATH)?)?;
        self.set_attributes(identity, sys::open_path(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?, &stat)
    }

    /// Gives a copy the attributes of its original, then calls `amend`.
    fn set_attributes(&self, identity: &KernelHandle, copy: impl AsFd, stat: &RawStat) -> io::Result<()> {
        let now = sys::stat(&copy)?;
        if (now.uid, now.gid) != (stat.uid, stat.gid) {
            sys::chown(&copy, Some(stat.uid), Some(stat.gid))?;
        }
        if stat.mode & libc::S_IFMT != libc::S_IFLNK {
            sys::proc_chmod(&copy, stat.mode & 0o7777)?;
        }
        let time = |(sec, nsec): (i64, u32)| RawTime::At { sec, nsec };
        sys::set_times(&copy, time(stat.atime), time(stat.mtime))?;
        (self.amend)(identity, copy.as_fd())
    }

    fn source(&self, identity: &KernelHandle, flags: libc::c_int) -> io::Result<OwnedFd> {
        let steps = self.tree.places.get(identity).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        open(self.volume, steps, flags)
    }
}

/// Copies the content of a file, without its holes.
fn copy_content(from: &OwnedFd, to: &OwnedFd, size: u64) -> io::Result<()> {
    if sys::clone_content(from, to) {
        return Ok(());
    }
    sys::truncate(to, size)?;
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(COPY_BYTES).min(COPY_BYTES)];
    let mut at = 0;
    while let Some((begin, end)) = sys::next_data(from, at)? {
        at = begin;
        while at < end {
            let piece = usize::try_from(end - at).unwrap_or(COPY_BYTES).min(buffer.len());
            let bytes = sys::pread(from, buffer.get_mut(..piece).unwrap_or_default(), at)?;
            if bytes == 0 {
                return Ok(());
            }
            let mut done = 0;
            while done < bytes {
                done += sys::pwrite(to, buffer.get(done..bytes).unwrap_or_default(), at + done as u64)?;
            }
            at += bytes as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::{Config, Options, Volume};

    #[test]
    fn a_copy_has_the_names_links_modes_times_and_holes_of_the_tree_and_what_was_amended() {
        let base = tempfile::tempdir().unwrap();
        let (dir, to) = (base.path().join("dir"), base.path().join("copy"));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        std::fs::write(dir.join("below/file"), b"content").unwrap();
        std::fs::set_permissions(dir.join("below/file"), std::fs::Permissions::from_mode(0o640)).unwrap();
        std::fs::hard_link(dir.join("below/file"), dir.join("second")).unwrap();
        std::os::unix::fs::symlink("below", dir.join("link")).unwrap();
        std::fs::File::create(dir.join("sparse")).unwrap().set_len(1 << 30).unwrap();
        let volume = Volume::open(Config {
            dir: dir.clone(),
            state_dir: base.path().join("state"),
            loss: None,
            options: Options::default(),
        })
        .unwrap();
        let copy = |amend: &Amend<'_>| {
            prepare_destination(&volume.0, &to).unwrap();
            copy_tree(&volume.0, TreeView::take(&volume.0).unwrap(), &to, amend).unwrap()
        };
        assert_eq!(copy(&|_, _| Ok(())), Copied { objects: 4, bytes: 7 + (1 << 30) });
        let stat = |path: &str| std::fs::symlink_metadata(to.join(path)).unwrap();
        let (file, was) = (stat("below/file"), std::fs::metadata(dir.join("below/file")).unwrap());
        assert_eq!((file.mode(), file.nlink(), file.ino()), (was.mode(), 2, stat("second").ino()));
        assert_eq!((file.mtime(), file.mtime_nsec()), (was.mtime(), was.mtime_nsec()));
        assert_eq!(std::fs::read(to.join("link/file")).unwrap(), b"content");
        assert!(stat("sparse").blocks() < 64, "{} blocks", stat("sparse").blocks());
        assert!(matches!(prepare_destination(&volume.0, &to), Err(CopyError::NotEmpty { .. })));
        std::fs::remove_dir_all(&to).unwrap();
        let file = volume.lookup(&volume.root(), b"second").unwrap().0;
        copy(&|identity, fd| if *identity == file.0.identity { sys::truncate(fd, 3) } else { Ok(()) });
        assert_eq!(std::fs::read(to.join("below/file")).unwrap(), b"con");
    }
}
