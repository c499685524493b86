//! Directory streams: `DIR` objects of this library, which their addresses distinguish from libc's.

use crate::ffi;
use crate::hook::hooks;
use crate::open;
use crate::outcome::Out;
use crate::paths;
use crate::raw;
use crate::table::{self, Found};
use dnfs::file::FileKind;
use dnfs::mount::DirItem;
use libc::{DIR, c_char, c_int, c_long, dirent};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// Maximum number of open streams in a process.
const STREAMS_MAX: usize = 4096;

struct Stream {
    fd: AtomicI32, // descriptor + 1; 0 if this stream is free
    /// State of an open stream, for the thread that reads it. POSIX forbids that two threads call
    /// readdir on one stream at once.
    state: std::cell::UnsafeCell<Option<Reading>>,
}

struct Reading {
    items: Option<Vec<DirItem>>, // `None` before the first read and after a rewind
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
    // SAFETY: STREAMS_MAX zeroed streams: a free stream has descriptor 0, and its state is read
    // only while it is open.
    unsafe { std::slice::from_raw_parts(at, STREAMS_MAX) }
}

/// This library's stream for a `DIR`. [`Out::Pass`] for libc's.
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

    /// State of the stream.
    ///
    /// # Safety
    /// One thread at a time uses the stream, and no reference from an earlier call is in use.
    #[expect(clippy::mut_from_ref, reason = "POSIX leaves one stream to one thread at a time")]
    unsafe fn reading(&self) -> Result<&mut Reading, Out> {
        if self.descriptor() < 0 {
            return Err(Out::Errno(libc::EBADF));
        }
        // SAFETY: one thread at a time uses a stream by readdir's contract, and `adopt` sets the
        // state of an open one.
        let state = unsafe { &mut *self.state.get() };
        state.as_mut().ok_or(Out::Errno(libc::EBADF))
    }

    fn as_dir(&self) -> *mut DIR {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// Makes a stream on a descriptor of a directory of a mount.
fn adopt(fd: c_int) -> Result<*mut DIR, Out> {
    let free = |stream: &&Stream| stream.fd.compare_exchange(0, fd + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let stream = arena().iter().find(free).ok_or(Out::Errno(libc::ENFILE))?;
    // SAFETY: struct dirent is plain bytes; zero is valid.
    let entry = unsafe { std::mem::zeroed() };
    // SAFETY: since the exchange, only this thread has the stream. Its old state is zeroed or was
    // taken, so nothing must be dropped.
    unsafe { stream.state.get().write(Some(Reading { items: None, at: 0, entry })) };
    Ok(stream.as_dir())
}

/// All names of an open directory of a mount.
///
/// # Errors
/// EBADF for any other descriptor.
pub(crate) fn read_items(fd: c_int) -> Result<Vec<DirItem>, Out> {
    match table::find(fd)? {
        Found::Directory(opened) => {
            let (mount, entry) = opened.entry()?;
            Ok(mount.read_dir(dnfs::mount::Target::Entry(&entry))?)
        }
        Found::File(_) | Found::Elsewhere => Err(Out::Errno(libc::EBADF)),
    }
}

/// The `d_type` of an object.
pub(crate) fn type_of(kind: Option<FileKind>) -> u8 {
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

/// The next entry. Null at the end.
///
/// # Safety
/// As [`Stream::reading`].
unsafe fn next(stream: &Stream) -> Result<*mut dirent, Out> {
    // SAFETY: the caller promises what `reading` requires.
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
/// `entry` and `result` are NULL or have room for their types; no other thread uses the stream.
unsafe fn next_reentrant(stream: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> Result<c_int, Out> {
    // SAFETY: the pointers and the stream are so by the caller's promise.
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

/// Opens a stream on a directory of a mount.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn open_stream(directory: c_int, path: *const c_char) -> Result<*mut DIR, Out> {
    const FLAGS: c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    let fd = unsafe { open::open_at(directory, path, FLAGS, 0, |_, path| open::open::real(path, FLAGS, 0)) }?;
    adopt(fd).inspect_err(|_| {
        let _ = raw::close(fd);
    })
}

/// The stream of libc, or a stream of this library instead of it if a link of this host led libc to
/// a placeholder.
///
/// # Safety
/// `stream` is NULL, or a stream that libc just opened.
unsafe fn ours_instead(stream: *mut DIR) -> *mut DIR {
    if stream.is_null() || !crate::mounts::any() {
        return stream;
    }
    // SAFETY: an open stream of libc, which only this function uses and closes once.
    unsafe {
        let fd = dirfd::real(stream);
        if !matches!(table::find(fd), Ok(Found::Directory(_))) {
            return stream;
        }
        let adopted = raw::duplicate_from(fd, 0).map_err(Out::Errno).and_then(adopt);
        closedir::real(stream);
        adopted.unwrap_or_else(|out| {
            crate::outcome::set_errno(if let Out::Errno(errno) = out { errno } else { libc::EIO });
            std::ptr::null_mut()
        })
    }
}

hooks! {
    /// opendir(3).
    fn opendir(path: *const c_char) -> *mut DIR {
        paths::at(libc::AT_FDCWD, path, true, |_, _, _| open_stream(libc::AT_FDCWD, path), |_, path| ours_instead(real(path)))
    }
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
        // SAFETY: the stream is open, and its user gives it up with this call.
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
}
