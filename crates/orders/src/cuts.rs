//! Cuts: what a run had measured at fixed moments of its interval, told while it goes on.
//!
//! A cut at second `k` holds exactly what ended before that moment, so that cuts of several drivers
//! at the same second cover the same interval.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use results::orders_run::{CpuTime, OrdersRun};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::measure::{Measure, RunFacts, process_cpu};

/// What one thread had measured at a cut.
#[derive(Debug)]
pub struct Cut {
    /// Whole seconds from the start of the interval.
    pub second: u64,
    /// What ended before that moment, its interval cut down to it.
    pub measure: Measure,
}

/// Where and how often a thread tells its cuts.
#[derive(Debug, Clone)]
pub struct Cutter {
    every_s: u64,
    next_s: u64,
    // Never more than the cuts of one run times its threads are on their way.
    to: UnboundedSender<Cut>,
}

impl Cutter {
    /// Cuts every `every_s` seconds of the interval, told to `to`.
    #[must_use]
    pub fn new(every_s: u64, to: UnboundedSender<Cut>) -> Self {
        let every_s = every_s.max(1);
        Self { every_s, next_s: 0, to }
    }

    /// Seconds between two cuts.
    #[must_use]
    pub const fn every_s(&self) -> u64 {
        self.every_s
    }

    /// Tells the cuts that are due at `now`; `measure` holds what ended before.
    pub(crate) fn tell(&mut self, measure: &Measure, from: Instant, upto: Instant, now: Instant) {
        while let Some(due) = from.checked_add(Duration::from_secs(self.next_s)).filter(|due| *due <= now && *due <= upto) {
            // Nobody listens any more when the run is being given up.
            let _ = self.to.send(Cut { second: self.next_s, measure: measure.cut_down_to(due) });
            self.next_s += self.every_s;
        }
    }
}

/// Tells the cuts of a thread on time even when nothing ends in it for long.
pub(crate) async fn keep_time(measure: Rc<RefCell<Measure>>, every_s: u64, from: Instant, upto: Instant) {
    let every = Duration::from_secs(every_s);
    let mut due = from;
    while due <= upto {
        tokio::time::sleep_until(due.into()).await;
        measure.borrow_mut().tell_cuts(Instant::now());
        due += every;
    }
}

/// Puts the cuts of `threads` threads together and tells the record of each, in order, the empty one
/// at the start left out; ends when the threads have ended.
pub(crate) async fn collect(mut parts: UnboundedReceiver<Cut>, threads: u32, facts: RunFacts, to: UnboundedSender<OrdersRun>) {
    let mut open: BTreeMap<u64, (u32, Measure)> = BTreeMap::new();
    let mut cpu_before: Option<CpuTime> = None;
    while let Some(Cut { second, measure }) = parts.recv().await {
        let cpu = process_cpu().unwrap_or_default();
        let before = *cpu_before.get_or_insert(cpu);
        if second == 0 {
            continue;
        }
        let (told, whole) = open.entry(second).or_insert_with(|| (0, measure.emptied()));
        *told += 1;
        whole.merge(&measure);
        if *told == threads
            && let Some((_, whole)) = open.remove(&second)
        {
            let driver_cpu = CpuTime { user_s: cpu.user_s - before.user_s, sys_s: cpu.sys_s - before.sys_s };
            // A listener that is gone has given the run up.
            let _ = to.send(whole.into_record(RunFacts { driver_cpu, ..facts.clone() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Ended, Moments, test_facts};
    use crate::mix::Kind;
    use tokio::sync::mpsc::unbounded_channel;

    const S: Duration = Duration::from_secs(1);

    fn record(measure: &mut Measure, from: Instant, ended_ms: u64) {
        let ended = from + Duration::from_millis(ended_ms);
        let sent = ended - Duration::from_millis(1);
        measure.record(Kind::NewOrder, Moments { due: sent, sent, ended }, Ended::Committed);
    }

    #[tokio::test]
    async fn a_cut_holds_exactly_what_ended_before_it_in_every_thread() {
        let from = Instant::now();
        let ((part_to, parts), (to, mut records)) = (unbounded_channel(), unbounded_channel());
        let cutter = Cutter::new(2, part_to);
        let mut threads = [(); 2].map(|()| Measure::new(from, from + 5 * S).with_cuts(Some(cutter.clone())));
        drop(cutter);
        for at_ms in [100, 1_999, 2_000, 3_500, 4_100] {
            record(&mut threads[0], from, at_ms);
        }
        record(&mut threads[1], from, 1_500);
        // The second thread idles: its timekeeper tells both cuts at once.
        threads[1].tell_cuts(from + 4 * S);
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
    fn a_thread_that_closes_tells_the_cuts_that_its_timekeeper_did_not_come_to() {
        let from = Instant::now();
        let (to, mut cuts) = unbounded_channel();
        let mut measure = Measure::new(from, from + 4 * S).with_cuts(Some(Cutter::new(2, to)));
        record(&mut measure, from, 3_900);
        measure.close(from + 4 * S);
        drop(measure);
        let told: Vec<u64> = std::iter::from_fn(|| cuts.try_recv().ok()).map(|cut| cut.second).collect();
        assert_eq!(told, [0, 2, 4]);
    }
}
