//! The channels of a client in this process: taken without a lock, made when first needed.

use crate::channel::Channel;
use crate::limits::CHANNELS_MAX;
use crate::segment::layout::Turnstile;
use crate::sys::raw::thread_mark;
use crate::sys::socket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Up to 64 channels. A signal handler that comes in while its thread holds one takes another; nothing is allocated.
#[derive(Debug)]
pub(crate) struct Pool {
    places: Box<[Place]>,
    /// Places used as long as one of them is free; the rest are for signal handlers inside a call.
    count: usize,
    turnstile: Turnstile,
}

#[derive(Debug)]
struct Place {
    // A mutex that is only ever tried is one compare-and-swap: never waited for, safe in a signal handler.
    channel: Mutex<Channel>,
    /// Thread that has it, where channels are few.
    user: AtomicU64,
}

impl Pool {
    /// A pool that makes `count` connections at most; one more for each signal handler inside a call.
    pub(crate) fn new(count: usize) -> Self {
        socket::watch_forks();
        let place = |_| Place { channel: Mutex::new(Channel::new()), user: AtomicU64::new(0) };
        Self {
            places: (0..CHANNELS_MAX).map(place).collect(),
            count: count.clamp(1, CHANNELS_MAX),
            turnstile: Turnstile::default(),
        }
    }

    /// Runs `work` on a channel nobody else uses.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Channel) -> T) -> T {
        let (place, mut channel) = match self.free(self.count) {
            Some(found) => found,
            None => self.turnstile.pass(|_| self.free(if self.is_nested() { CHANNELS_MAX } else { self.count })),
        };
        if self.count == CHANNELS_MAX {
            let done = work(&mut channel);
            drop(channel);
            self.turnstile.open(1);
            return done;
        }
        place.user.store(thread_mark(), Ordering::Relaxed);
        let done = work(&mut channel);
        place.user.store(0, Ordering::Relaxed);
        drop(channel);
        self.turnstile.open(1);
        done
    }

    /// In a child after fork: closes the parent's descriptors. Channels in use at the fork (by threads that do not exist
    /// here, or by a frame below a signal handler) are left to whoever holds them.
    pub(crate) fn leave_parent(&self) {
        for place in &self.places {
            if let Ok(mut channel) = place.channel.try_lock() {
                channel.leave_parent();
            }
        }
    }

    /// One of the first `count` places, if one is free.
    fn free(&self, count: usize) -> Option<(&Place, MutexGuard<'_, Channel>)> {
        self.places.iter().take(count).find_map(|place| match place.channel.try_lock() {
            Ok(channel) => Some((place, channel)),
            Err(TryLockError::Poisoned(poisoned)) => {
                // Somebody panicked in the middle of an exchange: its replies may still be on their way.
                let mut channel = poisoned.into_inner();
                channel.disconnect();
                Some((place, channel))
            }
            Err(TryLockError::WouldBlock) => None,
        })
    }

    /// Whether this thread holds a channel: then it is in a signal handler, and must not wait for that channel.
    fn is_nested(&self) -> bool {
        let mark = thread_mark();
        self.places.iter().any(|place| place.user.load(Ordering::Relaxed) == mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
