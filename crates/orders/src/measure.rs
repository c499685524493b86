//! Measurements of a run's terminals, and the record made from them.

mod record;

use std::sync::Arc;
use std::time::{Duration, Instant};

use results::histogram::ResponseTimes;

use crate::inputs::{CustomerKey, NewOrderInput};
use crate::mix::Kind;
use crate::random::DISTRICTS;
use crate::series::{Second, Series};
use crate::snapshots::SnapshotSender;

pub use record::{RunFacts, process_cpu};

/// A queued delivery must be done within this time (clause 2.7.2).
const DELIVERY_LIMIT: Duration = Duration::from_secs(80);

/// Counts and response times of one transaction.
#[derive(Debug, Default, Clone)]
struct Counters {
    count: u64,
    rolled_back: u64,
    errors: u64,
    retries: u64,
    response: ResponseTimes,
    service: ResponseTimes,
}

/// Results of the transactions that were due in the interval.
#[derive(Debug, Default, Clone, Copy)]
struct Due {
    due: u64,
    finished: u64,
    refused: u64,
    left: u64,
    queued_max: u64,
}

/// Deferred deliveries.
#[derive(Debug, Default, Clone)]
struct Deferred {
    queued: u64,
    within_limit: u64,
    queued_max: u64,
    left: u64,
    completion: ResponseTimes,
}

/// The moments of one transaction.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    /// When it was due; in a closed loop, when its user was ready to send it.
    pub due: Instant,
    /// When it was first sent to a session.
    pub sent: Instant,
    /// When it was acknowledged or failed.
    pub ended: Instant,
}

/// Counts of the drawn inputs, for the check against the rules of the load.
#[derive(Debug, Default, Clone, Copy)]
struct Drawn {
    orders: u64,
    lines: u64,
    lines_remote: u64,
    payments: u64,
    payments_remote: u64,
    customers: u64,
    customers_by_name: u64,
    districts: u64,
    districts_skipped: u64,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Committed and acknowledged.
    Committed,
    /// Rolled back on purpose, because of the unused item.
    RolledBack,
    /// Ended by an error.
    Error,
}

/// The measurements of one thread. Only transactions that end inside the interval count.
#[derive(Debug, Clone)]
pub struct Measure {
    from: Instant,
    upto: Instant,
    counters: [Counters; 5],
    drawn: Drawn,
    per_second: Vec<u64>,
    due: Due,
    deferred: Deferred,
    snapshot_sender: Option<SnapshotSender<Self>>,
    now: Option<InSeries>,
}

/// The current second of a thread, and the series that it belongs to.
#[derive(Debug, Clone)]
struct InSeries {
    series: Arc<Series>,
    thread: u32,
    index: usize,
    second: Second,
}

impl InSeries {
    /// Passes the current second to the series if `index` is a later one, and starts that one.
    fn turn_to(&mut self, index: usize) {
        if index > self.index {
            self.series.add(self.thread, self.index, &self.second);
            self.series.pass(self.thread, index);
            self.second.clear();
            self.index = index;
        }
    }
}

impl Measure {
    /// Measures the interval from `from` (inclusive) to `upto` (exclusive).
    #[must_use]
    pub fn new(from: Instant, upto: Instant) -> Self {
        let seconds = (upto - from).as_secs() as usize;
        Self {
            from,
            upto,
            counters: Default::default(),
            drawn: Drawn::default(),
            per_second: vec![0; seconds],
            due: Due::default(),
            deferred: Deferred::default(),
            snapshot_sender: None,
            now: None,
        }
    }

    /// Also feeds the series of all threads, as thread number `thread`.
    #[must_use]
    pub fn with_series(self, series: Arc<Series>, thread: u32) -> Self {
        Self { now: Some(InSeries { series, thread, index: 0, second: Second::default() }), ..self }
    }

    /// Passes the seconds that have ended at `now` to the series.
    pub fn tell_series(&mut self, now: Instant) {
        let upto = self.upto;
        if let Some(in_series) = &mut self.now {
            in_series.turn_to((now.min(upto).saturating_duration_since(self.from)).as_secs() as usize);
        }
    }

    /// Passes all remaining seconds to the series and sends the remaining snapshots: this thread measures nothing
    /// after `now`. The timer task may not have reached the last second.
    pub fn close(&mut self, now: Instant) {
        self.send_snapshots(now);
        let upto = self.upto;
        self.tell_series(upto);
    }

    /// Also sends snapshots of the measurements at fixed moments of the interval.
    #[must_use]
    pub fn with_snapshots(self, snapshot_sender: Option<SnapshotSender<Self>>) -> Self {
        Self { snapshot_sender, ..self }
    }

    /// Sends the snapshots that are due at `now`.
    pub(crate) fn send_snapshots(&mut self, now: Instant) {
        if let Some(mut snapshot_sender) = self.snapshot_sender.take() {
            snapshot_sender.send_due(self.from, self.upto, now, |due| self.up_to(due));
            self.snapshot_sender = Some(snapshot_sender);
        }
    }

    /// Ends the interval at `upto` if that is earlier than its current end.
    pub(crate) fn end_at(&mut self, upto: Instant) {
        if upto < self.upto {
            self.upto = upto;
            self.per_second.truncate((upto - self.from).as_secs() as usize);
        }
    }

    /// An empty measurement of the same interval.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.from, self.upto)
    }

    /// A copy whose interval ends at `upto`. Nothing may have been measured after `upto` yet.
    pub(crate) fn up_to(&self, upto: Instant) -> Self {
        let mut part = Self { snapshot_sender: None, now: None, ..self.clone() };
        part.end_at(upto);
        part
    }

    /// Whether a transaction that ends at `now` counts.
    #[must_use]
    pub fn counts(&self, now: Instant) -> bool {
        self.from <= now && now < self.upto
    }

    /// Records a transaction. Returns whether it counts.
    pub fn record(&mut self, kind: Kind, at: Moments, how: Ended) -> bool {
        let ended = at.ended;
        self.send_snapshots(ended);
        if !self.counts(ended) {
            return false;
        }
        let second = (ended - self.from).as_secs() as usize;
        let counters = &mut self.counters[kind.index()];
        if let Some(in_series) = &mut self.now {
            in_series.turn_to(second);
        }
        match how {
            Ended::Committed => counters.count += 1,
            Ended::RolledBack => counters.rolled_back += 1,
            Ended::Error => {
                counters.errors += 1;
                if let Some(in_series) = &mut self.now {
                    in_series.second.errors += 1;
                }
                return true;
            }
        }
        let order = kind == Kind::NewOrder && how == Ended::Committed;
        let response_us = micros(ended - at.due);
        counters.response.record(response_us);
        counters.service.record(micros(ended - at.sent));
        if let Some(in_series) = &mut self.now {
            in_series.second.response.record(response_us);
            in_series.second.orders += u64::from(order);
        }
        if order && let Some(orders) = self.per_second.get_mut(second) {
            *orders += 1;
        }
        true
    }

    /// Counts a transaction that became due at `due`.
    pub fn became_due(&mut self, due: Instant) {
        self.due.due += u64::from(self.counts(due));
    }

    /// Counts a transaction that was due at `due` and has ended, with any result.
    pub fn finished(&mut self, due: Instant) {
        self.due.finished += u64::from(self.counts(due));
    }

    /// Counts a transaction that was due at `due` and found the queue full.
    pub fn refused(&mut self, due: Instant) {
        self.due.refused += u64::from(self.counts(due));
    }

    /// Counts a transaction that was due at `due` and never started before the run ended.
    pub fn left(&mut self, due: Instant) {
        self.due.left += u64::from(self.counts(due));
    }

    /// Records that `count` due transactions wait at `now`.
    pub fn waiting(&mut self, count: usize, now: Instant) {
        if self.counts(now) {
            self.due.queued_max = self.due.queued_max.max(count as u64);
        }
    }

    /// Counts a delivery that was queued at `queued` after `waiting` others.
    pub fn delivery_queued(&mut self, queued: Instant, waiting: usize) {
        if self.counts(queued) {
            self.deferred.queued += 1;
            self.deferred.queued_max = self.deferred.queued_max.max(waiting as u64);
        }
    }

    /// Counts a queued delivery that ended at `ended`. Returns whether it counts.
    pub fn delivery_completed(&mut self, queued: Instant, ended: Instant) -> bool {
        if !self.counts(ended) {
            return false;
        }
        self.deferred.within_limit += u64::from(ended - queued <= DELIVERY_LIMIT);
        self.deferred.completion.record(micros(ended - queued));
        true
    }

    /// Counts a delivery that was queued at `queued` and never carried out.
    pub fn delivery_left(&mut self, queued: Instant) {
        self.deferred.left += u64::from(self.counts(queued));
    }

    /// Counts a repeat after a deadlock or serialization failure.
    pub fn retry(&mut self, kind: Kind, now: Instant) {
        if self.counts(now) {
            self.counters[kind.index()].retries += 1;
        }
    }

    /// Counts the inputs of a New-Order.
    pub fn drew_order(&mut self, input: &NewOrderInput) {
        self.drawn.orders += 1;
        self.drawn.lines += input.lines.len() as u64;
        let remote = input.lines.iter().filter(|line| line.supply_warehouse != input.warehouse);
        self.drawn.lines_remote += remote.count() as u64;
    }

    /// Counts the inputs of a Payment.
    pub fn drew_payment(&mut self, remote: bool) {
        self.drawn.payments += 1;
        self.drawn.payments_remote += u64::from(remote);
    }

    /// Counts whether a Payment or Order-Status selected its customer by name.
    pub fn drew_customer(&mut self, customer: CustomerKey) {
        self.drawn.customers += 1;
        self.drawn.customers_by_name += u64::from(matches!(customer, CustomerKey::LastName(_)));
    }

    /// Counts the districts of a Delivery.
    pub fn delivered(&mut self, districts: u32) {
        self.drawn.districts += u64::from(DISTRICTS);
        self.drawn.districts_skipped += u64::from(DISTRICTS.saturating_sub(districts));
    }

    /// Adds the measurements of another thread over the same interval.
    pub fn merge(&mut self, other: &Self) {
        for (counters, more) in self.counters.iter_mut().zip(&other.counters) {
            counters.count += more.count;
            counters.rolled_back += more.rolled_back;
            counters.errors += more.errors;
            counters.retries += more.retries;
            counters.response.merge(&more.response);
            counters.service.merge(&more.service);
        }
        for (orders, more) in self.per_second.iter_mut().zip(&other.per_second) {
            *orders += more;
        }
        let (drawn, more) = (&mut self.drawn, &other.drawn);
        drawn.orders += more.orders;
        drawn.lines += more.lines;
        drawn.lines_remote += more.lines_remote;
        drawn.payments += more.payments;
        drawn.payments_remote += more.payments_remote;
        drawn.customers += more.customers;
        drawn.customers_by_name += more.customers_by_name;
        drawn.districts += more.districts;
        drawn.districts_skipped += more.districts_skipped;
        self.due.due += other.due.due;
        self.due.finished += other.due.finished;
        self.due.refused += other.due.refused;
        self.due.left += other.due.left;
        self.due.queued_max += other.due.queued_max;
        self.deferred.queued += other.deferred.queued;
        self.deferred.within_limit += other.deferred.within_limit;
        self.deferred.queued_max += other.deferred.queued_max;
        self.deferred.left += other.deferred.left;
        self.deferred.completion.merge(&other.deferred.completion);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) use record::test_facts;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LoadModel;

    const MS: Duration = Duration::from_millis(1);

    fn at(sent: Instant, ended: Instant) -> Moments {
        Moments { due: sent, sent, ended }
    }

    #[test]
    fn only_what_ends_inside_the_interval_counts() {
        let from = Instant::now();
        let mut measure = Measure::new(from, from + 2_000 * MS);
        let ends = [from - MS, from, from + 1_999 * MS, from + 2_000 * MS];
        let counted = ends.map(|end| measure.record(Kind::NewOrder, at(from - 5 * MS, end), Ended::Committed));
        assert_eq!(counted, [false, true, true, false]);
        let record = measure.into_record(test_facts());
        assert_eq!((record.orders, record.per_second), (2, vec![1, 1]));
        assert!((record.oets_per_minute - 60.0).abs() < 1e-9);
    }

    #[test]
    fn orders_rolled_back_on_purpose_are_in_the_mix_but_not_in_the_orders() {
        let from = Instant::now();
        let mut measure = Measure::new(from, from + 1_000 * MS);
        for how in [Ended::Committed, Ended::RolledBack, Ended::Error] {
            measure.record(Kind::NewOrder, at(from, from + MS), how);
        }
        measure.record(Kind::Payment, at(from, from + MS), Ended::Committed);
        measure.record(Kind::Payment, at(from, from + MS), Ended::Committed);
        let mut twice = measure.clone();
        twice.merge(&measure);
        let record = twice.into_record(test_facts());
        assert_eq!(record.orders, 2);
        let new_order = &record.transactions.new_order;
        assert_eq!((new_order.rolled_back, new_order.errors), (2, 2));
        assert!((record.mix_percent.new_order - 50.0).abs() < 1e-9);
        assert!((record.audit.rollback_percent - 50.0).abs() < 1e-9);
        assert_eq!(record.transactions.payment.response_us.max, 1_000);
    }

    #[test]
    fn process_cpu_grows_with_work() {
        let before = process_cpu().unwrap();
        let mut sum = 0_u64;
        let began = Instant::now();
        while began.elapsed() < 60 * MS {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        let after = process_cpu().unwrap();
        assert!(after.user_s + after.sys_s > before.user_s + before.sys_s, "{sum}");
    }

    #[test]
    fn what_waited_before_it_was_sent_is_in_the_response_and_not_in_the_service_time() {
        let from = Instant::now();
        let mut measure = Measure::new(from, from + 1_000 * MS);
        let moments = Moments { due: from + 10 * MS, sent: from + 60 * MS, ended: from + 62 * MS };
        measure.record(Kind::Payment, moments, Ended::Committed);
        let payment = measure.into_record(test_facts()).transactions.payment;
        assert!((52_000..52_100).contains(&payment.response_us.max), "{}", payment.response_us.max);
        assert_eq!(payment.service_us.max, 2_000);
    }

    #[test]
    fn every_due_transaction_of_the_interval_is_accounted_for_and_none_outside_it() {
        let from = Instant::now();
        let mut measure = Measure::new(from, from + 1_000 * MS);
        for (due_ms, what) in [(0, 0), (10, 0), (20, 1), (30, 2), (999, 0), (1_000, 0), (1_001, 1)] {
            let due = from + due_ms * MS;
            measure.became_due(due);
            match what {
                0 => measure.finished(due),
                1 => measure.refused(due),
                _ => measure.left(due),
            }
        }
        let facts = RunFacts { model: LoadModel::Paced { time_scale: 0.5 }, ..test_facts() };
        let offered = measure.into_record(facts).offered.unwrap();
        assert_eq!((offered.due, offered.finished, offered.refused, offered.left), (5, 3, 1, 1));
    }

    #[test]
    fn a_queued_delivery_counts_when_it_is_done_and_by_its_limit() {
        let from = Instant::now();
        let mut measure = Measure::new(from, from + 200_000 * MS);
        measure.delivery_queued(from, 1);
        measure.delivery_queued(from + MS, 2);
        assert!(measure.delivery_completed(from, from + 80_000 * MS));
        assert!(measure.delivery_completed(from + MS, from + 80_002 * MS));
        measure.delivery_queued(from + 5 * MS, 1);
        measure.delivery_left(from + 5 * MS);
        let facts = RunFacts { deferred_deliveries: true, ..test_facts() };
        let deferred = measure.into_record(facts).deferred.unwrap();
        assert_eq!((deferred.queued, deferred.completed, deferred.left, deferred.queued_max), (3, 2, 1, 2));
        assert!((deferred.within_80_s_percent - 50.0).abs() < 1e-9);
    }

    #[test]
    fn threads_feed_one_series_and_orders_of_a_second_are_those_of_all() {
        let from = Instant::now();
        let series = Arc::new(Series::new(2, 2));
        let mut threads = [0, 1].map(|thread| Measure::new(from, from + 2_000 * MS).with_series(Arc::clone(&series), thread));
        threads[0].record(Kind::NewOrder, at(from, from + 100 * MS), Ended::Committed);
        threads[0].record(Kind::Payment, at(from, from + 1_200 * MS), Ended::Committed);
        threads[1].record(Kind::NewOrder, at(from, from + 300 * MS), Ended::Committed);
        threads[1].record(Kind::NewOrder, at(from, from + 400 * MS), Ended::Error);
        // The first thread passed its second on time; the other one ended before.
        threads[0].tell_series(from + 9_000 * MS);
        for thread in &mut threads {
            thread.close(from + 1_900 * MS);
        }
        let all = series.finish();
        let shown = all.iter().map(|s| (s.orders, s.transactions, s.errors, s.response_max_us)).collect::<Vec<_>>();
        assert_eq!(shown.len(), 2);
        assert_eq!((shown[0].0, shown[0].1, shown[0].2), (2, 2, 1));
        assert!((299_000..=301_000).contains(&shown[0].3), "{shown:?}");
        assert_eq!((shown[1].0, shown[1].1), (0, 1));
    }
}
