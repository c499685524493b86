//! What the connections of all services hold together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{BUFFER_BYTES_GROWN_MAX, BUFFER_BYTES_SHORT};

/// Sums over all connections.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Sizes of the buffers, in bytes.
    buffer_bytes: AtomicUsize,
    /// Slow requests and their replies until these have left, in bytes.
    pub(super) slow_bytes: AtomicUsize,
    /// Connections that wait for buffers to be given back.
    waiting: Mutex<usize>,
    given_back: Condvar,
}

impl Totals {
    /// Sizes of the buffers of all connections, in bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Whether there is little memory left for buffers.
    pub(super) fn is_short(&self) -> bool {
        self.buffer_bytes() > BUFFER_BYTES_SHORT
    }

    /// Counts buffers of one connection that had `before` bytes and have `now`; the bytes of all.
    pub(super) fn count(&self, before: usize, now: usize) -> usize {
        let all = &self.buffer_bytes;
        if now >= before {
            return all.fetch_add(now - before, Ordering::Relaxed) + now - before;
        }
        let left = all.fetch_sub(before - now, Ordering::SeqCst) - (before - now);
        if left + (before - now) > BUFFER_BYTES_SHORT && *self.waiting() > 0 {
            self.given_back.notify_all();
        }
        left
    }

    /// Counts `more` bytes before they are taken, once all together stay within the limit; false when that is not so in time.
    pub(super) fn grow(&self, more: usize, wait: Duration) -> bool {
        if self.fits(more) {
            return true;
        }
        let end = Instant::now() + wait;
        let mut waiting = self.waiting();
        *waiting += 1;
        let mut fits = self.fits(more);
        while !fits {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            waiting = self.given_back.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
            fits = self.fits(more);
        }
        *waiting -= 1;
        fits
    }

    fn fits(&self, more: usize) -> bool {
        let within = |all: usize| all.checked_add(more).filter(|all| *all <= BUFFER_BYTES_GROWN_MAX);
        self.buffer_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, within).is_ok()
    }

    /// Connections that wait for buffers to be given back.
    pub(super) fn waiting(&self) -> MutexGuard<'_, usize> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
