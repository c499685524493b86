//! The table of descriptors that are files of a mount.
//!
//! The kernel's state decides. A file of a mount is an open placeholder in the runtime directory; a
//! directory of a mount is a removed directory there, which `directories` knows. The table only
//! caches what the placeholder's name says. An entry is valid as long as fstat returns the inode
//! for which it was made, so that a close that this library did not see leaves no wrong entry.
//! Lookups take no lock and do not allocate.

use crate::credentials;
use crate::description_flags;
use crate::directories::{self, Opened};
use crate::directory_placeholders;
use crate::lock_files;
use crate::messages::warn;
use crate::mounts::{self, Mounted};
use crate::open_file::Open;
use crate::outcome::{Errno, Out};
use crate::raw;
use dnfs::file::Attributes;
use dnfs::mount::{FileRef, Mount};
use libc::{c_char, c_int};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Maximum number of descriptors in the table: the kernel's default limit (fs.nr_open). The memory is only reserved.
const DESCRIPTORS_MAX: usize = 1 << 20;

#[repr(C, align(32))]
struct Slot {
    inode: AtomicU64, // of the placeholder; 0: unknown
    file: AtomicU64,  // FileRef: slot << 32 | generation
    flags: AtomicU32, // access mode, O_DSYNC, O_SYNC, O_DIRECT as given at open
    mount: AtomicU32,
    view: AtomicU32,   // number of the credentials it was opened with
    cursor: AtomicU32, // position of this description among the file's write errors
    next: AtomicU64,   // where the last read ended
    run: AtomicU32,    // consecutive reads that began where the one before them ended
    opened: AtomicU32, // incremented with each open of this number
    advice: AtomicU32, // the program's posix_fadvise
    copies: AtomicU32, // value of COPIES when it was opened
}

static TABLE: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

/// Number of events by which another process may have got descriptors of this one: forks, starts of
/// programs, transfers over sockets.
static COPIES: AtomicU32 = AtomicU32::new(0);

/// Notes that another process may share the open file descriptions from now on.
pub(crate) extern "C" fn note_copies() {
    COPIES.fetch_add(1, Ordering::Relaxed);
}

/// The object of a descriptor.
pub(crate) enum Found {
    /// Not on a mount, or not open.
    Elsewhere,
    /// A regular file.
    File(Open),
    /// A directory.
    Directory(Opened),
}

/// Reserves the table. Called once, by the constructor.
pub(crate) fn reserve() -> bool {
    match raw::map(DESCRIPTORS_MAX * size_of::<Slot>()) {
        Some(memory) => {
            TABLE.store(memory.cast(), Ordering::Release);
            true
        }
        None => false,
    }
}

fn slot(fd: c_int) -> Option<&'static Slot> {
    let fd = usize::try_from(fd).ok().filter(|fd| *fd < DESCRIPTORS_MAX)?;
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return None;
    }
    // SAFETY: the table has DESCRIPTORS_MAX zeroed slots and is never unmapped, and all fields are atomics.
    Some(unsafe { &*table.add(fd) })
}

/// Finds the object of a descriptor.
///
/// # Errors
/// EIO for a file of a mount that this process does not know.
pub(crate) fn find(fd: c_int) -> Result<Found, Out> {
    if !mounts::any() || fd < 0 {
        return Ok(Found::Elsewhere);
    }
    let stat = match raw::fstat(fd) {
        Ok(stat) => stat,
        Err(libc::EBADF) => return Ok(Found::Elsewhere),
        Err(refused) => return unrecognized(fd, refused),
    };
    // Placeholders of files and of directories are both directories.
    if !mounts::is_runtime_device(stat.st_dev) || stat.st_mode & libc::S_IFMT != libc::S_IFDIR {
        return Ok(Found::Elsewhere);
    }
    match slot(fd).filter(|slot| slot.inode.load(Ordering::Acquire) == stat.st_ino).and_then(|slot| entry(fd, slot)) {
        Some(open) => Ok(Found::File(open)),
        None if directory_placeholders::may_be(&stat) => match directories::of_placeholder(fd, &stat)? {
            Some(opened) => Ok(Found::Directory(opened)),
            None => learn(fd, &stat),
        },
        None => learn(fd, &stat),
    }
}

/// The answer for a process whose system call filter refuses fstat. A descriptor that was a file of
/// a mount may still be one.
///
/// # Errors
/// EIO, with a line on stderr, for a descriptor that was a file of a mount.
#[cold]
fn unrecognized(fd: c_int, refused: Errno) -> Result<Found, Out> {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if slot(fd).is_none_or(|slot| slot.inode.load(Ordering::Acquire) == 0) {
        return Ok(Found::Elsewhere);
    }
    if !REPORTED.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "files of a mount are not recognized (EIO): this process may not use fstat ({}); allow it, or use `millrace mount`",
            std::io::Error::from_raw_os_error(refused)
        ));
    }
    Err(Out::Errno(libc::EIO))
}

/// The open regular file of a mount of `fd`; [`Out::Pass`] for objects that are not on a mount.
///
/// # Errors
/// EISDIR for a directory of a mount, EIO as [`find`].
#[inline]
pub(crate) fn file(fd: c_int) -> Result<Open, Out> {
    match find(fd)? {
        Found::File(open) => Ok(open),
        Found::Directory(..) => Err(Out::Errno(libc::EISDIR)),
        Found::Elsewhere => Err(Out::Pass),
    }
}

/// Number of descriptors searched for files to commit together with a file that is closed.
const BESIDE_MAX: usize = 1024;

/// Files of the same mount that descriptors near this one have open for writing, according to the table: some may be closed by
/// now.
pub(crate) fn written_beside(file: &Open) -> impl Iterator<Item = FileRef> {
    let (mounted, view) = (file.mounted, slot(file.fd).map(|slot| slot.view.load(Ordering::Relaxed)));
    let descriptors = (file.fd + 1..=highest()).chain(0..file.fd).take(BESIDE_MAX);
    let of_mount = move |fd| {
        let slot = slot(fd).filter(|slot| slot.inode.load(Ordering::Acquire) != 0)?;
        let found = entry(fd, slot)?;
        let written = found.flags & libc::O_ACCMODE != libc::O_RDONLY;
        (written && std::ptr::eq(found.mounted, mounted) && Some(slot.view.load(Ordering::Relaxed)) == view).then_some(found.file)
    };
    descriptors.filter_map(of_mount)
}

/// Files open for writing, according to the table: some may be closed by now.
pub(crate) fn written() -> impl Iterator<Item = Open> {
    let descriptors = (0..=highest()).take(BESIDE_MAX);
    let of_mount = |fd| {
        let slot = slot(fd).filter(|slot| slot.inode.load(Ordering::Acquire) != 0)?;
        entry(fd, slot).filter(|found| found.flags & libc::O_ACCMODE != libc::O_RDONLY)
    };
    descriptors.filter_map(of_mount)
}

/// The file of `fd` according to the table.
pub(crate) fn known(fd: c_int) -> Option<Open> {
    let slot = slot(fd)?;
    let inode = raw::fstat(fd).ok()?.st_ino;
    (slot.inode.load(Ordering::Acquire) == inode).then(|| entry(fd, slot)).flatten()
}

fn entry(fd: c_int, slot: &'static Slot) -> Option<Open> {
    let file = slot.file.load(Ordering::Relaxed);
    let mounted = mounts::by_index(slot.mount.load(Ordering::Relaxed) as usize)?;
    let file = FileRef { slot: (file >> 32) as u32, generation: file as u32 };
    let flags = slot.flags.load(Ordering::Relaxed) as c_int;
    Some(Open {
        fd,
        mounted,
        mount: mounted.attached_as(slot.view.load(Ordering::Relaxed) as usize)?,
        file,
        flags,
        cursor: &slot.cursor,
        is_shared: slot.copies.load(Ordering::Relaxed) != COPIES.load(Ordering::Relaxed),
    })
}

/// Adds the descriptor of a file that this process did not open, by its path: it was inherited over exec, received from another
/// process, or opened by name (/dev/stdin, /proc/self/fd/N).
///
/// # Errors
/// EIO for a placeholder that no mount of this process knows: its file cannot be reached.
fn learn(fd: c_int, stat: &libc::stat) -> Result<Found, Out> {
    let mut buffer = [0u8; libc::PATH_MAX as usize];
    let Ok(path) = raw::fd_path(fd, &mut buffer) else { return mounts::refuse_nameless(stat).map(|()| Found::Elsewhere) };
    mounts::refuse_hidden(path)?;
    if !mounts::is_below_root(path) {
        return Ok(Found::Elsewhere);
    }
    // The placeholder of a file whose volume was replaced no longer has a name.
    let placeholder = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let Some((mounted, mount, file)) = of_placeholder(placeholder) else {
        if !path.windows(PLACEHOLDERS.len()).any(|part| part == PLACEHOLDERS) {
            return Ok(Found::Elsewhere);
        }
        crate::messages::trace!(
            "descriptor {fd} leads to {}, which no mount of this process knows",
            String::from_utf8_lossy(path)
        );
        return Err(Out::Errno(libc::EIO));
    };
    let flags = description_flags::for_program(raw::status_flags(fd)?);
    // SAFETY: `fd` is open, because its flags were just returned; the borrow ends with this statement.
    mount.opened_elsewhere(file, unsafe { BorrowedFd::borrow_raw(fd) });
    let mount = mounted.attach_as(credentials::of_inherited(fd, mount))?;
    insert(fd, stat.st_ino, (mounted, mount), file, flags, mount.error_cursor(file));
    let Some(slot) = slot(fd) else { return Err(Out::Errno(libc::EMFILE)) };
    slot.copies.fetch_sub(1, Ordering::Relaxed); // another process opened it first
    let Some(open) = entry(fd, slot) else { return Err(Out::Errno(libc::EMFILE)) };
    lock_files::inherited(&open);
    Ok(Found::File(open))
}

/// Part of the path of every placeholder.
const PLACEHOLDERS: &[u8] = b"/p/";

/// The file whose placeholder has this path.
pub(crate) fn of_placeholder(path: &[u8]) -> Option<(&'static Mounted, &'static Mount, FileRef)> {
    let (mounted, _) = mounts::below_runtime(path)?;
    let mount = mounted.attach().ok()?;
    Some((mounted, mount, mount.file_of_placeholder(path)?))
}

/// The attributes of a file or directory of a mount to which a name such as /proc/self/fd/N leads.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn attributes_at(directory: c_int, path: *const c_char) -> Option<(&'static Mounted, Attributes)> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    let fd = unsafe { raw::open_from(directory, path, libc::O_PATH | libc::O_CLOEXEC) }.ok()?;
    let opened = raw::fstat(fd).ok().filter(directory_placeholders::may_be);
    let opened = opened.and_then(|stat| directories::of_placeholder(fd, &stat).ok()?);
    let _ = raw::close(fd);
    if let Some(opened) = opened {
        return Some((opened.mounted, opened.entry().ok()?.1.object?.attr));
    }
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    let (mounted, mount, file) = unsafe { placeholder_at(directory, path) }?;
    Some((mounted, mount.attr(file).ok()?))
}

/// The file of a mount to whose placeholder a path of this host leads, through the kernel's names
/// for descriptors.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn placeholder_at(
    directory: c_int,
    path: *const c_char,
) -> Option<(&'static Mounted, &'static Mount, FileRef)> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    let fd = unsafe { raw::open_from(directory, path, libc::O_PATH | libc::O_CLOEXEC) }.ok()?;
    let mut buffer = [0u8; libc::PATH_MAX as usize];
    let found = raw::fd_path(fd, &mut buffer).ok().and_then(of_placeholder);
    let _ = raw::close(fd);
    found
}

/// Adds an open file. `inode` is that of its placeholder.
pub(crate) fn insert(fd: c_int, inode: u64, (mounted, mount): (&Mounted, &Mount), file: FileRef, flags: c_int, cursor: u32) {
    let Some(slot) = slot(fd) else { return };
    HIGHEST.fetch_max(fd, Ordering::Relaxed);
    slot.inode.store(0, Ordering::Release);
    slot.file.store(u64::from(file.slot) << 32 | u64::from(file.generation), Ordering::Relaxed);
    slot.flags.store((flags & (libc::O_ACCMODE | libc::O_SYNC | libc::O_DSYNC | libc::O_DIRECT)) as u32, Ordering::Relaxed);
    slot.mount.store(mounted.index as u32, Ordering::Relaxed);
    slot.view.store(mounted.number_of(mount) as u32, Ordering::Relaxed);
    slot.cursor.store(cursor, Ordering::Relaxed);
    slot.next.store(0, Ordering::Relaxed);
    slot.run.store(0, Ordering::Relaxed);
    slot.advice.store(libc::POSIX_FADV_NORMAL as u32, Ordering::Relaxed);
    slot.copies.store(COPIES.load(Ordering::Relaxed), Ordering::Relaxed);
    slot.opened.fetch_add(1, Ordering::Relaxed);
    slot.inode.store(inode, Ordering::Release);
}

/// How a descriptor is read.
#[derive(Clone, Copy)]
pub(crate) struct Noted {
    /// Number of consecutive reads that continued the one before.
    pub(crate) run: u32,
    /// Number of the open of this descriptor number.
    pub(crate) opened: u32,
    /// POSIX_FADV_NORMAL, _SEQUENTIAL or _RANDOM.
    pub(crate) advice: c_int,
}

/// Notes a read.
#[inline]
pub(crate) fn note_read(fd: c_int, offset: u64, bytes: usize) -> Option<Noted> {
    let slot = slot(fd)?;
    // Concurrent reads may make the count wrong, which costs only speed.
    let follows = slot.next.load(Ordering::Relaxed) == offset;
    slot.next.store(offset + bytes as u64, Ordering::Relaxed);
    let run = slot.run.load(Ordering::Relaxed);
    if follows {
        slot.run.store(run.saturating_add(1), Ordering::Relaxed);
    } else if run != 0 {
        slot.run.store(0, Ordering::Relaxed);
    }
    let advice = slot.advice.load(Ordering::Relaxed) as c_int;
    Some(Noted { run: if follows { run } else { 0 }, opened: slot.opened.load(Ordering::Relaxed), advice })
}

/// How a descriptor has been read.
pub(crate) fn noted(fd: c_int) -> Noted {
    let known = |slot: &Slot| {
        let [run, opened, advice] = [&slot.run, &slot.opened, &slot.advice].map(|word| word.load(Ordering::Relaxed));
        Noted { run, opened, advice: advice as c_int }
    };
    slot(fd).map_or(Noted { run: 0, opened: 0, advice: libc::POSIX_FADV_NORMAL }, known)
}

/// Notes the program's advice for a descriptor.
pub(crate) fn advise(fd: c_int, advice: c_int) {
    if let Some(slot) = slot(fd) {
        slot.advice.store(advice as u32, Ordering::Relaxed);
    }
}

/// Adds flags to those with which a file was opened.
pub(crate) fn add_flags(fd: c_int, flags: c_int) {
    if let Some(slot) = slot(fd) {
        slot.flags.fetch_or(flags as u32, Ordering::Relaxed);
    }
}

/// Notes that `to` is now a duplicate of `from`.
pub(crate) fn duplicate(from: &Open, to: c_int) {
    let inode = slot(from.fd).map_or(0, |slot| slot.inode.load(Ordering::Relaxed));
    insert(to, inode, (from.mounted, from.mount), from.file, from.flags, from.cursor.load(Ordering::Relaxed));
    if let (Some(from), Some(to)) = (slot(from.fd), slot(to)) {
        to.copies.store(from.copies.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Removes a descriptor.
pub(crate) fn forget(fd: c_int) {
    if let Some(slot) = slot(fd) {
        slot.inode.store(0, Ordering::Release);
    }
}

/// All descriptors in the table are below this.
pub(crate) const LIMIT: c_int = DESCRIPTORS_MAX as c_int;

static HIGHEST: AtomicI32 = AtomicI32::new(-1);

/// The highest descriptor that was ever a file of a mount in this process.
pub(crate) fn highest() -> c_int {
    HIGHEST.load(Ordering::Relaxed)
}
