//! Locks of blocks of files, and the gate. The locks serialise overlapping writes of all processes of the mount. No write
//! begins while another thread holds the gate.
//!
//! A block's lock is a word of a table, found by a hash of file and block. It is 0 or the owner word of the holder. Two blocks
//! may share a word; that costs a wait. Words are taken in ascending order, so that no two threads wait for each other. A
//! signal handler inside a write takes what it needs from the write that it interrupted, which begins again
//! (docs/design/028-stopped-processes.md).

use crate::sys::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::PIECE_BLOCKS_MAX;
use super::layout::{AreaHeader, BLOCK_LOCK_COUNT, CHUNK_BYTES};
use crate::process::this_process;
use crate::segment::FileRef;
use crate::slot_limiter::{Lease, Members, Owner};

/// The lock words, the gate, and the members that may hold them.
#[derive(Clone, Copy)]
pub(crate) struct BlockLocks<'a> {
    pub(super) words: &'a [AtomicU64],
    pub(super) header: &'a AreaHeader,
    pub(super) members: &'a Members,
}

/// The blocks of a piece of a write, released when dropped.
pub(crate) struct WriteGuard<'a> {
    words: Words<'a>,
    /// `None` if the caller has one lease for all its writes.
    lease: Option<Lease<'a>>,
}

struct Words<'a> {
    locks: BlockLocks<'a>,
    owner: Owner,
    fork_generation: u32,
    first: usize,
    count: usize,
    /// Number of words taken so far, in the order of [`Self::word`].
    taken: usize,
}

/// The gate, held until dropped: no write of the mount is in flight, and no write begins.
pub(crate) struct Gate<'a> {
    locks: BlockLocks<'a>,
    lease: Lease<'a>,
    /// Whether holders that died or were stopped still hold words.
    pub(crate) has_dead: bool,
}

impl<'a> BlockLocks<'a> {
    /// Waits for the blocks of a piece of a write (`length` bytes of `file` at `offset`) and for the gate. `None` if a holder
    /// died or was stopped in a write of one of them or in a truncation: the caller recovers that first. A published record
    /// must reach the server before any newer data, because a later resend would overwrite the newer data.
    pub(crate) fn lock(self, lease: Lease<'a>, file: FileRef, offset: u64, length: usize) -> Option<WriteGuard<'a>> {
        loop {
            let mut words = Words::of(self, lease.owner(), file, offset, length);
            if !words.take() {
                return None;
            }
            // The gate is checked after the words are taken: either the gate's holder sees the words, or this thread sees the
            // gate.
            if self.header.gate.load(SeqCst) == 0 {
                return Some(WriteGuard { words, lease: Some(lease) });
            }
            drop(words);
            if !self.wait_for_gate() {
                return None;
            }
        }
    }

    /// As [`Self::lock`], without waiting, for a thread that has several writes in flight with one lease. `None` if another
    /// thread, or another write of the caller, holds one of the blocks or the gate. A thread that holds such a guard must not
    /// wait for any other.
    pub(crate) fn try_lock(self, owner: Owner, file: FileRef, offset: u64, length: usize) -> Option<WriteGuard<'a>> {
        let mut words = Words::of(self, owner, file, offset, length);
        let taken = words.try_take() && self.header.gate.load(SeqCst) == 0;
        taken.then_some(WriteGuard { words, lease: None })
    }

    /// Waits until this thread holds the gate and no write is in flight. A call that holds blocks must not call this.
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

    /// Whether the holder is gone. This is checked once the wait is overdue, and at once if the holder is another call of this
    /// thread.
    fn is_left(self, holder: Owner, overdue: bool) -> bool {
        holder != 0 && (overdue || self.members.is_of_other_call(holder)) && self.members.is_gone(holder)
    }

    /// Waits until no thread holds the gate. False if its holder died or was stopped during a truncation.
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

    /// Waits until no thread holds a word. False if its holder died or was stopped. The holder's WRITE has arrived by then, or
    /// never will.
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
    /// Whether this process took the locks; false in a child that inherited them by fork.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.words.fork_generation == this_process().identity.generation()
    }

    /// Whether no other thread has taken the blocks over.
    pub(crate) fn is_held(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::is_held)
    }
}

impl<'a> Words<'a> {
    /// The words of the blocks of a piece. No word is taken yet.
    fn of(locks: BlockLocks<'a>, owner: Owner, file: FileRef, offset: u64, length: usize) -> Self {
        let (first, count) = places_of(file, offset, length);
        Self { locks, owner, fork_generation: this_process().identity.generation(), first, count, taken: 0 }
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

    /// Waits for the words and takes them. False if the holder of one died or was stopped.
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

    /// The words in ascending order. If the range wraps at the end of the table, the part at the beginning comes first.
    fn word(&self, turn: usize) -> &'a AtomicU64 {
        let wrapped = (self.first + self.count).saturating_sub(BLOCK_LOCK_COUNT);
        let words = self.locks.words;
        if turn < wrapped { &words[turn] } else { &words[self.first + turn - wrapped] }
    }
}

/// Where the words of an extent's blocks are: the first place, and the number of places. They wrap around.
pub(super) fn places_of(file: FileRef, offset: u64, length: usize) -> (usize, usize) {
    let block = offset / CHUNK_BYTES as u64;
    let end = (offset + length as u64).div_ceil(CHUNK_BYTES as u64);
    let start = u64::from(file.slot).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let first = (start.wrapping_add(block) % BLOCK_LOCK_COUNT as u64) as usize;
    (first, ((end - block) as usize).min(PIECE_BLOCKS_MAX))
}

impl Drop for Words<'_> {
    fn drop(&mut self) {
        // After a fork inside a write, the words belong to the parent.
        if self.fork_generation != this_process().identity.generation() {
            return;
        }
        for turn in 0..self.taken {
            let _ = self.word(turn).compare_exchange(self.owner, 0, SeqCst, Relaxed);
        }
        self.locks.header.unlocked.notify(u32::MAX);
    }
}

impl Gate<'_> {
    /// Frees the words of holders that died or were stopped. The caller has settled what they left published.
    pub(crate) fn free_dead(&self) {
        for word in self.locks.words {
            let holder = word.load(SeqCst);
            if holder != 0 && self.locks.members.is_gone(holder) {
                let _ = word.compare_exchange(holder, 0, SeqCst, Relaxed);
            }
        }
    }

    /// Whether no other thread has taken the gate over.
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
