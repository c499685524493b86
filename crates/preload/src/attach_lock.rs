//! The lock that lets one thread of the process at a time attach a mount.
//!
//! The lock contains its owner's thread number, so that a signal handler that needs the mount while its own thread attaches it
//! gets an error instead of waiting for itself. A lock whose owner is not a thread of this process (a fork copied it) is taken
//! over.

use crate::outcome::Errno;
use crate::raw;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longest sleep of a waiter before it checks whether the owner is still alive.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The lock.
#[derive(Debug, Default)]
pub(crate) struct AttachLock {
    owner: AtomicU32, // thread number; 0 if the lock is free
}

/// The proof that this thread holds the lock. Dropping it releases the lock, also after a panic.
#[derive(Debug)]
pub(crate) struct AttachGuard<'l> {
    lock: &'l AttachLock,
}

impl AttachLock {
    pub(crate) const fn new() -> Self {
        Self { owner: AtomicU32::new(0) }
    }

    /// Whether this thread holds the lock.
    pub(crate) fn is_own(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == raw::thread_id()
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// EDEADLK if this thread holds it.
    pub(crate) fn lock(&self) -> Result<AttachGuard<'_>, Errno> {
        let me = raw::thread_id();
        let mut expected = 0;
        loop {
            match self.owner.compare_exchange(expected, me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(AttachGuard { lock: self }),
                Err(owner) if owner == me => return Err(libc::EDEADLK),
                Err(0) => expected = 0,
                Err(owner) if !raw::has_thread(owner) => expected = owner,
                Err(owner) => {
                    raw::futex_wait(&self.owner, owner, LOOK_EVERY);
                    expected = 0;
                }
            }
        }
    }
}

impl Drop for AttachGuard<'_> {
    fn drop(&mut self) {
        self.lock.owner.store(0, Ordering::Release);
        raw::futex_wake_all(&self.lock.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_that_holds_the_lock_is_told_instead_of_waiting_for_itself() {
        let lock = AttachLock::new();
        let guard = lock.lock().unwrap();
        assert_eq!(lock.lock().unwrap_err(), libc::EDEADLK);
        drop(guard);
        assert!(lock.lock().is_ok());
    }

    #[test]
    fn a_panic_gives_the_lock_back() {
        let lock = AttachLock::new();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = lock.lock().unwrap();
            std::panic::resume_unwind(Box::new("in the middle of attaching"));
        }));
        assert!(panicked.is_err());
        assert!(lock.lock().is_ok());
    }

    #[test]
    fn another_thread_waits_until_the_holder_is_done() {
        let lock = AttachLock::new();
        let guard = lock.lock().unwrap();
        let (entered, order) = mpsc::channel();
        std::thread::scope(|scope| {
            let lock = &lock;
            let sender = entered.clone();
            scope.spawn(move || {
                let _guard = lock.lock().unwrap();
                sender.send("second").unwrap();
            });
            entered.send("first").unwrap();
            drop(guard);
        });
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["first", "second"]);
    }

    #[test]
    fn a_lock_whose_holder_is_no_thread_of_this_process_is_taken_over() {
        let lock = AttachLock::new();
        std::thread::scope(|scope| {
            scope.spawn(|| std::mem::forget(lock.lock().unwrap()));
        });
        assert!(lock.lock().is_ok());
    }
}
