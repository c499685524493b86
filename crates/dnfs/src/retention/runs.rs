//! Runs: small writes of one file, each right behind the one before it, kept here and not sent yet (docs/design/021-gathered-writes.md).
//!
//! The slot of a file names its run, and a run its file. Only the owner of a run's lock changes it; a write is in it from the store of
//! its length on, so that a process killed at any instruction has written or not.

use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::time::Duration;

use super::claim::NoChunk;
use super::layout::{CHUNK_BYTES, RUN_CHUNKS, RUN_COUNT, Run};
use super::record::{Extent, Life, State};
use super::{Retention, WriteGuard};
use crate::limits::{IN_FLIGHT_MS, RUN_MET_MS};
use crate::payload::Payload;
use crate::segment::layout::Slot;
use crate::segment::{FileRef, Segment};
use crate::slot_limiter::Owner;
use crate::sys::clock::{monotonic_ms, sleep};
use crate::sys::fork;
use crate::sys::signals_blocked::SignalsBlocked;

/// A run whose lock this thread has, until dropped.
pub(crate) struct HeldRun<'r> {
    pub(crate) run: &'r Run,
    retention: &'r Retention,
    owner: Owner,
    fork_generation: u32,
}

/// What became of a write that was to be gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// It is in the run.
    Kept,
    /// It is in the run, which has reached its end and is to be sent.
    KeptFull,
    /// It is not: the run has no room for it and is to be sent first.
    Full,
    /// It is not, and has to be sent by itself.
    No,
}

impl Run {
    /// First byte behind it.
    pub(crate) fn end(&self) -> u64 {
        self.start.load(Relaxed) + u64::from(self.length.load(SeqCst))
    }

    /// Whether it stands for this file, whose slot says that its run is this number.
    pub(crate) fn is_of(&self, file: FileRef, slot: &Slot, number: u32) -> bool {
        self.file.load(SeqCst) == file.word() && slot.run.load(SeqCst) == number
    }

    /// Whether this thread is at work on it: then this is a signal handler that interrupted itself.
    pub(crate) fn is_held_by(&self, owner: Owner) -> bool {
        self.lock.load(SeqCst) == owner
    }

    fn chunk(&self, place: usize) -> Option<(usize, Life)> {
        let (chunk, life) = (self.chunks.get(place)?, self.lives.get(place)?);
        Some((chunk.load(Relaxed) as usize, Life::of_word(life.load(Relaxed))))
    }
}

impl HeldRun<'_> {
    /// Whether this is still the process that took the lock, and not a child of it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.fork_generation == fork::fork_generation()
    }
}

impl Drop for HeldRun<'_> {
    fn drop(&mut self) {
        if self.is_of_this_process() {
            let _ = self.run.lock.compare_exchange(self.owner, 0, SeqCst, Relaxed);
            self.retention.header().unlocked.notify(u32::MAX);
        }
    }
}

impl Retention {
    /// The run of this number, counted from 1.
    pub(crate) fn run(&self, number: u32) -> Option<&Run> {
        self.runs().get((number as usize).checked_sub(1)?)
    }

    /// Bytes of one run at most.
    fn run_bytes(&self) -> usize {
        self.piece_bytes().min(RUN_CHUNKS * CHUNK_BYTES)
    }

    /// Runs there may be at once: a quarter of the area at most is not sent yet.
    fn run_max(&self) -> usize {
        let area = self.header().chunk_max.load(Relaxed) as usize * CHUNK_BYTES;
        (area / 4 / self.run_bytes().max(1)).clamp(1, RUN_COUNT)
    }

    /// Bytes a run that begins at `start` has room for: up to a multiple of what one may have, so that large WRITEs are aligned.
    fn room(&self, start: u64) -> usize {
        let most = self.run_bytes();
        let aligned = most - (start % most as u64) as usize;
        if aligned >= most / 2 { aligned } else { most }
    }

    fn try_hold<'r>(&'r self, run: &'r Run, owner: Owner) -> Option<HeldRun<'r>> {
        let free = run.lock.compare_exchange(0, owner, SeqCst, Relaxed).is_ok();
        free.then(|| HeldRun { run, retention: self, owner, fork_generation: fork::fork_generation() })
    }

    /// The lock of a run that no file has: it may be that of one who died beginning or ending it.
    fn hold_left<'r>(&'r self, run: &'r Run, owner: Owner) -> Option<HeldRun<'r>> {
        let holder = run.lock.load(SeqCst);
        if holder != 0 && self.members.is_gone(holder) {
            let _ = run.lock.compare_exchange(holder, 0, SeqCst, Relaxed);
        }
        self.try_hold(run, owner)
    }

    /// Waits for the lock of a run; none when that takes longer than `longest`. A WRITE of a holder that died has arrived by then, or
    /// never will.
    pub(crate) fn hold<'r>(&'r self, run: &'r Run, owner: Owner, longest: Option<Duration>) -> Option<HeldRun<'r>> {
        let give_up_ms = longest.map_or(u64::MAX, |longest| monotonic_ms() + longest.as_millis() as u64);
        self.header().unlocked.wait_until(|overdue| {
            if let Some(held) = self.try_hold(run, owner) {
                return Some(Some(held));
            }
            let holder = run.lock.load(SeqCst);
            if overdue && holder != 0 && self.members.is_gone(holder) {
                sleep(Duration::from_millis(IN_FLIGHT_MS));
                if run.lock.compare_exchange(holder, owner, SeqCst, Relaxed).is_ok() {
                    return Some(Some(HeldRun { run, retention: self, owner, fork_generation: fork::fork_generation() }));
                }
            }
            (overdue && monotonic_ms() >= give_up_ms).then_some(None)
        })
    }

    /// Adds a write to the run of its file, begun if there is none. Waits for nobody. A file whose COMMIT frees chunks that will be
    /// needed soon is put in `due`.
    pub(crate) fn gather(
        &self,
        segment: &Segment,
        (owner, slot): (Owner, &Slot),
        write: &Extent,
        payload: &Payload<'_, '_>,
        due: &mut Option<FileRef>,
    ) -> Gathered {
        // A handler must not find the run half done: it could not wait for it.
        let _signals = SignalsBlocked::new();
        let number = slot.run.load(SeqCst);
        let held = match self.run(number) {
            Some(run) => match self.try_hold(run, owner) {
                Some(held) => (held, number),
                None => return Gathered::Full, // it is being sent, by the keeper most likely: the next run begins when that is done
            },
            None => match self.begin_run(segment, (owner, slot), write) {
                Some(begun) => begun,
                None => return Gathered::No,
            },
        };
        let (held, number) = held;
        let run = held.run;
        let is_next = run.is_of(write.file, slot, number) && run.end() == write.offset && run.answer.load(Relaxed) == 0;
        if !is_next || run.credentials.load(Relaxed) != write.credentials {
            return Gathered::No;
        }
        let (length, room) = (run.length.load(Relaxed) as usize, self.room(run.start.load(Relaxed)));
        let end = length + write.length as usize;
        if end > room {
            return Gathered::Full;
        }
        let mut at = length;
        while at < end {
            let Some(chunk) = self.run_chunk(segment, owner, run, at, due) else { return Gathered::No };
            let (within, from) = (at % CHUNK_BYTES, at - length);
            let bytes = (CHUNK_BYTES - within).min(end - at);
            payload.each(from..from + bytes, |place, bytes| self.store(chunk, within + place, bytes));
            at += bytes;
        }
        run.length.store(end as u32, SeqCst);
        if end == room { Gathered::KeptFull } else { Gathered::Kept }
    }

    /// The chunk of a run for its byte `at`; claimed with its first.
    fn run_chunk(&self, segment: &Segment, owner: Owner, run: &Run, at: usize, due: &mut Option<FileRef>) -> Option<usize> {
        let place = at / CHUNK_BYTES;
        let (chunk, life) = run.chunk(place)?;
        // One that is there already may be of a writer killed before the write counted.
        if self.records().get(chunk).is_some_and(|record| record.is_unsent(life)) {
            return Some(chunk);
        }
        if !at.is_multiple_of(CHUNK_BYTES) {
            return None;
        }
        let (chunk, life) = match self.claim(segment, owner, due) {
            Ok(claimed) => claimed,
            Err(NoChunk(_)) => return None,
        };
        // Named by the run before it is a chunk of it: else nobody would free it if this process died in between.
        run.chunks.get(place)?.store(chunk, Relaxed);
        run.lives.get(place)?.store(life.word(), SeqCst);
        self.records().get(chunk as usize)?.join_run(life);
        Some(chunk as usize)
    }

    /// Begins the run of a file with nothing in it, its lock held; none when too many files have one, or something else wrote to the file
    /// a short time ago.
    fn begin_run(&self, segment: &Segment, (owner, slot): (Owner, &Slot), write: &Extent) -> Option<(HeldRun<'_>, u32)> {
        let now_ms = monotonic_ms();
        let met_ms = slot.run_met_ms.load(Relaxed);
        if met_ms != 0 && (now_ms as u32).wrapping_sub(met_ms) < RUN_MET_MS {
            return None;
        }
        let free = self.runs().iter().take(self.run_max()).zip(1..).find_map(|(run, number)| {
            let is_over = |run: &Run| {
                let word = run.file.load(SeqCst);
                let its = segment.slot(FileRef::of_word(word));
                word == 0 || its.is_none_or(|slot| slot.run.load(SeqCst) != number)
            };
            let held = if is_over(run) { self.hold_left(run, owner) } else { None };
            held.filter(|held| is_over(held.run)).map(|held| (held, number))
        });
        let (held, number) = free?;
        let run = held.run;
        self.free_chunks(run, 0); // of a file that is gone
        run.length.store(0, Relaxed);
        run.start.store(write.offset, Relaxed);
        run.credentials.store(write.credentials, Relaxed);
        run.answer.store(0, Relaxed);
        run.since_ms.store(now_ms, Relaxed);
        run.file.store(write.file.word(), SeqCst);
        slot.retained_write_counts(); // whoever finds the run gone knows that a COMMIT is due
        let begun = slot.run.compare_exchange(0, number, SeqCst, SeqCst).is_ok();
        if begun {
            self.header().run_begun.notify(1);
        } else {
            run.file.store(0, SeqCst);
        }
        begun.then_some((held, number))
    }

    /// With the lock: what a run holds is copied to `buffer`, as much as fits.
    pub(crate) fn copy_run(&self, run: &Run, buffer: &mut [u8]) {
        for (place, to) in buffer.chunks_mut(CHUNK_BYTES).enumerate() {
            if let Some((chunk, _)) = run.chunk(place) {
                self.load(chunk, to);
            }
        }
    }

    /// With the lock: whoever was killed when the server had the run made records of its last chunks, which may be in use again. The
    /// others are still the run's, and all that is left of it.
    pub(crate) fn repair_run(&self, run: &Run) {
        if run.answer.load(Relaxed) == 0 {
            return;
        }
        let is_left = |place: &usize| {
            let found = run.chunk(*place).and_then(|(chunk, life)| Some((self.records().get(chunk)?, life)));
            found.is_some_and(|(record, life)| record.is_unsent(life))
        };
        let left = (0..RUN_CHUNKS).take_while(is_left).count() * CHUNK_BYTES;
        run.length.fetch_min(left as u32, SeqCst);
        run.answer.store(0, SeqCst);
    }

    /// With the lock and the run's blocks: the server has it, or as much as its length says. What it holds is kept as any other write from
    /// here on, `order` being the number of its first chunk, and the run is over.
    pub(crate) fn end_run(&self, held: &HeldRun<'_>, blocks: Option<&WriteGuard<'_>>, slot: &Slot, number: u32, order: u64) {
        let run = held.run;
        let length = run.length.load(Relaxed) as usize;
        let count = length.div_ceil(CHUNK_BYTES);
        self.free_chunks(run, count);
        if blocks.is_some() && count > 0 {
            run.order.store(order, Relaxed);
            let answer = slot.retained_write_counts();
            run.answer.store(answer, SeqCst);
            // The last first: those not done yet begin with the first (`repair_run`).
            for place in (0..count).rev() {
                let Some((chunk, life)) = run.chunk(place) else { continue };
                let Some(record) = self.records().get(chunk).filter(|record| record.is_unsent(life)) else { continue };
                let at = place * CHUNK_BYTES;
                let extent = Extent {
                    file: FileRef::of_word(run.file.load(Relaxed)),
                    offset: run.start.load(Relaxed) + at as u64,
                    length: CHUNK_BYTES.min(length - at) as u32,
                    order: order + place as u64,
                    credentials: run.credentials.load(Relaxed),
                };
                record.sent(life, &extent, answer);
            }
        }
        let _ = slot.run.compare_exchange(number, 0, SeqCst, Relaxed);
        run.length.store(0, Relaxed);
        run.file.store(0, SeqCst);
    }

    /// With the lock: frees a run's chunks from a place on.
    fn free_chunks(&self, run: &Run, from: usize) {
        for place in from..RUN_CHUNKS {
            let Some((chunk, life)) = run.chunk(place) else { return };
            match self.records().get(chunk) {
                Some(record) if record.is_unsent(life) => record.free(),
                _ => return,
            }
        }
    }

    /// Order numbers for the chunks of a run. With its blocks locked.
    pub(crate) fn orders_of_run(&self, run: &Run) -> u64 {
        self.next_order(u64::from(run.length.load(Relaxed)).div_ceil(CHUNK_BYTES as u64).max(1))
    }

    /// Files with a run, and when each was begun, in ms of the monotonic clock.
    pub(crate) fn begun_runs(&self, segment: &Segment) -> impl Iterator<Item = (FileRef, u64)> {
        let begun = |(run, number): (&Run, u32)| {
            let file = FileRef::of_word(Some(run.file.load(Acquire)).filter(|word| *word != 0)?);
            let is_live = segment.slot(file).is_some_and(|slot| slot.run.load(SeqCst) == number);
            is_live.then(|| (file, run.since_ms.load(Relaxed)))
        };
        self.runs().iter().zip(1..).filter_map(begun)
    }

    /// As the keeper: waits until there is a run, so long at most: when the oldest was begun.
    pub(crate) fn wait_for_run(&self, segment: &Segment, longest: Duration) -> Option<u64> {
        self.header().run_begun.wait_at_most(longest, || self.begun_runs(segment).map(|(_, since_ms)| since_ms).min())
    }

    /// Wakes who waits for one.
    pub(crate) fn end_wait_for_run(&self) {
        self.header().run_begun.notify(1);
    }

    /// The files that have runs, with the bytes in them.
    pub(super) fn unsent(&self, segment: &Segment) -> impl Iterator<Item = (FileRef, u64)> {
        let live = |run: &Run| {
            let file = FileRef::of_word(Some(run.file.load(Acquire)).filter(|word| *word != 0)?);
            let has_unsent = segment.slot(file).is_some_and(Slot::has_unsent);
            has_unsent.then(|| (file, u64::from(run.length.load(Relaxed))))
        };
        self.runs().iter().filter_map(live)
    }
}

const _: () = assert!(State::Unsent as u64 == 4);
