//! What the terminals of a run measured, and the record it becomes.

use std::time::{Duration, Instant};

use results::histogram::ResponseTimes;
use results::orders_run::{
    Audit, CpuTime, MixPercent, ORDERS_DISCLAIMER, ORDERS_RUN_SCHEMA, OrdersRun, TransactionRecord, Transactions,
};

use crate::cuts::Cutter;
use crate::database::Mode;
use crate::inputs::{CustomerKey, NewOrderInput};
use crate::mix::{Kind, MixRule};
use crate::random::DISTRICTS;

/// Counts and response times of one transaction.
#[derive(Debug, Default, Clone)]
struct Tally {
    count: u64,
    rolled_back: u64,
    errors: u64,
    retries: u64,
    response: ResponseTimes,
}

/// What was drawn, to be held against the rules of the load.
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
    /// Rolled back on purpose.
    RolledBack,
    /// By an error.
    Error,
}

/// The measurements of one thread; only what ends inside the interval counts.
#[derive(Debug, Clone)]
pub struct Measure {
    from: Instant,
    upto: Instant,
    tallies: [Tally; 5],
    drawn: Drawn,
    per_second: Vec<u64>,
    cutter: Option<Cutter>,
}

impl Measure {
    /// Measures the interval from `from` to `upto`.
    #[must_use]
    pub fn new(from: Instant, upto: Instant) -> Self {
        let seconds = (upto - from).as_secs() as usize;
        Self { from, upto, tallies: Default::default(), drawn: Drawn::default(), per_second: vec![0; seconds], cutter: None }
    }

    /// Tells what was measured at fixed moments of the interval as well.
    #[must_use]
    pub fn with_cuts(self, cutter: Option<Cutter>) -> Self {
        Self { cutter, ..self }
    }

    /// Tells the cuts that are due at `now`.
    pub(crate) fn tell_cuts(&mut self, now: Instant) {
        if let Some(mut cutter) = self.cutter.take() {
            cutter.tell(self, self.from, self.upto, now);
            self.cutter = Some(cutter);
        }
    }

    /// Nothing measured yet, over the same interval.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.from, self.upto)
    }

    /// The same with the interval ending at `upto`, when nothing was measured after it yet.
    pub(crate) fn cut_down_to(&self, upto: Instant) -> Self {
        let seconds = (upto - self.from).as_secs() as usize;
        let mut cut = Self { upto, cutter: None, ..self.clone() };
        cut.per_second.truncate(seconds);
        cut
    }

    /// Whether something that ends now counts.
    #[must_use]
    pub fn counts(&self, now: Instant) -> bool {
        self.from <= now && now < self.upto
    }

    /// Records a transaction that began at `began` and ended at `ended`; returns whether it counts.
    pub fn record(&mut self, kind: Kind, began: Instant, ended: Instant, how: Ended) -> bool {
        self.tell_cuts(ended);
        if !self.counts(ended) {
            return false;
        }
        let tally = &mut self.tallies[kind.index()];
        match how {
            Ended::Committed => tally.count += 1,
            Ended::RolledBack => tally.rolled_back += 1,
            Ended::Error => {
                tally.errors += 1;
                return true;
            }
        }
        let response_us = (ended - began).as_micros();
        tally.response.record(u64::try_from(response_us).unwrap_or(u64::MAX));
        if kind == Kind::NewOrder && how == Ended::Committed {
            let second = (ended - self.from).as_secs() as usize;
            if let Some(orders) = self.per_second.get_mut(second) {
                *orders += 1;
            }
        }
        true
    }

    /// Counts a repeat after a deadlock or serialization failure.
    pub fn retry(&mut self, kind: Kind, now: Instant) {
        if self.counts(now) {
            self.tallies[kind.index()].retries += 1;
        }
    }

    /// Counts what a New-Order drew.
    pub fn drew_order(&mut self, input: &NewOrderInput) {
        self.drawn.orders += 1;
        self.drawn.lines += input.lines.len() as u64;
        let remote = input.lines.iter().filter(|line| line.supply_warehouse != input.warehouse);
        self.drawn.lines_remote += remote.count() as u64;
    }

    /// Counts what a Payment drew.
    pub fn drew_payment(&mut self, remote: bool) {
        self.drawn.payments += 1;
        self.drawn.payments_remote += u64::from(remote);
    }

    /// Counts how a Payment or Order-Status named its customer.
    pub fn drew_customer(&mut self, customer: CustomerKey) {
        self.drawn.customers += 1;
        self.drawn.customers_by_name += u64::from(matches!(customer, CustomerKey::LastName(_)));
    }

    /// Counts the districts of a Delivery.
    pub fn delivered(&mut self, districts: u32) {
        self.drawn.districts += u64::from(DISTRICTS);
        self.drawn.districts_skipped += u64::from(DISTRICTS.saturating_sub(districts));
    }

    /// Adds what another thread measured over the same interval.
    pub fn merge(&mut self, other: &Self) {
        for (tally, more) in self.tallies.iter_mut().zip(&other.tallies) {
            tally.count += more.count;
            tally.rolled_back += more.rolled_back;
            tally.errors += more.errors;
            tally.retries += more.retries;
            tally.response.merge(&more.response);
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
    }

    /// The record of the run.
    #[must_use]
    pub fn into_record(self, about: RunFacts) -> OrdersRun {
        let measured_s = (self.upto - self.from).as_secs_f64();
        let orders = self.tallies[Kind::NewOrder.index()].count;
        let [new_order, payment, order_status, delivery, stock_level] = [0, 1, 2, 3, 4].map(|index| record(&self.tallies[index]));
        OrdersRun {
            schema: ORDERS_RUN_SCHEMA,
            disclaimer: ORDERS_DISCLAIMER.to_owned(),
            warehouses: about.warehouses,
            users: about.users,
            threads: about.threads,
            seed: about.seed,
            terminals: "all-warehouses".to_owned(),
            load_model: "closed".to_owned(),
            mix: about.mix.name().to_owned(),
            mode: about.mode.name().to_owned(),
            isolation: about.isolation.to_owned(),
            database_version: about.database_version,
            warmup_s: about.warmup.as_secs_f64(),
            measured_s,
            oets_per_minute: orders as f64 * 60.0 / measured_s,
            orders,
            mix_percent: self.mix_percent(),
            audit: self.audit(),
            per_second: self.per_second,
            transactions: Transactions { new_order, payment, order_status, delivery, stock_level },
            connection_losses: about.connection_losses,
            unfinished: about.unfinished,
            driver_cpu: about.driver_cpu,
            ..OrdersRun::default()
        }
    }

    fn mix_percent(&self) -> MixPercent {
        let done = |kind: Kind| {
            let tally = &self.tallies[kind.index()];
            tally.count + tally.rolled_back
        };
        let all = Kind::ALL.into_iter().map(done).sum();
        MixPercent {
            new_order: percent(done(Kind::NewOrder), all),
            payment: percent(done(Kind::Payment), all),
            order_status: percent(done(Kind::OrderStatus), all),
            delivery: percent(done(Kind::Delivery), all),
            stock_level: percent(done(Kind::StockLevel), all),
        }
    }

    fn audit(&self) -> Audit {
        let drawn = &self.drawn;
        let orders = &self.tallies[Kind::NewOrder.index()];
        Audit {
            rollback_percent: percent(orders.rolled_back, orders.count + orders.rolled_back),
            lines_per_order: percent(drawn.lines, drawn.orders) / 100.0,
            remote_lines_percent: percent(drawn.lines_remote, drawn.lines),
            remote_payments_percent: percent(drawn.payments_remote, drawn.payments),
            by_name_percent: percent(drawn.customers_by_name, drawn.customers),
            skipped_deliveries_percent: percent(drawn.districts_skipped, drawn.districts),
        }
    }
}

/// What a record says besides the measurements.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields of OrdersRun of the same names")]
pub struct RunFacts {
    pub warehouses: u32,
    pub users: u32,
    pub threads: u32,
    pub seed: u64,
    pub mix: MixRule,
    pub mode: Mode,
    pub isolation: &'static str,
    pub database_version: String,
    pub warmup: Duration,
    pub connection_losses: u64,
    pub unfinished: u64,
    pub driver_cpu: CpuTime,
}

/// CPU time that this process has used so far, from /proc/self/stat.
///
/// The kernel counts in ticks of 10 ms there on every architecture; `None` where there is no /proc.
#[must_use]
pub fn process_cpu() -> Option<CpuTime> {
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command name may hold spaces and parentheses: count fields after its last one.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user_ticks: u64 = fields.next()?.parse().ok()?;
    let sys_ticks: u64 = fields.next()?.parse().ok()?;
    Some(CpuTime { user_s: user_ticks as f64 / TICKS_PER_S, sys_s: sys_ticks as f64 / TICKS_PER_S })
}

fn record(tally: &Tally) -> TransactionRecord {
    TransactionRecord {
        count: tally.count,
        rolled_back: tally.rolled_back,
        errors: tally.errors,
        retries: tally.retries,
        response_us: tally.response.summary(),
        histogram_v2_base64: tally.response.to_v2_base64(),
        ..TransactionRecord::default()
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Facts of a run that was never made.
#[cfg(test)]
pub(crate) fn test_facts() -> RunFacts {
    RunFacts {
        warehouses: 2,
        users: 4,
        threads: 1,
        seed: 1,
        mix: MixRule::Deck,
        mode: Mode::Statements,
        isolation: "read committed, row locks",
        database_version: "PostgreSQL 15".to_owned(),
        warmup: Duration::from_millis(1),
        connection_losses: 0,
        unfinished: 0,
        driver_cpu: CpuTime::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_what_ends_inside_the_interval_counts() {
        let from = Instant::now();
        let mut measure = Measure::new(from, from + 2_000 * MS);
        let ends = [from - MS, from, from + 1_999 * MS, from + 2_000 * MS];
        let counted = ends.map(|end| measure.record(Kind::NewOrder, from - 5 * MS, end, Ended::Committed));
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
            measure.record(Kind::NewOrder, from, from + MS, how);
        }
        measure.record(Kind::Payment, from, from + MS, Ended::Committed);
        measure.record(Kind::Payment, from, from + MS, Ended::Committed);
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
}
