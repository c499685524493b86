//! Which blocks commands are working on.
//!
//! The unit's bytes are divided into stripes, and a stripe has a lock. A read or a write takes the locks of its stripes shared, so that
//! any number of them run at once; COMPARE AND WRITE and ORWRITE take them exclusive. Locks are taken in ascending order and never by a
//! thread that holds some already.

use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a stripe: larger than the transfers of a database, so that most commands take one lock.
const STRIPE_BYTES: u64 = 1 << 20;
/// Stripes with a lock of their own; those beyond share.
const STRIPES: u64 = 32;

/// A lock on its own cache line, since each read and each write changes one.
#[derive(Default)]
#[repr(align(64))]
struct Stripe(RwLock<()>);

#[derive(Default)]
pub(super) struct RangeLocks {
    stripes: [Stripe; STRIPES as usize],
}

/// Shared locks. Two are kept without memory of their own: a transfer of up to a stripe has no more.
pub(super) struct Shared<'a> {
    _inline: [Option<RwLockReadGuard<'a, ()>>; 2],
    _more: Vec<RwLockReadGuard<'a, ()>>,
}

/// Exclusive locks.
pub(super) struct Exclusive<'a> {
    _guards: Vec<RwLockWriteGuard<'a, ()>>,
}

impl RangeLocks {
    /// Locks bytes for a command that others may run beside.
    pub(super) fn shared(&self, bytes: Range<u64>) -> Shared<'_> {
        let mut stripes = self.stripes_of(bytes);
        let mut next = || stripes.next().map(|stripe| stripe.0.read().unwrap_or_else(PoisonError::into_inner));
        let inline = [next(), next()];
        let more = std::iter::from_fn(next).collect();
        Shared { _inline: inline, _more: more }
    }

    /// Locks bytes for a command that runs alone on them.
    pub(super) fn exclusive<'a>(&'a self, bytes: Range<u64>) -> Exclusive<'a> {
        let lock = |stripe: &'a Stripe| stripe.0.write().unwrap_or_else(PoisonError::into_inner);
        Exclusive { _guards: self.stripes_of(bytes).map(lock).collect() }
    }

    /// Waits for every command that holds a lock now. Those that take one later see what the caller stored before.
    pub(super) fn drain(&self) {
        for stripe in &self.stripes {
            drop(stripe.0.write().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The stripes of a range in ascending order, each once.
    fn stripes_of(&self, bytes: Range<u64>) -> impl Iterator<Item = &Stripe> {
        let first = bytes.start / STRIPE_BYTES;
        let count = if bytes.is_empty() { 0 } else { ((bytes.end - 1) / STRIPE_BYTES - first + 1).min(STRIPES) };
        let start = first % STRIPES;
        // The part that begins anew at 0 comes first.
        let wrapped = (start + count).saturating_sub(STRIPES);
        let low = 0..wrapped;
        let high = start..start + count - wrapped;
        low.chain(high).filter_map(|index| self.stripes.get(index as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexes(locks: &RangeLocks, bytes: Range<u64>) -> Vec<usize> {
        let base = locks.stripes.as_ptr() as usize;
        locks.stripes_of(bytes).map(|stripe| (std::ptr::from_ref(stripe) as usize - base) / size_of::<Stripe>()).collect()
    }

    #[test]
    fn stripes_come_in_ascending_order_and_once() {
        let locks = RangeLocks::default();
        let stripe = STRIPE_BYTES;
        assert_eq!(indexes(&locks, 0..0), [] as [usize; 0]);
        assert_eq!(indexes(&locks, 8192..16384), [0]);
        assert_eq!(indexes(&locks, stripe - 512..stripe + 512), [0, 1]);
        assert_eq!(indexes(&locks, stripe..2 * stripe), [1]);
        assert_eq!(indexes(&locks, 31 * stripe..33 * stripe), [0, 31]);
        assert_eq!(indexes(&locks, 30 * stripe + 1..35 * stripe), [0, 1, 2, 30, 31]);
        assert_eq!(indexes(&locks, 5 * stripe..u64::MAX), (0..32).collect::<Vec<_>>());
        assert_eq!(indexes(&locks, 5 * stripe + 1..37 * stripe + 1), (0..32).collect::<Vec<_>>());
    }

    #[test]
    fn drain_waits_for_a_command_that_holds_a_lock() {
        let locks = RangeLocks::default();
        let held = locks.shared(3 * STRIPE_BYTES..3 * STRIPE_BYTES + 512);
        std::thread::scope(|scope| {
            let drained = scope.spawn(|| locks.drain());
            // The drain stops at the held stripe, after it has passed the first one.
            while locks.stripes[3].0.try_read().is_ok() {
                std::thread::yield_now();
            }
            assert!(!drained.is_finished());
            drop(held);
            drained.join().unwrap();
        });
    }
}
