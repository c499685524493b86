//! Leases. A thread renews its lease while it holds locks. By the lease, other processes distinguish a running holder from a
//! stopped process and from a call that the thread left by `longjmp` (docs/design/028-stopped-processes.md).

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use core::time::Duration;

use super::Members;
use super::call_frames::CallFrame;
use super::members::{OUTSIDER, Owner};
use super::records::LeaseRecord;
use crate::limits::{FENCE_PAUSE_MS, IN_FLIGHT_MS, LEASE_MS, LEASES_MAX};
use crate::process::this_process;
use crate::sys::clock::{monotonic_ms, sleep};
use crate::sys::raw::thread_number;

const FREE: u64 = 0;
const HELD: u64 = 1;
/// Another process has revoked it; the holder is not fenced yet.
const REVOKED: u64 = 2;
/// The server executes no call of the holder any more.
const GONE: u64 = 3;

/// Bits of the lease's index in an owner word. The low half of a lease's owner word is even, that of a thread's is odd.
const PLACE_BITS: u32 = 10;
const TURN_BITS: u32 = 21;
const _: () = assert!(LEASES_MAX == 1 << PLACE_BITS && PLACE_BITS + TURN_BITS == 31);

/// Age in ms at which another process may take a lease of an outsider or of a dead process: no call of the holder is in flight
/// any more.
const LEFT_LEASE_MS: u64 = 60_000;

/// Stamp of a lease that its thread neither renews nor checks. Such a lease ends with its process.
const NEVER_OLD: u64 = u64::MAX;

/// What a lease protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// Calls to the server: the taker fences the holder, and the holder checks the lease before it sends.
    Strong,
    /// Nothing at the server.
    Weak,
}

/// A lease of the calling thread, ended when dropped.
#[derive(Debug)]
pub(crate) struct Lease<'m> {
    members: &'m Members,
    owner: Owner,
    fork_generation: u32,
}

impl Lease<'_> {
    /// The word that names the holder in locks.
    pub(crate) const fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether it has not been revoked.
    pub(crate) fn is_held(&self) -> bool {
        self.members.is_lease_held(self.owner)
    }

    /// Whether this process took it; false in a child that inherited it by fork.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.fork_generation == this_process().identity.generation()
    }

    /// Renews it, for a thread that makes no calls.
    pub(crate) fn renew(&self) {
        if let Some((record, _)) = self.members.lease_record(self.owner) {
            record.stamp_ms.store(monotonic_ms(), Relaxed);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            return; // after a fork the lease belongs to the parent
        }
        CallFrame::forget(self.members.table_id(), self.owner);
        if let Some((record, turn)) = self.members.lease_record(self.owner) {
            let ended = pack(turn, FREE);
            let end = |state| record.state.compare_exchange(pack(turn, state), ended, AcqRel, Relaxed).is_ok();
            let _ = end(HELD) || end(REVOKED) || end(GONE);
        }
    }
}

const fn pack(turn: u64, state: u64) -> u64 {
    turn << 2 | state
}

impl Members {
    /// A lease for the calling thread. `None` if all leases are taken. Async-signal-safe, does not allocate.
    pub(crate) fn lease(&self, strength: Strength) -> Option<Lease<'_>> {
        let process = self.owner().map_or(OUTSIDER, |owner| owner >> 32);
        // The connection may be older than this process' place, which another process may have had before.
        self.publish_for(process, this_process().identity.number());
        let (records, thread) = (&self.table().leases, thread_number());
        let start = (thread as usize >> 3).wrapping_mul(7);
        let order = || (0..LEASES_MAX).map(|step| start.wrapping_add(step) % LEASES_MAX);
        let found = order().find_map(|place| {
            let record = &records[place];
            let state = record.state.load(Acquire);
            if state & 3 == FREE { record.take(state).map(|turn| (place, turn)) } else { None }
        });
        let found = found.or_else(|| order().find_map(|place| self.take_left(&records[place]).map(|turn| (place, turn))));
        let (place, turn) = found?;
        let record = &records[place];
        record.process.store(process as u32, Relaxed);
        record.thread.store(thread, Relaxed);
        record.is_strong.store(u32::from(strength == Strength::Strong), Relaxed);
        let owner = process << 32 | turn << (PLACE_BITS + 1) | (place as u64) << 1;
        if !CallFrame::note(self.table_id(), owner, strength == Strength::Strong) {
            record.stamp_ms.store(NEVER_OLD, SeqCst);
        }
        Some(Lease { members: self, owner, fork_generation: this_process().identity.generation() })
    }

    /// Takes the lease of a process that died. A lease that may still be needed to fence that process is taken only when it is
    /// old.
    fn take_left(&self, record: &LeaseRecord) -> Option<u64> {
        let state = record.state.load(Acquire);
        let holder = u64::from(record.process.load(Relaxed)) << 32;
        let stamp_ms = record.stamp_ms.load(Relaxed);
        let is_old = monotonic_ms().saturating_sub(stamp_ms) >= LEFT_LEASE_MS;
        let is_fenced = state & 3 == GONE || record.is_strong.load(Relaxed) == 0;
        let has_died = || holder >> 32 == OUTSIDER || self.has_died(holder);
        let is_left = if stamp_ms == NEVER_OLD { is_fenced } else { is_old || is_fenced && holder >> 32 != OUTSIDER };
        if state & 3 != FREE && is_left && has_died() { record.take(state) } else { None }
    }

    fn lease_record(&self, owner: Owner) -> Option<(&LeaseRecord, u64)> {
        let low = owner & 0xffff_ffff;
        if low == 0 || low & 1 == 1 {
            return None; // the word names a process or a thread, not a lease
        }
        let record = self.table().leases.get((low >> 1) as usize % LEASES_MAX)?;
        Some((record, low >> (PLACE_BITS + 1)))
    }

    /// Whether the lease that this word names has not been revoked.
    pub(super) fn is_lease_held(&self, owner: Owner) -> bool {
        self.lease_record(owner).is_none_or(|(record, turn)| record.state.load(SeqCst) == pack(turn, HELD))
    }

    /// Whether the holder has ended the lease, so that it stores nothing more under it.
    pub(crate) fn has_ended(&self, owner: Owner) -> bool {
        let is_over = |(record, turn): (&LeaseRecord, u64)| {
            let state = record.state.load(SeqCst);
            state >> 2 != turn || state & 3 == FREE
        };
        self.lease_record(owner).is_some_and(is_over)
    }

    /// Renews the leases that the thread's current call holds.
    #[inline]
    pub(crate) fn renew_leases(&self) {
        let mut now_ms = 0;
        CallFrame::each(self.table_id(), |owner, _| {
            if now_ms == 0 {
                now_ms = monotonic_ms();
            }
            if let Some((record, turn)) = self.lease_record(owner)
                && record.state.load(Relaxed) == pack(turn, HELD)
            {
                record.stamp_ms.store(now_ms, Relaxed);
            }
        });
    }

    /// Whether no strong lease of the thread's current call has been revoked, so that the call may send to the server.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        let mut held = true;
        CallFrame::each(self.table_id(), |owner, is_strong| held = held && (!is_strong || self.is_lease_held(owner)));
        held
    }

    /// Whether `owner` names a lease of the thread's current call. If the thread's leases are not noted, all of them
    /// count as the current call's.
    pub(crate) fn is_of_this_call(&self, owner: Owner) -> bool {
        let mut found = false;
        let is_noted = CallFrame::each(self.table_id(), |other, _| found |= other == owner);
        found || !is_noted && self.owner().is_some_and(|mine| self.is_of_thread(owner, mine))
    }

    /// Whether `owner` names a lease of another call of this thread: one that the current call interrupted, or one that
    /// the thread left.
    pub(crate) fn is_of_other_call(&self, owner: Owner) -> bool {
        self.is_of_this_thread(owner) && !self.is_of_this_call(owner)
    }

    /// Whether `owner` names a lease of any call of this thread.
    pub(super) fn is_of_this_thread(&self, owner: Owner) -> bool {
        self.owner().map_or_else(|| self.is_of_this_call(owner), |mine| self.is_of_thread(owner, mine))
    }

    /// As [`Self::is_of_this_thread`]; `mine` is the owner word of the calling thread.
    fn is_of_thread(&self, owner: Owner, mine: Owner) -> bool {
        let is_mine = |(record, turn): (&LeaseRecord, u64)| {
            record.state.load(Acquire) >> 2 == turn && record.thread.load(Relaxed) == thread_number()
        };
        owner >> 32 == mine >> 32 && self.lease_record(owner).is_some_and(is_mine)
    }

    /// Whether the owner can no longer act, so that what it holds is free: its process has died, or its lease was
    /// revoked. Revokes the lease if that is due.
    pub(crate) fn is_gone(&self, owner: Owner) -> bool {
        self.is_over(owner, true)
    }

    /// As [`Self::is_gone`], for a caller that does not wait, not even for the server.
    pub(super) fn is_gone_by_itself(&self, owner: Owner) -> bool {
        self.is_over(owner, false)
    }

    fn is_over(&self, owner: Owner, may_call: bool) -> bool {
        let has_died = self.has_died(owner);
        let Some((record, turn)) = self.lease_record(owner) else { return has_died };
        let state = record.state.load(SeqCst);
        if !may_call && record.is_strong.load(Relaxed) != 0 {
            return has_died || state != pack(turn, HELD) && state != pack(turn, REVOKED);
        }
        match state {
            state if state == pack(turn, HELD) => self.revoke(owner, record, turn, has_died),
            state if state == pack(turn, REVOKED) => self.end(owner, record, turn),
            _ => true,
        }
    }

    /// Revokes a lease whose holder does not renew it.
    fn revoke(&self, owner: Owner, record: &LeaseRecord, turn: u64, has_died: bool) -> bool {
        let is_old = || monotonic_ms().saturating_sub(record.stamp_ms.load(SeqCst)) >= LEASE_MS;
        let is_due = if has_died || self.is_of_other_call(owner) {
            true // the holder cannot run, at least not while this call runs
        } else if record.is_strong.load(Relaxed) == 0 {
            is_old()
        } else {
            // The lease may also be old because the host was suspended or the server was away: the server must answer first,
            // and the lease must still be old afterwards.
            is_old() && self.fence.get().is_none_or(|fence| fence.is_answered()) && is_old()
        };
        let revoked = is_due && record.state.compare_exchange(pack(turn, HELD), pack(turn, REVOKED), SeqCst, SeqCst).is_ok();
        revoked && self.end(owner, record, turn)
    }

    /// Fences the holder of a revoked lease. Afterwards the server has executed what the holder sent, or never will.
    fn end(&self, owner: Owner, record: &LeaseRecord, turn: u64) -> bool {
        if record.is_strong.load(Relaxed) != 0 {
            match (self.fence.get(), self.fence_number_of(owner)) {
                (Some(fence), Some(number)) if !fence.fence(number) => return false,
                (Some(_), Some(_)) | (None, _) => {}
                (Some(_), None) => sleep(Duration::from_millis(IN_FLIGHT_MS)),
            }
        }
        let _ = record.state.compare_exchange(pack(turn, REVOKED), pack(turn, GONE), SeqCst, Relaxed);
        true
    }

    /// Fences this process' own calls if leases of the current call were revoked: a taker may have what the call holds as soon
    /// as the call releases it. `is_patient`: waits also while the server does not answer.
    #[cold]
    pub(crate) fn finish_revocations(&self, is_patient: bool) {
        CallFrame::each(self.table_id(), |owner, is_strong| {
            let Some((record, turn)) = self.lease_record(owner).filter(|_| is_strong) else { return };
            while record.state.load(SeqCst) == pack(turn, REVOKED) && !self.end(owner, record, turn) && is_patient {
                sleep(Duration::from_millis(FENCE_PAUSE_MS));
            }
        });
    }

    /// The number under which a process makes, or made, its connections. `None` if it has no place, or if another process has
    /// its place now.
    fn fence_number_of(&self, owner: Owner) -> Option<u64> {
        if owner >> 32 == OUTSIDER {
            return None;
        }
        let member = (owner >> super::members::MEMBER_SHIFT) as usize;
        let number = self.table().fence_numbers.get(member)?.load(SeqCst);
        self.is_incarnation_of(owner).then_some(number)
    }

    /// Publishes the number under which this process makes its connections.
    pub(crate) fn publish_fence_number(&self, number: u64) {
        if let Some(owner) = self.owner() {
            self.publish_for(owner >> 32, number);
        }
    }

    fn publish_for(&self, process: u64, number: u64) {
        let member = (process != OUTSIDER).then_some((process << 32 >> super::members::MEMBER_SHIFT) as usize);
        if let Some(place) = member.and_then(|member| self.table().fence_numbers.get(member))
            && place.load(Relaxed) != number
        {
            place.store(number, SeqCst);
        }
    }
}

impl LeaseRecord {
    /// Takes the next turn. The stamp is fresh before the turn is visible.
    fn take(&self, seen: u64) -> Option<u64> {
        self.stamp_ms.store(monotonic_ms(), SeqCst);
        let turn = (seen >> 2).wrapping_add(1) & ((1 << TURN_BITS) - 1);
        self.state.compare_exchange(seen, pack(turn, HELD), AcqRel, Relaxed).is_ok().then_some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fence, Locked, begin_call};
    use super::*;
    use crate::event_count::EventCount;
    use crate::segment::tests::fresh_segment;
    use crate::sys::clock::{give_way, sleep};
    use crate::sys::shm::tests::Child;
    use core::sync::atomic::AtomicU32;
    use core::time::Duration;
    use std::sync::Arc;

    #[derive(Debug)]
    struct Counted(Arc<AtomicU32>);

    impl Fence for Counted {
        fn is_answered(&self) -> bool {
            true
        }

        fn fence(&self, number: u64) -> bool {
            assert_ne!(number, 0);
            self.0.fetch_add(1, SeqCst);
            true
        }
    }

    #[test]
    fn a_lock_is_taken_from_a_living_process_once_it_renews_nothing_for_a_second_and_after_a_fence() {
        let (_place, segment) = fresh_segment();
        let (members, header) = (segment.members(), segment.header());
        let fences = Arc::new(AtomicU32::new(0));
        members.fence_by(Box::new(Counted(Arc::clone(&fences))));
        let holder = Child::run(|| {
            let lock = members.lock(&header.name_locks[0], &header.unlocked, Strength::Strong).held().unwrap();
            let mut renewed_ms = monotonic_ms();
            let lost = (0..15).find_map(|_| {
                sleep(Duration::from_millis(100));
                // A process that got no processor time for that long has not renewed it.
                let is_late = monotonic_ms() - renewed_ms >= LEASE_MS;
                members.renew_leases();
                renewed_ms = monotonic_ms();
                (!lock.is_held()).then_some(!is_late)
            });
            header.reserved_namespace.store(1 + u32::from(lost == Some(true)), SeqCst);
            while lock.is_held() && members.may_send() {
                give_way();
            }
            header.reserved_namespace.store(3, SeqCst);
        });
        while header.name_locks[0].load(SeqCst) == 0 {
            give_way();
        }
        let lock = members.lock(&header.name_locks[0], &header.unlocked, Strength::Strong).held().unwrap();
        assert!(lock.was_left() && header.reserved_namespace.load(SeqCst) != 2, "it renewed its lease, and lost it");
        assert_eq!(fences.load(SeqCst), 1);
        assert!(holder.succeeded());
        assert_eq!(header.reserved_namespace.load(SeqCst), 3, "it found out");
        assert!(lock.is_held());
    }

    #[test]
    fn a_call_takes_at_once_what_the_call_holds_that_it_interrupted() {
        let (_place, segment) = fresh_segment();
        let (members, header, unlocked) = (segment.members(), segment.header(), EventCount::new());
        let lock = || members.lock(&header.structure_lock, &unlocked, Strength::Weak);
        let _outer = begin_call();
        let held = lock().held().unwrap();
        assert!(matches!(lock(), Locked::Already));
        let inner = begin_call();
        let taken = lock().held().unwrap();
        assert!(taken.was_left() && !held.is_held());
        drop(taken);
        drop(inner);
        drop(held);
        assert!(!lock().held().unwrap().was_left());
    }
}
