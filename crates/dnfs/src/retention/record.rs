//! The life of a record: free, claimed, published, answered (docs/design/010-retention.md).
//!
//! One word tells the state, the writer's process and how often the record was claimed, so that each step is one
//! compare-and-swap that nobody can mistake for a step of an earlier life.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::layout::Record;
use crate::segment::FileRef;

const STATE_BITS: u32 = 3;
const TURN_BITS: u32 = 29;

/// Where a record is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Holds nothing.
    Free,
    /// A writer fills it in.
    Claimed,
    /// Complete; its WRITE may be on its way.
    Published,
    /// The server has it, unstable perhaps.
    Answered,
    /// Belongs to a run that is not sent yet, which says what it holds.
    Unsent,
    /// As answered; its writer was stopped, and may still store to it.
    Kept,
    /// Holds nothing; its writer was stopped, and may still store to it.
    Void,
}

/// The word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life(u64);

impl Life {
    /// Of a record never used.
    pub(crate) const FREE: Self = Self(0);

    /// The word, to be kept elsewhere.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// Of such a word.
    pub(crate) const fn of_word(word: u64) -> Self {
        Self(word)
    }

    /// State.
    pub(crate) const fn state(self) -> State {
        match self.0 & ((1 << STATE_BITS) - 1) {
            0 => State::Free,
            1 => State::Claimed,
            2 => State::Published,
            3 => State::Answered,
            4 => State::Unsent,
            5 => State::Kept,
            _ => State::Void,
        }
    }

    /// The writer's process: the high half of its owner words.
    pub(crate) const fn process(self) -> u32 {
        (self.0 >> (STATE_BITS + TURN_BITS)) as u32
    }

    const fn with(self, state: State) -> Self {
        Self(self.0 & !((1 << STATE_BITS) - 1) | state as u64)
    }

    /// The next life, claimed by a process.
    const fn next(self, process: u32) -> Self {
        let turn = (self.0 >> STATE_BITS).wrapping_add(1) & ((1 << TURN_BITS) - 1);
        Self((process as u64) << (STATE_BITS + TURN_BITS) | turn << STATE_BITS | State::Claimed as u64)
    }
}

/// What a record says of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) file: FileRef,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) order: u64,
    pub(crate) credentials: u32,
}

impl Record {
    /// The word as it is.
    pub(crate) fn life(&self) -> Life {
        Life(self.life.load(Acquire))
    }

    /// Begins a new life for `process`; none when somebody else was faster.
    pub(crate) fn claim(&self, seen: Life, process: u32) -> Option<Life> {
        let next = seen.next(process);
        self.life.compare_exchange(seen.0, next.0, AcqRel, Acquire).is_ok().then_some(next)
    }

    /// Stores what the record holds, its data being in place, and makes it count.
    pub(crate) fn publish(&self, life: Life, extent: &Extent) {
        self.store(extent);
        let _ = self.life.compare_exchange(life.0, life.with(State::Published).0, Release, Relaxed);
    }

    /// The server answered: a COMMIT covers it once the slot's `clean` is at least `answer`.
    pub(crate) fn answered(&self, life: Life, answer: u64) {
        self.answer.store(answer, Relaxed);
        let _ = self.life.compare_exchange(life.with(State::Published).0, life.with(State::Answered).0, Release, Relaxed);
    }

    /// Makes it one of a run's chunks.
    pub(crate) fn join_run(&self, life: Life) {
        let _ = self.life.compare_exchange(life.0, life.with(State::Unsent).0, Release, Relaxed);
    }

    /// Whether it is a chunk of a run since this life.
    pub(crate) fn is_unsent(&self, life: Life) -> bool {
        self.life() == life.with(State::Unsent)
    }

    /// The server has it, which was a chunk of a run.
    pub(crate) fn sent(&self, life: Life, extent: &Extent, answer: u64) {
        self.store(extent);
        self.answer.store(answer, Relaxed);
        let _ = self.life.compare_exchange(life.with(State::Unsent).0, life.with(State::Answered).0, Release, Relaxed);
    }

    /// Ends a life, in whatever state, unless it has ended.
    pub(crate) fn free(&self, life: Life) {
        let now = self.life();
        if now.with(State::Free) == life.with(State::Free) {
            let _ = self.life.compare_exchange(now.0, now.with(State::Free).0, Release, Relaxed);
        }
    }

    /// Settles what a stopped writer published: whether the server has it. The record stays the writer's.
    pub(crate) fn settle(&self, life: Life, answer: Option<u64>) {
        if let Some(answer) = answer {
            self.answer.store(answer, Relaxed);
        }
        let settled = if answer.is_some() { State::Kept } else { State::Void };
        let _ = self.life.compare_exchange(life.with(State::Published).0, life.with(settled).0, AcqRel, Relaxed);
    }

    /// The writer goes on after others settled the record: whether the server has it, which is then answered as any other.
    pub(crate) fn pass(&self, life: Life) -> bool {
        let (kept, answered) = (life.with(State::Kept), life.with(State::Answered));
        let has = self.life.compare_exchange(kept.0, answered.0, AcqRel, Relaxed).is_ok();
        if !has {
            self.free(life);
        }
        has
    }

    /// Makes the record shorter. Only by its writer or by the holder of the gate. One store: whoever is killed here has done it
    /// or not.
    pub(crate) fn shorten(&self, length: u32) {
        self.length.fetch_min(length, AcqRel);
    }

    /// What the record holds; none when it was not stored whole.
    pub(crate) fn extent(&self) -> Option<Extent> {
        let extent = Extent {
            file: self.file(),
            offset: self.offset.load(Relaxed),
            length: self.length.load(Relaxed),
            order: self.order.load(Relaxed),
            credentials: self.credentials.load(Relaxed),
        };
        (self.checksum.load(Relaxed) == extent.checksum()).then_some(extent)
    }

    /// The file of the record.
    pub(crate) fn file(&self) -> FileRef {
        FileRef::of_word(self.file.load(Relaxed))
    }

    fn store(&self, extent: &Extent) {
        self.file.store(extent.file.word(), Relaxed);
        self.offset.store(extent.offset, Relaxed);
        self.length.store(extent.length, Relaxed);
        self.order.store(extent.order, Relaxed);
        self.credentials.store(extent.credentials, Relaxed);
        self.checksum.store(extent.checksum(), Relaxed);
    }
}

impl Extent {
    /// First byte behind it.
    pub(crate) const fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    /// Tells a record stored in part from a whole one: not against chance, but against a writer killed between two stores.
    fn checksum(&self) -> u32 {
        let words = [self.file.word(), self.offset, self.order, u64::from(self.credentials)];
        let mixed = words
            .iter()
            .fold(0x9e37_79b9_7f4a_7c15_u64, |sum, word| (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29));
        (mixed >> 32) as u32 ^ mixed as u32
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn extent() -> Extent {
        let file = FileRef { slot: 3, generation: 1 };
        Extent { file, offset: 8192, length: 100, order: 7, credentials: 0 }
    }

    fn record() -> Box<Record> {
        crate::sys::shm::tests::zeroed()
    }

    #[test]
    fn a_record_tells_what_was_published() {
        let record = record();
        let life = record.claim(record.life(), 5).unwrap();
        assert_eq!((life.state(), life.process()), (State::Claimed, 5));
        record.publish(life, &extent());
        assert_eq!(record.life().state(), State::Published);
        record.answered(life, 11);
        assert_eq!(record.life().state(), State::Answered);
        assert_eq!(record.extent(), Some(extent()));
        assert_eq!(record.life().process(), 5);
    }

    #[test]
    fn a_record_is_claimed_once() {
        let record = record();
        let seen = record.life();
        assert!(record.claim(seen, 5).is_some());
        assert!(record.claim(seen, 6).is_none());
    }

    #[test]
    fn the_step_of_an_earlier_life_changes_nothing() {
        let record = record();
        let first = record.claim(record.life(), 5).unwrap();
        record.publish(first, &extent());
        let second = record.claim(record.life(), 5).unwrap();
        record.answered(first, 1);
        assert_eq!(record.life(), second);
    }

    #[test]
    fn a_record_stored_in_part_has_no_extent() {
        let record = record();
        let life = record.claim(record.life(), 5).unwrap();
        record.publish(life, &extent());
        record.offset.store(0, Relaxed);
        assert_eq!(record.extent(), None);
    }
}
