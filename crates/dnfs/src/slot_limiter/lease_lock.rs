//! A lock whose word names its holder's lease. Another caller takes it over if the holder died, was stopped or left its call.

use crate::sys::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};

use super::Members;
use super::leases::{Lease, Strength};
use crate::event_count::EventCount;
use crate::sys::clock::give_way;

/// The lock, held until dropped.
pub(crate) struct LeaseLock<'a> {
    lease: Lease<'a>,
    word: &'a AtomicU64,
    released: &'a EventCount,
    was_left: bool,
}

/// Result of asking for a lock.
pub(crate) enum Locked<'a> {
    /// The caller holds it.
    Held(LeaseLock<'a>),
    /// The caller's current call holds it already.
    Already,
    /// Another holder has it, and the caller asked not to wait.
    Taken,
    /// This process can hold no lock of the mount.
    Refused,
}

impl Members {
    /// Waits for a lock.
    pub(crate) fn lock<'a>(&'a self, word: &'a AtomicU64, released: &'a EventCount, strength: Strength) -> Locked<'a> {
        self.take_lock(word, released, strength, true)
    }

    /// Takes the lock if it is free or if its holder is gone. Does not wait.
    pub(crate) fn try_lock<'a>(&'a self, word: &'a AtomicU64, released: &'a EventCount, strength: Strength) -> Locked<'a> {
        self.take_lock(word, released, strength, false)
    }

    fn take_lock<'a>(&'a self, word: &'a AtomicU64, released: &'a EventCount, strength: Strength, wait: bool) -> Locked<'a> {
        let Some(lease) = self.lease(strength) else { return Locked::Refused };
        let owner = lease.owner();
        let attempt = |overdue: bool| {
            self.renew_leases();
            let Err(found) = word.compare_exchange(0, owner, AcqRel, Acquire) else { return Some(Ok(false)) };
            if self.is_of_this_call(found) {
                return Some(Err(true));
            }
            let is_left = if wait {
                (overdue || self.is_of_other_call(found)) && self.is_gone(found)
            } else {
                self.is_gone_by_itself(found)
            };
            if is_left && word.compare_exchange(found, owner, SeqCst, Acquire).is_ok() {
                return Some(Ok(true));
            }
            if wait { None } else { Some(Err(false)) }
        };
        match released.wait_until(attempt) {
            Ok(was_left) => Locked::Held(LeaseLock { lease, word, released, was_left }),
            Err(true) => Locked::Already,
            Err(false) => Locked::Taken,
        }
    }
}

impl<'a> LeaseLock<'a> {
    /// Whether the last holder did not release it: what it protects may be incomplete.
    pub(crate) const fn was_left(&self) -> bool {
        self.was_left
    }

    /// Whether no other caller has taken it over.
    pub(crate) fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// Releases it before it is dropped. If its lease was revoked, it stays locked: the taker repairs what is incomplete.
    pub(crate) fn release(&self) {
        if self.is_held() {
            let _ = self.word.compare_exchange(self.lease.owner(), 0, SeqCst, Acquire);
        }
        // A caller that takes the lock again at once would keep it from those that it woke, in the worst case for half a minute.
        if self.released.notify(u32::MAX) {
            give_way();
        }
    }

    /// Whether it has not been released yet.
    pub(crate) fn is_locked(&self) -> bool {
        self.word.load(Acquire) == self.lease.owner()
    }

    /// Whether this process took it; false in a child that inherited it by fork.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.lease.is_of_this_process()
    }
}

impl Drop for LeaseLock<'_> {
    fn drop(&mut self) {
        if self.lease.is_of_this_process() {
            self.release();
        }
    }
}

impl<'a> Locked<'a> {
    /// The lock, if the result is [`Self::Held`].
    pub(crate) fn held(self) -> Option<LeaseLock<'a>> {
        match self {
            Self::Held(lock) => Some(lock),
            _ => None,
        }
    }
}
