//! Mount points inside a volume. If a file system is not mounted any more, clients must not write
//! into the directory that it covered: the next mount would hide their files.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use host::Unpoisoned;

use crate::state::replace;
use crate::sys;

/// In the state directory of a file system inside a volume: its path below the volume's directory.
const NOTE: &str = "at";

/// A place inside a volume where a file system was served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint {
    /// Its path.
    pub dir: PathBuf,
    /// The file that has the note of it.
    pub note: PathBuf,
    /// Whether another file system than that of the parent directory is there now.
    pub is_mounted: bool,
    /// Device and inode number of the parent directory.
    parent: ((u32, u32), u64),
}

impl MountPoint {
    /// The place that is noted in the state directory of a file system inside the volume of `outer`. `None` without such a note.
    ///
    /// **Errors**: the note cannot be read, or the place does not exist.
    pub fn noted(state_dir: &Path, outer: &Path) -> io::Result<Option<Self>> {
        let note = state_dir.join(NOTE);
        let below = match fs::read(&note) {
            Ok(below) => PathBuf::from(OsString::from_vec(below)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let dir = outer.join(below);
        let parent = sys::stat(sys::open_path(dir.parent().unwrap_or(outer), libc::O_PATH | libc::O_DIRECTORY, 0)?)?;
        let own = sys::stat(sys::open_path(&dir, libc::O_PATH | libc::O_NOFOLLOW, 0)?)?;
        let is_mounted = (own.mount, own.dev) != (parent.mount, parent.dev);
        Ok(Some(Self { dir, note, is_mounted, parent: (parent.dev, parent.ino) }))
    }

    /// Logs that no file system is mounted here.
    pub fn warn(&self) {
        tracing::warn!(
            dir = %self.dir.display(),
            note = %self.note.display(),
            "a file system that was served inside the volume is not mounted, so clients cannot enter its directory; mount it, or remove the note; then reload"
        );
    }
}

/// The mount points of a volume.
#[derive(Debug, Default)]
pub(crate) struct MountPoints {
    any: AtomicBool,
    /// By the inode number of the parent directory. The flag: it was logged that no file system is mounted there.
    known: RwLock<HashMap<u64, Vec<(MountPoint, AtomicBool)>>>,
}

impl MountPoints {
    /// Sets the mount points on the file system with this device number.
    pub(crate) fn set(&self, points: &[MountPoint], dev: (u32, u32)) {
        let mut by_parent: HashMap<u64, Vec<_>> = HashMap::new();
        for point in points.iter().filter(|point| point.parent.0 == dev) {
            by_parent.entry(point.parent.1).or_default().push((point.clone(), AtomicBool::new(!point.is_mounted)));
        }
        let mut known = self.known.write().unpoisoned();
        self.any.store(!by_parent.is_empty(), Ordering::Release);
        *known = by_parent;
    }

    /// Whether the name in the directory with this inode number is a mount point. Logs it once if
    /// no file system is mounted there.
    pub(crate) fn covers(&self, dir: u64, name: &[u8]) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let known = self.known.read().unpoisoned();
        let in_dir = known.get(&dir).map(Vec::as_slice).unwrap_or_default();
        let is_named = |point: &MountPoint| point.dir.file_name().is_some_and(|own| own.as_bytes() == name);
        let Some((point, logged)) = in_dir.iter().find(|(point, _)| is_named(point)) else { return false };
        if !logged.swap(true, Ordering::Relaxed) {
            point.warn();
        }
        true
    }
}

/// Notes the path of a file system in its state directory: `below` the directory of the volume that
/// contains the file system.
/// **Durability**: on disk when it returns.
pub(crate) fn note_place(state_dir: &Path, below: &Path) -> io::Result<()> {
    let below = below.as_os_str().as_bytes();
    if fs::read(state_dir.join(NOTE)).is_ok_and(|noted| noted == below) {
        return Ok(());
    }
    replace(&File::open(state_dir)?, state_dir, NOTE, below)
}
