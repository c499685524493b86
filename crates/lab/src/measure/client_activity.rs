//! Reads and slots of Millrace's NFS client, as records.

use std::time::Duration;

use dnfs::activity::Activity;
use results::judgement::{ReadLatency, SlotUse};

use crate::paths::storage::{KernelSlots, StorageCounters};

/// Lowest bucket's upper bound in microseconds.
const FIRST_BOUND_US: f64 = 8.0;
/// Buckets for each doubling: 19 % apart.
const BUCKETS_PER_OCTAVE: u32 = 4;
/// Number of bounds, up to 23 s: longer reads are in the open bucket.
const BOUNDS: u32 = 86;

/// Times of the block reads of all volumes between two moments; `None` if Millrace's client made none.
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

/// Slots of the volume with the data, or of its first share, which comes first; `None` without a limit. For a client in
/// the kernel, the mean is computed by Little's law from the times between sending and reply, and the number of waiting calls is unknown.
pub(crate) fn slot_use(before: &StorageCounters, after: &StorageCounters, elapsed: Duration) -> Option<SlotUse> {
    if let Some((before, after)) = before.kernel_slots.zip(after.kernel_slots) {
        let gained = |pick: fn(&KernelSlots) -> u64| pick(&after).saturating_sub(pick(&before));
        return Some(SlotUse {
            slots: after.limit,
            mean: gained(|slots| slots.reply_ms) as f64 / 1e3 / elapsed.as_secs_f64(),
            max: after.most,
            waits: 0,
            wait_s: gained(|slots| slots.queue_ms) as f64 / 1e3,
            calls: gained(|slots| slots.calls),
        });
    }
    let slots = after.client_activity.first()?.since(before.client_activity.first()?).slots?;
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
        let counters = StorageCounters { client_activity: idle.to_vec(), ..StorageCounters::default() };
        assert_eq!(slot_use(&counters, &counters, Duration::from_secs(1)), None);
        let none = StorageCounters::default();
        assert_eq!(slot_use(&none, &none, Duration::from_secs(1)), None);
        assert_eq!(read_latency(&[], &[]), None);
    }

    #[test]
    fn slots_of_a_kernel_client_are_taken_for_the_time_between_sending_and_reply() {
        let at = |calls, queue_ms, reply_ms| StorageCounters {
            kernel_slots: Some(KernelSlots { limit: 16, most: 16, calls, queue_ms, reply_ms }),
            ..StorageCounters::default()
        };
        let found = slot_use(&at(100, 50, 1_000), &at(1_100, 2_050, 29_000), Duration::from_secs(2)).unwrap();
        assert_eq!((found.slots, found.max, found.calls, found.waits), (16, 16, 1_000, 0));
        assert!((found.mean - 14.0).abs() < 1e-9 && (found.wait_s - 2.0).abs() < 1e-9, "{found:?}");
    }
}
