//! What all processes did on a mount, as the segment counts it: calls by size, times by histogram, slots and waits.

use crate::sys::atomic::AtomicU64;
use core::sync::atomic::Ordering;
use core::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::limits::{LATENCY_COUNT, LATENCY_STEPS, SIZE_COUNT};
use crate::segment::layout::{ActivityCell, OperationCell, SlotTable};
use crate::sys::clock::monotonic_ns;

/// Counters since the segment was created. The difference of two of them covers an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// When the counters were read, in ns of the monotonic clock.
    pub at_ns: u64,
    /// Reads by programs.
    pub reads: Operations,
    /// Writes by programs.
    pub writes: Operations,
    /// COMMITs.
    pub commits: Operations,
    /// Slots, if a process mounted with `slots=`.
    pub slots: Option<SlotUse>,
    /// How often a program waited for the writer of a file (`writers=one`).
    pub writer_waits: u64,
    /// How long those waits took, in ns.
    pub writer_wait_ns: u64,
}

/// Operations of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operations {
    /// Calls on the wire.
    pub calls: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// ns that operations took in total, including waits for a slot.
    pub ns: u64,
    /// Calls on the wire by payload: place n counts those of at most 512 << n bytes and more than half of that.
    pub sizes: [u64; SIZE_COUNT],
    /// Operations by time.
    pub latency: Latency,
}

/// How many operations took how long. An operation of a program may be several calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    counts: [u64; LATENCY_COUNT],
}

/// The slots of a mount that limits its calls in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotUse {
    /// The limit.
    pub limit: u32,
    /// Slots in use at this moment.
    pub in_use: u32,
    /// Most slots in use at once since the segment was made.
    pub most: u32,
    /// Calls that took a slot.
    pub calls: u64,
    /// ns that slots were held in total: divided by the length of an interval, the mean number in use.
    pub held_ns: u64,
    /// Number of waits for a slot.
    pub waits: u64,
    /// ns waited in total.
    pub wait_ns: u64,
    /// Calls sent without a slot, by signal handlers inside a call.
    pub beyond: u64,
    /// Slots taken back from processes that died.
    pub reclaimed: u64,
}

impl Activity {
    pub(crate) fn of(cells: &[ActivityCell], table: &SlotTable) -> Self {
        let mut sum = Self { at_ns: monotonic_ns(), ..Self::default() };
        for cell in cells {
            sum.reads.add(&cell.reads);
            sum.writes.add(&cell.writes);
            sum.commits.add(&cell.commits);
        }
        sum.slots = Some(SlotUse::of(table)).filter(|slots| slots.limit > 0);
        sum.writer_waits = table.writer_waits.load(Relaxed);
        sum.writer_wait_ns = table.writer_wait_ns.load(Relaxed);
        sum
    }

    /// What was added since `earlier`; a maximum stays what it is.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            at_ns: self.at_ns,
            reads: self.reads.since(&earlier.reads),
            writes: self.writes.since(&earlier.writes),
            commits: self.commits.since(&earlier.commits),
            slots: self.slots.map(|slots| slots.since(&earlier.slots.unwrap_or_default())),
            writer_waits: self.writer_waits.saturating_sub(earlier.writer_waits),
            writer_wait_ns: self.writer_wait_ns.saturating_sub(earlier.writer_wait_ns),
        }
    }

    /// Mean number of reads, writes and COMMITs of programs in progress over `elapsed`, including waits for a slot.
    #[must_use]
    pub fn in_progress_mean(&self, elapsed: Duration) -> f64 {
        let ns = self.reads.ns + self.writes.ns + self.commits.ns;
        ns as f64 / elapsed.as_nanos().max(1) as f64
    }
}

impl Default for Operations {
    fn default() -> Self {
        Self { calls: 0, bytes: 0, ns: 0, sizes: [0; SIZE_COUNT], latency: Latency::default() }
    }
}

impl Operations {
    fn add(&mut self, cell: &OperationCell) {
        self.calls += cell.calls.load(Relaxed);
        self.bytes += cell.bytes.load(Relaxed);
        self.ns += cell.ns.load(Relaxed);
        add_all(&mut self.sizes, cell.sizes.iter().map(|count| count.load(Relaxed)));
        add_all(&mut self.latency.counts, cell.latency.iter().map(|count| count.load(Relaxed)));
    }

    fn since(&self, earlier: &Self) -> Self {
        let mut diff = self.clone();
        diff.calls = self.calls.saturating_sub(earlier.calls);
        diff.bytes = self.bytes.saturating_sub(earlier.bytes);
        diff.ns = self.ns.saturating_sub(earlier.ns);
        take_all(&mut diff.sizes, &earlier.sizes);
        take_all(&mut diff.latency.counts, &earlier.latency.counts);
        diff
    }
}

/// Powers of two of ns at which [`Latency::by_octave`] counts: 1 us to 34 s, as the filer's metrics have them.
const OCTAVES: core::ops::RangeInclusive<u32> = 10..=35;

impl Default for Latency {
    fn default() -> Self {
        Self { counts: [0; LATENCY_COUNT] }
    }
}

impl Latency {
    /// Operations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Every place that counted something: its lowest and highest ns, and how many.
    pub fn places(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(place, count)| {
            let next = lowest_ns(place + 1);
            (lowest_ns(place), next - 1, *count)
        })
    }

    /// At each power of two from 1 us to 34 s, in seconds, how many operations took less.
    pub fn by_octave(&self) -> impl Iterator<Item = (f64, u64)> {
        OCTAVES.map(|octave| {
            let end_ns = 1_u64 << octave;
            let below = self.places().take_while(|(lowest, _, _)| *lowest < end_ns).map(|(_, _, count)| count).sum();
            (end_ns as f64 / 1e9, below)
        })
    }

    /// The time that this share of the operations did not exceed, to 3 %. `None` if nothing was counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        self.places().find_map(|(lowest, highest, count)| {
            seen += count;
            (seen >= wanted).then(|| Duration::from_nanos(lowest.midpoint(highest)))
        })
    }
}

impl SlotUse {
    pub(crate) fn of(table: &SlotTable) -> Self {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            limit: table.limit.load(Relaxed),
            in_use: table.slots.iter().filter(|slot| slot.load(Relaxed) != 0).count() as u32,
            most: table.most.load(Relaxed),
            calls: count(&table.calls),
            held_ns: count(&table.held_ns),
            waits: count(&table.waits),
            wait_ns: count(&table.wait_ns),
            beyond: count(&table.beyond),
            reclaimed: count(&table.reclaimed),
        }
    }

    /// What was added since `earlier`; limit and maximum stay what they are.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        Self {
            limit: self.limit,
            in_use: self.in_use,
            most: self.most,
            calls: self.calls.saturating_sub(earlier.calls),
            held_ns: self.held_ns.saturating_sub(earlier.held_ns),
            waits: self.waits.saturating_sub(earlier.waits),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            beyond: self.beyond.saturating_sub(earlier.beyond),
            reclaimed: self.reclaimed.saturating_sub(earlier.reclaimed),
        }
    }

    /// Mean number of slots in use over `elapsed`.
    #[must_use]
    pub fn in_use_mean(&self, elapsed: Duration) -> f64 {
        self.held_ns as f64 / elapsed.as_nanos().max(1) as f64
    }
}

impl OperationCell {
    /// Counts an operation of `bytes` bytes that was sent in calls of at most `bytes_max`.
    pub(crate) fn note(&self, took: Duration, bytes: usize, bytes_max: u32) {
        let bytes_max = bytes_max.max(1) as usize;
        let whole = bytes / bytes_max;
        let rest = bytes - whole * bytes_max;
        let last = usize::from(rest > 0 || whole == 0);
        self.calls.fetch_add((whole + last) as u64, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
        let count = |bytes: usize, calls: usize| {
            if calls > 0
                && let Some(size) = self.sizes.get(size_place(bytes))
            {
                size.fetch_add(calls as u64, Relaxed);
            }
        };
        count(bytes_max, whole);
        count(rest, last);
        self.note_time(took);
    }

    /// Counts a call without payload.
    pub(crate) fn note_call(&self, took: Duration) {
        self.calls.fetch_add(1, Relaxed);
        self.note_time(took);
    }

    fn note_time(&self, took: Duration) {
        let ns = took.as_secs().saturating_mul(1_000_000_000) + u64::from(took.subsec_nanos());
        self.ns.fetch_add(ns, Relaxed);
        if let Some(place) = self.latency.get(latency_place(ns)) {
            place.fetch_add(1, Relaxed);
        }
    }
}

/// Largest payload of a place of [`Operations::sizes`], in bytes.
#[must_use]
pub const fn size_of_place(place: usize) -> u64 {
    512 << place
}

fn size_place(bytes: usize) -> usize {
    let over = bytes.saturating_sub(1) / 512;
    (usize::BITS - over.leading_zeros()) as usize
}

const STEPS_BITS: u32 = LATENCY_STEPS.trailing_zeros();
/// Powers of two below which times are one place: 1 us.
const FLOOR_BITS: u32 = 10;

fn latency_place(ns: u64) -> usize {
    let octave = (ns | 1 << FLOOR_BITS).ilog2();
    let step = if ns >> FLOOR_BITS == 0 { 0 } else { ns >> (octave - STEPS_BITS) & (LATENCY_STEPS as u64 - 1) };
    (((octave - FLOOR_BITS) as usize) << STEPS_BITS | step as usize).min(LATENCY_COUNT - 1)
}

fn lowest_ns(place: usize) -> u64 {
    if place == 0 {
        return 0;
    }
    let (octave, step) = (place as u32 >> STEPS_BITS, place as u64 & (LATENCY_STEPS as u64 - 1));
    (LATENCY_STEPS as u64 + step) << (octave + FLOOR_BITS - STEPS_BITS)
}

fn add_all(to: &mut [u64], from: impl Iterator<Item = u64>) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

fn take_all(from: &mut [u64], what: &[u64]) {
    from.iter_mut().zip(what).for_each(|(from, what)| *from = from.saturating_sub(*what));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_its_place() {
        let mut ns = 1u64;
        while ns < 130_000_000_000 {
            for ns in [ns - 1, ns, ns + 1] {
                let place = latency_place(ns);
                assert!(lowest_ns(place) <= ns && ns < lowest_ns(place + 1), "{ns} in {place}");
                assert!(place == 0 || lowest_ns(place + 1) - lowest_ns(place) <= ns / 16 + 1);
            }
            ns = ns * 3 / 2 + 1;
        }
        assert_eq!(latency_place(u64::MAX), LATENCY_COUNT - 1);
    }

    #[test]
    fn sizes_end_at_powers_of_two() {
        assert_eq!([0, 1, 512, 513, 8192, 8193, 1 << 20].map(size_place), [0, 0, 0, 1, 4, 5, 11]);
        assert_eq!(size_of_place(4), 8192);
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile(0.5), None);
        (1..=1000u64).for_each(|us| latency.counts[latency_place(us * 1000)] += 1);
        for (share, us) in [(0.5, 500.0), (0.99, 990.0)] {
            let found = latency.quantile(share).unwrap().as_secs_f64() * 1e6;
            assert!((found / us - 1.0).abs() < 0.035, "{share}: {found} for {us}");
        }
    }
}
