//! A lock with a try operation only, which no fork leaves locked.
//!
//! Its word names the holder: the fork generation of its process, and its thread. A word of another generation was copied by a
//! fork while a thread of the parent held the lock. That thread does not exist here, so the next caller takes the lock. The
//! value may be incomplete, as the parent's thread left it.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A thread of this process: never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder(u64);

impl Holder {
    /// A thread by its number ([`super::raw::thread_number`]) in the process with this fork generation.
    #[inline]
    pub(crate) const fn new(generation: u32, thread: u32) -> Self {
        Self((generation as u64) << 32 | thread as u64)
    }

    /// Whether it is a thread of the process with this fork generation.
    #[inline]
    pub(crate) const fn is_of(self, generation: u32) -> bool {
        (self.0 >> 32) as u32 == generation
    }

    const fn is_of_another_process(self, word: u64) -> bool {
        word >> 32 != self.0 >> 32
    }

    const fn is_thread(self, word: u64) -> bool {
        word as u32 == self.0 as u32
    }
}

/// The lock. Safe in signal handlers.
#[derive(Debug)]
pub(crate) struct ForkLock<T> {
    /// Set first and cleared last: a signal handler that finds the lock taken finds its own thread here if that holds it,
    /// whatever instruction it interrupted.
    holder: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock, which may be any thread, reaches the value.
unsafe impl<T: Send> Sync for ForkLock<T> {}

/// The lock, held.
pub(crate) struct ForkGuard<'l, T> {
    lock: &'l ForkLock<T>,
    me: Holder,
}

impl<T> ForkLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { holder: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// Takes the lock unless a thread of this process, including this one, has it. `abandoned` repairs the value if a thread of
    /// the parent was using it at the fork. It must not trust the value, and must drop nothing of it.
    #[inline]
    pub(crate) fn try_lock(&self, me: Holder, abandoned: impl FnOnce(&mut T)) -> Option<ForkGuard<'_, T>> {
        let Err(held) = self.holder.compare_exchange(0, me.0, Acquire, Relaxed) else {
            return Some(ForkGuard { lock: self, me });
        };
        // This thread may have forked in a signal handler: then the frame below continues with the lock.
        if !me.is_of_another_process(held) || me.is_thread(held) {
            return None;
        }
        self.holder.compare_exchange(held, me.0, Acquire, Relaxed).ok()?;
        let mut guard = ForkGuard { lock: self, me };
        abandoned(&mut guard);
        Some(guard)
    }

    /// Whether a thread has the lock.
    pub(crate) fn is_held(&self) -> bool {
        self.holder.load(Relaxed) != 0
    }

    /// Takes the lock from a holder that is known not to use it any more. The value may be incomplete.
    pub(crate) fn take_left(&self, me: Holder) -> Option<ForkGuard<'_, T>> {
        let held = self.holder.load(Relaxed);
        (held != 0 && self.holder.compare_exchange(held, me.0, Acquire, Relaxed).is_ok()).then_some(ForkGuard { lock: self, me })
    }

    /// Whether this thread has the lock. It is then in a signal handler.
    pub(crate) fn is_held_by(&self, me: Holder) -> bool {
        let held = self.holder.load(Relaxed);
        held != 0 && me.is_thread(held)
    }

    /// Frees the lock and changes its value, while nobody else has it.
    #[cfg(test)]
    pub(crate) fn set(&self, change: impl FnOnce(&mut T)) {
        self.holder.store(0, Relaxed);
        if let Some(mut guard) = self.try_lock(Holder::new(1, 1), |_| ()) {
            change(&mut guard);
        }
    }

    /// Sets the state that a signal handler finds between the taking and the use of the lock, or
    /// that a fork in any thread copies.
    #[cfg(test)]
    pub(crate) fn set_holder(&self, holder: Holder) {
        self.holder.store(holder.0, Relaxed);
    }
}

#[cfg(test)]
impl Holder {
    /// Another thread of this process.
    pub(crate) const fn other_thread(self) -> Self {
        Self(self.0 ^ 2)
    }

    /// A thread of the process before a fork.
    pub(crate) const fn before_fork(self) -> Self {
        Self(self.0 ^ 1 << 62)
    }
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held by this guard alone, which lends the value no longer than itself.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for ForkGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Has no effect if the lock was taken over since, in a child that was forked while it was
        // held.
        let _ = self.lock.holder.compare_exchange(self.me.0, 0, Release, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::this_process;

    #[test]
    fn a_lock_that_a_fork_copied_held_is_taken_over_and_its_value_put_in_order() {
        let lock = ForkLock::new(7);
        let me = this_process().current_thread();
        lock.set_holder(me.other_thread().before_fork());
        let mut guard = lock.try_lock(me, |value| *value = 0).unwrap();
        assert_eq!(*guard, 0);
        *guard = 5;
        drop(guard);
        assert_eq!(*lock.try_lock(me, |_| panic!("nobody left it")).unwrap(), 5);
    }

    #[test]
    fn a_lock_held_by_another_thread_or_by_the_frame_below_is_left_alone() {
        let lock = ForkLock::new(7);
        let me = this_process().current_thread();
        for holder in [me, me.other_thread(), me.before_fork()] {
            lock.set_holder(holder);
            assert!(lock.try_lock(me, |_| panic!("it is in use")).is_none());
            assert_eq!(lock.is_held_by(me), holder != me.other_thread());
        }
    }

    #[test]
    fn threads_have_the_lock_one_at_a_time() {
        let lock = ForkLock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut turns = 0;
                    while turns < 5_000 {
                        if let Some(mut guard) = lock.try_lock(this_process().current_thread(), |_| unreachable!()) {
                            *guard += 1;
                            turns += 1;
                        }
                    }
                });
            }
        });
        assert_eq!(lock.value.into_inner(), 20_000);
    }
}
