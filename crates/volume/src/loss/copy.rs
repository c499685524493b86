//! A copy of the volume as a power cut now would leave it, beside the live one.
//!
//! The same plan and the same dice as the cut itself, carried out on a copy: the tree as the host shows it, the lost
//! changes of names taken back in that picture, and what is left of it made anew elsewhere.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::cut::lost_names;
use super::pages::Undo;
use super::{LIMBO, Loss};
use crate::limits::{COPY_BYTES, DEPTH_MAX};
use crate::sys::{self, KernelHandle, Listing, RawStat, RawTime};
use crate::types::CutReport;
use crate::volume::{Volume, VolumeInner};

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyReport {
    /// What the copy lacks.
    pub cut: CutReport,
    /// Files, directories and others that were made, the copy's root not counted.
    pub objects: u64,
    /// Sizes of the files, in bytes.
    pub bytes: u64,
}

/// Why there is no copy, or only a part of one.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The volume was opened without the loss layer.
    #[error("the volume has no loss layer")]
    NotSupported,
    /// The copy would lie where clients see it.
    #[error("{path} lies inside the served directory")]
    Inside {
        /// Where the copy was to go.
        path: PathBuf,
    },
    /// There is something already.
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

impl Volume {
    /// Leaves in `to`, an empty directory or one to be made, what a power cut now would leave. The volume stands still
    /// meanwhile and is not changed; a cut right after leaves the same.
    ///
    /// **Durability**: none; the copy is for looking at.
    ///
    /// # Errors
    /// [`CopyError`]; what was copied so far stays.
    pub fn power_cut_copy(&self, to: &Path) -> Result<CopyReport, CopyError> {
        let volume = &*self.0;
        let loss = volume.loss.as_ref().ok_or(CopyError::NotSupported)?.read();
        let failed = |source| CopyError::Io { path: to.to_path_buf(), source };
        let root = std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&volume.root_fd)));
        let absolute = std::path::absolute(to).map_err(failed)?;
        let existing = absolute.ancestors().find_map(|path| path.canonicalize().ok());
        if existing.is_some_and(|path| path.starts_with(root.as_deref().unwrap_or(Path::new("/")))) {
            return Err(CopyError::Inside { path: to.to_path_buf() });
        }
        std::fs::create_dir_all(to).map_err(failed)?;
        if std::fs::read_dir(to).map_err(failed)?.next().is_some() {
            return Err(CopyError::NotEmpty { path: to.to_path_buf() });
        }
        let plan = loss.plan(&mut loss.chance.clone()).map_err(failed)?;
        let mut picture = Picture::take(volume).map_err(failed)?;
        picture.take_back(&loss, plan.survived).map_err(failed)?;
        let undo = plan.files.iter().map(|(identity, _, undo)| (*identity, undo)).collect();
        let mut copy = Copy { volume, picture, undo, to, made: HashMap::new(), report: CopyReport::default() };
        copy.make()?;
        Ok(CopyReport { cut: plan.report, ..copy.report })
    }
}

/// Names of a directory.
type Names = BTreeMap<Box<[u8]>, KernelHandle>;
/// A path below the root, by its components.
type Steps = Vec<Box<[u8]>>;

/// Which names lead where.
struct Picture {
    directories: HashMap<KernelHandle, Names>,
    /// Where each object really is.
    places: HashMap<KernelHandle, Steps>,
}

impl Picture {
    /// The tree as the host shows it; the layer's own directory and mount points are left out.
    fn take(volume: &VolumeInner) -> io::Result<Self> {
        let root = volume.root.0.identity;
        let mut picture = Self { directories: HashMap::new(), places: HashMap::from([(root, Steps::new())]) };
        let mut todo = vec![root];
        while let Some(dir) = todo.pop() {
            let steps = picture.places.get(&dir).cloned().unwrap_or_default();
            let fd = open(volume, &steps, libc::O_RDONLY | libc::O_DIRECTORY)?;
            let mut listing = Listing::new(sys::open_at(&fd, b".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?, 0)?;
            let mut names = Names::new();
            while let Some(entry) = listing.next_entry()? {
                if matches!(entry.name, b"." | b"..") || (steps.is_empty() && entry.name == LIMBO) {
                    continue;
                }
                let object = sys::open_at(&fd, entry.name, libc::O_PATH, 0)?;
                let stat = sys::stat(&object)?;
                if stat.mount != volume.root_stat.mount {
                    continue;
                }
                let identity = volume.identify.of(&object, &stat)?;
                names.insert(entry.name.into(), identity);
                if let Entry::Vacant(place) = picture.places.entry(identity) {
                    place.insert(steps.iter().cloned().chain([entry.name.into()]).collect());
                    if stat.mode & libc::S_IFMT == libc::S_IFDIR {
                        todo.push(identity);
                    }
                }
            }
            picture.directories.insert(dir, names);
        }
        Ok(picture)
    }

    /// Takes the lost changes of names back.
    fn take_back(&mut self, loss: &Loss, survived: usize) -> io::Result<()> {
        for (identity, name) in loss.names.iter().filter_map(|change| change.limbo.as_ref()) {
            if sys::stat_name(&loss.limbo, name)?.mode & libc::S_IFMT == libc::S_IFDIR {
                self.directories.entry(*identity).or_default();
            }
            self.places.insert(*identity, vec![LIMBO.into(), name.as_slice().into()]);
        }
        for part in lost_names(loss.names.get(survived..).unwrap_or_default()) {
            let names = self.directories.entry(part.dir).or_default();
            match part.before {
                Some(before) => names.insert(part.name.clone(), before),
                None => names.remove(&part.name),
            };
        }
        Ok(())
    }
}

/// Opens what really is at the path, one step at a time.
fn open(volume: &VolumeInner, steps: &[Box<[u8]>], flags: libc::c_int) -> io::Result<OwnedFd> {
    let Some((last, above)) = steps.split_last() else { return sys::open_at(&volume.root_fd, b".", flags, 0) };
    if above.len() >= DEPTH_MAX {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    let root = volume.root_fd.try_clone()?;
    let dir = above.iter().try_fold(root, |dir, step| sys::open_at(&dir, step, libc::O_PATH | libc::O_DIRECTORY, 0))?;
    sys::open_at(&dir, last, flags, 0)
}

/// The copy under way.
struct Copy<'a> {
    volume: &'a VolumeInner,
    picture: Picture,
    undo: HashMap<KernelHandle, &'a Undo<'a>>,
    to: &'a Path,
    /// Where in the copy an object has its first name.
    made: HashMap<KernelHandle, PathBuf>,
    report: CopyReport,
}

impl Copy<'_> {
    fn make(&mut self) -> Result<(), CopyError> {
        let mut directories = vec![(self.volume.root.0.identity, self.to.to_path_buf())];
        let mut next = 0;
        while let Some((dir, path)) = directories.get(next).cloned() {
            next += 1;
            let names = self.picture.directories.remove(&dir).unwrap_or_default();
            for (name, identity) in names {
                let target = path.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&name));
                let made = self.object(&identity, &path, &name, &target);
                if made.map_err(|source| CopyError::Io { path: target.clone(), source })? {
                    directories.push((identity, target));
                }
            }
        }
        // From the leaves up, for what is made in a directory moves its times.
        for (identity, path) in directories.iter().rev() {
            self.dress_directory(identity, path).map_err(|source| CopyError::Io { path: path.clone(), source })?;
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
        self.report.objects += 1;
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
                self.dress(identity, &copy, &stat)?;
                self.report.bytes += sys::stat(&copy)?.size;
            }
            libc::S_IFLNK => {
                let mut link = vec![0; crate::limits::LINK_BYTES_MAX];
                let bytes = sys::read_link(&source, &mut link)?;
                sys::symlink_at(link.get(..bytes).unwrap_or_default(), &at, name)?;
                self.dress(identity, sys::open_at(&at, name, libc::O_PATH, 0)?, &stat)?;
            }
            _ => {
                sys::mknod_at(&at, name, stat.mode, stat.rdev)?;
                self.dress(identity, sys::open_at(&at, name, libc::O_PATH, 0)?, &stat)?;
            }
        }
        Ok(false)
    }

    fn dress_directory(&self, identity: &KernelHandle, path: &Path) -> io::Result<()> {
        let stat = sys::stat(self.source(identity, libc::O_PATH)?)?;
        self.dress(identity, sys::open_path(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?, &stat)
    }

    /// Gives a copy the attributes of what it is a copy of, then takes back what is lost.
    fn dress(&self, identity: &KernelHandle, copy: impl AsFd, stat: &RawStat) -> io::Result<()> {
        let now = sys::stat(&copy)?;
        if (now.uid, now.gid) != (stat.uid, stat.gid) {
            sys::chown(&copy, Some(stat.uid), Some(stat.gid))?;
        }
        if stat.mode & libc::S_IFMT != libc::S_IFLNK {
            sys::proc_chmod(&copy, stat.mode & 0o7777)?;
        }
        let time = |(sec, nsec): (i64, u32)| RawTime::At { sec, nsec };
        sys::set_times(&copy, time(stat.atime), time(stat.mtime))?;
        self.undo.get(identity).map_or(Ok(()), |undo| undo.apply(&copy))
    }

    fn source(&self, identity: &KernelHandle, flags: libc::c_int) -> io::Result<OwnedFd> {
        let steps = self.picture.places.get(identity).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        open(self.volume, steps, flags)
    }
}

/// Copies what is no hole.
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
