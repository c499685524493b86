//! Decides whether a path leads to this host or to a mount.
//!
//! Absolute paths below a mount's prefix and relative paths from a directory of a mount go to the mount. Links on a mount may
//! lead back to this host. Links of this host that lead into a mount are followed only after the local call has failed, because
//! a mount's path normally does not exist here. If it does exist, they are followed before the local call.

use crate::directories::{self, Opened};
use crate::directory_placeholders;
use crate::ffi;
use crate::mounts::{self, Mounted};
use crate::outcome::{Failure, Out, kept};
use crate::raw;
use crate::table::{self, Found};
use dnfs::mount::{Entry, LastName, Mount, Walk};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};

/// Maximum number of changes between host and mounts, and of links of the host, on one path. Linux
/// has this limit for links.
const TURNS_MAX: usize = 40;

/// A path that leads to a mount.
struct Start {
    mounted: &'static Mounted,
    /// The open directory where the path begins. `None` if it begins at the root of the mount.
    from: Option<Opened>,
    below: Vec<u8>,
}

impl Start {
    fn from_root(mounted: &'static Mounted, below: &[u8]) -> Self {
        Self { mounted, from: None, below: below.to_vec() }
    }

    fn from_directory(opened: Opened, below: &[u8]) -> Self {
        Self { mounted: opened.mounted, from: Some(opened), below: below.to_vec() }
    }
}

/// The object that a path names.
#[expect(clippy::large_enum_variant, reason = "made once per call and looked at where it lies")]
pub(crate) enum Target {
    /// An object of this host, and the path to use instead of the caller's, if it differs.
    Local(Option<CString>),
    /// An object or a free name on a mount.
    At(&'static Mounted, &'static Mount, Entry),
}

/// Calls `on_mount` if the path leads to a mount, otherwise `local`: libc's function with the path to use.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn at<R: Failure + PartialEq>(
    directory: c_int,
    path: *const c_char,
    last: impl Into<LastName>,
    on_mount: impl FnOnce(&'static Mounted, &'static Mount, &Entry) -> Result<R, Out>,
    local: impl FnOnce(c_int, *const c_char) -> R,
) -> Result<R, Out> {
    let last = last.into();
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        if !mounts::any() {
            return kept(local(directory, path));
        }
        match target(directory, path, last)? {
            Target::At(mounted, mount, entry) => on_mount(mounted, mount, &entry),
            Target::Local(Some(other)) => kept(local(libc::AT_FDCWD, other.as_ptr())),
            Target::Local(None) => {
                let answer = kept(local(directory, path));
                let Err(failed @ Out::Errno(libc::ENOENT | libc::ENOTDIR)) = answer else { return answer };
                let Some(start) = through_links(directory, ffi::path(path)?, last)? else { return Err(failed) };
                match walk(start, last)? {
                    Target::At(mounted, mount, entry) => on_mount(mounted, mount, &entry),
                    Target::Local(_) => Err(failed),
                }
            }
        }
    }
}

/// Resolves a path to an object of this host or of a mount.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn target(directory: c_int, path: *const c_char, last: impl Into<LastName>) -> Result<Target, Out> {
    let last = last.into();
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        let bytes = ffi::path(path)?;
        if bytes.len() >= libc::PATH_MAX as usize {
            return Err(Out::Errno(libc::ENAMETOOLONG)); // as the kernel, which checks this first
        }
        if bytes.is_empty() {
            return Ok(Target::Local(None)); // ENOENT, or AT_EMPTY_PATH, which the caller has checked
        }
        let start = match begin(directory, bytes)? {
            Some(start) => Some(start),
            None if mounts::careful() || passes_descriptor(bytes) => through_links(directory, bytes, last)?,
            None => None,
        };
        start.map_or(Ok(Target::Local(None)), |start| walk(start, last))
    }
}

/// As [`target`], but also follows links of this host before any local call.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn target_linked(directory: c_int, path: *const c_char, last: impl Into<LastName>) -> Result<Target, Out> {
    let last = last.into();
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    unsafe {
        match target(directory, path, last)? {
            Target::Local(None) => match through_links(directory, ffi::path(path)?, last)? {
                Some(start) => walk(start, last),
                None => Ok(Target::Local(None)),
            },
            other => Ok(other),
        }
    }
}

/// Whether a path of this process leads to a mount, according to its text and to links of this host.
pub(crate) fn lead_to_mount(path: &[u8]) -> bool {
    let begins = begin(libc::AT_FDCWD, path).is_ok_and(|start| start.is_some());
    begins || matches!(through_links(libc::AT_FDCWD, path, LastName::Followed), Ok(Some(_)))
}

/// The mount on which a path starts, without resolving links.
fn begin(directory: c_int, path: &[u8]) -> Result<Option<Start>, Out> {
    if path[0] == b'/' {
        return Ok(below_prefix(path));
    }
    let opened = match directory {
        libc::AT_FDCWD => directories::current()?,
        _ => match table::find(directory)? {
            Found::Directory(opened) => Some(opened),
            Found::File(_) => return Err(Out::Errno(libc::ENOTDIR)),
            Found::Elsewhere => None,
        },
    };
    Ok(opened.map(|opened| Start::from_directory(opened, path)))
}

/// Whether a path goes through a name such as /proc/self/fd/N or /proc/self/cwd. The kernel would find the placeholder there, so
/// such a path is not tried locally first.
fn passes_descriptor(path: &[u8]) -> bool {
    let has = |part: &[u8]| path.windows(part.len()).any(|found| found == part);
    path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/") && (has(b"/fd/") || has(b"/cwd/") || path.ends_with(b"/cwd"))
}

/// The mount whose local path is a prefix of this absolute path, component by component. `.`, `..` and doubled slashes before
/// it are removed as text.
fn below_prefix(path: &[u8]) -> Option<Start> {
    if let Some(start) = strip_prefix(path) {
        return Some(start);
    }
    if !path.windows(2).any(|two| two == b"//" || two == b"/.") {
        return None;
    }
    let mut plain: Vec<u8> = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(from) = rest.iter().position(|b| *b != b'/') {
        let end = rest[from..].iter().position(|b| *b == b'/').map_or(rest.len(), |length| from + length);
        match &rest[from..end] {
            b"." => {}
            b".." => plain.truncate(plain.iter().rposition(|b| *b == b'/').unwrap_or(0)),
            name => {
                plain.push(b'/');
                plain.extend_from_slice(name);
            }
        }
        rest = &rest[end..];
        if let Some(mut start) = strip_prefix(&plain).filter(|start| start.below.is_empty()) {
            start.below = rest.to_vec(); // the server resolves the rest, where `..` may cross a link
            return Some(start);
        }
    }
    None
}

fn strip_prefix(path: &[u8]) -> Option<Start> {
    mounts::all().find_map(|mounted| {
        let below = path.strip_prefix(mounted.local_path())?;
        matches!(below.first(), None | Some(b'/')).then(|| Start::from_root(mounted, below))
    })
}

/// Follows a path on one mount.
fn walk_on(mount: &Mount, start: &Start, last: LastName) -> Result<Walk, dnfs::Error> {
    match &start.from {
        Some(opened) => mount.walk_from(opened.directory(), &start.below, last),
        None => mount.walk(&start.below, last),
    }
}

/// Follows a path over mounts to its end.
fn walk(mut start: Start, last: LastName) -> Result<Target, Out> {
    for _ in 0..TURNS_MAX {
        let mut mount = start.mounted.attach()?;
        let mut walked = walk_on(mount, &start, last);
        if walked.is_err() && mount.is_retired() {
            // The server now exports another volume, to which the path leads.
            mount = start.mounted.attach()?;
            walked = walk_on(mount, &start, last);
        }
        let leaves = match walked? {
            Walk::At(entry) => {
                return Ok(match mount.wal_index_of(&entry) {
                    Some(place) => Target::Local(Some(place)),
                    None => Target::At(start.mounted, mount, entry),
                });
            }
            Walk::Leaves(path) => path,
        };
        let onward = match below_prefix(&leaves) {
            Some(onward) => Some(onward),
            None => through_links(libc::AT_FDCWD, &leaves, last)?,
        };
        match onward {
            Some(onward) => start = onward,
            None => return CString::new(leaves).map(|path| Target::Local(Some(path))).map_err(|_| libc::EINVAL.into()),
        }
    }
    Err(Out::Errno(libc::ELOOP))
}

/// Resolves a path of this host link by link until it reaches a mount. `None` if it reaches no mount.
///
/// # Errors
/// ENOTDIR for a path through a descriptor of a file; the errors of [`directories::of_placeholder`].
fn through_links(directory: c_int, path: &[u8], last: LastName) -> Result<Option<Start>, Out> {
    let mut buffer = [0u8; libc::PATH_MAX as usize];
    let mut done: Vec<u8> = Vec::new(); // no slash at its end; empty is the root
    if path.first() != Some(&b'/') {
        let base = if directory == libc::AT_FDCWD { raw::getcwd(&mut buffer) } else { raw::fd_path(directory, &mut buffer) };
        let Ok(base) = base else { return Ok(None) };
        done.extend_from_slice(base);
        if done == b"/" {
            done.clear();
        }
    }
    let mut rest = path.to_vec();
    let mut turns = 0;
    loop {
        let Some(from) = rest.iter().position(|b| *b != b'/') else { return Ok(None) };
        let end = rest[from..].iter().position(|b| *b == b'/').map_or(rest.len(), |length| from + length);
        let name = rest[from..end].to_vec();
        let is_last = rest[end..].iter().all(|b| *b == b'/');
        rest.drain(..end);
        match name.as_slice() {
            b"." => continue,
            b".." => {
                done.truncate(done.iter().rposition(|b| *b == b'/').unwrap_or(0));
                continue;
            }
            _ => {}
        }
        let parent = done.len();
        done.push(b'/');
        done.extend_from_slice(&name);
        if let Some(start) = strip_prefix(&done) {
            return Ok(Some(Start { below: [start.below, rest].concat(), ..start }));
        }
        if is_last && last != LastName::Followed && (rest.is_empty() || last == LastName::Itself) {
            return Ok(None);
        }
        let mut link = [0u8; libc::PATH_MAX as usize];
        let Ok(link) = with_nul(&done, |path| raw::readlink(path, &mut link).map(<[u8]>::to_vec)) else { continue };
        turns += 1;
        if turns > TURNS_MAX {
            return Ok(None);
        }
        if mounts::is_below_root(&link) {
            if let Some(opened) = behind_descriptor(&done)? {
                return Ok(Some(Start::from_directory(opened, &rest)));
            }
            if !rest.is_empty() && table::of_placeholder(&link).is_some() {
                return Err(Out::Errno(libc::ENOTDIR));
            }
        }
        if link.first() == Some(&b'/') {
            done.clear()
        } else {
            done.truncate(parent)
        }
        rest = [link.as_slice(), rest.as_slice()].concat();
    }
}

/// The directory of a mount to which a name such as /proc/self/fd/N or /proc/self/cwd leads.
fn behind_descriptor(path: &[u8]) -> Result<Option<Opened>, Out> {
    let Ok(fd) = with_nul(path, |path| raw::open(path, libc::O_PATH | libc::O_CLOEXEC, 0)) else { return Ok(None) };
    let found = match raw::fstat(fd) {
        Ok(stat) if directory_placeholders::may_be(&stat) => directories::of_placeholder(fd, &stat),
        _ => Ok(None),
    };
    let _ = raw::close(fd);
    found
}

fn with_nul<T>(path: &[u8], f: impl FnOnce(&CStr) -> Result<T, c_int>) -> Result<T, c_int> {
    f(&CString::new(path).map_err(|_| libc::EINVAL)?)
}
