//! A lock between processes that dies with its holder, and that no child keeps.
//!
//! It is a record lock of the kernel, which belongs to the process: a child that was forked meanwhile, seen or not, does not have
//! it, as it would have a `flock` with the open file. Two things follow. Threads of one process do not exclude each other by
//! it; they do by a table. And closing any descriptor of the file gives the lock up; by the same table only the holder has one.

use super::clock;
use super::fd::Fd;
use super::fork;
use super::fork_lock::{ForkLock, Holder};
use super::liveness_lock::LivenessFile;
use super::local_file::{CPath, Errno, LOCK_FILE_MODE, open};
use super::record_lock;
use super::signals_blocked::SignalsBlocked;
use crate::event_count::EventCount;
use crate::limits::FILE_LOCKS_MAX;
use core::time::Duration;

/// Held by this process: files by a hash of their path, and the thread. Of another generation: free.
static HELD: ForkLock<[Option<(u64, Holder)>; FILE_LOCKS_MAX]> = ForkLock::new([None; FILE_LOCKS_MAX]);
static RELEASED: EventCount = EventCount::new();

/// How long the kernel may see a deadlock between threads of two processes that there is not.
const AGAIN: Duration = Duration::from_millis(1);

/// The lock of a file.
pub(crate) struct FileLock {
    fd: Option<Fd>, // until dropped
    generation: u32,
    _place: Option<Place>,
    _signals: Option<SignalsBlocked>,
}

/// A place in the table.
#[derive(Debug)]
struct Place {
    file: u64,
    holder: Holder,
}

impl FileLock {
    /// Waits for the lock of this file, makes the file when missing, and lets signals through: for work that may wait
    /// for a server.
    ///
    /// # Errors
    /// The kernel's; EDEADLK when this very thread has it.
    pub(crate) fn wait_with_signals(path: &CPath) -> Result<Self, Errno> {
        let place = Place::wait(path.hash(), || Some(SignalsBlocked::new()))?;
        Self::take(path, place, None, true)
    }

    /// Waits for the lock of this file; makes the file when missing.
    ///
    /// # Errors
    /// As [`Self::wait_with_signals`].
    pub(crate) fn wait(path: &CPath) -> Result<Self, Errno> {
        let signals = SignalsBlocked::new();
        let place = Place::wait(path.hash(), || None)?;
        Self::take(path, place, Some(signals), true)
    }

    /// The same if nobody holds it; none when somebody does.
    pub(crate) fn attempt(path: &CPath) -> Result<Option<Self>, Errno> {
        let signals = SignalsBlocked::new();
        let Ok(Some(place)) = Place::attempt_if_needed(path.hash()) else { return Ok(None) };
        match Self::take(path, place, Some(signals), false) {
            Err(Errno(libc::EACCES | libc::EAGAIN)) => Ok(None),
            taken => taken.map(Some),
        }
    }

    fn take(path: &CPath, place: Option<Place>, signals: Option<SignalsBlocked>, wait: bool) -> Result<Self, Errno> {
        let fd = open(path, libc::O_WRONLY | libc::O_CREAT, LOCK_FILE_MODE)?;
        patiently(|| record_lock::take_file(fd.number(), wait))?;
        Ok(Self { fd: Some(fd), generation: fork::fork_generation(), _place: place, _signals: signals })
    }
}

/// Takes a lock through signals, and through deadlocks that the kernel sees because it takes all threads of a process for one.
fn patiently(take: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match take() {
            Err(Errno(libc::EINTR)) => {}
            Err(Errno(libc::EDEADLK)) => clock::sleep(AGAIN),
            taken => return taken,
        }
    }
}

/// The lock of one byte of a file that this process opens once.
#[derive(Debug)]
pub(crate) struct ByteLock {
    fd: i32,
    byte: u32,
    generation: u32,
    _place: Option<Place>,
}

impl ByteLock {
    /// Waits for the lock if told so; else none when somebody has it.
    ///
    /// # Errors
    /// The kernel's; EDEADLK when this very thread has it and would wait.
    pub(crate) fn take(file: &LivenessFile, path: &CPath, byte: u32, wait: bool) -> Result<Option<Self>, Errno> {
        let fd = file.open(path)?;
        let key = path.hash() ^ (u64::from(byte) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = if wait {
            Place::wait(key, || Some(SignalsBlocked::new()))?
        } else {
            let _signals = SignalsBlocked::new();
            match Place::attempt_if_needed(key) {
                Ok(Some(place)) => place,
                _ => return Ok(None),
            }
        };
        match patiently(|| record_lock::take(fd, byte, wait)) {
            Err(Errno(libc::EACCES | libc::EAGAIN)) if !wait => Ok(None),
            taken => taken.map(|()| Some(Self { fd, byte, generation: fork::fork_generation(), _place: place })),
        }
    }

    /// Which byte.
    pub(crate) const fn byte(&self) -> u32 {
        self.byte
    }

    /// Whether this is still the process that took it, and not a child of it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation == fork::fork_generation()
    }
}

impl Drop for ByteLock {
    fn drop(&mut self) {
        if self.is_of_this_process() {
            record_lock::release(self.fd, self.byte);
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let fd = self.fd.take();
        if self.generation == fork::fork_generation() {
            drop(fd); // and with it the lock, before the place
        } else {
            // This is a child that came out of a fork meanwhile: neither the lock nor, perhaps, the descriptor is its own.
            core::mem::forget(fd);
        }
    }
}

impl Place {
    /// Waits for the place of this file. `signals` holds them back while the table is in use, if they are not already.
    fn wait(file: u64, signals: impl Fn() -> Option<SignalsBlocked>) -> Result<Option<Self>, Errno> {
        RELEASED.wait_until(|_| {
            let _signals = signals();
            Self::attempt_if_needed(file).transpose()
        })
    }

    /// The kernel tells a child that shares the memory alone from its parent; killed, it leaves nothing in the table.
    fn attempt_if_needed(file: u64) -> Result<Option<Option<Self>>, Errno> {
        if fork::shares_memory_alone() { Ok(Some(None)) } else { Ok(Self::attempt(file)?.map(Some)) }
    }

    /// None when another thread has it, or there is no place left.
    fn attempt(file: u64) -> Result<Option<Self>, Errno> {
        let holder = Holder::current();
        with_table(|table| {
            let mut free = None;
            for place in table {
                match place {
                    Some((held, by)) if by.is_of_this_process() => {
                        if *held == file {
                            return if *by == holder { Err(Errno(libc::EDEADLK)) } else { Ok(None) };
                        }
                    }
                    unused => free = Some(unused),
                }
            }
            Ok(free.map(|free| {
                *free = Some((file, holder));
                Self { file, holder }
            }))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _signals = SignalsBlocked::new();
        with_table(|table| {
            for place in table.iter_mut().filter(|place| **place == Some((self.file, self.holder))) {
                *place = None;
            }
        });
        RELEASED.notify(u32::MAX);
    }
}

/// Runs `work` on the table, with signals held back by the caller: a handler would wait for its own thread.
fn with_table<T>(work: impl FnOnce(&mut [Option<(u64, Holder)>; FILE_LOCKS_MAX]) -> T) -> T {
    loop {
        if let Some(mut table) = HELD.try_lock(Holder::current(), |torn| *torn = [None; FILE_LOCKS_MAX]) {
            return work(&mut table);
        }
        clock::give_way();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::tempdir::TempDir;
    use crate::sys::shm::tests::Child;
    use std::os::unix::ffi::OsStrExt as _;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn path(place: &TempDir, name: &str) -> CPath {
        CPath::new(&[place.path().as_bytes(), b"/", name.as_bytes()].concat())
    }

    #[test]
    fn threads_and_processes_have_a_lock_one_at_a_time() {
        let place = TempDir::new();
        let (file, other) = (path(&place, "lock"), path(&place, "other"));
        let memory = crate::sys::shm::tests::shared_memory();
        let inside = &memory.values::<AtomicU32>(0, 1)[0];
        let work = || {
            for _ in 0..200 {
                let held = FileLock::wait(&file).unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                drop(FileLock::wait_with_signals(&other).unwrap()); // another file of the same process
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(held);
            }
        };
        let children: Vec<_> = (0..2).map(|_| Child::run(work)).collect();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(work);
            }
        });
        assert!(children.into_iter().all(Child::succeeded));
    }

    #[test]
    fn a_thread_that_has_the_lock_is_told_instead_of_waiting_for_itself() {
        let place = TempDir::new();
        let file = path(&place, "lock");
        let held = FileLock::wait_with_signals(&file).unwrap();
        assert_eq!(FileLock::wait(&file).err(), Some(Errno(libc::EDEADLK)));
        assert!(FileLock::attempt(&file).unwrap().is_none());
        assert!(Child::run(|| assert!(FileLock::attempt(&file).unwrap().is_none())).succeeded());
        drop(held);
        assert!(FileLock::attempt(&file).unwrap().is_some());
    }

    #[test]
    fn a_child_made_while_the_lock_is_held_neither_has_it_nor_gives_it_up() {
        let place = TempDir::new();
        let file = path(&place, "lock");
        let held = std::cell::RefCell::new(Some(FileLock::wait_with_signals(&file).unwrap()));
        let child = Child::run(|| {
            assert!(FileLock::attempt(&file).unwrap().is_none());
            drop(held.take()); // as the frame below a signal handler does that forked
            assert!(FileLock::attempt(&file).unwrap().is_none());
        });
        assert!(child.succeeded());
        assert!(Child::run(|| assert!(FileLock::attempt(&file).unwrap().is_none())).succeeded());
        drop(held.take());
        assert!(Child::run(|| assert!(FileLock::attempt(&file).unwrap().is_some())).succeeded());
    }

    static RUNG: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handler(_signal: i32) {
        RUNG.fetch_add(1, Ordering::SeqCst);
    }

    /// An exclusive create must not fail once it has made the file: the second try would find it.
    #[test]
    fn waiting_for_a_byte_goes_on_through_signals_whose_handlers_end_calls_until_the_holder_is_dead() {
        let place = TempDir::new();
        let path = path(&place, "bytes");
        let memory = crate::sys::shm::tests::shared_memory();
        let held = &memory.values::<AtomicU32>(0, 1)[0];
        let file = LivenessFile::new();
        let take = |byte, wait| ByteLock::take(&file, &path, byte, wait);
        let _other = take(8, false).unwrap().unwrap();
        let holder = Child::run(|| {
            let _held = take(7, false).unwrap().unwrap();
            // A child that knows of nothing.
            held.store(crate::sys::shm::tests::Bystander::fork().leave() as u32, Ordering::SeqCst);
            clock::sleep(Duration::from_secs(60));
        });
        while held.load(Ordering::SeqCst) == 0 {
            clock::give_way();
        }
        let _bystander = crate::sys::shm::tests::Bystander(held.load(Ordering::SeqCst) as i32);
        assert!(take(7, false).unwrap().is_none());
        // SAFETY: a handler that only counts, without SA_RESTART; plain integers, of which zero is valid.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut());
        }
        let waiter = std::sync::atomic::AtomicI32::new(0);
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                // SAFETY: no pointers.
                waiter.store(unsafe { libc::gettid() }, Ordering::SeqCst);
                take(7, true).unwrap().is_some()
            });
            while RUNG.load(Ordering::SeqCst) < 3 {
                // SAFETY: no pointers; the thread lives until it is joined, and its handler is installed.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), waiter.load(Ordering::SeqCst), libc::SIGUSR2) };
                clock::sleep(Duration::from_millis(1));
            }
            assert!(!done.is_finished());
            holder.kill();
            assert!(done.join().unwrap());
        });
        assert!(!holder.succeeded());
    }
}
