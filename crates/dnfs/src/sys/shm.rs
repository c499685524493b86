//! Files, locks and the shared mapping of the segment: every system call layer 3 makes on the local host.

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};

use super::raw::call;
use crate::segment::layout::{ActivityCell, Header, Slot, SlotTable};

/// What the kernel refused, as its error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

type Result<T> = core::result::Result<T, Errno>;

pub(crate) fn check(result: isize) -> Result<usize> {
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// A path for the kernel: bytes with a NUL at the end and none before.
#[derive(Clone, Debug)]
pub(crate) struct CPath(Vec<u8>);

impl CPath {
    /// The path of these bytes, cut at the first NUL.
    pub(crate) fn new(path: &[u8]) -> Self {
        let mut bytes: Vec<u8> = path.iter().copied().take_while(|byte| *byte != 0).collect();
        bytes.push(0);
        Self(bytes)
    }

    /// The path without its NUL.
    #[cfg(test)]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.split_last().map_or(&[], |(_, path)| path)
    }

    fn as_argument(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

/// An open descriptor of ours, closed when dropped; always close-on-exec.
#[derive(Debug)]
pub(crate) struct Fd(i32);

impl Fd {
    /// The descriptor, now the caller's.
    pub(crate) fn into_raw(self) -> i32 {
        let fd = self.0;
        core::mem::forget(self);
        fd
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours; nothing else closes it.
        unsafe { call(libc::SYS_close, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Opens `path`; `flags` of open(2), close-on-exec and no-follow are added.
pub(crate) fn open(path: &CPath, flags: i32, mode: u32) -> Result<Fd> {
    open_followed(path, flags | libc::O_NOFOLLOW, mode)
}

/// The same where a symbolic link is as good as what it names.
pub(crate) fn open_followed(path: &CPath, flags: i32, mode: u32) -> Result<Fd> {
    let flags = flags | libc::O_CLOEXEC;
    let arguments = [libc::AT_FDCWD as usize, path.as_argument(), flags as usize, mode as usize, 0, 0];
    loop {
        // SAFETY: the path is NUL-terminated and outlives the call.
        match check(unsafe { call(libc::SYS_openat, arguments) }) {
            Err(Errno(libc::EINTR)) => {}
            other => return other.map(|fd| Fd(fd as i32)),
        }
    }
}

/// `read(2)`, again after signals; 0 is the end.
pub(crate) fn read(fd: &Fd, room: &mut [u8]) -> Result<usize> {
    loop {
        let arguments = [fd.0 as usize, room.as_mut_ptr() as usize, room.len(), 0, 0, 0];
        // SAFETY: the buffer outlives the call, its size is told.
        match check(unsafe { call(libc::SYS_read, arguments) }) {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}

/// `flock(2)`; waits through signals.
pub(crate) fn flock(fd: &Fd, operation: i32) -> Result<()> {
    loop {
        // SAFETY: no pointers.
        match check(unsafe { call(libc::SYS_flock, [fd.0 as usize, operation as usize, 0, 0, 0, 0]) }) {
            Err(Errno(libc::EINTR)) => {}
            other => return other.map(|_| ()),
        }
    }
}

/// Makes a directory with this mode.
pub(crate) fn mkdir(path: &CPath, mode: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated and outlives the call.
    check(unsafe { call(libc::SYS_mkdirat, [libc::AT_FDCWD as usize, path.as_argument(), mode as usize, 0, 0, 0]) }).map(|_| ())
}

/// Removes a file.
pub(crate) fn unlink(path: &CPath) -> Result<()> {
    // SAFETY: the path is NUL-terminated and outlives the call.
    check(unsafe { call(libc::SYS_unlinkat, [libc::AT_FDCWD as usize, path.as_argument(), 0, 0, 0, 0]) }).map(|_| ())
}

/// Renames a file over another.
pub(crate) fn rename(from: &CPath, to: &CPath) -> Result<()> {
    let cwd = libc::AT_FDCWD as usize;
    // SAFETY: both paths are NUL-terminated and outlive the call.
    check(unsafe { call(libc::SYS_renameat2, [cwd, from.as_argument(), cwd, to.as_argument(), 0, 0]) }).map(|_| ())
}

/// Who owns a file and what it is.
pub(crate) struct Owner {
    /// Type and permission bits, as in `st_mode`.
    pub(crate) mode: u32,
    /// Owner.
    pub(crate) uid: u32,
    /// Size in bytes.
    pub(crate) size: u64,
}

/// Type, owner and size of the open file.
pub(crate) fn stat(fd: &Fd) -> Result<Owner> {
    // SAFETY: statx is plain integers; all zero is a value of it.
    let mut found: libc::statx = unsafe { core::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH as usize;
    let arguments = [fd.0 as usize, c"".as_ptr() as usize, flags, libc::STATX_BASIC_STATS as usize, &raw mut found as usize, 0];
    // SAFETY: the empty path is NUL-terminated and `found` is ours to be written.
    check(unsafe { call(libc::SYS_statx, arguments) })?;
    Ok(Owner { mode: u32::from(found.stx_mode), uid: found.stx_uid, size: found.stx_size })
}

/// Sets the length of a file; what is added is a hole.
pub(crate) fn truncate(fd: &Fd, length: u64) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { call(libc::SYS_ftruncate, [fd.0 as usize, length as usize, 0, 0, 0, 0]) }).map(|_| ())
}

/// Gives memory to a range of a file now, so that a store into its mapping can't die of a full tmpfs.
pub(crate) fn allocate(fd: &Fd, offset: u64, length: u64) -> Result<()> {
    loop {
        // SAFETY: no pointers.
        match check(unsafe { call(libc::SYS_fallocate, [fd.0 as usize, 0, offset as usize, length as usize, 0, 0]) }) {
            Err(Errno(libc::EINTR)) => {}
            other => return other.map(|_| ()),
        }
    }
}

/// The effective uid of this process.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { call(libc::SYS_geteuid, [0; 6]) as u32 }
}

/// This process.
pub(crate) fn process_id() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Eight bytes nobody can guess.
pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is ours and of the length given; up to 256 bytes never come short.
    let result = unsafe { call(libc::SYS_getrandom, [bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0, 0]) };
    if result == 8 { u64::from_ne_bytes(bytes) } else { monotonic_ns() ^ u64::from(process_id()) << 32 }
}

/// Nanoseconds of a clock that only goes forward.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is ours to be written.
    unsafe { call(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as usize, &raw mut now as usize, 0, 0, 0, 0]) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Waits this long, signals or not.
pub(crate) fn pause_ms(milliseconds: u64) {
    let end = monotonic_ns() + milliseconds * 1_000_000;
    while let Some(left) = end.checked_sub(monotonic_ns()).filter(|left| *left > 0) {
        let pause = libc::timespec { tv_sec: (left / 1_000_000_000) as _, tv_nsec: (left % 1_000_000_000) as _ };
        // SAFETY: `pause` outlives the call; the time left over is not asked for.
        unsafe { call(libc::SYS_nanosleep, [&raw const pause as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Lets another thread run.
pub(crate) fn give_way() {
    // SAFETY: no arguments, cannot fail.
    unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}

/// Signals held back from this thread until dropped, so that no handler runs inside a locked section.
pub(crate) struct SignalsBlocked(u64);

impl SignalsBlocked {
    pub(crate) fn new() -> Self {
        let all = u64::MAX;
        let mut before = 0u64;
        let how = libc::SIG_BLOCK as usize;
        // SAFETY: both sets are 8 bytes, the kernel's size of a signal set, and ours.
        unsafe { call(libc::SYS_rt_sigprocmask, [how, &raw const all as usize, &raw mut before as usize, 8, 0, 0]) };
        Self(before)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let how = libc::SIG_SETMASK as usize;
        // SAFETY: the set is 8 bytes and ours.
        unsafe { call(libc::SYS_rt_sigprocmask, [how, &raw const self.0 as usize, 0, 8, 0, 0]) };
    }
}

/// Types that may lie in memory other processes write at any time: only atomics, so that every bit pattern is a value
/// and every access is one.
///
/// # Safety
/// Every field is an atomic integer or an array or struct of them.
pub(crate) unsafe trait Shared {}

// SAFETY: an atomic integer.
unsafe impl Shared for AtomicU32 {}
// SAFETY: an atomic integer.
unsafe impl Shared for AtomicU64 {}
// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for Header {}
// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for Slot {}

// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for SlotTable {}
// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for ActivityCell {}

/// A file mapped MAP_SHARED, readable and writable, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is reached only as `Shared` types, which are atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of the file.
    pub(crate) fn new(fd: &Fd, length: usize) -> Result<Self> {
        let (access, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
        let base = check(unsafe { call(libc::SYS_mmap, [0, length, access as usize, how as usize, fd.0 as usize, 0]) })?;
        let base = NonNull::new(base as *mut u8).ok_or(Errno(libc::ENOMEM))?;
        Ok(Self { base, length })
    }

    /// Zeroed memory of this process alone; a forked child has a copy.
    pub(crate) fn private(length: usize) -> Result<Self> {
        let (access, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
        let base = check(unsafe { call(libc::SYS_mmap, [0, length, access as usize, how as usize, usize::MAX, 0]) })?;
        let base = NonNull::new(base as *mut u8).ok_or(Errno(libc::ENOMEM))?;
        Ok(Self { base, length })
    }

    /// `count` values of `T` from byte `offset` on.
    ///
    /// # Panics
    /// When they do not lie inside the mapping or are not aligned: offsets come from the layout, not from a peer.
    pub(crate) fn values<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        assert!(bytes.is_some_and(|end| end <= self.length), "segment layout leaves its mapping");
        assert_eq!(offset % align_of::<T>(), 0, "segment layout is not aligned");
        // SAFETY: in bounds and aligned (mapping bases are page-aligned), alive as long as self, and `Shared` allows any
        // bit pattern and concurrent change.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(offset).cast::<T>(), count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; references into it borrow from self and are gone.
        unsafe { call(libc::SYS_munmap, [self.base.as_ptr() as usize, self.length, 0, 0, 0, 0]) };
    }
}

/// A lock that dies with its holder: `flock` on a fresh open of a file; signals are held back meanwhile.
pub(crate) struct FileLock {
    fd: Fd,
    _signals: Option<SignalsBlocked>,
}

impl FileLock {
    /// Waits for the lock of this file, makes the file when missing, and lets signals through: for work that may wait
    /// for a server.
    pub(crate) fn wait_with_signals(path: &CPath) -> Result<Self> {
        let fd = open(path, libc::O_RDWR | libc::O_CREAT, 0o600)?;
        flock(&fd, libc::LOCK_EX)?;
        Ok(Self { fd, _signals: None })
    }

    /// Waits for the lock of this file; makes the file when missing.
    pub(crate) fn wait(path: &CPath) -> Result<Self> {
        let signals = SignalsBlocked::new();
        let fd = open(path, libc::O_RDWR | libc::O_CREAT, 0o600)?;
        flock(&fd, libc::LOCK_EX)?;
        Ok(Self { fd, _signals: Some(signals) })
    }

    /// The same if nobody holds it; none when somebody does.
    pub(crate) fn attempt(path: &CPath) -> Result<Option<Self>> {
        let signals = SignalsBlocked::new();
        let fd = open(path, libc::O_RDWR | libc::O_CREAT, 0o600)?;
        match flock(&fd, libc::LOCK_EX | libc::LOCK_NB) {
            Ok(()) => Ok(Some(Self { fd, _signals: Some(signals) })),
            Err(Errno(libc::EWOULDBLOCK)) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Unlocked by name: a child forked meanwhile shares the open file and would keep the lock.
        let _ = flock(&self.fd, libc::LOCK_UN);
    }
}

impl Deref for FileLock {
    type Target = Fd;

    fn deref(&self) -> &Fd {
        &self.fd
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A value nobody else sees, all zero.
    pub(crate) fn zeroed<T: Shared>() -> Box<T> {
        // SAFETY: `Shared` types are atomic integers, of which all zero is a value.
        unsafe { Box::<T>::new_zeroed().assume_init() }
    }

    /// A child of this process that runs one function and ends.
    pub(crate) struct Child(i32);

    impl Child {
        /// Forks; the child never returns from here, and ends with 0 when `work` does not panic.
        pub(crate) fn run(work: impl FnOnce()) -> Self {
            // SAFETY: glibc's fork leaves malloc usable in the child; the child runs only `work` and `_exit`.
            let pid = unsafe { libc::fork() };
            assert!(pid >= 0, "cannot fork");
            if pid == 0 {
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: ends the child without the parent's exit handlers.
                unsafe { libc::_exit(i32::from(done.is_err())) };
            }
            Self(pid)
        }

        /// Kills it at whatever instruction it is.
        pub(crate) fn kill(&self) {
            // SAFETY: a child of ours that was not waited for: its number can't be anyone else's.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
        }

        /// Waits for its end: whether it ended by itself, without a panic.
        pub(crate) fn succeeded(self) -> bool {
            let mut status = 0;
            // SAFETY: `status` is ours to be written.
            unsafe { libc::waitpid(self.0, &raw mut status, 0) };
            status == 0
        }
    }
}
