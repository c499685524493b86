//! The channels of a client in this process: taken without a lock, made when first needed.

use crate::event_count::EventCount;
use crate::limits::CHANNELS_MAX;
use crate::rpc::channel::Channel;
use crate::sys::fork;
use crate::sys::raw::thread_id;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Up to 64 channels. A signal handler that comes in while its thread holds one takes another; nothing is allocated.
#[derive(Debug)]
pub(crate) struct Pool {
    entries: Box<[Entry]>,
    /// Entries used as long as one of them is free; the rest are for signal handlers inside a call.
    count: usize,
    /// Entries held at a fork by threads that do not exist here: as many others take their part.
    lost: AtomicUsize,
    channel_freed: EventCount,
}

#[derive(Debug)]
struct Entry {
    /// Thread that has it; 0 when free. Set first and cleared last: a signal handler that finds the lock taken can rely
    /// on finding its own thread here, at whatever instruction it came in.
    user: AtomicU64,
    // A mutex that is only ever tried is one compare-and-swap: never waited for, safe in a signal handler.
    channel: Mutex<Channel>,
}

/// A channel in use. Dropped in the order of the fields: the lock first, the claim last.
struct Lease<'p> {
    channel: MutexGuard<'p, Channel>,
    _claim: Claim<'p>,
}

/// Says that a thread has an entry.
struct Claim<'p> {
    pool: &'p Pool,
    entry: &'p Entry,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.entry.user.store(0, Release);
        self.pool.channel_freed.notify(1);
    }
}

impl Pool {
    /// A pool that makes `count` connections at most; one more for each signal handler inside a call.
    pub(crate) fn new(count: usize) -> Self {
        fork::watch_forks();
        let entry = |_| Entry { user: AtomicU64::new(0), channel: Mutex::new(Channel::new()) };
        Self {
            entries: (0..CHANNELS_MAX).map(entry).collect(),
            count: count.clamp(1, CHANNELS_MAX),
            lost: AtomicUsize::new(0),
            channel_freed: EventCount::default(),
        }
    }

    /// Runs `work` on a channel nobody else uses.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Channel) -> T) -> T {
        let thread = thread_id();
        let mut lease = match self.free(self.usable(), thread) {
            Some(lease) => lease,
            None => self
                .channel_freed
                .wait_until(|_| self.free(if self.is_nested(thread) { CHANNELS_MAX } else { self.usable() }, thread)),
        };
        work(&mut lease.channel)
    }

    /// In a child after fork: closes the parent's descriptors. Channels in use at the fork (by threads that do not exist
    /// here, or by a frame below a signal handler) are left to whoever holds them.
    pub(crate) fn reset_after_fork(&self) {
        let (thread, mut lost) = (thread_id(), 0);
        for entry in &self.entries {
            if let Ok(mut channel) = entry.channel.try_lock() {
                channel.reset_after_fork();
            }
            lost += usize::from(![0, thread].contains(&entry.user.load(Relaxed)));
        }
        self.lost.store(lost, Relaxed);
    }

    fn usable(&self) -> usize {
        self.count + self.lost.load(Relaxed)
    }

    /// One of the first `count` entries, if one is free.
    fn free(&self, count: usize, thread: u64) -> Option<Lease<'_>> {
        self.entries.iter().take(count).find_map(|entry| {
            entry.user.compare_exchange(0, thread, Acquire, Relaxed).ok()?;
            let _claim = Claim { pool: self, entry };
            match entry.channel.try_lock() {
                Ok(channel) => Some(Lease { channel, _claim }),
                Err(TryLockError::Poisoned(poisoned)) => {
                    // Somebody panicked in the middle of an exchange: its replies may still be on their way.
                    let mut channel = poisoned.into_inner();
                    channel.disconnect();
                    Some(Lease { channel, _claim })
                }
                Err(TryLockError::WouldBlock) => None,
            }
        })
    }

    /// Whether this thread holds a channel: then it is in a signal handler, and must not wait for that channel.
    fn is_nested(&self, thread: u64) -> bool {
        self.entries.iter().any(|entry| entry.user.load(Relaxed) == thread)
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
    fn a_handler_between_claim_and_lock_does_not_wait_for_its_own_thread() {
        let pool = Pool::new(1);
        // The state in which a signal finds a thread that is about to lock a channel, or has just unlocked it.
        pool.entries[0].user.store(thread_id(), Relaxed);
        pool.with(|channel| assert!(!std::ptr::eq(channel, &raw const *pool.entries[0].channel.try_lock().unwrap())));
    }

    #[test]
    fn a_child_does_not_wait_for_a_channel_of_a_thread_that_is_not_there() {
        let pool = Pool::new(1);
        pool.entries[0].user.store(thread_id() + 1, Relaxed);
        pool.reset_after_fork();
        pool.with(|_| ());
    }

    #[test]
    fn more_users_than_channels_are_all_served() {
        for count in [1, 3, CHANNELS_MAX] {
            let pool = Pool::new(count);
            let (turns, inside) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for _ in 0..2 * CHANNELS_MAX {
                    scope.spawn(|| {
                        pool.with(|_| {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < count as u64);
                            crate::sys::clock::sleep(Duration::from_micros(300));
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
