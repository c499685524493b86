//! What our own client says of its reads and slots, as records.

use std::time::Duration;

use dnfs::activity::Activity;
use results::judgement::{ReadLatency, SlotUse};

/// Lowest bucket's upper bound in microseconds.
const FIRST_BOUND_US: f64 = 8.0;
/// Buckets for each doubling: 19 % apart.
const BUCKETS_PER_OCTAVE: u32 = 4;
/// Bounds, up to 23 s: longer reads fall into the open bucket.
const BOUNDS: u32 = 86;

/// Times of the block reads of all volumes between two moments; `None` when our client did none.
pub(crate) fn read_latency(before: &[Activity], after: &[Activity]) -> Option<ReadLatency> {
    let bounds_us: Vec<f64> =
        (0..BOUNDS).map(|place| FIRST_BOUND_US * (f64::from(place) / f64::from(BUCKETS_PER_OCTAVE)).exp2()).collect();
    let mut whole = ReadLatency { counts: vec![0; bounds_us.len() + 1], bounds_us, ..ReadLatency::default() };
    for (before, after) in before.iter().zip(after) {
        let reads = after.since(before).reads;
        whole.count += reads.latency.count();
        whole.sum_us += reads.ns as f64 / 1e3;
        for (lowest, highest, count) in reads.latency.places() {
            let us = lowest.midpoint(highest) as f64 / 1e3;
            let place = whole.bounds_us.partition_point(|bound| *bound < us);
            if let Some(bucket) = whole.counts.get_mut(place) {
                *bucket += count;
            }
        }
    }
    (whole.count > 0).then_some(whole)
}

/// Slots of the volume that has the data, or the first share of it, which comes first; `None` without a bound.
pub(crate) fn slot_use(before: &[Activity], after: &[Activity], elapsed: Duration) -> Option<SlotUse> {
    let slots = after.first()?.since(before.first()?).slots?;
    Some(SlotUse {
        slots: slots.limit,
        mean: slots.in_use_mean(elapsed),
        max: slots.most,
        waits: slots.waits,
        wait_s: slots.wait_ns as f64 / 1e9,
        calls: slots.calls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_reads_or_slots_nothing_is_said() {
        let idle = [Activity::default()];
        assert_eq!(read_latency(&idle, &idle), None);
        assert_eq!(slot_use(&idle, &idle, Duration::from_secs(1)), None);
        assert_eq!(read_latency(&[], &[]), None);
    }
}
