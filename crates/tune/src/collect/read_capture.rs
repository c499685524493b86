//! Opens a capture: a folder or a tar archive, which may be compressed by gzip. Nothing is unpacked
//! to disk and nothing in the capture is run. Entries that lead out of it are skipped with a
//! remark.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::archive::{self, ArchiveFault};
use super::collected::Collected;
use super::entries::Entries;
use super::limits::{DEPTH_MAX, ENTRIES_MAX, FILE_BYTES_MAX};

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It cannot be opened or read.
    #[error("read capture {path}")]
    Read {
        /// The capture's path.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// It is neither a directory nor an archive.
    #[error("it is neither a directory nor a tar archive, or it is damaged")]
    Other {
        /// The capture's path.
        path: String,
    },
    /// It is in a compressed format that is not supported.
    #[error("read capture {path}: it is packed by {by}; unpack it first")]
    Packed {
        /// The capture's path.
        path: String,
        /// The program that unpacks it.
        by: &'static str,
    },
    /// It would unpack to more than the limits.
    #[error("read capture {path}: {what}; a capture does not do that")]
    Bomb {
        /// The capture's path.
        path: String,
        /// The limit that it exceeds.
        what: String,
    },
    /// It contains nothing that is known.
    #[error("{path} has no file that the auditor knows")]
    Empty {
        /// The capture's path.
        path: String,
    },
}

/// Reads a capture from a folder or an archive.
///
/// # Errors
/// The capture cannot be read, exceeds a limit, or contains nothing that is known. Other
/// irregularities are remarked.
pub(super) fn open(path: &Path) -> Result<Collected, CaptureError> {
    let named = path.display().to_string();
    let fault = |source| CaptureError::Read { path: named.clone(), source };
    let mut entries = Entries::default();
    if fs::metadata(path).map_err(fault)?.is_dir() {
        folder(path, &mut entries).map_err(fault)?;
    } else {
        let file = File::open(path).map_err(fault)?;
        archive::read(BufReader::with_capacity(64 << 10, file), &mut entries).map_err(|fault| why(fault, &named))?;
    }
    entries.into_collected().ok_or(CaptureError::Empty { path: named })
}

/// Reads a capture from the bytes of an archive.
///
/// # Errors
/// As for [`open`].
pub(super) fn open_bytes(bytes: &[u8], named: &str) -> Result<Collected, CaptureError> {
    let mut entries = Entries::default();
    archive::read(bytes, &mut entries).map_err(|fault| why(fault, named))?;
    entries.into_collected().ok_or_else(|| CaptureError::Empty { path: named.to_owned() })
}

fn why(fault: ArchiveFault, named: &str) -> CaptureError {
    let path = named.to_owned();
    match fault {
        ArchiveFault::Read(source) => CaptureError::Read { path, source },
        ArchiveFault::Other => CaptureError::Other { path },
        ArchiveFault::Packed(by) => CaptureError::Packed { path, by },
        ArchiveFault::Bomb(what) => CaptureError::Bomb { path, what },
    }
}

/// Reads the entries of a folder. A link is followed only to a file inside the folder.
fn folder(root: &Path, entries: &mut Entries) -> io::Result<()> {
    let real_root = root.canonicalize()?;
    let mut open: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    while let Some((dir, depth)) = open.pop() {
        let listing = match fs::read_dir(&dir) {
            Ok(listing) => listing,
            Err(fault) if depth == 0 => return Err(fault),
            Err(fault) => {
                entries.remark(format!("folder {}: {fault}", dir.display()));
                continue;
            }
        };
        for entry in listing.flatten() {
            entries.seen += 1;
            if entries.seen > ENTRIES_MAX {
                entries.remark(format!("more than {ENTRIES_MAX} entries: the rest is skipped"));
                return Ok(());
            }
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if let Some(inner) = path.strip_prefix(root).ok().and_then(Path::to_str) {
                    entries.folder(inner);
                }
                if depth < DEPTH_MAX {
                    open.push((path, depth + 1));
                }
                continue;
            }
            let Some(inner) = path.strip_prefix(root).ok().and_then(Path::to_str) else {
                entries.remark(format!("entry {} has no name in UTF-8: skipped", path.display()));
                continue;
            };
            let Some(place) = entries.place(inner) else { continue };
            if kind.is_symlink() {
                let target = path.canonicalize();
                if !target.is_ok_and(|target| target.starts_with(&real_root) && target.is_file()) {
                    let target = fs::read_link(&path).unwrap_or_default();
                    entries.link(inner, place, &target.to_string_lossy());
                    continue;
                }
            } else if !kind.is_file() {
                entries.remark(format!("entry {inner:?} is no plain file: skipped"));
                continue;
            }
            let mode = fs::metadata(&path).map_or(0, |metadata| metadata.mode());
            match read_some(&path) {
                Ok(bytes) => entries.keep(inner, place, bytes, mode),
                Err(fault) => entries.remark(format!("entry {inner:?}: {fault}")),
            }
        }
    }
    Ok(())
}

/// Reads the beginning of a file: one byte more than the limit for a text, so that a longer file is
/// noticed.
pub(super) fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
