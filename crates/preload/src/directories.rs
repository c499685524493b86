//! Directories of a mount that the program has open, and its working directory.
//!
//! The kernel sees each as a placeholder (`directory_placeholders`), so fork, exec, dup and fchdir
//! keep it as they keep any descriptor. The placeholder represents the server's handle, with a path
//! as a hint. The process that opened it remembers both by the placeholder's inode number and
//! modification time. A process that got it over exec or a socket finds both in the segment of the
//! mount. Every process enters them there again before it executes a program.

use crate::descriptor_list::each_descriptor;
use crate::directory_placeholders as placeholders;
use crate::messages::warn;
use crate::mounts::{self, Mounted};
use crate::outcome::{Errno, Out};
use crate::raw;
use dnfs::mount::{
    DirectoryKept, DirectoryPlaceholder, Entry, KnownDirectories, Mount, Observer, OpenDirectory, mount_of_directory_placeholder,
};
use libc::{c_char, c_int};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A new process checks descriptors below this for inherited directories. It checks higher ones when they are used.
const INHERITED_MAX: c_int = 64;

/// This process' knowledge about a placeholder.
#[derive(Debug)]
struct Known {
    /// Runtime directory of the mount.
    runtime: PathBuf,
    /// Number of the mount in the process that opened it.
    tag: u32,
    directory: OpenDirectory,
}

static KNOWN: KnownDirectories<Known> = KnownDirectories::new();
/// Whether this process has ever known a directory.
static ANY: AtomicBool = AtomicBool::new(false);

/// A directory of a mount that is open, or is the working directory.
#[derive(Clone)]
pub(crate) struct Opened {
    /// The mount.
    pub(crate) mounted: &'static Mounted,
    known: Arc<Known>,
}

impl Opened {
    /// Its handle and path.
    pub(crate) fn directory(&self) -> &OpenDirectory {
        &self.known.directory
    }

    /// The mount with the current credentials, and the directory as an entry without a name.
    ///
    /// # Errors
    /// ENOENT if the directory was removed on this host, ESTALE if it was removed on another.
    pub(crate) fn entry(&self) -> Result<(&'static Mount, Entry), Out> {
        let mount = self.mounted.attach()?;
        Ok((mount, mount.entry_of_directory(self.directory())?))
    }
}

/// The place of a placeholder: a descriptor, or AT_FDCWD for the working directory.
type Place = c_int;

/// The working directory, if it is on a mount.
///
/// # Errors
/// Those of [`of_placeholder`].
pub(crate) fn current() -> Result<Option<Opened>, Out> {
    match raw::stat_here() {
        Ok(stat) if placeholders::may_be(&stat) => of_placeholder(libc::AT_FDCWD, &stat),
        _ => Ok(None),
    }
}

/// The directory that a removed directory in the runtime directory's file system represents. `None`
/// if it is not a placeholder.
///
/// # Errors
/// ESTALE if this process cannot find the directory: it does not have the mount, has it as another
/// user, or the segment has forgotten the directory. EACCES for a user that may not use the mount.
pub(crate) fn of_placeholder(place: Place, stat: &libc::stat) -> Result<Option<Opened>, Out> {
    let placeholder = placeholders::of_stat(stat);
    let known = KNOWN.find(placeholder).or_else(|| of_attached(placeholder));
    let Some(known) = known.or_else(|| of_segment(place, placeholder)) else {
        return refuse_stranger(place, stat).map(|()| None);
    };
    let is_named = |mounted: &&'static Mounted| mounted.tag() == known.tag;
    let others = mounts::all().filter(|mounted| !is_named(mounted));
    let mut refused = None;
    let mut has_it = |mounted: &&'static Mounted| match mounted.attach() {
        Ok(mount) => mount.runtime_dir() == known.runtime,
        Err(error) => {
            refused.get_or_insert(error);
            false
        }
    };
    let found = mounts::all().filter(is_named).chain(others).find(|mounted| has_it(mounted));
    match (found, refused) {
        (Some(mounted), _) if mounted.tag() == known.tag => Ok(Some(Opened { mounted, known })),
        // The mount has another path in this process, or another directory of the export as its root.
        (Some(mounted), _) => {
            let directory = known.directory.with_doubtful_path();
            let known = Known { runtime: known.runtime.clone(), tag: mounted.tag(), directory };
            Ok(Some(Opened { mounted, known: remember(placeholder, known) }))
        }
        (None, Some(Out::Errno(libc::ENOTSUP))) => Err(Out::Errno(libc::EACCES)), // the user may not use the runtime directory
        (None, Some(refused)) => Err(refused),
        (None, None) => refuse_stranger(place, stat).map(|()| None),
    }
}

/// Searches the mounts that this process has attached.
fn of_attached(placeholder: DirectoryPlaceholder) -> Option<Arc<Known>> {
    mounts::all().filter_map(Mounted::attached).find_map(|mount| {
        let (directory, tag) = mount.kept_directory(placeholder)?;
        Some(remember(placeholder, Known { runtime: mount.runtime_dir().to_path_buf(), tag, directory }))
    })
}

/// Searches the mount that the placeholder's own path names.
fn of_segment(place: Place, placeholder: DirectoryPlaceholder) -> Option<Arc<Known>> {
    let mut buffer = [0; libc::PATH_MAX as usize];
    let runtime = mount_of_directory_placeholder(path_of(place, &mut buffer).ok()?)?;
    if !mounts::is_below_root(runtime.as_os_str().as_bytes()) {
        return None;
    }
    let (directory, tag) = Observer::at(runtime).ok()??.kept_directory(placeholder)?;
    Some(remember(placeholder, Known { runtime: runtime.to_path_buf(), tag, directory }))
}

fn path_of(place: Place, buffer: &mut [u8]) -> Result<&[u8], Errno> {
    match place {
        libc::AT_FDCWD => raw::readlink(c"/proc/self/cwd", buffer),
        fd => raw::fd_path(fd, buffer),
    }
}

/// The error for a placeholder that leads to no directory of this process' mounts.
///
/// # Errors
/// ESTALE, with one line on stderr; EIO if the runtime directory is covered, or /proc is missing.
fn refuse_stranger(place: Place, stat: &libc::stat) -> Result<(), Out> {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let mut buffer = [0; libc::PATH_MAX as usize];
    let Ok(path) = path_of(place, &mut buffer) else { return mounts::refuse_nameless(stat) };
    mounts::refuse_hidden(path)?;
    if !mounts::is_below_root(path) || mount_of_directory_placeholder(path).is_none() {
        return Ok(());
    }
    if !REPORTED.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "{} is the placeholder of a directory of a mount that this process does not reach: paths relative to it fail (ESTALE)",
            String::from_utf8_lossy(path)
        ));
    }
    Err(Out::Errno(libc::ESTALE))
}

/// Remembers the directory of a placeholder. If there are many, forgets closed ones.
fn remember(placeholder: DirectoryPlaceholder, known: Known) -> Arc<Known> {
    let known = Arc::new(known);
    ANY.store(true, Ordering::Release);
    if let Some(since) = KNOWN.insert(placeholder, Arc::clone(&known)) {
        let mut open = BTreeSet::new();
        let mut note = |placeholder| {
            open.insert(placeholder);
        };
        if each_placeholder(&mut note).is_ok() {
            KNOWN.retain(since, |placeholder| open.contains(&placeholder));
        }
    }
    known
}

/// Calls `visit` with the placeholder of each descriptor of this process and of its working directory.
fn each_placeholder(mut visit: impl FnMut(DirectoryPlaceholder)) -> Result<(), Errno> {
    let mut visit_stat = |stat: Result<libc::stat, Errno>| {
        if let Some(stat) = stat.ok().filter(placeholders::may_be) {
            visit(placeholders::of_stat(&stat));
        }
    };
    visit_stat(raw::stat_here());
    each_descriptor(|fd| visit_stat(raw::fstat(fd)))
}

/// Opens a directory.
///
/// # Errors
/// EMFILE, ENFILE; the errors of creating a placeholder.
pub(crate) fn open(mounted: &Mounted, mount: &Mount, directory: OpenDirectory, flags: c_int) -> Result<c_int, Out> {
    let open = |path: &CStr| raw::open(path, flags | libc::O_DIRECTORY, 0);
    let (fd, placeholder) = placeholders::with(mount, open)?;
    enter(mounted, mount, directory, placeholder);
    Ok(fd)
}

/// Changes the working directory. Other threads see the old one or the new one, because the
/// placeholder is removed and stored in the table before the process enters it.
///
/// # Errors
/// The errors of creating a placeholder.
pub(crate) fn change_to(mounted: &Mounted, mount: &Mount, directory: OpenDirectory) -> Result<(), Out> {
    let open = |path: &CStr| raw::open(path, libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC, 0);
    match placeholders::with(mount, open) {
        Ok((fd, placeholder)) => {
            enter(mounted, mount, directory, placeholder);
            let changed = raw::fchdir(fd);
            let _ = raw::close(fd);
            Ok(changed?)
        }
        // chdir(2) needs no descriptor.
        Err(Out::Errno(libc::EMFILE | libc::ENFILE)) => {
            let ((), placeholder) = placeholders::with(mount, raw::chdir)?;
            enter(mounted, mount, directory, placeholder);
            Ok(())
        }
        Err(out) => Err(out),
    }
}

fn enter(mounted: &Mounted, mount: &Mount, directory: OpenDirectory, placeholder: DirectoryPlaceholder) {
    let tag = mounted.tag();
    mount.keep_directory(&directory, placeholder, DirectoryKept::Opened, tag);
    remember(placeholder, Known { runtime: mount.runtime_dir().to_path_buf(), tag, directory });
}

/// The current path of the working directory below the root of its mount.
///
/// # Errors
/// ENOENT if the directory no longer has a path.
pub(crate) fn current_path() -> Result<Option<(&'static Mounted, Vec<u8>)>, Out> {
    let Some(opened) = current()? else { return Ok(None) };
    let found = opened.mounted.attach()?.locate(opened.directory())?;
    let path = found.path.clone();
    if found != *opened.directory()
        && let Ok(stat) = raw::stat_here()
    {
        remember(
            placeholders::of_stat(&stat),
            Known { runtime: opened.known.runtime.clone(), tag: opened.known.tag, directory: found },
        );
    }
    Ok(Some((opened.mounted, path)))
}

/// The path of a directory of a mount to which a name such as /proc/self/cwd or /proc/self/fd/N leads, as the program sees it.
///
/// # Safety
/// `link` is NULL or a C string.
pub(crate) unsafe fn path_behind(directory: c_int, link: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: `link` is NULL or a C string by the caller's promise.
    let fd = unsafe { raw::open_from(directory, link, libc::O_PATH | libc::O_CLOEXEC) }.ok()?;
    let stat = raw::fstat(fd).ok().filter(placeholders::may_be);
    let opened = stat.and_then(|stat| of_placeholder(fd, &stat).ok()?);
    let _ = raw::close(fd);
    let opened = opened?;
    let found = opened.mounted.attach().ok()?.locate(opened.directory()).ok()?;
    Some(opened.mounted.path_of(&found.path))
}

/// Enters the inherited directories in the segments, where opens of other processes do not
/// overwrite them. Called before a child is made or this process executes another program.
/// Allocates nothing, unless a mount is not attached.
pub(crate) fn enter_inherited() {
    if !ANY.load(Ordering::Acquire) {
        return;
    }
    let _ = each_placeholder(|placeholder| {
        let Some(known) = KNOWN.find(placeholder) else { return };
        let (tag, kept) = (known.tag, DirectoryKept::Inherited);
        match mounts::all().filter_map(Mounted::attached).find(|mount| mount.runtime_dir() == known.runtime) {
            Some(mount) => mount.keep_directory(&known.directory, placeholder, kept, tag),
            None => {
                if let Ok(Some(mount)) = Observer::at(&known.runtime) {
                    mount.keep_directory(&known.directory, placeholder, kept, tag);
                }
            }
        }
    });
}

/// Remembers the inherited directories before the segment forgets them. Called once, by the constructor; attaches no mount.
pub(crate) fn learn_inherited() {
    let learn = |place: Place, stat: Result<libc::stat, Errno>| {
        if let Some(stat) = stat.ok().filter(placeholders::may_be) {
            of_segment(place, placeholders::of_stat(&stat));
        }
    };
    learn(libc::AT_FDCWD, raw::stat_here());
    (0..INHERITED_MAX).for_each(|fd| learn(fd, raw::fstat(fd)));
}
