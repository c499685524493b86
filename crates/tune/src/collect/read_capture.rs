//! Opening a capture: a folder, a tar archive, or one packed by gzip. Nothing is unpacked to disk, nothing in it is run, and what
//! leads out of it is skipped by name.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;

use super::collected::Collected;
use super::layout::{self, Place};
use super::limits::{
    CAPTURE_BYTES_MAX, DEPTH_MAX, ENTRIES_MAX, FILE_BYTES_MAX, FILES_MAX, UNPACK_RATIO_FREE_BYTES, UNPACK_RATIO_MAX,
    UNPACKED_BYTES_MAX,
};
use super::{manifest, tar, text};

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It cannot be opened or read.
    #[error("read capture {path}")]
    Read {
        /// Its path.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// It is in a format that is not unpacked here.
    #[error("read capture {path}: it is packed by {by}; unpack it first")]
    Packed {
        /// Its path.
        path: String,
        /// The program that unpacks it.
        by: &'static str,
    },
    /// It would grow beyond all bounds.
    #[error("read capture {path}: {what}; a capture does not do that")]
    Bomb {
        /// Its path.
        path: String,
        /// The bound that it breaks.
        what: String,
    },
    /// There is nothing in it that is known.
    #[error("find anything in capture {path} that a parser reads")]
    Empty {
        /// Its path.
        path: String,
    },
}

/// Reads a capture from a folder or an archive.
///
/// # Errors
/// It cannot be read, is a bomb, or has nothing in it that is known. What is odd but harmless is remarked.
pub(super) fn open(path: &Path) -> Result<Collected, CaptureError> {
    let named = path.display().to_string();
    let fault = |source| CaptureError::Read { path: named.clone(), source };
    let mut pieces = Pieces::default();
    if fs::metadata(path).map_err(fault)?.is_dir() {
        folder(path, &mut pieces).map_err(fault)?;
    } else {
        let file = File::open(path).map_err(fault)?;
        archive(BufReader::with_capacity(64 << 10, file), &named, &mut pieces)?;
    }
    pieces.into_collected().ok_or(CaptureError::Empty { path: named })
}

/// Reads a capture from the bytes of an archive.
///
/// # Errors
/// As [`open`].
pub(super) fn open_bytes(bytes: &[u8], named: &str) -> Result<Collected, CaptureError> {
    let mut pieces = Pieces::default();
    archive(BufReader::new(bytes), named, &mut pieces)?;
    pieces.into_collected().ok_or_else(|| CaptureError::Empty { path: named.to_owned() })
}

/// Entries worth keeping, until the MANIFEST is known, which may come last.
#[derive(Default)]
struct Pieces {
    kept: Vec<(String, Place, Vec<u8>)>,
    remarks: Vec<String>,
    bytes: usize,
    seen: usize,
}

impl Pieces {
    fn remark(&mut self, remark: String) {
        // The rest is as odd as what is named.
        if self.remarks.len() < 100 {
            self.remarks.push(remark);
        }
    }

    /// Counts an entry and says where it belongs; `None` when nobody wants it.
    fn place(&mut self, path: &str) -> Option<Place> {
        match layout::place(path) {
            None => {
                self.remark(format!("entry {:?} leads out of the capture or is too deep: skipped", text::head(path, 120)));
                None
            }
            Some(Place::Nothing) => None,
            Some(_) if self.bytes >= CAPTURE_BYTES_MAX || self.kept.len() >= FILES_MAX => {
                self.remark(format!("entry {:?} is skipped: more than a capture may hold", text::head(path, 120)));
                None
            }
            Some(place) => Some(place),
        }
    }

    fn keep(&mut self, path: &str, place: Place, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.kept.push((path.to_owned(), place, bytes));
    }

    /// `None` when nothing was kept but lists.
    fn into_collected(mut self) -> Option<Collected> {
        let mut collected = Collected { remarks: std::mem::take(&mut self.remarks), ..Collected::default() };
        self.kept.sort_by(|left, right| left.0.cmp(&right.0));
        let (listed, root) = self.manifest(&mut collected);
        let mut useful = false;
        let mut found = BTreeSet::new();
        for (path, place, bytes) in self.kept {
            let path = path.trim_start_matches("./");
            let inner = path.strip_prefix(root.as_str()).unwrap_or(path);
            let entry = listed.get(inner);
            found.insert(inner.to_owned());
            // What could not be had has its reason as text.
            if let Some(entry) = entry.filter(|entry| matches!(entry.exit, Some(126 | 127))) {
                let reason =
                    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).lines().next().unwrap_or_default().to_owned();
                collected.denied.insert(entry.line.clone(), reason);
                continue;
            }
            match place {
                Place::File(file) => collected.take_file(&file, &bytes),
                Place::Command(slug) => {
                    let line = entry.map_or(slug.as_str(), |entry| entry.line.as_str());
                    collected.take_command(line, &bytes, entry.and_then(|entry| entry.exit));
                }
                Place::Site => collected.site = text::decode(&bytes, "site.toml", &mut collected.remarks),
                Place::Manifest | Place::Nothing => continue,
            }
            useful = true;
        }
        for entry in listed.values().filter(|entry| entry.exit != Some(0) && !entry.line.is_empty()) {
            let code = entry.exit.map_or("no exit code".to_owned(), |code| format!("exit code {code}"));
            collected.denied.entry(entry.line.clone()).or_insert(format!("{code} as {}", entry.user));
        }
        let missing = listed.values().filter(|entry| entry.exit == Some(0) && !found.contains(&entry.path));
        let missing: Vec<&str> =
            missing.map(|entry| entry.path.as_str()).filter(|path| layout::place(path) != Some(Place::Nothing)).collect();
        for path in missing.iter().take(20) {
            collected.remarks.push(format!("MANIFEST names {path:?}, which is not there"));
        }
        useful.then_some(collected)
    }

    /// Reads the MANIFEST: its entries by path, and the folder it lies in.
    fn manifest(&self, collected: &mut Collected) -> (BTreeMap<String, manifest::Listed>, String) {
        let Some((path, _, bytes)) = self.kept.iter().find(|(_, place, _)| *place == Place::Manifest) else {
            return (BTreeMap::new(), String::new());
        };
        let text = text::decode(bytes, "MANIFEST", &mut collected.remarks).unwrap_or_default();
        let listed = manifest::read(&text, collected);
        collected.listed = !listed.is_empty();
        if !listed.is_empty() {
            collected.root = Some(listed.iter().any(|entry| entry.user == "root"));
        }
        let path = path.trim_start_matches("./");
        let root = path.strip_suffix("MANIFEST").unwrap_or_default().to_owned();
        (listed.into_iter().map(|entry| (entry.path.clone(), entry)).collect(), root)
    }
}

/// Walks a folder. Links are followed to files inside it only.
fn folder(root: &Path, pieces: &mut Pieces) -> io::Result<()> {
    let real_root = root.canonicalize()?;
    let mut open: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    while let Some((dir, depth)) = open.pop() {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(fault) if depth == 0 => return Err(fault),
            Err(fault) => {
                pieces.remark(format!("folder {}: {fault}", dir.display()));
                continue;
            }
        };
        for entry in entries.flatten() {
            pieces.seen += 1;
            if pieces.seen > ENTRIES_MAX {
                pieces.remark(format!("more than {ENTRIES_MAX} entries: the rest is skipped"));
                return Ok(());
            }
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if depth < DEPTH_MAX {
                    open.push((path, depth + 1));
                }
                continue;
            }
            let Some(inner) = path.strip_prefix(root).ok().and_then(Path::to_str) else {
                pieces.remark(format!("entry {} has no name in UTF-8: skipped", path.display()));
                continue;
            };
            let Some(place) = pieces.place(inner) else { continue };
            if kind.is_symlink() {
                let target = path.canonicalize();
                if !target.is_ok_and(|target| target.starts_with(&real_root) && target.is_file()) {
                    pieces.remark(format!("link {inner:?} leads out of the capture or to no file: skipped"));
                    continue;
                }
            } else if !kind.is_file() {
                pieces.remark(format!("entry {inner:?} is no plain file: skipped"));
                continue;
            }
            match read_some(&path) {
                Ok(bytes) => pieces.keep(inner, place, bytes),
                Err(fault) => pieces.remark(format!("entry {inner:?}: {fault}")),
            }
        }
    }
    Ok(())
}

/// The first bytes of a file, one more than a text may have.
pub(super) fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a tar archive, packed by gzip or not.
fn archive(mut from: impl io::BufRead, named: &str, pieces: &mut Pieces) -> Result<(), CaptureError> {
    let fault = |source| CaptureError::Read { path: named.to_owned(), source };
    let begin = from.fill_buf().map_err(fault)?;
    let by = match begin {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Some("xz"),
        [b'B', b'Z', b'h', ..] => Some("bzip2"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        [b'P', b'K', 3, 4, ..] => Some("unzip"),
        _ => None,
    };
    if let Some(by) = by {
        return Err(CaptureError::Packed { path: named.to_owned(), by });
    }
    let packed = Rc::new(Cell::new(0));
    if begin.starts_with(&[0x1f, 0x8b]) {
        let counted = Counted { from, count: Rc::clone(&packed) };
        let guard = Guard { from: MultiGzDecoder::new(counted), packed: Some(packed), unpacked: 0 };
        entries(BufReader::with_capacity(64 << 10, guard), named, pieces)
    } else {
        entries(Guard { from, packed: None, unpacked: 0 }, named, pieces)
    }
}

fn entries(mut from: impl Read, named: &str, pieces: &mut Pieces) -> Result<(), CaptureError> {
    loop {
        match step(&mut from, pieces) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(fault) if fault.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Burst>) => {
                return Err(CaptureError::Bomb { path: named.to_owned(), what: fault.to_string() });
            }
            Err(source) if pieces.seen == 0 => return Err(CaptureError::Read { path: named.to_owned(), source }),
            Err(fault) => {
                pieces.remark(format!("the archive breaks off after {} entries ({fault}): what was read is used", pieces.seen));
                return Ok(());
            }
        }
        if pieces.seen > ENTRIES_MAX {
            return Err(CaptureError::Bomb { path: named.to_owned(), what: format!("it has more than {ENTRIES_MAX} entries") });
        }
    }
}

/// Reads one entry; `false` at the end.
fn step(from: &mut impl Read, pieces: &mut Pieces) -> io::Result<bool> {
    let Some(head) = tar::next(from)? else { return Ok(false) };
    pieces.seen += 1;
    match (head.kind, pieces.place(&head.path)) {
        (tar::Kind::File, Some(place)) => {
            let bytes = tar::contents(from, head.size, FILE_BYTES_MAX + 1)?;
            pieces.keep(&head.path, place, bytes);
        }
        (kind, place) => {
            if kind == tar::Kind::Other && place.is_some() {
                pieces.remark(format!("entry {:?} is a link or a device: skipped", text::head(&head.path, 120)));
            }
            // A link's size says nothing of what follows.
            if kind == tar::Kind::File {
                tar::skip(from, head.size)?;
            }
        }
    }
    Ok(true)
}

/// Counts what is read.
struct Counted<R> {
    from: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// Lets an archive grow no further than captures do.
struct Guard<R> {
    from: R,
    packed: Option<Rc<Cell<u64>>>,
    unpacked: u64,
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.unpacked += count as u64;
        if self.unpacked > UNPACKED_BYTES_MAX {
            return Err(io::Error::other(Burst(format!("it unpacks to more than {UNPACKED_BYTES_MAX} bytes"))));
        }
        if let Some(packed) = &self.packed
            && self.unpacked > UNPACK_RATIO_FREE_BYTES
            && self.unpacked / packed.get().max(1) > UNPACK_RATIO_MAX
        {
            return Err(io::Error::other(Burst(format!("it unpacks to more than {UNPACK_RATIO_MAX} times its size"))));
        }
        Ok(count)
    }
}

/// An archive grew beyond a bound.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Burst(String);
