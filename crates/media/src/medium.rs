//! The model at work: queues of spindles as times in atomic words.
//!
//! A spindle is the time at which its queue ends: an operation moves it on by its own service time and is done when it has
//! got there. NVRAM is the time at which it will have drained: a write moves it on by its bytes, and has space when the
//! distance from now is at most the size. A file is the time at which what was written to it will be stable. So a state
//! has no counts that have to be taken back, and a process that dies leaves nothing wrong.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::{Counters, LAYOUT, at};
use crate::distribution;
use crate::limits::{BACKLOG_NS_MAX, FILES_MAX, RECORD_BYTES};
use crate::profile::{Placement, Profile, Service};
use crate::random::{Random, mix, nth};

/// What the medium has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes are read.
    Read,
    /// Bytes are written and answered at once; they go to the medium behind the answer, and a flush waits for them.
    Buffered,
    /// Bytes are written and stable when it is done.
    Write,
    /// All that was written to the file before is stable when it is done; nothing to do for a file without changes.
    Flush,
    /// A change of names or attributes is stable when it is done.
    Metadata,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What.
    pub kind: Kind,
    /// Which file: its inode number, or anything else that is its own.
    pub file: u64,
    /// First byte; of no meaning for a flush.
    pub offset: u64,
    /// Bytes; of no meaning for a flush.
    pub bytes: u64,
}

/// A medium without its state. Copies in several processes work on one state as long as their profiles are equal.
#[derive(Clone, Debug)]
pub struct Medium {
    profile: Profile,
    mean_ns: f64, // time of one place found, at least 1
}

/// Words of a spindle: the time its queue ends, and the place its last operation ended.
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

    /// Words of its state; a fresh one is all zero, and so is one that was cleared.
    #[must_use]
    pub const fn words(&self) -> usize {
        at::BODY + FILES_MAX + self.profile.spindles * SPINDLE_WORDS
    }

    /// Marks a state as one, so that its counters can be read from a file; does no harm to one in use.
    pub fn begin(&self, state: &[AtomicU64]) {
        if let Some(word) = state.get(at::LAYOUT) {
            word.store(LAYOUT, Ordering::Relaxed);
        }
    }

    /// The next number of the seeded sequence, for one [`Medium::submit`]: operations of all processes share one sequence.
    #[must_use]
    pub fn draw(&self, state: &[AtomicU64]) -> u64 {
        let count = state.get(at::DRAWS).map_or(0, |word| word.fetch_add(1, Ordering::Relaxed));
        nth(self.profile.seed, count)
    }

    /// Takes an operation that came at `now_ns` (of a clock that only goes forward, the same for all who share the state)
    /// and gives the time at which it is done, of the same clock; never before `now_ns`. `draw` decides its random.
    #[must_use]
    pub fn submit(&self, state: &[AtomicU64], now_ns: u64, operation: Operation, draw: u64) -> u64 {
        let mut submission = Submission { medium: self, state, now: now_ns, random: Random::of(draw) };
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

    /// What was counted so far.
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

/// A time or a span as the words have it; a model's floating point never leaves the bound.
fn whole_ns(ns: f64) -> u64 {
    (ns as u64).min(BACKLOG_NS_MAX)
}

/// Changes a word by `next` and gives what it was: an atomic step, tried again while others are faster.
fn change(word: &AtomicU64, next: impl Fn(u64) -> u64) -> u64 {
    let mut found = word.load(Ordering::Relaxed);
    loop {
        match word.compare_exchange_weak(found, next(found), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(before) => return before,
            Err(other) => found = other,
        }
    }
}

/// One operation being submitted.
struct Submission<'a> {
    medium: &'a Medium,
    state: &'a [AtomicU64],
    now: u64,
    random: Random,
}

/// A stretch of an operation that lies on one spindle.
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

    /// Goes to the medium at once, is answered at once, unless the medium is too far behind.
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
            // Nothing new; a flush of another caller that is in flight is waited for.
            return written;
        }
        let done = self.record().max(written);
        // Later writes keep their mark: only what this flush saw is clean now.
        let _ = word.compare_exchange(found, done << 1, Ordering::Relaxed, Ordering::Relaxed);
        done
    }

    /// Logs a change: to NVRAM, else as a small write wherever chance has it.
    fn record(&mut self) -> u64 {
        let anywhere = self.random.bits();
        self.write(&Operation { kind: Kind::Metadata, file: anywhere, offset: 0, bytes: RECORD_BYTES })
    }

    fn overhead(&mut self) -> u64 {
        let Profile { overhead, overhead_ms, .. } = self.medium.profile;
        if overhead_ms > 0.0 { whole_ns(overhead.sample(overhead_ms * NS_PER_MS, &mut self.random)) } else { 0 }
    }

    /// When NVRAM has taken these bytes; none without NVRAM.
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

    /// What was answered from NVRAM costs its spindle the share of a full stripe that it is: what drains is gathered.
    fn destage(&mut self, operation: &Operation) {
        let stripe = f64::from(self.profile().stripe_kib) * 1024.0;
        let bytes = operation.bytes as f64;
        let service = whole_ns(self.medium.mean_ns * bytes / stripe) + self.transfer(operation.bytes);
        let spindle = self.spindle_of(operation.file, operation.offset);
        add(self.state, at::BUSY_NS, service);
        if let Some(word) = self.queue_end(spindle) {
            let now = self.now;
            // The NVRAM's own limit keeps this in bounds: a spindle takes no more than what fits.
            change(word, |end| bounded(now, within(now, end) + service));
        }
    }

    /// When all stretches of an operation are done: they run on their spindles side by side.
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
        // Stripes of one spindle lie side by side there, so each spindle has one stretch.
        let mut done = self.now;
        let stripes = last - first + 1;
        for nth in 0..stripes.min(spindles) {
            let begin = if nth == 0 { operation.offset } else { (first + nth) * stripe };
            let of_spindle = (stripes - nth).div_ceil(spindles);
            let place = (first + nth) / spindles * stripe + begin % stripe;
            let whole = of_spindle * stripe - begin % stripe;
            // The last stripe may end early.
            let ends_here = (stripes - 1) % spindles == nth;
            let missing = (last + 1).saturating_mul(stripe) - operation.offset.saturating_add(operation.bytes);
            let bytes = if ends_here { whole.saturating_sub(missing) } else { whole };
            let spindle = self.spindle_of(operation.file, begin);
            done = done.max(self.serve(&Part { spindle, file: operation.file, place, bytes }, operation.kind));
        }
        done
    }

    /// Which spindle has a byte of a file, or is free first.
    fn spindle_of(&self, file: u64, offset: u64) -> usize {
        let spindles = self.profile().spindles;
        if self.profile().placement == Placement::Any {
            let end = |spindle: &usize| self.queue_end(*spindle).map_or(0, |word| word.load(Ordering::Relaxed));
            return (0..spindles).min_by_key(end).unwrap_or(0);
        }
        let stripe = offset / (u64::from(self.profile().stripe_kib) * 1024);
        // The upper bits of the file, so that the sum does not overflow.
        (((mix(file) >> 16) + stripe) % spindles as u64) as usize
    }

    /// Queues a stretch at its spindle; when it is done.
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

    /// Time to find the place.
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

/// A time that a word has, as one to wait for: the past is now, and what is too far ahead is nonsense.
const fn within(now: u64, time: u64) -> u64 {
    if time < now || time - now > BACKLOG_NS_MAX { now } else { time }
}

/// A time to put into a word: never so far ahead that [`within`] would not believe it.
fn bounded(now: u64, time: u64) -> u64 {
    time.min(now + BACKLOG_NS_MAX)
}

#[cfg(test)]
mod tests;
