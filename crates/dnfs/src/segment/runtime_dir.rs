//! Where the processes of one user find the state they share: a directory in memory, mode 0700, one below it for each export.
//!
//! `/dev/shm/millrace-<uid>` first: every process of the user finds the same, whatever its environment. Only where there
//! is no such directory, `$XDG_RUNTIME_DIR/millrace`: a service and a login shell may disagree about that variable, and
//! two segments are two hosts. `MILLRACE_RUNTIME_DIR` overrides both.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::{SegmentError, local};
use super::file_ref::FileRef;
use crate::sys::local_file::{CPath, Errno, mkdir, open, stat};
use crate::sys::process::effective_uid;

/// Room for the path of a placeholder with its NUL, in bytes.
pub const PLACEHOLDER_PATH_BYTES_MAX: usize = 256;

/// Longest runtime directory: a placeholder `/p/<slot>.<generation>` and its NUL fit behind it.
const DIRECTORY_BYTES_MAX: usize = PLACEHOLDER_PATH_BYTES_MAX - 32;

/// The directory every [`crate::mount::Mount::runtime_dir`] of this effective user lies below. Asks no server.
#[must_use]
pub fn runtime_root() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = named("MILLRACE_RUNTIME_DIR") {
        return named;
    }
    let shared = open(&CPath::new(b"/dev/shm"), libc::O_RDONLY | libc::O_DIRECTORY, 0).is_ok();
    match named("XDG_RUNTIME_DIR") {
        Some(session) if !shared => session.join("millrace"),
        _ => PathBuf::from(format!("/dev/shm/millrace-{}", effective_uid())),
    }
}

/// The directory of one export.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeDir {
    path: PathBuf,
}

impl RuntimeDir {
    /// The directory of this user for the export `identity`, made if missing.
    pub(crate) fn of_user(identity: u64) -> Result<Self, SegmentError> {
        Self::make(runtime_root().as_os_str().as_bytes(), identity)
    }

    /// The directory for `identity` below `base`; both made if missing, and refused unless they are ours alone.
    pub(crate) fn make(base: &[u8], identity: u64) -> Result<Self, SegmentError> {
        let mut path = base.to_vec();
        path.extend_from_slice(format!("/{identity:016x}").as_bytes());
        if path.len() > DIRECTORY_BYTES_MAX || path.first() != Some(&b'/') {
            return Err(SegmentError::Directory("its path is relative or too long"));
        }
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        for directory in [base, path.as_os_str().as_bytes()] {
            make_private(directory)?;
        }
        for below in ["p", "l", "cwd"] {
            make_private(path.join(below).as_os_str().as_bytes())?;
        }
        Ok(Self { path })
    }

    /// The directory for `identity` below `base`, which somebody else made.
    pub(crate) fn made_by_another(base: &Path, identity: u64) -> Self {
        Self { path: base.join(format!("{identity:016x}")) }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The segment file.
    pub(crate) fn segment_path(&self) -> CPath {
        self.below("segment")
    }

    /// The segment while it is being made.
    pub(crate) fn new_segment_path(&self) -> CPath {
        self.below("segment.new")
    }

    /// The retained data of one instance of the segment.
    pub(crate) fn retained_path(&self, instance: u64) -> CPath {
        self.below(&format!("retained.{instance:016x}"))
    }

    /// Retained data while the file is being made.
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

    /// The file that holds the POSIX record locks of a file, made with the first of them.
    pub(crate) fn lock_file(&self, file: FileRef) -> CPath {
        self.below(&format!("l/{}.{}", file.slot, file.generation))
    }

    /// The placeholder's path with its NUL, without an allocation.
    pub(crate) fn placeholder_array(&self, file: FileRef) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        self.file_array("p", file)
    }

    /// The same of the lock file's path.
    pub(crate) fn lock_file_array(&self, file: FileRef) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        self.file_array("l", file)
    }

    fn file_array(&self, folder: &str, file: FileRef) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        use std::io::Write;
        let mut bytes = [0; PLACEHOLDER_PATH_BYTES_MAX];
        let mut out = &mut bytes[..];
        let _ = out.write_all(self.path.as_os_str().as_bytes());
        let _ = write!(out, "/{folder}/{}.{}", file.slot, file.generation); // fits: DIRECTORY_BYTES_MAX
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

fn make_private(path: &[u8]) -> Result<(), SegmentError> {
    let path = CPath::new(path);
    match mkdir(&path, 0o700) {
        Ok(()) | Err(Errno(libc::EEXIST)) => {}
        Err(errno) => return Err(local("make the runtime directory")(errno)),
    }
    let found = open(&path, libc::O_RDONLY | libc::O_DIRECTORY, 0).and_then(|fd| stat(&fd));
    let found = found.map_err(local("open the runtime directory"))?;
    if found.uid != effective_uid() {
        return Err(SegmentError::Directory("it belongs to another user"));
    }
    if found.mode & 0o077 != 0 {
        return Err(SegmentError::Directory("others may enter it: its mode must be 0700"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::tempdir::TempDir;

    #[test]
    fn placeholder_path_leads_back_to_its_file() {
        let place = TempDir::new();
        let directory = RuntimeDir::make(place.path().as_bytes(), 5).unwrap();
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
        assert!(matches!(RuntimeDir::make(place.path().as_bytes(), 5), Err(SegmentError::Directory(_))));
    }
}
