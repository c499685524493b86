//! The files for a process' POSIX record locks, one beside each placeholder. A process opens the
//! file with its first lock and keeps it open, so that the kernel drops the locks with the process.

use crate::byte_range::Range;
use crate::descriptor_list::each_descriptor;
use crate::mounts::{MOUNTS_MAX, is_runtime_device};
use crate::open_file::Open;
use crate::outcome::Out;
use crate::raw;
use dnfs::mount::{LockRange, RecordLocks, SLOTS_MAX};
use libc::c_int;
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// An open lock file of this process.
#[repr(C)]
struct Cell {
    descriptor: AtomicU64, // generation of the file's slot << 32 | descriptor + 1; 0 if not open
    inode: AtomicU64,      // of the lock file; a program may close the descriptor without a hook
}

/// The cells by mount and slot. Those of a mount are allocated with the first lock.
static OPEN: [AtomicPtr<Cell>; MOUNTS_MAX] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOUNTS_MAX];

/// The cell for the descriptor of a file's lock file.
fn cell(file: &Open) -> Result<&'static Cell, Out> {
    let none = Out::Errno(libc::ENOLCK);
    let place = OPEN.get(file.mounted.index).ok_or(none)?;
    let mut cells = place.load(Ordering::Acquire);
    if cells.is_null() {
        let fresh: *mut Cell = raw::map(SLOTS_MAX as usize * size_of::<Cell>()).ok_or(none)?.cast();
        // If two threads do this at once, one of them keeps its memory mapped, which was never touched.
        let first = place.compare_exchange(cells, fresh, Ordering::AcqRel, Ordering::Acquire);
        cells = first.map_or_else(|other| other, |_| fresh);
    }
    // SAFETY: SLOTS_MAX zeroed cells of atomics, which are never unmapped.
    let cells = unsafe { std::slice::from_raw_parts(cells, SLOTS_MAX as usize) };
    cells.get(file.file.slot as usize).ok_or(none)
}

impl Cell {
    /// The descriptor for this file, if it still leads to the lock file.
    fn held(&self, file: &Open) -> Option<c_int> {
        let value = self.descriptor.load(Ordering::Acquire);
        let fd = (value as u32).checked_sub(1)? as c_int;
        let same = |stat: libc::stat| is_runtime_device(stat.st_dev) && stat.st_ino == self.inode.load(Ordering::Relaxed);
        ((value >> 32) as u32 == file.file.generation && raw::fstat(fd).is_ok_and(same)).then_some(fd)
    }

    fn keep(&self, file: &Open, fd: c_int) {
        follow_exec(file, fd);
        self.inode.store(raw::fstat(fd).map_or(0, |stat| stat.st_ino), Ordering::Relaxed);
        self.descriptor.store(u64::from(file.file.generation) << 32 | (fd as u64 + 1), Ordering::Release);
    }
}

/// The descriptor of the file's lock file, if the process has it open.
pub(crate) fn known(file: &Open) -> Option<c_int> {
    let any = OPEN.get(file.mounted.index).is_some_and(|cells| !cells.load(Ordering::Acquire).is_null());
    if any { cell(file).ok()?.held(file) } else { None }
}

/// As [`known`]. Opens the file if necessary.
pub(crate) fn lock_file(file: &Open) -> Result<c_int, Out> {
    match known(file) {
        Some(fd) => Ok(fd),
        None => lock_file_alone(file, &file.mount.locks().record_locks()?),
    }
}

/// As [`lock_file`], for one thread at a time. A process that opened the file twice could not close
/// one descriptor, because that would drop the process' locks.
fn lock_file_alone(file: &Open, _alone: &RecordLocks) -> Result<c_int, Out> {
    let cell = cell(file)?;
    if let Some(fd) = cell.held(file) {
        return Ok(fd);
    }
    let path = file.mount.locks().lock_file_path(file.file);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| libc::EIO)?;
    let low = raw::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC, 0o660)?;
    // Moves the descriptor above the numbers that programs use. Closing the low number loses
    // nothing, because there are no locks yet.
    let fd = raw::control(low, libc::F_DUPFD_CLOEXEC, dnfs::lowest_internal_fd() as usize).inspect(|_| {
        let _ = raw::close(low);
    });
    let fd = fd.unwrap_or(low);
    dnfs::set_internal_fd(fd, true);
    cell.keep(file, fd);
    Ok(fd)
}

/// Locks must survive exec if the program's descriptor does, so the lock file's descriptor gets the
/// same close-on-exec flag.
fn follow_exec(file: &Open, fd: c_int) {
    let ends = raw::control(file.fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC);
    let _ = raw::control(fd, libc::F_SETFD, ends as usize);
}

/// Called when the program has changed whether its descriptor stays open over exec.
pub(crate) fn exec_changed(file: &Open) {
    if let Some(fd) = known(file) {
        follow_exec(file, fd);
    }
}

/// Called for a descriptor inherited over exec. The process may have set locks of its file before
/// the exec. Finds the inherited descriptor of the lock file. To open the file once more would cost
/// the program a low number: closing any descriptor of the file would drop the locks.
pub(crate) fn inherited(file: &Open) {
    let path = file.mount.locks().lock_file_path(file.file);
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return };
    if known(file).is_some() {
        return;
    }
    let Ok(lock_file) = raw::stat(path, false) else { return };
    let mut found = None;
    let _ = each_descriptor(|fd| {
        let is_it = |stat: libc::stat| (stat.st_dev, stat.st_ino) == (lock_file.st_dev, lock_file.st_ino);
        if found.is_none() && raw::fstat(fd).is_ok_and(is_it) {
            found = Some(fd);
        }
    });
    if let (Some(fd), Ok(cell)) = (found, cell(file)) {
        dnfs::set_internal_fd(fd, true);
        cell.keep(file, fd);
    }
}

/// Called when the program has closed a descriptor of the file. The process then loses all its
/// locks of the file (POSIX, close).
pub(crate) fn closed(file: &Open) {
    let (Some(fd), Ok(cell)) = (known(file), cell(file)) else { return };
    cell.descriptor.store(0, Ordering::Release);
    dnfs::set_internal_fd(fd, false);
    let _ = raw::close(fd);
}

/// A process' lock that conflicts with a lock of a description. This process' own locks count too.
pub(crate) fn conflict(file: &Open, range: &Range, alone: &RecordLocks) -> Result<Option<libc::flock>, Out> {
    let mut lock = range.as_lock();
    let fd = lock_file_alone(file, alone)?;
    raw::record_lock(fd, libc::F_OFD_GETLK, &mut lock)?;
    Ok((c_int::from(lock.l_type) != libc::F_UNLCK).then(|| with_holder(fd, lock)))
}

/// Adds the holder to a lock of the file, if a FUSE mount has set the lock for a process.
pub(crate) fn with_holder(lock_file: c_int, mut lock: libc::flock) -> libc::flock {
    if lock.l_pid < 0 {
        let range = LockRange { start: lock.l_start, length: lock.l_len };
        // SAFETY: the descriptor is open, because the kernel just answered for it.
        lock.l_pid = dnfs::mount::holder_of_lock(unsafe { BorrowedFd::borrow_raw(lock_file) }, range) as _;
    }
    lock
}
