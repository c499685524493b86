//! Resolves a path to an object, component by component.

use super::Mount;
use super::directories::Known;
use crate::error::Error;
use crate::file::{Attributes, FileHandle, FileKind, FsError};
use crate::limits::{ATTRIBUTE_AGE_MS_MAX, COMPONENT_BYTES_MAX, LOOKUP_ROUNDS_MAX, PATH_BYTES_MAX, SYMLINKS_MAX};
use crate::sys::clock::monotonic_ms;

/// Where a path ends.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every walk ends in an entry; a box would cost an allocation")]
pub enum Walk {
    /// The path ends in this mount.
    At(Entry),
    /// The path leads out of the mount: the absolute path to continue with, including the rest of
    /// the walk.
    Leaves(Vec<u8>),
}

/// What a walk does with the last name of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastName {
    /// The name is looked up, and a symbolic link is followed: open and stat.
    Followed,
    /// The name is looked up, and followed only if a slash comes after it: lstat.
    Kept,
    /// The name is looked up and never followed, not even with a slash after it: mkdir, unlink,
    /// rename.
    Itself,
    /// The name is assumed not to exist, without a call: for a creation that fails if it exists, which the server
    /// checks.
    New,
}

impl From<bool> for LastName {
    /// `true` is [`LastName::Followed`], `false` is [`LastName::Kept`].
    fn from(follow: bool) -> Self {
        if follow { Self::Followed } else { Self::Kept }
    }
}

/// How a path ends. A call that creates or removes a name needs a path that ends in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEnd {
    /// In a name, perhaps with slashes after it.
    Name,
    /// In `.`.
    Dot,
    /// In `..`.
    DotDot,
    /// At the root of the mount.
    Root,
}

/// A directory of the server, open in a program or its working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDirectory {
    /// Its handle.
    pub handle: FileHandle,
    /// Its path below the root of the mount when it was opened; [`Mount::locate`] returns the current one.
    pub path: Vec<u8>,
    /// Generation of the namespace in which the path was right; 0: the path is not known to be right.
    pub(super) path_as_of: u64,
    /// Its parent when it was opened: `..` of a removed directory.
    pub(super) parent: FileHandle,
}

impl OpenDirectory {
    /// The object that a walk found. `None` if the name does not exist.
    #[must_use]
    pub fn of(entry: &Entry) -> Option<Self> {
        let object = entry.object.as_ref()?;
        Some(Self { handle: object.handle, path: entry.path.clone(), path_as_of: entry.path_as_of, parent: entry.parent })
    }

    /// The same directory, with a path that may be outdated.
    #[must_use]
    pub fn with_doubtful_path(&self) -> Self {
        Self { path_as_of: 0, ..self.clone() }
    }
}

/// A name in a directory, and what it stood for when it was looked up.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The directory; for the root itself, the root.
    pub parent: FileHandle,
    /// The name; empty for the root itself.
    pub name: Vec<u8>,
    /// Path below the root without links, dots and doubled slashes; empty for the root.
    pub path: Vec<u8>,
    /// The object of this name. `None` if there is no object.
    pub object: Option<Object>,
    /// The path ended in a slash: only a directory may be created there.
    pub must_be_directory: bool,
    /// How the path ended.
    pub end: PathEnd,
    /// The object was not looked up: [`LastName::New`].
    pub assumed: bool,
    /// Count of name changes before the lookup.
    pub(super) seen: u64,
    /// Generation of the namespace in which the path was right; 0: the path is not known to be right.
    pub(super) path_as_of: u64,
}

/// An object of the server.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// Its handle.
    pub handle: FileHandle,
    /// Its attributes; the size is what this host knows.
    pub attr: Attributes,
}

/// A walk in progress.
struct Walker<'a> {
    mount: &'a Mount,
    /// Where the path begins. `above` is the `..` of `base` if `base` was removed.
    base: FileHandle,
    base_path: Vec<u8>,
    above: Option<FileHandle>,
    path_as_of: u64,
    /// Directories entered from there, outermost first.
    entered: Vec<(Vec<u8>, FileHandle)>,
    /// Remaining components, the next one last.
    pending: Vec<Vec<u8>>,
    must_be_directory: bool,
    end: PathEnd,
    links: u32,
    used_cache: bool,
}

#[expect(clippy::large_enum_variant, reason = "passed up once, never stored")]
enum Step {
    On,
    Done(Walk),
}

impl Mount {
    /// Follows `path` from the root of this mount. `last` determines what happens with its last name.
    ///
    /// Cached directories cost no call (with `noac` one LOOKUP each). The last component costs one LOOKUP unless it is
    /// [`LastName::New`].
    ///
    /// # Errors
    /// NOENT, NOTDIR, NAMETOOLONG, ACCES of the server; [`FsError::SymlinkLoop`] after 40 symbolic links.
    pub fn walk(&self, path: &[u8], last: impl Into<LastName>) -> Result<Walk, Error> {
        let last = last.into();
        self.check_volume()?;
        if path.len() > PATH_BYTES_MAX {
            return Err(Error::Fs(FsError::NameTooLong));
        }
        let path_as_of = self.namespace_generation().unwrap_or(0);
        self.walk_again(|| Walker::new(self, path, path_as_of), last)
    }

    /// Follows `path` from an open directory, found by its handle and not by its path. A `..` at the beginning of `path` is the
    /// parent that the server returns.
    ///
    /// # Errors
    /// As [`Self::walk`]. STALE if the directory is gone, NOENT if it was removed through this mount. NAMETOOLONG if the path
    /// from the root would be too long.
    pub fn walk_from(&self, directory: &OpenDirectory, path: &[u8], last: impl Into<LastName>) -> Result<Walk, Error> {
        self.check_volume()?;
        if directory.path.len() + 1 + path.len() > PATH_BYTES_MAX {
            return Err(Error::Fs(FsError::NameTooLong));
        }
        let walker = || Walker {
            base: directory.handle,
            base_path: directory.path.clone(),
            above: Some(directory.parent).filter(|above| *above != directory.handle),
            ..Walker::new(self, path, directory.path_as_of)
        };
        let walked = self.walk_again(walker, last.into());
        walked.map_err(|error| self.gone(&directory.handle, error))
    }

    /// Follows a path. Does so once more if a handle from the cache belonged to a directory that was removed meanwhile.
    fn walk_again<'a>(&self, walker: impl Fn() -> Walker<'a>, last: LastName) -> Result<Walk, Error> {
        let mut first = walker();
        match first.run(last) {
            Err(Error::Fs(FsError::Stale)) if first.used_cache => {
                self.directories.clear();
                walker().run(last)
            }
            other => other,
        }
    }

    /// Handle and attributes of a name, with newer values of this host.
    pub(super) fn look_up(&self, directory: &FileHandle, name: &[u8]) -> Result<Object, Error> {
        let mut rounds = 0;
        let (handle, attr) = loop {
            let found = self.client.lookup(directory, name).and_then(|(handle, attr)| match attr {
                Some(attr) => Ok((handle, attr)),
                None => Ok((handle, self.client.getattr(&handle)?)),
            });
            match found {
                // The directory or the object was removed between the calls.
                Err(Error::Fs(FsError::Stale)) if rounds < LOOKUP_ROUNDS_MAX => rounds += 1,
                other => break other?,
            }
        };
        Ok(Object { handle, attr: self.known_better(&handle, attr) })
    }

    /// The current object of the name, as far as this host changed it since the walk. The caller holds the name's lock.
    pub(super) fn current(&self, entry: &Entry) -> Result<Option<Object>, Error> {
        if self.segment.name_changes() == entry.seen {
            return Ok(entry.object);
        }
        match self.look_up(&entry.parent, &entry.name) {
            Ok(object) => Ok(Some(object)),
            Err(Error::Fs(FsError::NotFound)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn namespace_generation(&self) -> Option<u64> {
        self.segment.namespace_generation().or_else(|| {
            self.segment.repair_namespace();
            self.segment.namespace_generation()
        })
    }
}

impl<'a> Walker<'a> {
    /// Begins at the root of the mount.
    fn new(mount: &'a Mount, path: &[u8], path_as_of: u64) -> Self {
        let mut walker = Self {
            mount,
            base: mount.client.parts().root,
            base_path: Vec::new(),
            above: None,
            path_as_of,
            entered: Vec::new(),
            pending: Vec::new(),
            must_be_directory: false,
            end: PathEnd::Root,
            links: 0,
            used_cache: false,
        };
        walker.push(path);
        walker
    }

    /// Puts the components of `path` before the remaining ones.
    fn push(&mut self, path: &[u8]) {
        if self.pending.is_empty() && path.ends_with(b"/") {
            self.must_be_directory = true;
        }
        let components = path.split(|byte| *byte == b'/').filter(|component| !component.is_empty());
        self.pending.extend(components.rev().map(<[u8]>::to_vec));
    }

    fn run(&mut self, last: LastName) -> Result<Walk, Error> {
        while let Some(component) = self.pending.pop() {
            match component.as_slice() {
                b"." => self.ends_in(PathEnd::Dot),
                b".." => {
                    self.ends_in(PathEnd::DotDot);
                    if self.entered.pop().is_none() && !self.ascend()? {
                        let parent = self.mount.local_path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                        return Ok(Walk::Leaves(self.leave(&self.mount.local_path[..parent])));
                    }
                }
                name if name.len() > COMPONENT_BYTES_MAX => return Err(Error::Fs(FsError::NameTooLong)),
                _ if self.pending.is_empty() => {
                    if let Step::Done(walk) = self.last(component, last)? {
                        return Ok(walk);
                    }
                }
                _ => {
                    if let Step::Done(walk) = self.enter(component)? {
                        return Ok(walk);
                    }
                }
            }
        }
        self.at_entered()
    }

    /// Enters the parent of the path's start. False at the root of the mount.
    fn ascend(&mut self) -> Result<bool, Error> {
        if self.base == self.mount.client.parts().root {
            return Ok(false);
        }
        let parent = match (self.mount.look_up(&self.base, b".."), self.above.take()) {
            (Err(Error::Fs(FsError::Stale | FsError::BadHandle)), Some(above)) => above,
            (found, _) => found?.handle,
        };
        if parent == self.base {
            return Ok(false); // the root of the export, by another handle
        }
        self.base = parent;
        self.base_path.truncate(self.base_path.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
        Ok(true)
    }

    /// Notes that the last component was `.` or `..`.
    fn ends_in(&mut self, dots: PathEnd) {
        if self.pending.is_empty() {
            (self.must_be_directory, self.end) = (true, dots);
        }
    }

    /// Enters a directory or follows a link before the last component.
    fn enter(&mut self, name: Vec<u8>) -> Result<Step, Error> {
        let key = (self.here(), name);
        // If other hosts may rename directories at any time, the cache is not used.
        let generation = if self.mount.shared_use { None } else { self.mount.namespace_generation() };
        let now_ms = monotonic_ms();
        let oldest_ms = if self.mount.single_owner { 0 } else { now_ms.saturating_sub(ATTRIBUTE_AGE_MS_MAX) };
        let known = generation.and_then(|generation| self.mount.directories.find(generation, &key, oldest_ms));
        let known = match known {
            Some(known) => {
                self.used_cache = true;
                known
            }
            None => {
                let known = self.ask(&key.1)?;
                if let Some(generation) = generation {
                    self.mount.directories.keep(generation, key.clone(), now_ms, known.clone());
                }
                known
            }
        };
        match known {
            Known::Directory(handle) => {
                self.entered.push((key.1, handle));
                Ok(Step::On)
            }
            Known::Link(target) => self.follow(&target),
        }
    }

    fn ask(&self, name: &[u8]) -> Result<Known, Error> {
        let object = self.mount.look_up(&self.here(), name)?;
        match object.attr.kind {
            FileKind::Directory => Ok(Known::Directory(object.handle)),
            FileKind::Symlink => {
                let mut target = Vec::new();
                self.mount.client.readlink(&object.handle, &mut target)?;
                Ok(Known::Link(target))
            }
            _ => Err(Error::Fs(FsError::NotDirectory)),
        }
    }

    fn last(&mut self, name: Vec<u8>, last: LastName) -> Result<Step, Error> {
        let parent = self.here();
        let seen = self.mount.segment.name_changes();
        if last == LastName::New && !self.must_be_directory {
            let path = self.path_of(&name);
            let (must_be_directory, end) = (false, PathEnd::Name);
            let path_as_of = self.path_as_of;
            let entry = Entry { parent, name, path, object: None, must_be_directory, end, assumed: true, seen, path_as_of };
            return Ok(Step::Done(Walk::At(entry)));
        }
        let object = match self.mount.look_up(&parent, &name) {
            Ok(object) => Some(object),
            Err(Error::Fs(FsError::NotFound)) => None,
            Err(error) => return Err(error),
        };
        match object.map(|object| object.attr.kind).filter(|_| last != LastName::Itself) {
            Some(FileKind::Symlink) if last == LastName::Followed || self.must_be_directory => {
                let mut target = Vec::new();
                let handle = object.map_or(parent, |object| object.handle);
                self.mount.client.readlink(&handle, &mut target)?;
                return self.follow(&target);
            }
            Some(kind) if self.must_be_directory && kind != FileKind::Directory => {
                return Err(Error::Fs(FsError::NotDirectory));
            }
            _ => {}
        }
        let path = self.path_of(&name);
        Ok(Step::Done(Walk::At(Entry {
            parent,
            name,
            path,
            object,
            must_be_directory: self.must_be_directory,
            end: PathEnd::Name,
            assumed: false,
            seen,
            path_as_of: self.path_as_of,
        })))
    }

    /// Continues with the text of a link.
    fn follow(&mut self, target: &[u8]) -> Result<Step, Error> {
        self.links += 1;
        if self.links > SYMLINKS_MAX {
            return Err(FsError::SymlinkLoop.into());
        }
        if target.is_empty() {
            return Err(Error::Fs(FsError::NotFound));
        }
        if target.starts_with(b"/") {
            return Ok(Step::Done(Walk::Leaves(self.leave(target))));
        }
        self.push(target);
        Ok(Step::On)
    }

    /// The absolute path outside, with the rest of the walk.
    fn leave(&self, start: &[u8]) -> Vec<u8> {
        let mut path = start.to_vec();
        for component in self.pending.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(component);
        }
        if path.is_empty() || self.must_be_directory && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    }

    /// The path ended in a directory already entered: `.`, `..`, or the root.
    fn at_entered(&mut self) -> Result<Walk, Error> {
        let (name, handle, path) = match self.entered.pop() {
            Some((name, handle)) => {
                let path = self.path_of(&name);
                (name, handle, path)
            }
            None => (Vec::new(), self.base, self.base_path.clone()),
        };
        let parent = self.here();
        let seen = self.mount.segment.name_changes();
        let attr = self.mount.known_better(&handle, self.mount.client.getattr(&handle)?);
        let object = Object { handle, attr };
        // A kernel checks the right to search a directory before it resolves a dot. No call to the server does that.
        if self.end == PathEnd::Dot {
            self.mount.check_rights(&object, libc::X_OK as u32)?;
        }
        let object = Some(object);
        let (end, path_as_of) = (self.end, self.path_as_of);
        Ok(Walk::At(Entry { parent, name, path, object, must_be_directory: true, end, assumed: false, seen, path_as_of }))
    }

    fn here(&self) -> FileHandle {
        self.entered.last().map_or(self.base, |(_, handle)| *handle)
    }

    fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.base_path.clone();
        for component in self.entered.iter().map(|(name, _)| name.as_slice()).chain([name]) {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(component);
        }
        path
    }
}
