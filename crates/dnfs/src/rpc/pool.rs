//! The channels of a client in this process. They are taken without a lock and made on first use.

use crate::event_count::EventCount;
use crate::limits::CHANNELS_MAX;
use crate::process::this_process;
use crate::rpc::channel::Channel;
use crate::slot_limiter::KeptConnections;
use crate::sys::fork_lock::{ForkGuard, ForkLock, Holder};
use crate::sys::stack_mark::{MarkPlace, StackMark};
use std::sync::Arc;

/// Up to 64 channels. A signal handler that interrupts a user of one takes another; it does not allocate. A channel whose user
/// left its call by `longjmp` is taken over if no other is free. In the child of a fork all of them are available: those that
/// threads of the parent held were copied locked and are taken over.
#[derive(Debug)]
pub(crate) struct Pool {
    entries: Box<[ForkLock<Channel>]>,
    /// The stack frames that use them.
    users: Box<[MarkPlace]>,
    /// Number of entries for ordinary calls; the rest are for signal handlers inside a call.
    count: usize,
    channel_freed: EventCount,
    /// Decides which connections stay open between calls. `None`: all of them stay open.
    kept: Option<Arc<KeptConnections>>,
}

/// A channel in use. The fields are dropped in their order: the lock first.
struct Lease<'p> {
    channel: ForkGuard<'p, Channel>,
    user: &'p MarkPlace,
    finished: bool,
    _freed: Freed<'p>,
}

/// Wakes the threads that wait for a channel.
struct Freed<'p>(&'p EventCount);

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.0.notify(1);
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.user.clear(); // before the lock is released
        if !self.finished {
            // A thread panicked during an exchange: replies may still arrive.
            self.channel.disconnect();
        }
    }
}

impl Pool {
    /// A pool of at most `count` connections, and one more for each signal handler inside a call.
    pub(crate) fn new(count: usize) -> Self {
        this_process().watch_forks();
        Self {
            entries: (0..CHANNELS_MAX).map(|_| ForkLock::new(Channel::new())).collect(),
            users: (0..CHANNELS_MAX).map(|_| MarkPlace::new()).collect(),
            count: count.clamp(1, CHANNELS_MAX),
            channel_freed: EventCount::default(),
            kept: None,
        }
    }

    /// Sets the object that decides which connections stay open.
    pub(crate) fn keep_by(&mut self, kept: Arc<KeptConnections>) {
        self.kept = Some(kept);
    }

    /// The object that decides which connections stay open between calls.
    pub(crate) const fn kept(&self) -> Option<&Arc<KeptConnections>> {
        self.kept.as_ref()
    }

    /// Runs `work` on a channel that no other call uses.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Channel) -> T) -> T {
        if this_process().identity.shares_memory() {
            return self.with_last(work);
        }
        let mark = StackMark::new(); // dropped after the lease
        let mut lease = match self.free(self.count, this_process().current_thread()) {
            Some(lease) => lease,
            None => self.channel_freed.wait_until(|_| {
                self.kept.iter().for_each(|kept| kept.renew_leases());
                let me = this_process().current_thread(); // a second time: this may be the child of a signal handler's fork
                let count = if self.is_nested(me) { CHANNELS_MAX } else { self.count };
                self.free(count, me).or_else(|| self.take_left(me))
            }),
        };
        mark.set(lease.user);
        let done = work(&mut lease.channel);
        if let Some(kept) = &self.kept {
            lease.channel.stay_or_end(kept);
        }
        lease.finished = true;
        done
    }

    /// Takes over a channel whose user left its call by `longjmp`, or whose thread has ended. Its connection is closed.
    #[cold]
    fn take_left(&self, me: Holder) -> Option<Lease<'_>> {
        let (entry, user) = self.entries.iter().zip(&self.users).find(|(entry, user)| entry.is_held() && user.take_left())?;
        let mut channel = entry.take_left(me)?;
        channel.leave();
        Some(Lease { channel, user, finished: false, _freed: Freed(&self.channel_freed) })
    }

    /// Takes a channel for a child that shares this memory. It searches from the end, so that a child that is killed leaves the
    /// parent the channels that it uses.
    #[cold]
    fn with_last<T>(&self, work: impl FnOnce(&mut Channel) -> T) -> T {
        let mut lease = self.channel_freed.wait_until(|_| {
            let me = this_process().current_thread();
            let mut entries = self.entries.iter().zip(&self.users).rev();
            let (user, channel) = entries.find_map(|(entry, user)| Some((user, entry.try_lock(me, Channel::abandon)?)))?;
            Some(Lease { channel, user, finished: false, _freed: Freed(&self.channel_freed) })
        });
        let done = work(&mut lease.channel);
        lease.finished = true;
        done
    }

    /// In a child after fork: closes the parent's descriptors. A channel that a frame below a signal handler was using at the
    /// fork stays with that frame.
    pub(crate) fn reset_after_fork(&self) {
        let me = this_process().current_thread();
        for entry in &self.entries {
            if let Some(mut channel) = entry.try_lock(me, Channel::abandon) {
                channel.reset_after_fork();
            }
        }
    }

    /// One of the first `count` entries, if one is free.
    fn free(&self, count: usize, me: Holder) -> Option<Lease<'_>> {
        let mut entries = self.entries.iter().zip(&self.users).take(count);
        let (user, channel) = entries.find_map(|(entry, user)| Some((user, entry.try_lock(me, Channel::abandon)?)))?;
        Some(Lease { channel, user, finished: false, _freed: Freed(&self.channel_freed) })
    }

    /// Whether the caller is a signal handler that interrupted a call of its thread.
    pub(crate) fn is_in_use_by_this_thread(&self) -> bool {
        self.is_nested(this_process().current_thread())
    }

    /// Whether this thread holds a channel. It is then in a signal handler and must not wait for that channel.
    fn is_nested(&self, me: Holder) -> bool {
        self.entries.iter().any(|entry| entry.is_held_by(me))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
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
        // The state of a thread that a signal interrupts right after it took a channel, or right before it releases it.
        pool.entries[0].set_holder(this_process().current_thread());
        pool.with(|_| assert!(pool.entries[1].is_held_by(this_process().current_thread())));
    }

    #[test]
    fn a_child_does_not_wait_for_channels_of_threads_that_are_not_there() {
        for count in [1, CHANNELS_MAX] {
            let pool = Pool::new(count);
            for entry in &pool.entries {
                entry.set_holder(this_process().current_thread().other_thread().before_fork());
            }
            pool.with(|_| assert!(pool.entries[0].is_held_by(this_process().current_thread())));
        }
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
