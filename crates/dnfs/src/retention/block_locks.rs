//! Locks of blocks of files: overlapping writes of all processes of the mount come one after the other; and the gate, beside
//! whose holder no write begins.
//!
//! A block's lock is a word of a table, found by a hash of file and block: 0, or the owner word of the thread that holds it.
//! Two blocks may share a word; that costs a wait. Words are taken in ascending order, so nobody waits in a circle. A signal
//! handler inside a write waits for nothing here: what it would wait for may wait for the write below it.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::time::Duration;

use super::PIECE_BLOCKS_MAX;
use super::layout::{AreaHeader, BLOCK_LOCK_COUNT, CHUNK_BYTES};
use crate::limits::IN_FLIGHT_MS;
use crate::segment::FileRef;
use crate::slot_limiter::{Members, Owner};
use crate::sys::clock::sleep;
use crate::sys::fork;
use crate::sys::signals_blocked::SignalsBlocked;

/// Words of a bitmap with a bit for each block of a piece.
const FOREIGN_WORDS: usize = PIECE_BLOCKS_MAX.div_ceil(64);

/// The lock words, the gate, and who lives.
#[derive(Clone, Copy)]
pub(crate) struct BlockLocks<'a> {
    pub(super) words: &'a [AtomicU64],
    pub(super) header: &'a AreaHeader,
    pub(super) members: &'a Members,
    /// Threads of this process inside a write.
    pub(super) inside: &'a [AtomicU64],
}

/// The blocks of a piece of a write, released when dropped.
pub(crate) struct WriteGuard<'a> {
    words: Words<'a>,
    /// None: no handler of a signal comes in on this thread.
    _inside: Option<Inside<'a>>,
}

struct Words<'a> {
    locks: BlockLocks<'a>,
    owner: Owner,
    fork_generation: u32,
    first: usize,
    count: usize,
    /// Bit n: word `first + n` is another's, because this is a signal handler inside a write.
    foreign: [u64; FOREIGN_WORDS],
}

/// Says that a thread is inside a write. With all places taken nobody is told, and a handler waits.
struct Inside<'a> {
    place: Option<&'a AtomicU64>,
    owner: Owner,
}

/// The gate: no write of the mount is in flight, and none begins until it is dropped. Signals are held back.
pub(crate) struct Gate<'a> {
    locks: BlockLocks<'a>,
    owner: Owner,
    /// Processes died in a write, and hold words still.
    pub(crate) has_dead: bool,
    fork_generation: u32,
    _signals: SignalsBlocked,
}

impl<'a> BlockLocks<'a> {
    /// Waits for the blocks of a piece of a write, `length` bytes of `file` at `offset`, and for the gate. None when a process
    /// died in a write of one of them, or in the middle of a truncation: see to it first. What it left published must be at the server
    /// before anything newer is, or a resend would bring it back over the newer.
    pub(crate) fn lock(self, owner: Owner, file: FileRef, offset: u64, length: usize) -> Option<WriteGuard<'a>> {
        let nested = self.is_inside(owner);
        let inside = Inside::enter(self, owner);
        loop {
            let mut words = Words::of(self, owner, file, offset, length);
            if !words.take(nested) {
                return None;
            }
            // After the words are taken: the gate's holder sees them, or is seen here.
            if nested || self.header.gate.load(SeqCst) == 0 {
                return Some(WriteGuard { words, _inside: Some(inside) });
            }
            drop(words);
            if !self.wait_for_gate() {
                return None;
            }
        }
    }

    /// The same without waiting, for a thread that has several writes in flight: none when somebody else, or another write of the
    /// caller's, has one of the blocks or the gate. A thread that holds such a guard must not wait for anybody's.
    pub(crate) fn try_lock(self, owner: Owner, file: FileRef, offset: u64, length: usize) -> Option<WriteGuard<'a>> {
        let mut words = Words::of(self, owner, file, offset, length);
        let taken = words.try_take() && self.header.gate.load(SeqCst) == 0;
        taken.then_some(WriteGuard { words, _inside: None })
    }

    /// Whether the calling thread is inside a write: this is a signal handler that interrupted it.
    pub(crate) fn is_inside(self, owner: Owner) -> bool {
        self.inside.iter().any(|place| place.load(Relaxed) == owner)
    }

    /// Waits until this thread has the gate and no write is in flight. Not to be called inside a write.
    pub(crate) fn close_gate(self, owner: Owner) -> Gate<'a> {
        let signals = SignalsBlocked::new();
        self.header.unlocked.wait_until(|overdue| self.try_gate(owner, overdue).then_some(()));
        let (mut dead, mut has_dead) = (None, false);
        for word in self.words {
            has_dead |= !self.wait_for_word(word, &mut dead);
        }
        Gate { locks: self, owner, has_dead, fork_generation: fork::fork_generation(), _signals: signals }
    }

    /// False when the holder of the gate died in the middle of a truncation.
    fn wait_for_gate(self) -> bool {
        self.header.unlocked.wait_until(|overdue| {
            let holder = self.header.gate.load(SeqCst);
            if overdue && holder != 0 && self.members.is_gone(holder) {
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
            Err(holder) if overdue && self.members.is_gone(holder) => {
                self.header.gate.compare_exchange(holder, owner, SeqCst, Relaxed).is_ok()
            }
            Err(_) => false,
        }
    }

    /// Waits until nobody holds a word. False when its holder died: after its WRITE has arrived or never will, waited for once for
    /// each such process.
    pub(super) fn wait_for_word(self, word: &AtomicU64, dead: &mut Option<Owner>) -> bool {
        if word.load(SeqCst) == 0 {
            return true;
        }
        self.header.unlocked.wait_until(|overdue| {
            let holder = word.load(SeqCst);
            if overdue && holder != 0 && self.members.is_gone(holder) {
                if *dead != Some(process_of(holder)) {
                    sleep(Duration::from_millis(IN_FLIGHT_MS));
                    *dead = Some(process_of(holder));
                }
                return Some(false);
            }
            (word.load(SeqCst) == 0).then_some(true)
        })
    }
}

const fn process_of(owner: Owner) -> Owner {
    owner >> 32 << 32
}

impl WriteGuard<'_> {
    /// Whether this is still the process that took the locks, and not a child of it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.words.fork_generation == fork::fork_generation()
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
        Self { locks, owner, fork_generation: fork::fork_generation(), first, count, foreign: [0; FOREIGN_WORDS] }
    }

    /// Takes the words, if all are free.
    fn try_take(&mut self) -> bool {
        self.foreign = [u64::MAX; FOREIGN_WORDS]; // those that are not taken stay with whoever has them, the owner itself perhaps
        (0..self.count).all(|step| {
            let free = self.word(step).compare_exchange(0, self.owner, SeqCst, Relaxed).is_ok();
            if free {
                self.foreign[step / 64] &= !(1 << (step % 64));
            }
            free
        })
    }

    /// Takes the words; in a signal handler (`nested`) only those that are free. False when one is a dead process'.
    fn take(&mut self, nested: bool) -> bool {
        let (owner, mut dead) = (self.owner, None);
        // The part behind the end of the table stands at its beginning, and comes first.
        let straight = self.count - (self.first + self.count).saturating_sub(BLOCK_LOCK_COUNT);
        for step in (straight..self.count).chain(0..straight) {
            let word = self.word(step);
            while word.compare_exchange(0, owner, SeqCst, Relaxed).is_err() {
                if nested {
                    self.foreign[step / 64] |= 1 << (step % 64);
                    break;
                }
                if !self.locks.wait_for_word(word, &mut dead) {
                    return false;
                }
            }
        }
        true
    }

    fn word(&self, step: usize) -> &'a AtomicU64 {
        let words = self.locks.words;
        &words[(self.first + step) % BLOCK_LOCK_COUNT]
    }
}

impl Drop for Words<'_> {
    fn drop(&mut self) {
        // In a child that came out of a fork inside a write, the words are the parent's.
        if self.fork_generation != fork::fork_generation() {
            return;
        }
        for step in 0..self.count {
            if self.foreign[step / 64] >> (step % 64) & 1 == 0 {
                let _ = self.word(step).compare_exchange(self.owner, 0, SeqCst, Relaxed);
            }
        }
        self.locks.header.unlocked.notify(u32::MAX);
    }
}

impl<'a> Inside<'a> {
    fn enter(locks: BlockLocks<'a>, owner: Owner) -> Self {
        let take = |place: &&AtomicU64| {
            let found = place.load(Relaxed);
            // Of another process: copied by a fork, of threads that do not exist here.
            let is_free = found == 0 || process_of(found) != process_of(owner);
            is_free && place.compare_exchange(found, owner, SeqCst, Relaxed).is_ok()
        };
        Self { place: locks.inside.iter().find(take), owner }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let _ = place.compare_exchange(self.owner, 0, SeqCst, Relaxed);
        }
    }
}

impl Gate<'_> {
    /// What dead processes left published is at the server: gives up the words they hold.
    pub(crate) fn free_dead(&self) {
        for word in self.locks.words {
            let holder = word.load(SeqCst);
            if holder != 0 && self.locks.members.is_gone(holder) {
                let _ = word.compare_exchange(holder, 0, SeqCst, Relaxed);
            }
        }
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if self.fork_generation == fork::fork_generation() {
            let _ = self.locks.header.gate.compare_exchange(self.owner, 0, SeqCst, Relaxed);
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
            BlockLocks { words: &self.words, header, members: &self.members, inside: &[] }
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
