//! Runs: consecutive small writes of one file, kept here and not sent yet (docs/design/021-gathered-writes.md).
//!
//! The slot of a file names its run, and a run its file. Only the holder of a run's lock changes it. A write belongs to the run
//! from the moment the run's length is stored, so that a process killed at any instruction has either written or not.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::time::Duration;

use super::Retention;
use super::claim::NoChunk;
use super::layout::{CHUNK_BYTES, RUN_CHUNKS, RUN_COUNT, Run};
use super::record::{Extent, Life, State};
use crate::address::EndpointIndex;
use crate::limits::RUN_MET_MS;
use crate::payload::Payload;
use crate::segment::layout::Slot;
use crate::segment::{FileRef, Segment};
use crate::slot_limiter::{Lease, Owner};
use crate::sys::clock::monotonic_ms;
use crate::sys::signals_blocked::SignalsBlocked;

/// Bit of the lock of a run whose holder was stopped: the run is sent, but no write is added.
const LEFT: Owner = 1;
/// Bit of the length of a run that accepts no more writes.
const SEALED: u32 = 1 << 31;
/// Bits of [`Slot::run`] for the run's number; the bits above count its turns.
const NUMBER_BITS: u32 = 8;
const _: () = assert!(RUN_COUNT < 1 << NUMBER_BITS);

/// A run whose lock this thread holds until this is dropped.
pub(crate) struct HeldRun<'r> {
    pub(crate) run: &'r Run,
    retention: &'r Retention,
    lease: Lease<'r>,
}

/// Result of waiting for a run.
pub(crate) enum Hold<'r> {
    /// The caller holds it.
    Held(HeldRun<'r>),
    /// The holder of the run was stopped and may still add to it. The caller sends its bytes
    /// without the lock.
    Left,
}

/// Result of adding a write to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// The write is in the run.
    Kept,
    /// The write is in the run, which is now full and must be sent.
    KeptFull,
    /// The write is not in the run: the run has no room for it and must be sent first.
    Full,
    /// The write is not in a run and must be sent by itself.
    No,
}

impl Run {
    /// Offset of the first byte after the run.
    pub(crate) fn end(&self) -> u64 {
        self.start.load(Relaxed) + self.bytes() as u64
    }

    /// Bytes written to the run.
    pub(crate) fn bytes(&self) -> usize {
        (self.length.load(SeqCst) & !SEALED) as usize
    }

    /// Makes the run accept no more writes, after its holder was stopped. The writes that are in it now count as done.
    pub(crate) fn seal(&self) {
        self.length.fetch_or(SEALED, SeqCst);
    }

    /// Whether it is the run of this file: `number` is the run word of the file's slot.
    pub(crate) fn is_of(&self, file: FileRef, slot: &Slot, number: u32) -> bool {
        self.file.load(SeqCst) == file.word() && slot.run.load(SeqCst) == number
    }

    fn chunk(&self, place: usize) -> Option<(usize, Life)> {
        let (chunk, life) = (self.chunks.get(place)?, self.lives.get(place)?);
        Some((chunk.load(Relaxed) as usize, Life::of_word(life.load(Relaxed))))
    }
}

/// Which run the word of a slot names, counted from 1; 0: the file has no run.
const fn place_of(number: u32) -> u32 {
    number % (1 << NUMBER_BITS)
}

/// The file of the run at this place, if the slot of the file names that run.
fn file_of(run: &Run, place: u32, segment: &Segment) -> Option<FileRef> {
    let file = FileRef::of_word(Some(run.file.load(SeqCst)).filter(|word| *word != 0)?);
    segment.slot(file).is_some_and(|slot| place_of(slot.run.load(SeqCst)) == place).then_some(file)
}

impl HeldRun<'_> {
    /// Whether this process took the lock; false in a child that inherited it by fork.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.lease.is_of_this_process()
    }

    /// Whether no other thread has taken the lock over.
    pub(crate) fn is_held(&self) -> bool {
        self.lease.is_held()
    }
}

impl Drop for HeldRun<'_> {
    fn drop(&mut self) {
        if self.is_of_this_process() {
            let _ = self.run.lock.compare_exchange(self.lease.owner(), 0, SeqCst, Relaxed);
            self.retention.header().unlocked.notify(u32::MAX);
        }
    }
}

impl Retention {
    /// The run that the word of a file's slot names.
    pub(crate) fn run(&self, number: u32) -> Option<&Run> {
        self.runs().get(place_of(number).checked_sub(1)? as usize)
    }

    /// Maximum bytes of one run.
    fn run_bytes(&self) -> usize {
        self.piece_bytes().min(RUN_CHUNKS * CHUNK_BYTES)
    }

    /// Maximum number of runs: data not sent yet may use a quarter of the area.
    fn run_max(&self) -> usize {
        let area = self.header().chunk_max.load(Relaxed) as usize * CHUNK_BYTES;
        (area / 4 / self.run_bytes().max(1)).clamp(1, RUN_COUNT)
    }

    /// Maximum bytes of a run that begins at `start`. The run ends at a multiple of the maximum, so that large WRITEs are
    /// aligned, unless it would be shorter than half the maximum.
    fn room(&self, start: u64) -> usize {
        let most = self.run_bytes();
        let aligned = most - (start % most as u64) as usize;
        if aligned >= most / 2 { aligned } else { most }
    }

    fn try_hold<'r>(&'r self, run: &'r Run, lease: Lease<'r>) -> Result<HeldRun<'r>, Lease<'r>> {
        match run.lock.compare_exchange(0, lease.owner(), SeqCst, Relaxed) {
            Ok(_) => Ok(HeldRun { run, retention: self, lease }),
            Err(_) => Err(lease),
        }
    }

    /// Whether the lock of a run without a file is free. Frees the lock if its holder died, or if its holder was stopped and
    /// has continued since.
    fn is_unlocked(&self, run: &Run) -> bool {
        let holder = run.lock.load(SeqCst);
        let is_over = self.members.has_died(holder) || holder & LEFT != 0 && self.members.has_ended(holder & !LEFT);
        if holder != 0 && is_over {
            let _ = run.lock.compare_exchange(holder, 0, SeqCst, Relaxed);
        }
        run.lock.load(SeqCst) == 0
    }

    /// Waits for the lock of a run. `None` if that takes longer than `longest`, or if this process can hold no lock. A WRITE of
    /// a dead holder has arrived by then, or never will.
    pub(crate) fn hold<'r>(&'r self, run: &'r Run, longest: Option<Duration>) -> Option<Hold<'r>> {
        let give_up_ms = longest.map_or(u64::MAX, |longest| monotonic_ms() + longest.as_millis() as u64);
        let lease = self.lease()?;
        let is_left = self.header().unlocked.wait_until(|overdue| {
            self.members.renew_leases();
            let Err(holder) = run.lock.compare_exchange(0, lease.owner(), SeqCst, SeqCst) else { return Some(Some(false)) };
            let is_looked_at = overdue || holder & LEFT != 0 || self.members.is_of_other_call(holder);
            if is_looked_at && holder & LEFT != 0 && !self.members.has_died(holder) {
                return Some(Some(true));
            }
            if is_looked_at && self.members.is_gone(holder) {
                if !self.members.has_died(holder) {
                    // From here on the former holder cannot use the run.
                    let _ = run.lock.compare_exchange(holder, holder | LEFT, SeqCst, SeqCst);
                    return None;
                }
                if run.lock.compare_exchange(holder, lease.owner(), SeqCst, Relaxed).is_ok() {
                    run.length.fetch_and(!SEALED, SeqCst);
                    return Some(Some(false));
                }
            }
            (overdue && monotonic_ms() >= give_up_ms).then_some(None)
        });
        Some(if is_left? { Hold::Left } else { Hold::Held(HeldRun { run, retention: self, lease }) })
    }

    /// Copies the data of a run whose holder was stopped. Returns the offset of the run and the number of bytes to send. The
    /// other chunks are records already: the server has their bytes.
    pub(crate) fn copy_left_run(&self, run: &Run, buffer: &mut [u8]) -> (u64, usize) {
        let (start, length) = (run.start.load(Relaxed), run.bytes().min(buffer.len()));
        let mut copied = 0;
        for (place, to) in buffer[..length].chunks_mut(CHUNK_BYTES).enumerate() {
            let Some((chunk, life)) = run.chunk(place) else { break };
            self.load(chunk, to);
            // Checked after the copy, because another writer may have reused the chunk.
            if !self.records().get(chunk).is_some_and(|record| record.is_unsent(life)) {
                break;
            }
            copied += to.len();
        }
        (start, copied)
    }

    /// Adds a write to the run of its file; begins one if there is no run. Does not wait. Sets `due` to a file whose COMMIT
    /// frees chunks that will be needed soon.
    pub(crate) fn gather(
        &self,
        segment: &Segment,
        slot: &Slot,
        write: &Extent,
        payload: &Payload<'_, '_>,
        due: &mut Option<FileRef>,
    ) -> Gathered {
        // A signal handler must not find an incomplete run: it would take it over.
        let _signals = SignalsBlocked::new();
        let Some(lease) = self.lease() else { return Gathered::No };
        let owner = lease.owner();
        let number = slot.run.load(SeqCst);
        let held = match self.run(number) {
            Some(run) => match self.try_hold(run, lease) {
                Ok(held) => (held, number),
                Err(_) => return Gathered::Full, // the keeper is probably sending it; the next run begins when that is done
            },
            None => match self.begin_run(segment, (lease, slot), write) {
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
        let (length, room) = (run.bytes(), self.room(run.start.load(Relaxed)));
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
        // Checked while the run is in the file's slot: a process that takes over the lock of an append from now on sends the
        // run first. If the lock was taken over before, the file has a new end.
        if !self.members.may_send() {
            return Gathered::No;
        }
        // From here on the write is in the run. If another process took the run over first, the write is not in it at all.
        if run.length.compare_exchange(length as u32, end as u32, SeqCst, SeqCst).is_err() {
            return Gathered::No;
        }
        if end == room { Gathered::KeptFull } else { Gathered::Kept }
    }

    /// The chunk of a run for its byte `at`. Claims the chunk if `at` is its first byte.
    fn run_chunk(&self, segment: &Segment, owner: Owner, run: &Run, at: usize, due: &mut Option<FileRef>) -> Option<usize> {
        let place = at / CHUNK_BYTES;
        let (chunk, life) = run.chunk(place)?;
        // An existing chunk may come from a writer that was killed before its write counted.
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
        // The run names the chunk before the record joins the run. Otherwise no process would free the chunk if this process
        // died in between.
        run.chunks.get(place)?.store(chunk, Relaxed);
        run.lives.get(place)?.store(life.word(), SeqCst);
        self.records().get(chunk as usize)?.join_run(life);
        Some(chunk as usize)
    }

    /// Begins an empty run of a file and holds its lock. `None` if too many files have a run, or if another process wrote to
    /// the file a short time ago.
    fn begin_run<'r>(
        &'r self,
        segment: &Segment,
        (lease, slot): (Lease<'r>, &Slot),
        write: &Extent,
    ) -> Option<(HeldRun<'r>, u32)> {
        let now_ms = monotonic_ms();
        let met_ms = slot.run_met_ms.load(Relaxed);
        if met_ms != 0 && (now_ms as u32).wrapping_sub(met_ms) < RUN_MET_MS {
            return None;
        }
        let is_over = |run: &Run, place: u32| file_of(run, place, segment).is_none();
        let mut runs = self.runs().iter().take(self.run_max()).zip(1..);
        let (run, number) = runs.find(|(run, number)| is_over(run, *number) && self.is_unlocked(run))?;
        let held = self.try_hold(run, lease).ok().filter(|held| is_over(held.run, number))?;
        let number = (self.next_order(1) as u32) << NUMBER_BITS | number;
        self.free_chunks(run, 0); // they belong to a file that is gone
        run.length.store(0, Relaxed);
        run.start.store(write.offset, Relaxed);
        run.credentials.store(write.credentials, Relaxed);
        run.answer.store(0, Relaxed);
        run.since_ms.store(now_ms, Relaxed);
        run.file.store(write.file.word(), SeqCst);
        slot.retained_write_starts(); // a process that finds the run gone knows that a COMMIT is due
        let begun = slot.run.compare_exchange(0, number, SeqCst, SeqCst).is_ok();
        if begun {
            self.header().run_begun.notify(1);
        } else {
            run.file.store(0, SeqCst);
        }
        begun.then_some((held, number))
    }

    /// Copies what a run holds to `buffer`, as much as fits. The caller holds the lock.
    pub(crate) fn copy_run(&self, run: &Run, buffer: &mut [u8]) {
        for (place, to) in buffer.chunks_mut(CHUNK_BYTES).enumerate() {
            if let Some((chunk, _)) = run.chunk(place) {
                self.load(chunk, to);
            }
        }
    }

    /// Repairs a run whose holder was killed after the server had its data. The holder may have made records of the last
    /// chunks, and other writers may have reused those chunks. The first chunks still belong to the run. The caller
    /// holds the lock.
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

    /// Ends a run after an endpoint of the server has written it, or the part that its length covers. Its chunks become answered
    /// records; the first one gets the order number in `written`. The caller holds the lock, and the run's blocks if `written` is set.
    pub(crate) fn end_run(&self, held: &HeldRun<'_>, written: Option<(EndpointIndex, u64)>, slot: &Slot, number: u32) {
        let run = held.run;
        let length = run.bytes();
        let count = length.div_ceil(CHUNK_BYTES);
        self.free_chunks(run, count);
        if let Some((endpoint, order)) = written
            && count > 0
        {
            run.order.store(order, Relaxed);
            let answer = slot.retained_write_answered(endpoint);
            run.answer.store(answer.count, SeqCst);
            // The last chunk is converted first, so that the remaining ones begin with the first (`repair_run`).
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

    /// Frees a run's chunks from `from` on. The caller holds the lock.
    fn free_chunks(&self, run: &Run, from: usize) {
        for place in from..RUN_CHUNKS {
            let Some((chunk, life)) = run.chunk(place) else { return };
            match self.records().get(chunk) {
                Some(record) if record.is_unsent(life) => record.free(life),
                _ => return,
            }
        }
    }

    /// Draws order numbers for the chunks of a run. The caller holds the block locks of the run.
    pub(crate) fn orders_of_run(&self, run: &Run) -> u64 {
        self.next_order((run.bytes() as u64).div_ceil(CHUNK_BYTES as u64).max(1))
    }

    /// The files that have a run, and when each run was begun, in ms of the monotonic clock.
    pub(crate) fn begun_runs(&self, segment: &Segment) -> impl Iterator<Item = (FileRef, u64)> {
        let begun = |(run, place): (&Run, u32)| Some((file_of(run, place, segment)?, run.since_ms.load(Relaxed)));
        self.runs().iter().zip(1..).filter_map(begun)
    }

    /// For the keeper: waits until there is a run, `longest` at most. Returns when the oldest run was begun.
    pub(crate) fn wait_for_run(&self, segment: &Segment, longest: Duration) -> Option<u64> {
        self.header().run_begun.wait_at_most(longest, || self.begun_runs(segment).map(|(_, since_ms)| since_ms).min())
    }

    /// Wakes the keeper that waits for a run.
    pub(crate) fn end_wait_for_run(&self) {
        self.header().run_begun.notify(1);
    }

    /// The files that have runs, with the bytes in them.
    pub(super) fn unsent(&self, segment: &Segment) -> impl Iterator<Item = (FileRef, u64)> {
        let live = |(run, place): (&Run, u32)| Some((file_of(run, place, segment)?, run.bytes() as u64));
        self.runs().iter().zip(1..).filter_map(live)
    }
}

const _: () = assert!(State::Unsent as u64 == 4);
