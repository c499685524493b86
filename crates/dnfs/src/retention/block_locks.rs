//! Locks of blocks of files: overlapping writes of all processes of the mount come one after the other; and the gate, beside
//! whose holder no write begins.
//!
//! A block's lock is a word of a table, found by a hash of file and block: 0, or the owner word of the thread that holds it.
//! Two blocks may share a word; that costs a wait. Words are taken in ascending order, so nobody waits in a circle. A signal handler inside a
//! write takes what it needs from the write that it interrupted, which begins again (docs/design/028-stopped-processes.md).

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::PIECE_BLOCKS_MAX;
use super::layout::{AreaHeader, BLOCK_LOCK_COUNT, CHUNK_BYTES};
use crate::segment::FileRef;
use crate::slot_limiter::{Lease, Members, Owner};
use crate::sys::fork;

/// The lock words, the gate, and who lives.
#[derive(Clone, Copy)]
pub(crate) struct BlockLocks<'a> {
    pub(super) words: &'a [AtomicU64],
    pub(super) header: &'a AreaHeader,
    pub(super) members: &'a Members,
}

/// The blocks of a piece of a write, released when dropped.
pub(crate) struct WriteGuard<'a> {
    words: Words<'a>,
    /// None where the caller has one lease for all its writes.
    lease: Option<Lease<'a>>,
}

struct Words<'a> {
    locks: BlockLocks<'a>,
    owner: Owner,
    fork_generation: u32,
    first: usize,
    count: usize,
    /// Those taken, in the order they are taken.
    taken: usize,
}

/// The gate: no write of the mount is in flight, and none begins until it is dropped.
pub(crate) struct Gate<'a> {
    locks: BlockLocks<'a>,
    lease: Lease<'a>,
    /// Words are held whose holders died or were stopped.
    pub(crate) has_dead: bool,
}

impl<'a> BlockLocks<'a> {
    /// Waits for the blocks of a piece of a write, `length` bytes of `file` at `offset`, and for the gate. None when somebody died or was stopped in
    /// a write of one of them, or in the middle of a truncation: see to it first. What was left published must be at the server
    /// before anything newer is, or a resend would bring it back over the newer.
    pub(crate) fn lock(self, lease: Lease<'a>, file: FileRef, offset: u64, length: usize) -> Option<WriteGuard<'a>> {
        loop {
            let mut words = Words::of(self, lease.owner(), file, offset, length);
            if !words.take() {
                return None;
            }
            // After the words are taken: the gate's holder sees them, or is seen here.
            if self.header.gate.load(SeqCst) == 0 {
                return Some(WriteGuard { words, lease: Some(lease) });
            }
            drop(words);
            if !self.wait_for_gate() {
                return None;
            }
        }
    }

    /// The same without waiting, for a thread that has several writes in flight, all with one lease. `None` when somebody else, or another write of the
    /// caller's, has one of the blocks or the gate. A thread that holds such a guard must not wait for anybody's.
    pub(crate) fn try_lock(self, owner: Owner, file: FileRef, offset: u64, length: usize) -> Option<WriteGuard<'a>> {
        let mut words = Words::of(self, owner, file, offset, length);
        let taken = words.try_take() && self.header.gate.load(SeqCst) == 0;
        taken.then_some(WriteGuard { words, lease: None })
    }

    /// Waits until this thread has the gate and no write is in flight. Not to be called by a call that holds blocks.
    pub(crate) fn close_gate(self, lease: Lease<'a>) -> Gate<'a> {
        self.header.unlocked.wait_until(|overdue| {
            self.members.renew_leases();
            self.try_gate(lease.owner(), overdue).then_some(())
        });
        let mut has_dead = false;
        for word in self.words {
            has_dead |= !self.wait_for_word(word);
        }
        Gate { locks: self, lease, has_dead }
    }

    /// Whether the holder is gone. Checked after a while, and at once when the holder is another call of this thread.
    fn is_left(self, holder: Owner, overdue: bool) -> bool {
        holder != 0 && (overdue || self.members.is_of_other_call(holder)) && self.members.is_gone(holder)
    }

    /// False when the holder of the gate died or was stopped in the middle of a truncation.
    fn wait_for_gate(self) -> bool {
        self.header.unlocked.wait_until(|overdue| {
            self.members.renew_leases();
            let holder = self.header.gate.load(SeqCst);
            if self.is_left(holder, overdue) {
                if self.header.truncated_file.load(SeqCst) != 0 {
                    return Some(false);
                }
                let _ = self.header.gate.compare_exchange(holder, 0, SeqCst, Relaxed);
            }
            (self.header.gate.load(SeqCst) == 0).then_some(true)
        })
    }

    fn try_gate(self, owner: Owner, overdue: bool) -> bool {
        match self.header.gate.compare_exchange(0, owner, SeqCst, SeqCst) {
            Ok(_) => true,
            Err(holder) if self.is_left(holder, overdue) => {
                self.header.gate.compare_exchange(holder, owner, SeqCst, Relaxed).is_ok()
            }
            Err(_) => false,
        }
    }

    /// Waits until nobody holds a word. False when its holder died or was stopped. Its WRITE has arrived by then, or never will.
    pub(super) fn wait_for_word(self, word: &AtomicU64) -> bool {
        if word.load(SeqCst) == 0 {
            return true;
        }
        self.header.unlocked.wait_until(|overdue| {
            self.members.renew_leases();
            let holder = word.load(SeqCst);
            if self.is_left(holder, overdue) {
                return Some(false);
            }
            (word.load(SeqCst) == 0).then_some(true)
        })
    }
}

impl WriteGuard<'_> {
    /// Whether this is still the process that took the locks, and not a child of it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.words.fork_generation == fork::fork_generation()
    }

    /// Whether nobody has taken the blocks over.
    pub(crate) fn is_held(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::is_held)
    }
}

impl<'a> Words<'a> {
    /// Those of the blocks of a piece, none of them taken.
    fn of(locks: BlockLocks<'a>, owner: Owner, file: FileRef, offset: u64, length: usize) -> Self {
        let block = offset / CHUNK_BYTES as u64;
        let end = (offset + length as u64).div_ceil(CHUNK_BYTES as u64);
        let start = u64::from(file.slot).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let first = (start.wrapping_add(block) % BLOCK_LOCK_COUNT as u64) as usize;
        let count = ((end - block) as usize).min(PIECE_BLOCKS_MAX);
        Self { locks, owner, fork_generation: fork::fork_generation(), first, count, taken: 0 }
    }

    /// Takes the words, if all are free.
    fn try_take(&mut self) -> bool {
        while self.taken < self.count {
            if self.word(self.taken).compare_exchange(0, self.owner, SeqCst, Relaxed).is_err() {
                return false;
            }
            self.taken += 1;
        }
        true
    }

    /// Takes the words. False when the holder of one died or was stopped.
    fn take(&mut self) -> bool {
        while self.taken < self.count {
            let word = self.word(self.taken);
            while word.compare_exchange(0, self.owner, SeqCst, Relaxed).is_err() {
                if !self.locks.wait_for_word(word) {
                    return false;
                }
            }
            self.taken += 1;
        }
        true
    }

    /// In ascending order: the part after the end of the table is at its beginning, and comes first.
    fn word(&self, turn: usize) -> &'a AtomicU64 {
        let wrapped = (self.first + self.count).saturating_sub(BLOCK_LOCK_COUNT);
        let words = self.locks.words;
        if turn < wrapped { &words[turn] } else { &words[self.first + turn - wrapped] }
    }
}

impl Drop for Words<'_> {
    fn drop(&mut self) {
        // In a child that came out of a fork inside a write, the words are the parent's.
        if self.fork_generation != fork::fork_generation() {
            return;
        }
        for turn in 0..self.taken {
            let _ = self.word(turn).compare_exchange(self.owner, 0, SeqCst, Relaxed);
        }
        self.locks.header.unlocked.notify(u32::MAX);
    }
}

impl Gate<'_> {
    /// What was left published is settled: gives up the words of those who died or were stopped.
    pub(crate) fn free_dead(&self) {
        for word in self.locks.words {
            let holder = word.load(SeqCst);
            if holder != 0 && self.locks.members.is_gone(holder) {
                let _ = word.compare_exchange(holder, 0, SeqCst, Relaxed);
            }
        }
    }

    /// Whether nobody has taken it over.
    pub(crate) fn is_held(&self) -> bool {
        self.lease.is_held()
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if self.lease.is_of_this_process() {
            let _ = self.locks.header.gate.compare_exchange(self.lease.owner(), 0, SeqCst, Relaxed);
            self.locks.header.unlocked.notify(u32::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::layout::SlotTable;
    use crate::sys::shm::Mapping;
    use std::sync::Arc;

    /// Locks that only this process sees.
    struct Table {
        words: Vec<AtomicU64>,
        header: Mapping,
        members: Members,
    }

    impl Table {
        fn new() -> Self {
            let members = Members::alone(Arc::new(Mapping::private(size_of::<SlotTable>()).unwrap()));
            let words = (0..BLOCK_LOCK_COUNT).map(|_| AtomicU64::new(0)).collect();
            Self { words, header: Mapping::private(size_of::<AreaHeader>()).unwrap(), members }
        }

        fn locks(&self) -> BlockLocks<'_> {
            let header = &self.header.values::<AreaHeader>(0, 1)[0];
            BlockLocks { words: &self.words, header, members: &self.members }
        }
    }

    const FILE: FileRef = FileRef { slot: 7, generation: 1 };
    const BLOCK: u64 = CHUNK_BYTES as u64;

    #[test]
    fn a_try_takes_all_its_blocks_or_none_and_leaves_other_writes_of_its_thread_theirs() {
        let table = Table::new();
        let (locks, owner) = (table.locks(), table.members.owner().unwrap());
        let held = || table.words.iter().filter(|word| word.load(SeqCst) != 0).count();
        let first = locks.try_lock(owner, FILE, 0, 2 * CHUNK_BYTES).unwrap();
        assert!(locks.try_lock(owner, FILE, BLOCK, 2 * CHUNK_BYTES).is_none(), "one of its blocks is taken");
        assert_eq!(held(), 2, "the failed try gave back what it took, and nothing else");
        let third = locks.try_lock(owner, FILE, 2 * BLOCK, CHUNK_BYTES).unwrap();
        drop(first);
        assert_eq!(held(), 1);
        assert!(locks.try_lock(owner, FILE, BLOCK, 1).is_some());
        drop(third);
        assert_eq!(held(), 0);
    }

    #[test]
    fn a_try_beside_a_closed_gate_takes_nothing() {
        let table = Table::new();
        let (locks, owner) = (table.locks(), table.members.owner().unwrap());
        locks.header.gate.store(owner, SeqCst);
        assert!(locks.try_lock(owner, FILE, 0, CHUNK_BYTES).is_none());
        assert!(table.words.iter().all(|word| word.load(SeqCst) == 0));
    }
}
