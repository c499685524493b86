//! A lock between processes that ends with its holder and that no child inherits.
//!
//! It is a record lock of the kernel, which belongs to the process. A child that was forked meanwhile does not have it; it
//! would have a `flock`, with the open file. This has two consequences. It does not exclude threads of one process; a table
//! does that. And closing any descriptor of the file releases the lock; by the same table only the holder has a descriptor.

use super::clock;
use super::fd::Fd;
use super::fork_lock::Holder;
use super::local_file::{CPath, Errno, LOCK_FILE_MODE, open};
use super::record_lock;
use super::signals_blocked::SignalsBlocked;
use crate::process::{HeldLocks, NO_LOCKS, this_process};
use core::time::Duration;

/// Pause after the kernel reports a deadlock between threads of two processes that does not exist.
const AGAIN: Duration = Duration::from_millis(1);

/// The lock of a file.
pub(crate) struct FileLock {
    fd: Option<Fd>, // until dropped
    generation: u32,
    _place: Option<Place>,
}

/// A place in the table.
#[derive(Debug)]
struct Place {
    file: u64,
    holder: Holder,
}

impl FileLock {
    /// Waits for the lock of this file, and creates the file if it is missing. Does not block signals: the work under the lock
    /// may wait for a server.
    ///
    /// # Errors
    /// The file cannot be opened or locked; EDEADLK if this thread has the lock.
    pub(crate) fn wait(path: &CPath) -> Result<Self, Errno> {
        let place = Place::wait(path.hash())?;
        Self::take(path, place, true)
    }

    /// As [`Self::wait`], without waiting. `None` if another process or thread holds it.
    #[cfg(test)]
    pub(crate) fn attempt(path: &CPath) -> Result<Option<Self>, Errno> {
        let place = {
            let _signals = SignalsBlocked::new();
            let Ok(Some(place)) = Place::attempt_if_needed(path.hash()) else { return Ok(None) };
            place
        };
        match Self::take(path, place, false) {
            Err(Errno(libc::EACCES | libc::EAGAIN)) => Ok(None),
            taken => taken.map(Some),
        }
    }

    fn take(path: &CPath, place: Option<Place>, wait: bool) -> Result<Self, Errno> {
        let fd = open(path, libc::O_WRONLY | libc::O_CREAT, LOCK_FILE_MODE)?;
        patiently(|| record_lock::take_file(fd.number(), wait))?;
        Ok(Self { fd: Some(fd), generation: this_process().identity.generation(), _place: place })
    }
}

/// Takes a lock through signals, and through deadlocks that the kernel reports because it treats all threads of a process as
/// one.
fn patiently(take: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match take() {
            Err(Errno(libc::EINTR)) => {}
            Err(Errno(libc::EDEADLK)) => clock::sleep(AGAIN),
            taken => return taken,
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let fd = self.fd.take();
        if self.generation == this_process().identity.generation() {
            drop(fd); // this releases the lock, before the place
        } else {
            // This is a child that was forked meanwhile: neither the lock nor, perhaps, the descriptor belongs to it.
            core::mem::forget(fd);
        }
    }
}

impl Place {
    /// Waits for the place of this file in the table. Signals are blocked while the table is used.
    fn wait(file: u64) -> Result<Option<Self>, Errno> {
        this_process().file_locks.released.wait_until(|_| {
            let _signals = SignalsBlocked::new();
            Self::attempt_if_needed(file).transpose()
        })
    }

    /// For a child that shares the memory, the kernel's lock suffices. If the child is killed, it leaves nothing in the table.
    fn attempt_if_needed(file: u64) -> Result<Option<Option<Self>>, Errno> {
        if this_process().identity.shares_memory_alone() { Ok(Some(None)) } else { Ok(Self::attempt(file)?.map(Some)) }
    }

    /// Takes a place. `None` if another thread has the file's, or if no place is free.
    fn attempt(file: u64) -> Result<Option<Self>, Errno> {
        let (holder, generation) = (this_process().current_thread(), this_process().identity.generation());
        with_table(|table| {
            let mut free = None;
            for place in table {
                match place {
                    Some((held, by)) if by.is_of(generation) => {
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
        this_process().file_locks.released.notify(u32::MAX);
    }
}

/// Runs `work` on the table. The caller has blocked signals: a handler would wait for its own thread.
fn with_table<T>(work: impl FnOnce(&mut HeldLocks) -> T) -> T {
    loop {
        let locked = this_process().file_locks.held.try_lock(this_process().current_thread(), |torn| *torn = NO_LOCKS);
        if let Some(mut table) = locked {
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
    use std::sync::atomic::Ordering;

    fn path(place: &TempDir, name: &str) -> CPath {
        CPath::new(&[place.path().as_bytes(), b"/", name.as_bytes()].concat())
    }

    #[test]
    fn threads_and_processes_have_a_lock_one_at_a_time() {
        let place = TempDir::new();
        let (file, other) = (path(&place, "lock"), path(&place, "other"));
        let memory = crate::sys::shm::tests::shared_memory();
        let inside = &memory.values::<crate::sys::atomic::AtomicU32>(0, 1)[0];
        let work = || {
            for _ in 0..200 {
                let held = FileLock::wait(&file).unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                drop(FileLock::wait(&other).unwrap()); // another file of the same process
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
        let held = FileLock::wait(&file).unwrap();
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
        let held = std::cell::RefCell::new(Some(FileLock::wait(&file).unwrap()));
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
}
