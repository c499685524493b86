//! Locks for the blocks that commands use.
//!
//! The unit's bytes are divided into stripes, and a stripe has two locks. A read takes the first lock of its stripes shared, so that any
//! number of them run at once; a write takes both shared. COMPARE AND WRITE and ORWRITE take the first exclusive and the second shared.
//! So the second locks show which writes are in progress, independent of reads. A thread takes the locks in ascending order, all first ones
//! before the second ones, and never takes further locks while it holds some.

use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a stripe. A stripe is larger than the transfers of a database, so that most commands take one lock.
const STRIPE_BYTES: u64 = 1 << 20;
/// Number of stripes with a lock of their own. The blocks beyond share these locks.
const STRIPES: u64 = 32;

/// Each lock has its own cache line, because each read and each write changes one.
#[derive(Default)]
#[repr(align(64))]
struct Stripe {
    accesses: RwLock<()>,
    writes: RwLock<()>,
}

#[derive(Default)]
pub(super) struct RangeLocks {
    stripes: [Stripe; STRIPES as usize],
}

/// Shared locks. Two need no allocation: a transfer of up to the size of a stripe takes at most two.
pub(super) struct Shared<'a> {
    _inline: [Option<RwLockReadGuard<'a, ()>>; 2],
    _more: Vec<RwLockReadGuard<'a, ()>>,
}

/// The locks of a write.
pub(super) struct Writing<'a> {
    _accesses: Shared<'a>,
    _writes: Shared<'a>,
}

/// The locks of a write that excludes all others.
pub(super) struct Exclusive<'a> {
    _accesses: Vec<RwLockWriteGuard<'a, ()>>,
    _writes: Shared<'a>,
}

impl RangeLocks {
    /// Locks bytes for a command that reads them.
    pub(super) fn reading(&self, bytes: Range<u64>) -> Shared<'_> {
        shared(self.stripes_of(bytes).map(|stripe| &stripe.accesses))
    }

    /// Locks bytes for a command that writes them. Other reads and writes may run at the same time.
    pub(super) fn writing(&self, bytes: Range<u64>) -> Writing<'_> {
        Writing { _accesses: self.reading(bytes.clone()), _writes: self.writes(bytes) }
    }

    /// Locks bytes for a command during which no other command may use them.
    pub(super) fn exclusive<'a>(&'a self, bytes: Range<u64>) -> Exclusive<'a> {
        let lock = |stripe: &'a Stripe| stripe.accesses.write().unwrap_or_else(PoisonError::into_inner);
        Exclusive { _accesses: self.stripes_of(bytes.clone()).map(lock).collect(), _writes: self.writes(bytes) }
    }

    /// Waits for every write that holds a lock now, but not for reads, which may hang in the store. Writes that take a lock later see what
    /// the caller stored before.
    pub(super) fn drain_writes(&self) {
        for stripe in &self.stripes {
            drop(stripe.writes.write().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn writes(&self, bytes: Range<u64>) -> Shared<'_> {
        shared(self.stripes_of(bytes).map(|stripe| &stripe.writes))
    }

    /// The stripes of a range in ascending order, each once.
    fn stripes_of(&self, bytes: Range<u64>) -> impl Iterator<Item = &Stripe> {
        let first = bytes.start / STRIPE_BYTES;
        let count = if bytes.is_empty() { 0 } else { ((bytes.end - 1) / STRIPE_BYTES - first + 1).min(STRIPES) };
        let start = first % STRIPES;
        // The part that wraps to stripe 0 comes first.
        let wrapped = (start + count).saturating_sub(STRIPES);
        let low = 0..wrapped;
        let high = start..start + count - wrapped;
        low.chain(high).filter_map(|index| self.stripes.get(index as usize))
    }
}

fn shared<'a>(locks: impl Iterator<Item = &'a RwLock<()>>) -> Shared<'a> {
    let mut guards = locks.map(|lock| lock.read().unwrap_or_else(PoisonError::into_inner));
    let inline = [guards.next(), guards.next()];
    Shared { _inline: inline, _more: guards.collect() }
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
    fn a_drain_waits_for_writes_and_not_for_reads() {
        let locks = RangeLocks::default();
        let bytes = 3 * STRIPE_BYTES..3 * STRIPE_BYTES + 512;
        let _read = locks.reading(bytes.clone());
        locks.drain_writes();
        for held in [0, 1] {
            let locks = RangeLocks::default();
            let (write, alone) =
                if held == 0 { (Some(locks.writing(bytes.clone())), None) } else { (None, Some(locks.exclusive(bytes.clone()))) };
            std::thread::scope(|scope| {
                let drained = scope.spawn(|| locks.drain_writes());
                // The drain stops at the held stripe, after it has passed the first one.
                while locks.stripes[3].writes.try_read().is_ok() {
                    std::thread::yield_now();
                }
                assert!(!drained.is_finished());
                drop((write, alone));
                drained.join().unwrap();
            });
        }
    }
}
