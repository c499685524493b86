//! Directory streams: `DIR` objects of our own, told from libc's by where they lie.

use crate::attributes::directory_entry;
use crate::ffi;
use crate::hook::hooks;
use crate::open;
use crate::outcome::{Out, kept, set_errno};
use crate::paths::{self, Target};
use crate::raw;
use crate::table::{self, Found};
use dnfs::file::FileKind;
use dnfs::mount::DirItem;
use libc::{DIR, c_char, c_int, c_long, c_void, dirent};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// Streams open at once in a process.
const STREAMS_MAX: usize = 4096;

struct Stream {
    fd: AtomicI32, // descriptor + 1; 0: this stream is free
    /// What the open stream holds; used by the thread that reads the stream (readdir is not for two at once).
    state: std::cell::UnsafeCell<Option<Reading>>,
}

struct Reading {
    items: Option<Vec<DirItem>>, // none: not read yet, or rewound
    at: usize,
    entry: dirent,
}

static ARENA: AtomicPtr<Stream> = AtomicPtr::new(std::ptr::null_mut());

/// Reserves the memory of all streams. Called once, by the constructor.
pub(crate) fn reserve() -> bool {
    let memory = raw::map(STREAMS_MAX * size_of::<Stream>());
    ARENA.store(memory.map_or(std::ptr::null_mut(), <*mut u8>::cast), Ordering::Release);
    memory.is_some()
}

fn arena() -> &'static [Stream] {
    let at = ARENA.load(Ordering::Acquire);
    if at.is_null() {
        return &[];
    }
    // SAFETY: STREAMS_MAX streams of zeroed memory: a free descriptor; the state is looked at only while a stream is open.
    unsafe { std::slice::from_raw_parts(at, STREAMS_MAX) }
}

/// Our stream behind a `DIR`; [`Out::Pass`] for libc's.
fn ours(stream: *mut DIR) -> Result<&'static Stream, Out> {
    let offset = (stream as usize).wrapping_sub(ARENA.load(Ordering::Acquire) as usize);
    if offset >= STREAMS_MAX * size_of::<Stream>() {
        return Err(Out::Pass);
    }
    arena().get(offset / size_of::<Stream>()).ok_or(Out::Pass)
}

impl Stream {
    fn descriptor(&self) -> c_int {
        self.fd.load(Ordering::Acquire) - 1
    }

    /// What the stream holds.
    ///
    /// # Safety
    /// One thread uses the stream at a time, and keeps no answer of an earlier call.
    #[expect(clippy::mut_from_ref, reason = "POSIX leaves one stream to one thread at a time")]
    unsafe fn reading(&self) -> Result<&mut Reading, Out> {
        if self.descriptor() < 0 {
            return Err(Out::Errno(libc::EBADF));
        }
        // SAFETY: one stream is used by one thread at a time by readdir's contract, and the state is set while it is open.
        let state = unsafe { &mut *self.state.get() };
        state.as_mut().ok_or(Out::Errno(libc::EBADF))
    }

    fn as_dir(&self) -> *mut DIR {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// A stream over a descriptor of a directory of a mount.
fn adopt(fd: c_int) -> Result<*mut DIR, Out> {
    let free = |stream: &&Stream| stream.fd.compare_exchange(0, fd + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let stream = arena().iter().find(free).ok_or(Out::Errno(libc::ENFILE))?;
    // SAFETY: struct dirent is plain bytes; zero is valid.
    let entry = unsafe { std::mem::zeroed() };
    // SAFETY: the stream was free and is ours since the exchange; what lies there is zeroed or taken, never dropped.
    unsafe { stream.state.get().write(Some(Reading { items: None, at: 0, entry })) };
    Ok(stream.as_dir())
}

fn read_items(fd: c_int) -> Result<Vec<DirItem>, Out> {
    match table::find(fd)? {
        Found::Directory(mounted, below) => {
            let (mount, entry) = directory_entry(mounted, &below)?;
            Ok(mount.read_dir(dnfs::mount::Target::Entry(&entry))?)
        }
        Found::File(_) | Found::Elsewhere => Err(Out::Errno(libc::EBADF)),
    }
}

fn type_of(kind: Option<FileKind>) -> u8 {
    match kind {
        Some(FileKind::Regular) => libc::DT_REG,
        Some(FileKind::Directory) => libc::DT_DIR,
        Some(FileKind::Symlink) => libc::DT_LNK,
        Some(FileKind::Block) => libc::DT_BLK,
        Some(FileKind::Character) => libc::DT_CHR,
        Some(FileKind::Socket) => libc::DT_SOCK,
        Some(FileKind::Fifo) => libc::DT_FIFO,
        None => libc::DT_UNKNOWN,
    }
}

/// The next entry; null at the end.
///
/// # Safety
/// As [`Stream::reading`].
unsafe fn next(stream: &Stream) -> Result<*mut dirent, Out> {
    // SAFETY: the caller's promise.
    let reading = unsafe { stream.reading() }?;
    if reading.items.is_none() {
        reading.items = Some(read_items(stream.descriptor())?);
    }
    let items = reading.items.as_deref().unwrap_or_default();
    loop {
        let Some(item) = items.get(reading.at) else { return Ok(std::ptr::null_mut()) };
        reading.at += 1;
        let entry = &mut reading.entry;
        if item.name.len() >= entry.d_name.len() {
            continue;
        }
        entry.d_ino = item.fileid;
        entry.d_off = reading.at as i64;
        entry.d_reclen = size_of::<dirent>() as u16;
        entry.d_type = type_of(item.kind);
        for (to, from) in entry.d_name.iter_mut().zip(item.name.iter().chain(std::iter::once(&0))) {
            *to = *from as c_char;
        }
        return Ok(entry);
    }
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn next_reentrant(stream: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        match next(ours(stream)?) {
            Ok(found) => match ffi::take(found) {
                Some(value) => {
                    ffi::put(entry, value)?;
                    ffi::put(result, entry)?;
                }
                None => ffi::put(result, std::ptr::null_mut())?,
            },
            Err(Out::Errno(errno)) => return Ok(errno),
            Err(out) => return Err(out),
        }
        Ok(0)
    }
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn open_path(path: *const c_char, real: impl FnOnce(*const c_char) -> *mut DIR) -> Result<*mut DIR, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        const FLAGS: c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        paths::at(
            libc::AT_FDCWD,
            path,
            true,
            |_, _, _| {
                let fd = open::open_at(libc::AT_FDCWD, path, FLAGS, 0, |_, path| open::open::real(path, FLAGS, 0))?;
                adopt(fd).inspect_err(|_| {
                    let _ = raw::close(fd);
                })
            },
            |_, path| real(path),
        )
    }
}

type Filter = Option<extern "C" fn(*const dirent) -> c_int>;
type Order = Option<extern "C" fn(*mut *const dirent, *mut *const dirent) -> c_int>;

/// scandir over a directory of a mount: the entries one by one in memory of malloc, as the contract says.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn scan(path: *const c_char, list: *mut *mut *mut dirent, filter: Filter, order: Order) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        let Target::At(..) = paths::target(libc::AT_FDCWD, path, true)? else { return Err(Out::Pass) };
        let stream = kept(opendir::hook(path))?;
        let mut found: Vec<*mut dirent> = Vec::new();
        let outcome = loop {
            match ours(stream).and_then(|stream| next(stream)) {
                Err(out) => break Err(out),
                Ok(entry) if entry.is_null() => break Ok(()),
                Ok(entry) if filter.is_some_and(|wanted| wanted(entry) == 0) => {}
                Ok(entry) => {
                    let copy = libc::malloc(size_of::<dirent>()).cast::<dirent>();
                    if copy.is_null() {
                        break Err(Out::Errno(libc::ENOMEM));
                    }
                    if let Some(value) = ffi::take(entry) {
                        ffi::put(copy, value)?;
                    }
                    found.push(copy);
                }
            }
        };
        closedir::hook(stream);
        let array = libc::malloc(size_of::<*mut dirent>() * found.len().max(1)).cast::<*mut dirent>();
        if outcome.is_err() || array.is_null() {
            for entry in found {
                libc::free(entry.cast()); // from malloc above, and given to nobody
            }
            return Err(outcome.err().unwrap_or(Out::Errno(libc::ENOMEM)));
        }
        if let Some(order) = order {
            found.sort_by(|one, other| {
                order(std::ptr::from_ref(one).cast_mut().cast(), std::ptr::from_ref(other).cast_mut().cast()).cmp(&0)
            });
        }
        for (index, entry) in found.iter().enumerate() {
            ffi::put(array.wrapping_add(index), *entry)?;
        }
        ffi::put(list, array)?;
        Ok(found.len() as c_int)
    }
}

hooks! {
    /// opendir(3).
    fn opendir(path: *const c_char) -> *mut DIR { open_path(path, |path| real(path)) }
    /// fdopendir(3).
    fn fdopendir(fd: c_int) -> *mut DIR {
        match table::find(fd)? {
            Found::Directory(..) => adopt(fd),
            Found::File(_) => Err(Out::Errno(libc::ENOTDIR)),
            Found::Elsewhere => Err(Out::Pass),
        }
    }
    /// readdir(3).
    fn readdir(stream: *mut DIR) -> *mut dirent { next(ours(stream)?) }
    /// readdir(3).
    fn readdir64(stream: *mut DIR) -> *mut dirent { next(ours(stream)?) }
    /// readdir_r(3).
    fn readdir_r(stream: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> c_int { next_reentrant(stream, entry, result) }
    /// readdir_r(3).
    fn readdir64_r(stream: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> c_int { next_reentrant(stream, entry, result) }
    /// closedir(3).
    fn closedir(stream: *mut DIR) -> c_int {
        let stream = ours(stream)?;
        let fd = stream.descriptor();
        if fd < 0 {
            return Err(Out::Errno(libc::EBADF));
        }
        // SAFETY: the stream is open and its user gives it up with this call.
        drop(unsafe { (*stream.state.get()).take() });
        stream.fd.store(0, Ordering::Release);
        raw::close(fd)?;
        Ok(0)
    }
    /// dirfd(3).
    fn dirfd(stream: *mut DIR) -> c_int { Ok(ours(stream)?.descriptor()) }
    /// rewinddir(3).
    fn rewinddir(stream: *mut DIR) -> () {
        let reading = ours(stream)?.reading()?;
        (reading.items, reading.at) = (None, 0);
        Ok(())
    }
    /// telldir(3).
    fn telldir(stream: *mut DIR) -> c_long { Ok(ours(stream)?.reading()?.at as c_long) }
    /// seekdir(3).
    fn seekdir(stream: *mut DIR, at: c_long) -> () {
        ours(stream)?.reading()?.at = usize::try_from(at).unwrap_or(0);
        Ok(())
    }
    /// scandir(3).
    fn scandir(path: *const c_char, list: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int {
        if !crate::mounts::any() { return Err(Out::Pass) }
        scan(path, list, filter, order)
    }
    /// scandir(3).
    fn scandir64(path: *const c_char, list: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int {
        if !crate::mounts::any() { return Err(Out::Pass) }
        scan(path, list, filter, order)
    }
}

/// The functions of libc's glob, replaceable by its own flag: those above, by libc's names.
#[repr(C)]
struct Glob {
    paths: usize,
    list: *mut *mut c_char,
    offset: usize,
    flags: c_int,
    close: *const c_void,
    read: *const c_void,
    open: *const c_void,
    link_stat: *const c_void,
    stat: *const c_void,
}

const GLOB_ALTDIRFUNC: c_int = 1 << 9;

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn glob_through(flags: c_int, into: *mut c_void, real: impl FnOnce(c_int) -> c_int) -> Result<c_int, Out> {
    if !crate::mounts::any() || flags & GLOB_ALTDIRFUNC != 0 || into.is_null() {
        return Err(Out::Pass);
    }
    let glob = into.cast::<Glob>();
    // SAFETY: a glob_t by the caller's promise; its function fields are unused without the flag, so they are ours to set.
    unsafe {
        (*glob).close = closedir::hook as *const c_void;
        (*glob).read = readdir::hook as *const c_void;
        (*glob).open = opendir::hook as *const c_void;
        (*glob).link_stat = crate::attributes::lstat::hook as *const c_void;
        (*glob).stat = crate::attributes::stat::hook as *const c_void;
    }
    set_errno(0);
    Ok(real(flags | GLOB_ALTDIRFUNC))
}

hooks! {
    /// glob(3): libc's own, with our directory functions.
    fn glob(pattern: *const c_char, flags: c_int, error: *const c_void, into: *mut c_void) -> c_int {
        glob_through(flags, into, |flags| real(pattern, flags, error, into))
    }
    /// glob(3).
    fn glob64(pattern: *const c_char, flags: c_int, error: *const c_void, into: *mut c_void) -> c_int {
        glob_through(flags, into, |flags| real(pattern, flags, error, into))
    }
}

/// libc's tree walkers open directories inside libc, where they would find the mirror's empty ones.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn no_walk(path: *const c_char) -> Result<(), Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        match paths::target_or_linked(libc::AT_FDCWD, path)? {
            Target::At(..) => Err(Out::Errno(libc::EOPNOTSUPP)),
            Target::Local(_) => Err(Out::Pass),
        }
    }
}

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn no_tree(paths: *const *const c_char) -> Result<*mut c_void, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if crate::mounts::any() {
            let each = (0..).map_while(|index| ffi::take(paths.wrapping_add(index)).filter(|path| !path.is_null()));
            for path in each {
                match no_walk(path) {
                    Ok(()) | Err(Out::Pass) => {}
                    Err(refused) => return Err(refused),
                }
            }
        }
        Err(Out::Pass)
    }
}

hooks! {
    /// ftw(3).
    fn ftw(path: *const c_char, visit: *const c_void, depth: c_int) -> c_int { no_walk(path).map(|()| -1) }
    /// ftw(3).
    fn ftw64(path: *const c_char, visit: *const c_void, depth: c_int) -> c_int { no_walk(path).map(|()| -1) }
    /// nftw(3).
    fn nftw(path: *const c_char, visit: *const c_void, depth: c_int, flags: c_int) -> c_int { no_walk(path).map(|()| -1) }
    /// nftw(3).
    fn nftw64(path: *const c_char, visit: *const c_void, depth: c_int, flags: c_int) -> c_int { no_walk(path).map(|()| -1) }
    /// fts_open(3).
    fn fts_open(paths: *const *const c_char, options: c_int, order: *const c_void) -> *mut c_void { no_tree(paths) }
    /// fts_open(3).
    fn fts64_open(paths: *const *const c_char, options: c_int, order: *const c_void) -> *mut c_void { no_tree(paths) }
}
