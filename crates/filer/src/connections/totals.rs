//! The memory that the connections of all services hold together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use host::Unpoisoned;

use super::crowd::Crowd;
use super::shares::{Shares, add_up_to};
use crate::limits::{BUFFER_BYTES_GROWN_MAX, BUFFER_BYTES_PER_CLIENT_MAX, BUFFER_BYTES_SHORT, BUFFER_BYTES_UNWATCHED};

/// Sums over all connections.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Sizes of the buffers, in bytes.
    buffer_bytes: AtomicUsize,
    /// Bytes of slow requests, and of their replies until these have left.
    pub(super) slow_bytes: AtomicUsize,
    /// `slow_bytes` of each client.
    pub(super) slow_shares: Shares,
    /// Whether threads are short.
    pub(super) crowd: Arc<Crowd>,
    /// Bytes of large buffers of each client.
    pub(super) shares: Shares,
    /// Number of connections that wait until others free buffers.
    waiting: Mutex<usize>,
    given_back: Condvar,
}

impl Totals {
    /// Sizes of the buffers of all connections, in bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Whether memory for buffers is short.
    pub(crate) fn is_short(&self) -> bool {
        self.buffer_bytes() > BUFFER_BYTES_SHORT
    }

    /// Notes that the buffers of one connection changed from `before` to `now` bytes. Returns the sum of all connections.
    pub(crate) fn count(&self, before: usize, now: usize) -> usize {
        let all = &self.buffer_bytes;
        if now >= before {
            return all.fetch_add(now - before, Ordering::Relaxed) + now - before;
        }
        let left = all.fetch_sub(before - now, Ordering::SeqCst) - (before - now);
        if left + (before - now) > BUFFER_BYTES_UNWATCHED && *self.waiting() > 0 {
            self.given_back.notify_all();
        }
        left
    }

    /// Adds `more` bytes to the sum before the caller allocates them. Waits up to `wait` until the sum stays within the limit. If it does
    /// not, adds nothing and returns false.
    pub(crate) fn grow(&self, more: usize, wait: Duration) -> bool {
        self.grow_by(wait, || self.fits(more))
    }

    /// As [`Self::grow`]. Also adds the bytes to the client's share, which has its own limit.
    pub(super) fn grow_within(&self, share: &AtomicUsize, more: usize, wait: Duration) -> bool {
        self.grow_by(wait, || {
            let within_share = add_up_to(share, more, BUFFER_BYTES_PER_CLIENT_MAX);
            let fits = within_share && self.fits(more);
            if within_share && !fits {
                share.fetch_sub(more, Ordering::SeqCst);
            }
            fits
        })
    }

    fn grow_by(&self, wait: Duration, try_to: impl Fn() -> bool) -> bool {
        if try_to() {
            return true;
        }
        let end = Instant::now() + wait;
        let mut waiting = self.waiting();
        *waiting += 1;
        let mut fits = try_to();
        while !fits {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            waiting = self.given_back.wait_timeout(waiting, left).unpoisoned().0;
            fits = try_to();
        }
        *waiting -= 1;
        fits
    }

    fn fits(&self, more: usize) -> bool {
        add_up_to(&self.buffer_bytes, more, BUFFER_BYTES_GROWN_MAX)
    }

    /// Number of connections that wait until others free buffers.
    pub(super) fn waiting(&self) -> MutexGuard<'_, usize> {
        self.waiting.lock().unpoisoned()
    }
}
