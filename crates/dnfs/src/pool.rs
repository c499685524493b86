//! The channels of a client in this process: taken without waiting for a lock, made when first needed.

use crate::channel::Channel;
use crate::limits::CHANNELS_MAX;
use crate::sys::socket;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

/// Pause before looking for a free channel again when all are taken.
const BUSY_PAUSE: Duration = Duration::from_micros(50);

/// Up to 64 channels. A signal handler that comes in while its thread holds one takes another; nothing is allocated.
#[derive(Debug)]
pub(crate) struct Pool {
    // A mutex that is only ever tried is one compare-and-swap: never waited for, safe in a signal handler.
    channels: Box<[Mutex<Channel>]>,
}

impl Pool {
    pub(crate) fn new() -> Self {
        socket::watch_forks();
        Self { channels: (0..CHANNELS_MAX).map(|_| Mutex::new(Channel::new())).collect() }
    }

    /// Runs `work` on a channel nobody else uses.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Channel) -> T) -> T {
        loop {
            for channel in &self.channels {
                match channel.try_lock() {
                    Ok(mut channel) => return work(&mut channel),
                    Err(TryLockError::Poisoned(poisoned)) => {
                        // Somebody panicked in the middle of an exchange: its replies may still be on their way.
                        let mut channel = poisoned.into_inner();
                        channel.disconnect();
                        return work(&mut channel);
                    }
                    Err(TryLockError::WouldBlock) => {}
                }
            }
            socket::sleep(BUSY_PAUSE);
        }
    }

    /// In a child after fork: closes the parent's descriptors. Channels in use at the fork (by threads that do not exist
    /// here, or by a frame below a signal handler) are left to whoever holds them.
    pub(crate) fn leave_parent(&self) {
        for channel in &self.channels {
            if let Ok(mut channel) = channel.try_lock() {
                channel.leave_parent();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_user_gets_another_channel() {
        let pool = Pool::new();
        pool.with(|outer| {
            let outer: *const Channel = outer;
            pool.with(|inner| assert!(!std::ptr::eq(outer, inner)));
        });
    }

    #[test]
    fn more_users_than_channels_all_get_their_turn() {
        let pool = Pool::new();
        let turns = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 * CHANNELS_MAX {
                scope.spawn(|| {
                    pool.with(|_| {
                        socket::sleep(Duration::from_millis(1));
                        turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    })
                });
            }
        });
        assert_eq!(turns.into_inner(), 2 * CHANNELS_MAX);
    }
}
