//! Notes for the next process: to which segment a URL leads, and the handle of its directory. A segment belongs to a file
//! system of a server. Several URLs can lead to it, each with its own root: another spelling of the server, a directory in the
//! export, another export of the same file system.
//!
//! The first process that attaches by a URL asks the server (mount/url_roots.rs). It notes what it found in the file
//! `url.<hash of the URL>` beside the segments' directories, so that the next process need not ask. A process that attaches asks
//! the server whether it knows the root of the note, and ignores the note if the root is gone. If a note is missing, programs
//! that wait for their export conclude that the directory was removed (docs/design/026-away.md).

use core::sync::atomic::Ordering::Relaxed;
use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::export_state::ExportState;
use super::runtime_dir::FILE_MODE;
use super::{SegmentError, local};
use crate::file::FileHandle;
use crate::sys::local_file::{CPath, Errno, open, read, rename, unlink, write};
use crate::sys::random::random;
use crate::url::{NfsUrl, host_key};

const PREFIX: &str = "url.";
/// Longest note: two numbers and the largest handle in hexadecimal.
const NOTE_BYTES_MAX: usize = 512;

/// Where a URL leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UrlRoot {
    /// Name of the segment's directory.
    pub(crate) identity: u64,
    /// The directory that the URL names.
    pub(crate) root: FileHandle,
    /// Which host of the URL's set is in use.
    pub(crate) host: u32,
}

impl UrlRoot {
    /// The note of a URL in this directory.
    pub(crate) fn noted(runtime_root: &Path, url: &NfsUrl) -> Option<Self> {
        read_note(&note_path(runtime_root, url)).ok().flatten()
    }

    /// Stores the note for the next process and the keeper, unless it is stored already.
    ///
    /// # Errors
    /// The note cannot be created.
    pub(crate) fn note(&self, runtime_root: &Path, url: &NfsUrl) -> Result<(), SegmentError> {
        if Self::noted(runtime_root, url) == Some(*self) {
            return Ok(());
        }
        let path = note_path(runtime_root, url);
        let fresh = CPath::new(path.with_extension(format!("{:016x}", random())).as_os_str().as_bytes());
        let made = open(&fresh, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, FILE_MODE);
        let made = made.and_then(|file| write(&file, self.to_text().as_bytes()));
        made.and_then(|()| rename(&fresh, &CPath::new(path.as_os_str().as_bytes()))).map_err(|errno| {
            let _ = unlink(&fresh);
            local("note where the export's segment is")(errno)
        })
    }

    /// Removes the note of a URL.
    pub(crate) fn forget(runtime_root: &Path, url: &NfsUrl) {
        let _ = unlink(&CPath::new(note_path(runtime_root, url).as_os_str().as_bytes()));
    }

    fn to_text(self) -> String {
        let root: String = self.root.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:016x} {} {root}\n", self.identity, self.host)
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix('\n')?.split(' ');
        let identity = u64::from_str_radix(words.next()?, 16).ok()?;
        let host = words.next()?.parse().ok()?;
        let digits = words.next()?;
        let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let root: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        Some(Self { identity, root: FileHandle::new(&root?)?, host })
    }
}

impl ExportState {
    /// The roots of all URLs that lead to the segment, and the root with which it was created.
    pub(crate) fn roots(&self) -> Vec<FileHandle> {
        let mut roots: Vec<FileHandle> = self.first_root().into_iter().collect();
        for (_, noted) in self.notes() {
            if !roots.contains(&noted.root) {
                roots.push(noted.root);
            }
        }
        roots
    }

    /// Whether a URL leads to this root of the segment. True if the notes can't be read.
    pub(crate) fn is_noted(&self, root: &FileHandle) -> bool {
        let Ok(mut files) = note_files(self.runtime_root()) else { return true };
        files.any(|path| match read_note(&path) {
            Ok(noted) => noted.is_some_and(|noted| noted.root == *root),
            Err(errno) => errno != Errno(libc::ENOENT),
        })
    }

    /// Removes the notes that lead to the segment.
    pub(crate) fn forget_urls(&self) {
        forget_urls(self.runtime_root(), self.header().identity.load(Relaxed));
    }

    fn notes(&self) -> impl Iterator<Item = (PathBuf, UrlRoot)> {
        notes_of(self.runtime_root(), self.header().identity.load(Relaxed))
    }
}

/// Removes the notes that lead to the segment of this identity.
pub(crate) fn forget_urls(runtime_root: &Path, identity: u64) {
    for (path, _) in notes_of(runtime_root, identity) {
        let _ = unlink(&CPath::new(path.as_os_str().as_bytes()));
    }
}

fn notes_of(runtime_root: &Path, identity: u64) -> impl Iterator<Item = (PathBuf, UrlRoot)> {
    let files = note_files(runtime_root).into_iter().flatten();
    let notes = files.filter_map(|path| read_note(&path).ok().flatten().map(|noted| (path, noted)));
    notes.filter(move |(_, noted)| noted.identity == identity)
}

fn note_path(runtime_root: &Path, url: &NfsUrl) -> PathBuf {
    let servers: Vec<String> = url.server_set().into_iter().map(host_key).collect();
    let export = url.export_path.trim_end_matches('/');
    runtime_root.join(format!("{PREFIX}{:016x}", fnv_of(&format!("{} {} {export}", servers.join(","), url.nfs_port()))))
}

/// FNV-1a. It must not change between versions: processes of two versions find the same segment, and then see that its layout
/// differs.
pub(crate) fn fnv_of(text: &str) -> u64 {
    let mut hash = fnv::FnvHasher::default();
    hash.write(text.as_bytes());
    hash.finish()
}

fn note_files(runtime_root: &Path) -> std::io::Result<impl Iterator<Item = PathBuf>> {
    let files = std::fs::read_dir(runtime_root)?.flatten();
    Ok(files.filter(|file| file.file_name().as_bytes().starts_with(PREFIX.as_bytes())).map(|file| file.path()))
}

fn read_note(path: &Path) -> Result<Option<UrlRoot>, Errno> {
    let mut bytes = [0; NOTE_BYTES_MAX];
    let file = open(&CPath::new(path.as_os_str().as_bytes()), libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK, 0)?;
    let length = read(&file, &mut bytes)?;
    Ok(std::str::from_utf8(&bytes[..length]).ok().and_then(UrlRoot::of_text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::tempdir::TempDir;

    #[test]
    fn a_note_is_found_by_each_spelling_of_its_url_and_by_no_other_url() {
        let place = TempDir::new();
        let root = Path::new(place.path());
        let url = |text: &str| -> NfsUrl { text.parse().unwrap() };
        let url_root = UrlRoot { identity: 0xabc, root: FileHandle::new(&[7; 64]).unwrap(), host: 1 };
        url_root.note(root, &url("nfs://a,B/vol")).unwrap();
        assert_eq!(UrlRoot::noted(root, &url("nfs://b,a/vol/?rsize=8192")), Some(url_root));
        assert_eq!(UrlRoot::noted(root, &url("nfs://a/vol")), None);
        assert_eq!(UrlRoot::noted(root, &url("nfs://a,b/vol/sub")), None);
        assert_eq!(UrlRoot::noted(root, &url("nfs://a,b:2050/vol")), None);
    }

    #[test]
    fn a_note_that_is_cut_short_is_none() {
        let text = UrlRoot { identity: 1, root: FileHandle::new(&[7; 8]).unwrap(), host: 0 }.to_text();
        assert!(UrlRoot::of_text(&text).is_some());
        assert!((0..text.len()).all(|length| UrlRoot::of_text(&text[..length]).is_none()));
    }
}
