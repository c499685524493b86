//! The directory in memory, one for each export, in which the processes of a mount find their shared state.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::{SegmentError, local};
use super::file_ref::FileRef;
use super::runtime_root::{runtime_root, share_what_is_made_in, sharing_of, trusted};
use super::trust::Sharing;
use super::untrusted::{Distrust, Untrusted};
use crate::sys::local_file::{CPath, Errno, mkdir, open, rename, rmdir};
use crate::sys::random::random;

/// Mode of files created here. The directory's mode and default access list decide who may use them.
pub(crate) const FILE_MODE: u32 = 0o660;
/// Mode of directories created here.
const DIRECTORY_MODE: u32 = 0o770;

/// Bytes for the path of a placeholder with its NUL.
pub const PLACEHOLDER_PATH_BYTES_MAX: usize = 256;

/// Longest runtime directory: a placeholder's name `/p/<slot>.<generation>` and its NUL fit after it.
const DIRECTORY_BYTES_MAX: usize = PLACEHOLDER_PATH_BYTES_MAX - 32;

/// Bytes of the name of an export's directory, with the slash before it.
const NAME_BYTES: usize = 17;

/// The directories for placeholders of files, for record locks, for placeholders of directories while they are made,
/// and for the bytes of mapped files.
const PARTS: [&str; 4] = ["p", "l", RuntimeDir::DIRECTORIES, "m"];

/// The directory of one export.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeDir {
    path: PathBuf,
    sharing: Sharing,
}

impl RuntimeDir {
    /// Where the placeholders of directories are created.
    pub(crate) const DIRECTORIES: &str = "d";
    /// Beginning of the name of a segment while it is being made.
    pub(crate) const NEW_SEGMENT: &str = "segment.new.";

    /// The directory of this process for an export, created if it is missing. `identity` is called with the uid of the runtime
    /// directory's owner.
    pub(crate) fn of_process(identity: impl FnOnce(u32) -> u64) -> Result<Self, SegmentError> {
        Self::make(runtime_root().as_os_str().as_bytes(), identity)
    }

    /// The directory for an export below `base`. Both are created if they are missing, and refused unless this process may
    /// trust them.
    pub(crate) fn make(base: &[u8], identity: impl FnOnce(u32) -> u64) -> Result<Self, SegmentError> {
        if base.len() + NAME_BYTES > DIRECTORY_BYTES_MAX {
            let path = PathBuf::from(std::ffi::OsString::from_vec(base.to_vec()));
            return Err(SegmentError::Directory(Untrusted { path, why: Distrust::Path }.into()));
        }
        let sharing = sharing_of(base)?;
        let path = below(base, identity(sharing.owner));
        match open(&CPath::new(path.as_os_str().as_bytes()), libc::O_RDONLY | libc::O_DIRECTORY, 0) {
            Ok(_) => {}
            Err(Errno(libc::ENOENT)) => make_complete(&path, sharing).map_err(local("make the runtime directory"))?,
            Err(errno) => return Err(local("open the runtime directory")(errno)),
        }
        Ok(Self { path, sharing })
    }

    /// The directory of this process for an export that a program has mounted. `None` if the runtime directory does not
    /// exist. Fails as [`Self::make`] if this process may not trust it.
    pub(crate) fn of_program(identity: impl FnOnce(u32) -> u64) -> Result<Option<Self>, SegmentError> {
        let root = runtime_root();
        match trusted(root.as_os_str().as_bytes()) {
            Ok(sharing) => Ok(Some(Self { path: below(root.as_os_str().as_bytes(), identity(sharing.owner)), sharing })),
            Err(SegmentError::Local { errno: libc::ENOENT, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The directory for `identity` below `base`, which the caller has checked.
    pub(crate) fn made_by_another(base: &Path, identity: impl FnOnce(u32) -> u64) -> Option<Self> {
        let sharing = Sharing::seen(base)?;
        let identity = identity(sharing.owner);
        Some(Self { path: base.join(format!("{identity:016x}")), sharing })
    }

    /// The runtime directory that contains this directory.
    pub(crate) fn root(&self) -> &[u8] {
        self.path.parent().map_or(&[], |root| root.as_os_str().as_bytes())
    }

    /// The owner of the directory, and whether a group shares it.
    pub(crate) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The segment file.
    pub(crate) fn segment_path(&self) -> CPath {
        self.below("segment")
    }

    /// A new name for a segment while it is being made.
    pub(crate) fn new_segment_path(&self) -> CPath {
        self.below(&format!("{}{:016x}", Self::NEW_SEGMENT, random()))
    }

    /// The retained data of one instance of the segment.
    pub(crate) fn retained_path(&self, instance: u64) -> CPath {
        self.below(&format!("retained.{instance:016x}"))
    }

    /// The file of retained data until it is complete.
    pub(crate) fn new_retained_path(&self) -> CPath {
        self.below("retained.new")
    }

    /// The file of a lock.
    pub(crate) fn lock_path(&self, name: &str) -> CPath {
        self.below(&format!("{name}.lock"))
    }

    /// The placeholder of a file.
    pub(crate) fn placeholder(&self, file: FileRef) -> CPath {
        self.below(&format!("p/{}.{}", file.slot, file.generation))
    }

    /// The file that has the POSIX record locks of a file. It is created with the first lock.
    pub(crate) fn lock_file(&self, file: FileRef) -> CPath {
        self.below(&format!("l/{}.{}", file.slot, file.generation))
    }

    /// The placeholder's path with its NUL, without an allocation.
    pub(crate) fn placeholder_array(&self, file: FileRef) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        self.file_array("p", file)
    }

    /// The lock file's path with its NUL, without an allocation.
    pub(crate) fn lock_file_array(&self, file: FileRef) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        self.file_array("l", file)
    }

    /// The folder of the files for mapped files.
    pub(crate) fn mapped_folder(&self) -> CPath {
        self.below("m")
    }

    /// The path, with its NUL, of a file for a mapped file: `kind` is one letter.
    pub(crate) fn mapped_array(&self, file: FileRef, kind: char) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        self.named_array("m", file, format_args!(".{kind}"))
    }

    fn file_array(&self, folder: &str, file: FileRef) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        self.named_array(folder, file, format_args!(""))
    }

    fn named_array(&self, folder: &str, file: FileRef, end: std::fmt::Arguments<'_>) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        use std::io::Write;
        let mut bytes = [0; PLACEHOLDER_PATH_BYTES_MAX];
        let mut out = &mut bytes[..];
        let _ = out.write_all(self.path.as_os_str().as_bytes());
        let _ = write!(out, "/{folder}/{}.{}{end}", file.slot, file.generation); // fits: DIRECTORY_BYTES_MAX
        bytes
    }

    /// The file whose placeholder has this path.
    pub(crate) fn file_of_placeholder(&self, path: &[u8]) -> Option<FileRef> {
        let name = path.strip_prefix(self.path.as_os_str().as_bytes())?.strip_prefix(b"/p/")?;
        let (slot, generation) = std::str::from_utf8(name).ok()?.split_once('.')?;
        Some(FileRef { slot: slot.parse().ok()?, generation: generation.parse().ok()? })
    }

    fn below(&self, name: &str) -> CPath {
        CPath::new(self.path.join(name).as_os_str().as_bytes())
    }
}

fn below(base: &[u8], identity: u64) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec([base, format!("/{identity:016x}").as_bytes()].concat()))
}

/// Creates the directory with its contents. It appears under its name complete or not at all.
fn make_complete(path: &Path, sharing: Sharing) -> Result<(), Errno> {
    let at = |path: &Path| CPath::new(path.as_os_str().as_bytes());
    let fresh = path.with_extension(format!("{:016x}", random()));
    let fill = || {
        if sharing.is_shared {
            share_what_is_made_in(&open(&at(&fresh), libc::O_RDONLY | libc::O_DIRECTORY, 0)?)?;
        }
        for below in PARTS {
            mkdir(&at(&fresh.join(below)), DIRECTORY_MODE)?;
        }
        rename(&at(&fresh), &at(path))
    };
    mkdir(&at(&fresh), DIRECTORY_MODE)?;
    let made = fill();
    if made.is_err() {
        for below in PARTS {
            let _ = rmdir(&at(&fresh.join(below)));
        }
        let _ = rmdir(&at(&fresh));
    }
    match made {
        Err(Errno(libc::EEXIST | libc::ENOTEMPTY)) => Ok(()), // another process was faster
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::tempdir::TempDir;

    #[test]
    fn placeholder_path_leads_back_to_its_file() {
        let place = TempDir::new();
        let directory = RuntimeDir::make(place.path().as_bytes(), |_| 5).unwrap();
        let file = FileRef { slot: 65_535, generation: u32::MAX };
        let array = directory.placeholder_array(file);
        let path = std::ffi::CStr::from_bytes_until_nul(&array).unwrap().to_bytes();
        assert_eq!(path, directory.placeholder(file).as_bytes());
        assert_eq!(directory.file_of_placeholder(path), Some(file));
        assert_eq!(directory.file_of_placeholder(b"/tmp/p/1.1"), None);
        assert_eq!(directory.file_of_placeholder(&[path, b" (deleted)"].concat()), None);
    }

    #[test]
    fn directory_others_may_enter_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let place = TempDir::new();
        std::fs::set_permissions(Path::new(place.path()), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(RuntimeDir::make(place.path().as_bytes(), |_| 5), Err(SegmentError::Directory(_))));
    }
}
