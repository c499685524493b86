//! Which segment a URL leads to, and the handle of its directory. A segment belongs to a file system of a server. Several URLs lead into it,
//! each with a root of its own: another spelling of the server, a directory in the export, another export of the same file system.
//!
//! The first process that attaches by a URL asks the server (MNT) and looks for a segment of the same file system at the same address. It
//! notes what it found in the file `url.<hash of the URL>` beside the segments' directories, so that the next process asks nothing. A note is
//! only a hint: the server is asked whether it knows the root before anything is done with it, and a note can be removed at any time.

use std::hash::Hasher;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::attach::parts_of;
use crate::client::{Client, MountParts};
use crate::error::Error;
use crate::file::FileHandle;
use crate::segment::runtime_dir::{FILE_MODE, RuntimeDir};
use crate::segment::{Segment, SegmentError, local};
use crate::sys::local_file::{CPath, open, read, rename, unlink, write};
use crate::sys::random::random;
use crate::url::{NfsUrl, host_key};

const PREFIX: &str = "url.";
/// Longest note: two numbers and the largest handle in hexadecimal.
const NOTE_BYTES_MAX: usize = 512;

/// Where a URL leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UrlRoot {
    /// Name of the segment's directory.
    pub(super) identity: u64,
    /// The directory that the URL names.
    pub(super) root: FileHandle,
    /// Which host of the URL's set is in use.
    pub(super) host: u32,
}

impl UrlRoot {
    /// What is noted of a URL below this directory.
    pub(super) fn noted(runtime_root: &Path, url: &NfsUrl) -> Option<Self> {
        read_note(&note_path(runtime_root, url))
    }

    /// Where the URL leads that was just mounted: into a segment that is there, else into one that is to be made, in place of the
    /// `former` one if there was one.
    pub(super) fn of_mounted(runtime_root: &Path, owner: u32, mounted: &Client, former: Option<u64>) -> Self {
        let parts = mounted.parts();
        let url_root = |identity| Self { identity, root: parts.root, host: parts.host };
        let live: Vec<u64> = identities(runtime_root).filter(|identity| segment_at(runtime_root, *identity).is_some()).collect();
        if let Some(found) = live.iter().find(|identity| holds_volume_of(runtime_root, **identity, mounted)) {
            return url_root(*found);
        }
        // Not the name of another server's segment, which may have been at this address before.
        let mut identity = former.unwrap_or_else(|| file_system_number(parts.server, parts.fsid, owner));
        while live.contains(&identity) {
            identity = identity.wrapping_add(1);
        }
        url_root(identity)
    }

    /// Notes it for the next process and the keeper, unless it is noted.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn note(&self, runtime_root: &Path, url: &NfsUrl) -> Result<(), SegmentError> {
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

/// What the url_roots of a segment have as their roots, and the directory by which it was made.
pub(super) fn roots_of(segment: &Segment) -> Vec<FileHandle> {
    let made_by = segment.parts().and_then(|stored| parts_of(&stored)).map(|parts| parts.root);
    let runtime_root = root_of(segment);
    let (identity, notes) = (segment.header().identity.load(core::sync::atomic::Ordering::Relaxed), notes(&runtime_root));
    let url_roots =
        notes.filter_map(|path| read_note(&path)).filter(|url_root| url_root.identity == identity).map(|url_root| url_root.root);
    let mut roots: Vec<FileHandle> = made_by.into_iter().chain(url_roots).collect();
    roots.dedup();
    roots
}

/// Whether the server knows one of these handles.
///
/// # Errors
/// No answer, or another refusal than of the handle.
pub(super) fn knows_any(client: &Client, roots: &[FileHandle]) -> Result<bool, Error> {
    for root in roots {
        if client.serves(root)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes what is noted of a segment.
pub(super) fn forget_all(segment: &Segment) {
    let identity = segment.header().identity.load(core::sync::atomic::Ordering::Relaxed);
    for path in notes(&root_of(segment)).filter(|path| read_note(path).is_some_and(|url_root| url_root.identity == identity)) {
        let _ = unlink(&CPath::new(path.as_os_str().as_bytes()));
    }
}

/// A number for the file system with this number on a server, for the mounts of one owner.
pub(super) fn file_system_number(server: SocketAddr, fsid: u64, owner: u32) -> u64 {
    fnv_of(&format!("{owner} {} {} {fsid:x}", server.ip().to_canonical(), server.port()))
}

/// The directory that the segments of this process' mounts lie in.
pub(super) fn root_of(segment: &Segment) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(segment.directory().root()))
}

fn note_path(runtime_root: &Path, url: &NfsUrl) -> PathBuf {
    let servers: Vec<String> = url.server_set().into_iter().map(host_key).collect();
    let export = url.export_path.trim_end_matches('/');
    runtime_root.join(format!("{PREFIX}{:016x}", fnv_of(&format!("{} {} {export}", servers.join(","), url.nfs_port()))))
}

/// FNV-1a, in every version: processes of two versions must find the same segment, or learn that it has another layout.
fn fnv_of(text: &str) -> u64 {
    let mut hash = fnv::FnvHasher::default();
    hash.write(text.as_bytes());
    hash.finish()
}

fn notes(runtime_root: &Path) -> impl Iterator<Item = PathBuf> {
    let files = std::fs::read_dir(runtime_root).into_iter().flatten().flatten();
    files.filter(|file| file.file_name().as_bytes().starts_with(PREFIX.as_bytes())).map(|file| file.path())
}

fn read_note(path: &Path) -> Option<UrlRoot> {
    let mut bytes = [0; NOTE_BYTES_MAX];
    let file = open(&CPath::new(path.as_os_str().as_bytes()), libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK, 0).ok()?;
    let length = read(&file, &mut bytes).ok()?;
    UrlRoot::of_text(std::str::from_utf8(bytes.get(..length)?).ok()?)
}

fn identities(runtime_root: &Path) -> impl Iterator<Item = u64> {
    let directories = std::fs::read_dir(runtime_root).into_iter().flatten().flatten();
    directories.filter_map(|directory| {
        let name = directory.file_name();
        let name = name.to_str().filter(|name| name.len() == 16)?;
        u64::from_str_radix(name, 16).ok()
    })
}

fn segment_at(runtime_root: &Path, identity: u64) -> Option<Segment> {
    let directory = RuntimeDir::made_by_another(runtime_root, |_| identity)?;
    Segment::attach(&directory, identity).ok().flatten()
}

/// Whether the segment is of the file system that was just mounted: same server, same number, and the server knows a directory of it.
fn holds_volume_of(runtime_root: &Path, identity: u64, mounted: &Client) -> bool {
    let Some(segment) = segment_at(runtime_root, identity) else { return false };
    let Some(known) = segment.parts().and_then(|stored| parts_of(&stored)) else { return false };
    let parts = mounted.parts();
    if known.fsid != parts.fsid || !share_an_address(&known, &parts) {
        return false;
    }
    let roots = roots_of(&segment);
    roots.contains(&parts.root) || knows_any(mounted, &roots).unwrap_or(false)
}

fn share_an_address(one: &MountParts, other: &MountParts) -> bool {
    let addresses = |parts: &MountParts| -> Vec<(std::net::IpAddr, u16)> {
        let all = std::iter::once(parts.server).chain(parts.addresses.servers());
        all.map(|address| (address.ip().to_canonical(), address.port())).collect()
    };
    let others = addresses(other);
    addresses(one).iter().any(|address| others.contains(address))
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
