//! The life of a record: free, claimed, published, answered (docs/design/010-retention.md).
//!
//! One word contains the state, the writer's process and how often the record was claimed. Each step is one compare-and-swap,
//! which fails if the record has begun another life.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::layout::Record;
use crate::address::EndpointIndex;
use crate::segment::{Answer, FileRef};

const STATE_BITS: u32 = 3;
const TURN_BITS: u32 = 29;

/// The stages of a record's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Holds nothing.
    Free,
    /// A writer is filling it.
    Claimed,
    /// Complete; its WRITE may be on its way.
    Published,
    /// The server has it, perhaps only in memory.
    Answered,
    /// Belongs to a run that is not sent yet; the run has its extent.
    Unsent,
    /// As `Answered`, but its writer was stopped and may still store to it.
    Kept,
    /// Holds nothing, but its writer was stopped and may still store to it.
    Void,
}

/// The word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life(u64);

impl Life {
    /// The word of a record that was never used.
    pub(crate) const FREE: Self = Self(0);

    /// The life as a word, to store elsewhere.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// The life of a word that [`Self::word`] returned.
    pub(crate) const fn of_word(word: u64) -> Self {
        Self(word)
    }

    /// The state in this life.
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

/// What the bytes of a record are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) file: FileRef,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) order: u64,
    pub(crate) credentials: u32,
}

impl Record {
    /// The current life.
    pub(crate) fn life(&self) -> Life {
        Life(self.life.load(Acquire))
    }

    /// Begins a new life for `process`. `None` if another process was faster.
    pub(crate) fn claim(&self, seen: Life, process: u32) -> Option<Life> {
        let next = seen.next(process);
        self.life.compare_exchange(seen.0, next.0, AcqRel, Acquire).is_ok().then_some(next)
    }

    /// Stores what the record holds, and makes it valid. Its data must be stored before.
    pub(crate) fn publish(&self, life: Life, extent: &Extent) {
        self.store(extent);
        let _ = self.life.compare_exchange(life.0, life.with(State::Published).0, Release, Relaxed);
    }

    /// Notes that the server answered.
    pub(crate) fn answered(&self, life: Life, answer: Answer) {
        self.store_answer(answer);
        let _ = self.life.compare_exchange(life.with(State::Published).0, life.with(State::Answered).0, Release, Relaxed);
    }

    /// Makes the record one of a run's chunks.
    pub(crate) fn join_run(&self, life: Life) {
        let _ = self.life.compare_exchange(life.0, life.with(State::Unsent).0, Release, Relaxed);
    }

    /// Whether the record became a chunk of a run in this life.
    pub(crate) fn is_unsent(&self, life: Life) -> bool {
        self.life() == life.with(State::Unsent)
    }

    /// Notes that the server has this chunk of a run.
    pub(crate) fn sent(&self, life: Life, extent: &Extent, answer: Answer) {
        self.store(extent);
        self.store_answer(answer);
        let _ = self.life.compare_exchange(life.with(State::Unsent).0, life.with(State::Answered).0, Release, Relaxed);
    }

    /// Ends a life in any state. Does nothing if it has ended.
    pub(crate) fn free(&self, life: Life) {
        let now = self.life();
        if now.with(State::Free) == life.with(State::Free) {
            let _ = self.life.compare_exchange(now.0, now.with(State::Free).0, Release, Relaxed);
        }
    }

    /// Settles a record that a stopped writer published. `answer` is set if the server has the data. The record still belongs
    /// to the writer.
    pub(crate) fn settle(&self, life: Life, answer: Option<Answer>) {
        if let Some(answer) = answer {
            self.store_count(answer.count);
            self.move_to(answer.endpoint);
        }
        let settled = if answer.is_some() { State::Kept } else { State::Void };
        let _ = self.life.compare_exchange(life.with(State::Published).0, life.with(settled).0, AcqRel, Relaxed);
    }

    /// For a writer that continues after another process settled the record. Returns whether the server has the data; the
    /// record is then `Answered`.
    pub(crate) fn pass(&self, life: Life) -> bool {
        let (kept, answered) = (life.with(State::Kept), life.with(State::Answered));
        let has = self.life.compare_exchange(kept.0, answered.0, AcqRel, Relaxed).is_ok();
        if !has {
            self.free(life);
        }
        has
    }

    /// Makes the record shorter. Only its writer and the holder of the gate may do so. It is one store, so that a killed
    /// process leaves the old or the new length.
    pub(crate) fn shorten(&self, length: u32) {
        self.length.fetch_min(length, AcqRel);
    }

    /// What the record holds. `None` if it was not stored completely.
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

    /// The endpoint that has the record, if it is answered.
    pub(crate) fn endpoint(&self) -> EndpointIndex {
        let resent_to = self.resent_to.load(Acquire);
        EndpointIndex::new(resent_to.checked_sub(1).unwrap_or_else(|| self.endpoint.load(Relaxed)))
    }

    /// Notes that the record was resent to an endpoint. The caller holds the gate.
    pub(crate) fn move_to(&self, endpoint: EndpointIndex) {
        self.resent_to.store(endpoint.number() + 1, Release);
    }

    fn store_answer(&self, answer: Answer) {
        self.store_count(answer.count);
        self.endpoint.store(answer.endpoint.number(), Relaxed);
    }

    /// The first answer stays. A writer that was stopped, and continues after its record was settled and committed, would make it due
    /// again, and a resend would store its old data over newer data.
    fn store_count(&self, count: u64) {
        let _ = self.answer.compare_exchange(0, count, AcqRel, Relaxed);
    }

    fn store(&self, extent: &Extent) {
        self.resent_to.store(0, Relaxed);
        self.answer.store(0, Relaxed);
        self.file.store(extent.file.word(), Relaxed);
        self.offset.store(extent.offset, Relaxed);
        self.length.store(extent.length, Relaxed);
        self.order.store(extent.order, Relaxed);
        self.credentials.store(extent.credentials, Relaxed);
        self.checksum.store(extent.checksum(), Relaxed);
    }
}

impl Extent {
    /// Offset of the first byte after the extent.
    pub(crate) const fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    /// Detects a record whose writer was killed between two stores. It does not detect random damage reliably.
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
        record.answered(life, Answer { count: 11, endpoint: EndpointIndex::new(2) });
        assert_eq!(record.endpoint(), EndpointIndex::new(2));
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
        record.answered(first, Answer { count: 1, endpoint: EndpointIndex::FIRST });
        assert_eq!(record.life(), second);
    }

    #[test]
    fn a_writer_that_continues_does_not_change_the_endpoint_to_which_its_record_was_resent() {
        let record = record();
        let life = record.claim(record.life(), 5).unwrap();
        record.publish(life, &extent());
        record.settle(life, Some(Answer { count: 11, endpoint: EndpointIndex::new(2) }));
        record.answered(life, Answer { count: 10, endpoint: EndpointIndex::FIRST });
        assert!(record.pass(life));
        assert_eq!((record.life().state(), record.endpoint()), (State::Answered, EndpointIndex::new(2)));
        let next = record.claim(record.life(), 6).unwrap();
        record.publish(next, &extent());
        record.answered(next, Answer { count: 12, endpoint: EndpointIndex::FIRST });
        assert_eq!(record.endpoint(), EndpointIndex::FIRST);
    }

    #[test]
    fn a_writer_that_continues_does_not_make_its_settled_record_due_again() {
        let record = record();
        let life = record.claim(record.life(), 5).unwrap();
        record.publish(life, &extent());
        record.settle(life, Some(Answer { count: 11, endpoint: EndpointIndex::FIRST }));
        record.answered(life, Answer { count: 13, endpoint: EndpointIndex::FIRST });
        assert!(record.pass(life));
        assert_eq!((record.life().state(), record.answer.load(Relaxed)), (State::Answered, 11));
        let next = record.claim(record.life(), 6).unwrap();
        record.publish(next, &extent());
        record.answered(next, Answer { count: 12, endpoint: EndpointIndex::FIRST });
        assert_eq!(record.answer.load(Relaxed), 12);
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
