//! The channels of a client in this process: taken without a lock, made when first needed.

use crate::limits::CHANNELS_MAX;
use crate::rpc::channel::Channel;
use crate::segment::layout::Turnstile;
use crate::sys::raw::thread_mark;
use crate::sys::socket;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Up to 64 channels. A signal handler that comes in while its thread holds one takes another; nothing is allocated.
#[derive(Debug)]
pub(crate) struct Pool {
    places: Box<[Place]>,
    /// Places used as long as one of them is free; the rest are for signal handlers inside a call.
    count: usize,
    /// Places held at a fork by threads that do not exist here: as many others take their part.
    lost: AtomicUsize,
    turnstile: Turnstile,
}

#[derive(Debug)]
struct Place {
    /// Thread that has it; 0 when free. Set first and cleared last: a signal handler that finds the lock taken can rely
    /// on finding its own thread's mark, at whatever instruction it came in.
    user: AtomicU64,
    // A mutex that is only ever tried is one compare-and-swap: never waited for, safe in a signal handler.
    channel: Mutex<Channel>,
}

/// A channel taken. Dropped in the order of the fields: the lock first, the mark last.
struct Taken<'p> {
    channel: MutexGuard<'p, Channel>,
    _mark: Mark<'p>,
}

/// The mark of the thread that has a place.
struct Mark<'p> {
    pool: &'p Pool,
    place: &'p Place,
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.place.user.store(0, Release);
        self.pool.turnstile.open(1);
    }
}

impl Pool {
    /// A pool that makes `count` connections at most; one more for each signal handler inside a call.
    pub(crate) fn new(count: usize) -> Self {
        socket::watch_forks();
        let place = |_| Place { user: AtomicU64::new(0), channel: Mutex::new(Channel::new()) };
        Self {
            places: (0..CHANNELS_MAX).map(place).collect(),
            count: count.clamp(1, CHANNELS_MAX),
            lost: AtomicUsize::new(0),
            turnstile: Turnstile::default(),
        }
    }

    /// Runs `work` on a channel nobody else uses.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Channel) -> T) -> T {
        let mark = thread_mark();
        let mut taken = match self.free(self.usable(), mark) {
            Some(taken) => taken,
            None => self.turnstile.pass(|_| self.free(if self.is_nested(mark) { CHANNELS_MAX } else { self.usable() }, mark)),
        };
        work(&mut taken.channel)
    }

    /// In a child after fork: closes the parent's descriptors. Channels in use at the fork (by threads that do not exist
    /// here, or by a frame below a signal handler) are left to whoever holds them.
    pub(crate) fn leave_parent(&self) {
        let (mark, mut lost) = (thread_mark(), 0);
        for place in &self.places {
            if let Ok(mut channel) = place.channel.try_lock() {
                channel.leave_parent();
            }
            lost += usize::from(![0, mark].contains(&place.user.load(Relaxed)));
        }
        self.lost.store(lost, Relaxed);
    }

    fn usable(&self) -> usize {
        self.count + self.lost.load(Relaxed)
    }

    /// One of the first `count` places, if one is free.
    fn free(&self, count: usize, mark: u64) -> Option<Taken<'_>> {
        self.places.iter().take(count).find_map(|place| {
            place.user.compare_exchange(0, mark, Acquire, Relaxed).ok()?;
            let _mark = Mark { pool: self, place };
            match place.channel.try_lock() {
                Ok(channel) => Some(Taken { channel, _mark }),
                Err(TryLockError::Poisoned(poisoned)) => {
                    // Somebody panicked in the middle of an exchange: its replies may still be on their way.
                    let mut channel = poisoned.into_inner();
                    channel.disconnect();
                    Some(Taken { channel, _mark })
                }
                Err(TryLockError::WouldBlock) => None,
            }
        })
    }

    /// Whether this thread holds a channel: then it is in a signal handler, and must not wait for that channel.
    fn is_nested(&self, mark: u64) -> bool {
        self.places.iter().any(|place| place.user.load(Relaxed) == mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    #[test]
    fn a_nested_user_gets_another_channel() {
        for count in [1, CHANNELS_MAX] {
            let pool = Pool::new(count);
            pool.with(|outer| {
                let outer: *const Channel = outer;
                pool.with(|inner| assert!(!std::ptr::eq(outer, inner)));
            });
        }
    }

    #[test]
    fn a_handler_between_mark_and_lock_does_not_wait_for_its_own_thread() {
        let pool = Pool::new(1);
        // The state in which a signal finds a thread that is about to lock a channel, or has just unlocked it.
        pool.places[0].user.store(thread_mark(), Relaxed);
        pool.with(|channel| assert!(!std::ptr::eq(channel, &raw const *pool.places[0].channel.try_lock().unwrap())));
    }

    #[test]
    fn a_child_does_not_wait_for_a_channel_of_a_thread_that_is_not_there() {
        let pool = Pool::new(1);
        pool.places[0].user.store(thread_mark() + 1, Relaxed);
        pool.leave_parent();
        pool.with(|_| ());
    }

    #[test]
    fn more_users_than_channels_all_get_their_turn() {
        for count in [1, 3, CHANNELS_MAX] {
            let pool = Pool::new(count);
            let (turns, inside) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for _ in 0..2 * CHANNELS_MAX {
                    scope.spawn(|| {
                        pool.with(|_| {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < count as u64);
                            socket::sleep(Duration::from_micros(300));
                            inside.fetch_sub(1, Ordering::SeqCst);
                            turns.fetch_add(1, Ordering::Relaxed);
                        })
                    });
                }
            });
            assert_eq!(turns.into_inner(), 2 * CHANNELS_MAX as u64);
        }
    }
}
