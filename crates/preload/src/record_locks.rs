//! Record locks (fcntl) of files of a mount. They hold between all processes of this user on this host.
//!
//! POSIX locks belong to a process: they lie on a file beside the placeholder, which the process opens with its first
//! one, keeps open, and closes (which drops them all, as POSIX wants) when the program closes any descriptor of the file.
//! Those of an open description lie on the placeholder itself (`description_locks`).

use crate::description_locks as descriptions;
use crate::ffi;
use crate::mounts::MOUNTS_MAX;
use crate::outcome::{Errno, Out};
use crate::raw;
use crate::table::Open;
use dnfs::mount::{RecordLocks, SLOTS_MAX};
use libc::{c_int, off_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Time between two tries to get a lock that no call of the kernel waits for.
const RETRY_NS: u64 = 5_000_000;

/// A lock file this process has open.
#[repr(C)]
struct Cell {
    descriptor: AtomicU64, // generation of the file's slot << 32 | descriptor + 1; 0: none
    inode: AtomicU64,      // what the descriptor led to: a program may close it by means we do not see
}

/// By mount and slot, made with the first lock.
static OPEN: [AtomicPtr<Cell>; MOUNTS_MAX] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOUNTS_MAX];

/// A range of bytes and who else may have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// F_RDLCK, F_WRLCK or F_UNLCK.
    pub(crate) kind: c_int,
    /// First byte.
    pub(crate) start: off_t,
    /// Bytes; 0: to the end, wherever that will be.
    pub(crate) length: off_t,
}

impl Range {
    /// As fcntl(2) takes it.
    pub(crate) fn as_lock(&self) -> libc::flock {
        // SAFETY: struct flock is plain integers; zero is valid.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        (lock.l_type, lock.l_whence) = (self.kind as _, libc::SEEK_SET as _);
        (lock.l_start, lock.l_len) = (self.start, self.length);
        lock
    }

    /// The range of a program's lock: counted from the start of the file, forward.
    fn of(file: &Open, lock: &libc::flock) -> Result<Self, Out> {
        let base = match c_int::from(lock.l_whence) {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => raw::lseek(file.fd, 0, libc::SEEK_CUR)?,
            libc::SEEK_END => file.mount.size(file.file) as off_t,
            _ => return Err(Out::Errno(libc::EINVAL)),
        };
        let mut start = base.checked_add(lock.l_start).ok_or(Out::Errno(libc::EOVERFLOW))?;
        let mut length = lock.l_len;
        if length < 0 {
            start = start.checked_add(length).ok_or(Out::Errno(libc::EINVAL))?;
            length = length.checked_neg().ok_or(Out::Errno(libc::EINVAL))?;
        }
        let kind = c_int::from(lock.l_type);
        match kind {
            libc::F_RDLCK | libc::F_WRLCK | libc::F_UNLCK if start >= 0 => Ok(Self { kind, start, length }),
            _ => Err(Out::Errno(libc::EINVAL)),
        }
    }
}

/// fcntl(2) with a record lock.
///
/// # Safety
/// A lock of the caller, or NULL.
pub(crate) unsafe fn control(file: &Open, command: c_int, at: *mut libc::flock) -> Result<c_int, Out> {
    // SAFETY: the caller's promise.
    let lock = unsafe { ffi::take(at) }.ok_or(Out::Errno(libc::EFAULT))?;
    let range = Range::of(file, &lock)?;
    let of_description = matches!(command, libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK);
    if of_description && lock.l_pid != 0 {
        return Err(Out::Errno(libc::EINVAL));
    }
    if matches!(command, libc::F_GETLK | libc::F_OFD_GETLK) {
        if range.kind == libc::F_UNLCK {
            return Err(Out::Errno(libc::EINVAL));
        }
        let mut answer = lock;
        match if of_description { descriptions::conflict(file, &range)? } else { process_conflict(file, &range)? } {
            Some(found) => answer = found,
            None => answer.l_type = libc::F_UNLCK as _,
        }
        // SAFETY: the caller's promise.
        return unsafe { ffi::put(at, answer) }.map(|()| 0);
    }
    let mode = file.flags & libc::O_ACCMODE;
    let may = match range.kind {
        libc::F_RDLCK => matches!(mode, libc::O_RDONLY | libc::O_RDWR),
        libc::F_WRLCK => matches!(mode, libc::O_WRONLY | libc::O_RDWR),
        _ => true,
    };
    if !may {
        return Err(Out::Errno(libc::EBADF));
    }
    let wait = matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW);
    if of_description {
        descriptions::set(file, &range, wait)?
    } else {
        set(file, &range, wait)?
    }
    Ok(0)
}

/// Sets a lock of the process.
fn set(file: &Open, range: &Range, wait: bool) -> Result<(), Out> {
    let command = if wait { libc::F_SETLKW } else { libc::F_SETLK };
    if range.kind == libc::F_UNLCK {
        return match known(file) {
            Some(fd) => Ok(raw::record_lock(fd, command, &mut range.as_lock())?),
            None => Ok(()),
        };
    }
    let fd = lock_file(file)?;
    if file.mount.has_description_locks(file.file) {
        return set_beside_descriptions(file, fd, range, wait);
    }
    raw::record_lock(fd, command, &mut range.as_lock())?;
    if file.mount.has_description_locks(file.file) {
        // The first lock of a description came in this moment, and may not have seen ours.
        let _alone = file.mount.record_locks()?;
        if descriptions::conflict_with_process(file, range)?.is_some() {
            let unlock = Range { kind: libc::F_UNLCK, ..*range };
            raw::record_lock(fd, libc::F_SETLK, &mut unlock.as_lock())?;
            return Err(Out::Errno(libc::ENOLCK)); // what the process had there before is lost: not EAGAIN
        }
    }
    Ok(())
}

/// The same on a file that descriptions have locks of.
fn set_beside_descriptions(file: &Open, fd: c_int, range: &Range, wait: bool) -> Result<(), Out> {
    retry(wait, || {
        let _alone = file.mount.record_locks()?;
        if descriptions::conflict_with_process(file, range)?.is_some() {
            return Ok(false);
        }
        granted(raw::record_lock(fd, libc::F_SETLK, &mut range.as_lock()))
    })
}

/// Whether the kernel gave a lock, or another is in its way.
pub(crate) fn granted(answer: Result<(), Errno>) -> Result<bool, Out> {
    match answer {
        Ok(()) => Ok(true),
        Err(libc::EAGAIN | libc::EACCES) => Ok(false),
        Err(errno) => Err(Out::Errno(errno)),
    }
}

/// Tries once, or until it succeeds.
///
/// # Errors
/// EAGAIN, EINTR, or what the try ended with.
pub(crate) fn retry(wait: bool, mut attempt: impl FnMut() -> Result<bool, Out>) -> Result<(), Out> {
    if !wait {
        return if attempt()? { Ok(()) } else { Err(Out::Errno(libc::EAGAIN)) };
    }
    // One that comes between two tries must end the wait as well.
    let mut signals = raw::SignalsHeld::new();
    while !attempt()? {
        raw::sleep_until(raw::monotonic_ns() + RETRY_NS);
        if signals.let_in() {
            return Err(Out::Errno(libc::EINTR));
        }
    }
    Ok(())
}

/// Whose lock is in the way of one of this process.
fn process_conflict(file: &Open, range: &Range) -> Result<Option<libc::flock>, Out> {
    let mut lock = range.as_lock();
    raw::record_lock(lock_file(file)?, libc::F_GETLK, &mut lock)?;
    if c_int::from(lock.l_type) != libc::F_UNLCK {
        return Ok(Some(lock));
    }
    if file.mount.has_description_locks(file.file) { descriptions::conflict_with_process(file, range) } else { Ok(None) }
}

/// Which process' lock is in the way of one of a description; this process' own count.
pub(crate) fn conflict_with_description(file: &Open, range: &Range, alone: &RecordLocks) -> Result<Option<libc::flock>, Out> {
    let mut lock = range.as_lock();
    raw::record_lock(lock_file_alone(file, alone)?, libc::F_OFD_GETLK, &mut lock)?;
    Ok((c_int::from(lock.l_type) != libc::F_UNLCK).then_some(lock))
}

/// Where the descriptor of a file's lock file is kept.
fn cell(file: &Open) -> Result<&'static Cell, Out> {
    let none = Out::Errno(libc::ENOLCK);
    let place = OPEN.get(file.mounted.index).ok_or(none)?;
    let mut cells = place.load(Ordering::Acquire);
    if cells.is_null() {
        let fresh: *mut Cell = raw::map(SLOTS_MAX as usize * size_of::<Cell>()).ok_or(none)?.cast();
        // Of two threads one loses; its memory was never touched and costs an address range.
        let first = place.compare_exchange(cells, fresh, Ordering::AcqRel, Ordering::Acquire);
        cells = first.map_or_else(|other| other, |_| fresh);
    }
    // SAFETY: SLOTS_MAX zeroed cells of atomics, which are never unmapped.
    let cells = unsafe { std::slice::from_raw_parts(cells, SLOTS_MAX as usize) };
    cells.get(file.file.slot as usize).ok_or(none)
}

impl Cell {
    /// The descriptor for this file, if it still is what it was.
    fn held(&self, file: &Open) -> Option<c_int> {
        let value = self.descriptor.load(Ordering::Acquire);
        let fd = (value as u32).checked_sub(1)? as c_int;
        let same =
            |stat: libc::stat| crate::mounts::is_runtime_device(stat.st_dev) && stat.st_ino == self.inode.load(Ordering::Relaxed);
        ((value >> 32) as u32 == file.file.generation && raw::fstat(fd).is_ok_and(same)).then_some(fd)
    }

    fn keep(&self, file: &Open, fd: c_int) {
        follow_exec(file, fd);
        self.inode.store(raw::fstat(fd).map_or(0, |stat| stat.st_ino), Ordering::Relaxed);
        self.descriptor.store(u64::from(file.file.generation) << 32 | (fd as u64 + 1), Ordering::Release);
    }
}

/// The descriptor of the file's lock file, if the process has it open.
fn known(file: &Open) -> Option<c_int> {
    let any = OPEN.get(file.mounted.index).is_some_and(|cells| !cells.load(Ordering::Acquire).is_null());
    if any { cell(file).ok()?.held(file) } else { None }
}

/// The same, opened now if it was not.
fn lock_file(file: &Open) -> Result<c_int, Out> {
    match known(file) {
        Some(fd) => Ok(fd),
        None => lock_file_alone(file, &file.mount.record_locks()?),
    }
}

/// The same. Alone, because who opened it twice could not close one of them: that drops the process' locks.
fn lock_file_alone(file: &Open, _alone: &RecordLocks) -> Result<c_int, Out> {
    let cell = cell(file)?;
    if let Some(fd) = cell.held(file) {
        return Ok(fd);
    }
    let path = file.mount.lock_file_path(file.file);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| libc::EIO)?;
    let low = raw::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC, 0o660)?;
    // Away from the numbers that programs count on. Nothing is lost with the low one: there are no locks yet.
    let fd = raw::control(low, libc::F_DUPFD_CLOEXEC, dnfs::lowest_internal_fd() as usize).inspect(|_| {
        let _ = raw::close(low);
    });
    let fd = fd.unwrap_or(low);
    dnfs::set_internal_fd(fd, true);
    cell.keep(file, fd);
    Ok(fd)
}

/// Locks live on over exec when the descriptor does that they were set by.
fn follow_exec(file: &Open, fd: c_int) {
    let ends = raw::control(file.fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC);
    let _ = raw::control(fd, libc::F_SETFD, ends as usize);
}

/// The program's descriptor now stays open over exec, or no longer does.
pub(crate) fn exec_changed(file: &Open) {
    if let Some(fd) = known(file) {
        follow_exec(file, fd);
    }
}

/// A descriptor that came over exec: the process may have had locks of its file. It takes the lock file's descriptor as it
/// lies, since closing it would drop them.
pub(crate) fn inherited(file: &Open) {
    let path = file.mount.lock_file_path(file.file);
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return };
    if known(file).is_some() {
        return;
    }
    if let Ok(fd) = raw::open(path, libc::O_RDWR | libc::O_CLOEXEC, 0)
        && let Ok(cell) = cell(file)
    {
        cell.keep(file, fd);
    }
}

/// The program closed a descriptor of the file: with it go all locks the process had of it (POSIX, close).
pub(crate) fn closed(file: &Open) {
    let (Some(fd), Ok(cell)) = (known(file), cell(file)) else { return };
    cell.descriptor.store(0, Ordering::Release);
    dnfs::set_internal_fd(fd, false);
    let _ = raw::close(fd);
}
