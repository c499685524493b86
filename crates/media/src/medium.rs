//! The model: queues of spindles as times in atomic words.
//!
//! The word of a spindle is the time at which its queue ends. An operation adds its service time, and is done at the new time.
//! The word of the NVRAM is the time at which it will be empty. A write adds the time to drain its bytes, and has space when the
//! content that is left fits into the NVRAM. The word of a file is the time at which the writes to it will be stable. So a state
//! has no counts that a process would have to take back, and a process that dies leaves a correct state.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::{Counters, LAYOUT, at};
use crate::distribution;
use crate::limits::{BACKLOG_NS_MAX, FILES_MAX, RECORD_BYTES};
use crate::profile::{Placement, Profile, Service};
use crate::random::{Random, mix, nth};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads bytes.
    Read,
    /// Writes bytes and is acknowledged at once. The medium writes them afterwards, and a flush waits for them.
    Buffered,
    /// Writes bytes, which are stable when it is done.
    Write,
    /// Makes all earlier writes to the file stable. Without such writes, it only waits for an earlier flush in flight.
    Flush,
    /// Changes names or attributes. The change is stable when it is done.
    Metadata,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its kind.
    pub kind: Kind,
    /// A number that identifies the file, such as its inode number.
    pub file: u64,
    /// First byte. Not used for a flush.
    pub offset: u64,
    /// Number of bytes. Not used for a flush.
    pub bytes: u64,
}

/// A medium without its state. Several processes can use one state if their profiles are equal.
#[derive(Clone, Debug)]
pub struct Medium {
    profile: Profile,
    mean_ns: f64, // mean time to reach a place, at least 1
}

/// Words of a spindle: the time at which its queue ends, and the place at which its last operation ended.
const SPINDLE_WORDS: usize = 2;
const NS_PER_MS: f64 = 1e6;
const MIB: f64 = 1_048_576.0;

impl Medium {
    /// The medium of this profile.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let mean_ns = (profile.service.mean_ms() * NS_PER_MS).max(1.0);
        Self { profile, mean_ns }
    }

    /// Its profile.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Number of words of its state. A new state has only zeros.
    #[must_use]
    pub const fn words(&self) -> usize {
        at::BODY + FILES_MAX + self.profile.spindles * SPINDLE_WORDS
    }

    /// Writes the layout into a state, so that its counters can be read from a file. The state may be in use.
    pub fn begin(&self, state: &[AtomicU64]) {
        if let Some(word) = state.get(at::LAYOUT) {
            word.store(LAYOUT, Ordering::Relaxed);
        }
    }

    /// The next number of the seeded sequence, for one [`Medium::submit`]. The operations of all processes share one sequence.
    #[must_use]
    pub fn draw(&self, state: &[AtomicU64]) -> u64 {
        let count = state.get(at::DRAWS).map_or(0, |word| word.fetch_add(1, Ordering::Relaxed));
        nth(self.profile.seed, count)
    }

    /// Submits an operation that arrives at `now_ns`. Returns the time at which it is done, never before `now_ns`. Both are of
    /// one monotonic clock, which all processes that share the state use. `draw` determines its random numbers.
    #[must_use]
    pub fn submit(&self, state: &[AtomicU64], now_ns: u64, operation: Operation, draw: u64) -> u64 {
        let mut submission = Submission { medium: self, state, now: now_ns, random: Random::new(draw) };
        let (count, time, done) = match operation.kind {
            Kind::Read => (at::READS, at::READ_NS, submission.read(&operation)),
            Kind::Buffered => (at::WRITES, at::WRITE_NS, submission.buffered(&operation)),
            Kind::Write => (at::WRITES, at::WRITE_NS, submission.write(&operation)),
            Kind::Flush => (at::FLUSHES, at::FLUSH_NS, submission.flush(&operation)),
            Kind::Metadata => (at::FLUSHES, at::FLUSH_NS, submission.record()),
        };
        add(state, count, 1);
        add(state, time, done - now_ns);
        done
    }

    /// The counters of a state.
    #[must_use]
    pub fn counters(&self, state: &[AtomicU64]) -> Counters {
        Counters::of(state)
    }
}

fn add(state: &[AtomicU64], index: usize, value: u64) {
    if let Some(word) = state.get(index).filter(|_| value > 0) {
        word.fetch_add(value, Ordering::Relaxed);
    }
}

/// Converts a time to whole nanoseconds, up to the limit.
fn whole_ns(ns: f64) -> u64 {
    (ns as u64).min(BACKLOG_NS_MAX)
}

/// Replaces a word by `next` of its value in one atomic step. Returns the old value.
fn change(word: &AtomicU64, next: impl Fn(u64) -> u64) -> u64 {
    let mut found = word.load(Ordering::Relaxed);
    loop {
        match word.compare_exchange_weak(found, next(found), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(before) => return before,
            Err(other) => found = other,
        }
    }
}

/// An operation that is being submitted.
struct Submission<'a> {
    medium: &'a Medium,
    state: &'a [AtomicU64],
    now: u64,
    random: Random,
}

/// The part of an operation on one spindle.
struct Part {
    spindle: usize,
    file: u64,
    place: u64, // first byte, counted on the spindle
    bytes: u64,
}

impl<'a> Submission<'a> {
    fn profile(&self) -> &Profile {
        &self.medium.profile
    }

    fn read(&mut self, operation: &Operation) -> u64 {
        let overhead = self.overhead();
        if self.profile().cache_hit > 0.0 && self.random.unit() < self.profile().cache_hit {
            add(self.state, at::CACHE_HITS, 1);
            return self.now + overhead + whole_ns(self.profile().cache_ms * NS_PER_MS);
        }
        self.on_spindles(operation) + overhead
    }

    fn write(&mut self, operation: &Operation) -> u64 {
        let overhead = self.overhead();
        match self.in_nvram(operation.bytes) {
            Some(answered) => {
                self.destage(operation);
                answered + overhead
            }
            None => self.on_spindles(operation) + overhead,
        }
    }

    /// A write that starts at once. It is acknowledged at once, or later if the medium is more than `write_behind_ms` late.
    fn buffered(&mut self, operation: &Operation) -> u64 {
        let stable = self.write(operation);
        if let Some(word) = self.file(operation.file) {
            let now = self.now;
            change(word, |found| within(now, found >> 1).max(stable) << 1 | 1);
        }
        let behind = whole_ns(self.profile().write_behind_ms * NS_PER_MS);
        stable.saturating_sub(behind).max(self.now)
    }

    fn flush(&mut self, operation: &Operation) -> u64 {
        let Some(word) = self.file(operation.file) else { return self.now };
        let found = word.load(Ordering::Relaxed);
        let written = within(self.now, found >> 1);
        if found & 1 == 0 {
            // There is no new write. This waits for an earlier flush that is still in flight.
            return written;
        }
        let done = self.record().max(written);
        // A later write keeps its mark: only the writes that this flush found are stable.
        let _ = word.compare_exchange(found, done << 1, Ordering::Relaxed, Ordering::Relaxed);
        done
    }

    /// Writes a record of a log: into NVRAM, or to a random place without NVRAM.
    fn record(&mut self) -> u64 {
        let anywhere = self.random.bits();
        self.write(&Operation { kind: Kind::Metadata, file: anywhere, offset: 0, bytes: RECORD_BYTES })
    }

    fn overhead(&mut self) -> u64 {
        let Profile { overhead, overhead_ms, .. } = self.medium.profile;
        if overhead_ms > 0.0 { whole_ns(overhead.sample(overhead_ms * NS_PER_MS, &mut self.random)) } else { 0 }
    }

    /// The time at which NVRAM acknowledges a write of these bytes. `None` without NVRAM.
    fn in_nvram(&self, bytes: u64) -> Option<u64> {
        let nvram = self.profile().nvram?;
        let word = self.state.get(at::NVRAM_EMPTY_AT)?;
        let drain_ns = |bytes: f64| whole_ns(bytes / (nvram.drain_mib_s * MIB) * 1e9);
        let (now, drains) = (self.now, drain_ns(bytes as f64));
        let empty_at = within(now, change(word, |found| bounded(now, within(now, found) + drains))) + drains;
        let room_at = empty_at.saturating_sub(drain_ns(nvram.size_mib * MIB));
        if room_at > now {
            add(self.state, at::NVRAM_FULL, 1);
        }
        Some(room_at.max(now) + whole_ns(nvram.answer_ms * NS_PER_MS))
    }

    /// Charges a write from NVRAM to its spindle. Writes are coalesced to full stripes there, so it costs its share of one.
    fn destage(&mut self, operation: &Operation) {
        let stripe = f64::from(self.profile().stripe_kib) * 1024.0;
        let bytes = operation.bytes as f64;
        let service = whole_ns(self.medium.mean_ns * bytes / stripe) + self.transfer(operation.bytes);
        let spindle = self.spindle_of(operation.file, operation.offset);
        add(self.state, at::BUSY_NS, service);
        if let Some(word) = self.queue_end(spindle) {
            let now = self.now;
            // The size of the NVRAM limits this queue.
            change(word, |end| bounded(now, within(now, end) + service));
        }
    }

    /// The time at which all parts of an operation are done. Its spindles work in parallel.
    fn on_spindles(&mut self, operation: &Operation) -> u64 {
        let stripe = u64::from(self.profile().stripe_kib) * 1024;
        let spindles = self.profile().spindles as u64;
        let last = operation.offset.saturating_add(operation.bytes.max(1) - 1) / stripe;
        let first = operation.offset / stripe;
        if self.profile().placement == Placement::Any || first == last || spindles == 1 {
            let spindle = self.spindle_of(operation.file, operation.offset);
            let place = if spindles == 1 { operation.offset } else { first / spindles * stripe + operation.offset % stripe };
            return self.serve(&Part { spindle, file: operation.file, place, bytes: operation.bytes }, operation.kind);
        }
        // The stripes of one spindle are adjacent on it, so each spindle has one part.
        let mut done = self.now;
        let stripes = last - first + 1;
        for nth in 0..stripes.min(spindles) {
            let begin = if nth == 0 { operation.offset } else { (first + nth) * stripe };
            let of_spindle = (stripes - nth).div_ceil(spindles);
            let place = (first + nth) / spindles * stripe + begin % stripe;
            let whole = of_spindle * stripe - begin % stripe;
            // The last stripe may be incomplete.
            let ends_here = (stripes - 1) % spindles == nth;
            let missing = (last + 1).saturating_mul(stripe) - operation.offset.saturating_add(operation.bytes);
            let bytes = if ends_here { whole.saturating_sub(missing) } else { whole };
            let spindle = self.spindle_of(operation.file, begin);
            done = done.max(self.serve(&Part { spindle, file: operation.file, place, bytes }, operation.kind));
        }
        done
    }

    /// The spindle that has a byte of a file, or the one that is free first.
    fn spindle_of(&self, file: u64, offset: u64) -> usize {
        let spindles = self.profile().spindles;
        if self.profile().placement == Placement::Any {
            let end = |spindle: &usize| self.queue_end(*spindle).map_or(0, |word| word.load(Ordering::Relaxed));
            return (0..spindles).min_by_key(end).unwrap_or(0);
        }
        let stripe = offset / (u64::from(self.profile().stripe_kib) * 1024);
        // Without its low 16 bits the hash is small enough that the sum does not overflow.
        (((mix(file) >> 16) + stripe) % spindles as u64) as usize
    }

    /// Queues a part at its spindle. Returns the time at which it is done.
    fn serve(&mut self, part: &Part, kind: Kind) -> u64 {
        let service = self.position(part, kind) + self.transfer(part.bytes);
        add(self.state, at::BUSY_NS, service);
        let Some(word) = self.queue_end(part.spindle) else { return self.now + service };
        let now = self.now;
        let start = within(now, change(word, |end| bounded(now, within(now, end) + service)));
        let waited = start - now;
        if waited > 0 {
            add(self.state, at::QUEUED_NS, waited);
            let ahead = (waited as f64 / self.medium.mean_ns).ceil() as u64;
            if let Some(most) = self.state.get(at::WAITING_MAX) {
                most.fetch_max(ahead, Ordering::Relaxed);
            }
        }
        bounded(now, start + service)
    }

    /// Time to reach the place.
    fn position(&mut self, part: &Part, kind: Kind) -> u64 {
        match self.medium.profile.service {
            Service::Drawn { mean_ms, distribution } => whole_ns(distribution.sample(mean_ms * NS_PER_MS, &mut self.random)),
            Service::Disk { seek_ms, settle_ms, turn_ms } => {
                let key = |place: u64| mix(part.file).wrapping_add(place);
                let last = self.state.get(self.spindle_at(part.spindle) + 1);
                let goes_on = last.is_some_and(|last| {
                    last.swap(key(part.place.wrapping_add(part.bytes)), Ordering::Relaxed) == key(part.place)
                });
                let reads = kind == Kind::Read;
                let seek = match (goes_on, reads) {
                    (true, true) => return 0,
                    (true, false) => 0.0,
                    (false, true) => distribution::seek(seek_ms, &mut self.random),
                    (false, false) => distribution::seek(seek_ms, &mut self.random) + settle_ms,
                };
                whole_ns((seek + turn_ms * self.random.unit()) * NS_PER_MS)
            }
        }
    }

    fn transfer(&self, bytes: u64) -> u64 {
        let speed = self.profile().bandwidth_mib_s;
        if speed > 0.0 { whole_ns(bytes as f64 / (speed * MIB) * 1e9) } else { 0 }
    }

    fn file(&self, file: u64) -> Option<&'a AtomicU64> {
        self.state.get(at::BODY + mix(file) as usize % FILES_MAX)
    }

    fn spindle_at(&self, spindle: usize) -> usize {
        at::BODY + FILES_MAX + spindle * SPINDLE_WORDS
    }

    fn queue_end(&self, spindle: usize) -> Option<&'a AtomicU64> {
        self.state.get(self.spindle_at(spindle))
    }
}

/// The time in a word, or `now` if it is in the past, or too far in the future to be valid.
const fn within(now: u64, time: u64) -> u64 {
    if time < now || time - now > BACKLOG_NS_MAX { now } else { time }
}

/// The time to store in a word: at most as far in the future as [`within`] accepts.
fn bounded(now: u64, time: u64) -> u64 {
    time.min(now + BACKLOG_NS_MAX)
}

#[cfg(test)]
mod tests;
