//! Sends the snapshots of a thread on time, and merges those of all threads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use results::orders_run::{CpuTime, OrdersRun};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::measure::{Measure, RunFacts, process_cpu};
use crate::snapshots::Snapshot;

/// Sends the snapshots of a thread on time even if no transaction ends for long.
pub(crate) async fn keep_time(send_due: impl Fn(Instant), every_s: u64, from: Instant, upto: Instant) {
    let every = Duration::from_secs(every_s);
    let mut due = from;
    while due <= upto {
        tokio::time::sleep_until(due.into()).await;
        send_due(Instant::now());
        due += every;
    }
}

/// Merges the snapshots of `threads` threads and sends the record of each, in order, without the empty one
/// at the start. Ends when the threads have ended.
pub(crate) async fn collect(
    mut parts: UnboundedReceiver<Snapshot<Measure>>,
    threads: u32,
    facts: RunFacts,
    to: UnboundedSender<OrdersRun>,
) {
    let mut open: BTreeMap<u64, (u32, Measure)> = BTreeMap::new();
    let mut cpu_before: Option<CpuTime> = None;
    while let Some(Snapshot { second, measure }) = parts.recv().await {
        let cpu = process_cpu().unwrap_or_default();
        let before = *cpu_before.get_or_insert(cpu);
        if second == 0 {
            continue;
        }
        let (received, whole) = open.entry(second).or_insert_with(|| (0, measure.emptied()));
        *received += 1;
        whole.merge(&measure);
        if *received == threads
            && let Some((_, whole)) = open.remove(&second)
        {
            let driver_cpu = CpuTime { user_s: cpu.user_s - before.user_s, sys_s: cpu.sys_s - before.sys_s };
            // If the receiver is gone, the run is being abandoned.
            let _ = to.send(whole.into_record(RunFacts { driver_cpu, ..facts.clone() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Ended, Moments, test_facts};
    use crate::mix::Kind;
    use crate::snapshots::SnapshotSender;
    use tokio::sync::mpsc::unbounded_channel;

    const S: Duration = Duration::from_secs(1);

    fn record(measure: &mut Measure, from: Instant, ended_ms: u64) {
        let ended = from + Duration::from_millis(ended_ms);
        let sent = ended - Duration::from_millis(1);
        measure.record(Kind::NewOrder, Moments { due: sent, sent, ended }, Ended::Committed);
    }

    #[tokio::test]
    async fn a_snapshot_holds_exactly_what_ended_before_it_in_every_thread() {
        let from = Instant::now();
        let ((part_to, parts), (to, mut records)) = (unbounded_channel(), unbounded_channel());
        let snapshot_sender = SnapshotSender::new(2, part_to);
        let mut threads = [(); 2].map(|()| Measure::new(from, from + 5 * S).with_snapshots(Some(snapshot_sender.clone())));
        drop(snapshot_sender);
        for at_ms in [100, 1_999, 2_000, 3_500, 4_100] {
            record(&mut threads[0], from, at_ms);
        }
        record(&mut threads[1], from, 1_500);
        // The second thread is idle: its timer task sends both snapshots at once.
        threads[1].send_snapshots(from + 4 * S);
        drop(threads);
        collect(parts, 2, test_facts(), to).await;
        let first = records.recv().await.unwrap();
        assert_eq!((first.orders, first.per_second.as_slice(), first.measured_s), (3, [1, 2].as_slice(), 2.0));
        assert!((first.oets_per_minute - 90.0).abs() < 1e-9);
        let second = records.recv().await.unwrap();
        assert_eq!((second.orders, second.per_second.as_slice()), (5, [1, 2, 1, 1].as_slice()));
        assert!(records.recv().await.is_none());
    }

    #[test]
    fn a_thread_that_closes_sends_the_snapshots_that_its_timekeeper_did_not_come_to() {
        let from = Instant::now();
        let (to, mut snapshots) = unbounded_channel();
        let mut measure = Measure::new(from, from + 4 * S).with_snapshots(Some(SnapshotSender::new(2, to)));
        record(&mut measure, from, 3_900);
        measure.close(from + 4 * S);
        drop(measure);
        let sent: Vec<u64> = std::iter::from_fn(|| snapshots.try_recv().ok()).map(|snapshot| snapshot.second).collect();
        assert_eq!(sent, [0, 2, 4]);
    }
}
