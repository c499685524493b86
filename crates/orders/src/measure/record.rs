//! Makes the record of a run from its measurements.

use std::time::Duration;

use results::orders_run::{
    Audit, CpuTime, DeferredDeliveries, MixPercent, ORDERS_DISCLAIMER, ORDERS_RUN_SCHEMA, Offered, OrdersRun, SeriesSecond,
    TransactionRecord, Transactions,
};

use super::{Counters, Due, Measure};
use crate::conform::conform;
use crate::database::Mode;
use crate::mix::{Kind, MixRule};
use crate::model::{LoadModel, Terminals};
use crate::pacing::Pacing;

impl Measure {
    /// The record of the run.
    #[must_use]
    pub fn into_record(self, about: RunFacts) -> OrdersRun {
        let measured_s = (self.upto - self.from).as_secs_f64();
        let orders = self.counters[Kind::NewOrder.index()].count;
        let [new_order, payment, order_status, delivery, stock_level] =
            [0, 1, 2, 3, 4].map(|index| record(&self.counters[index]));
        let transactions = Transactions { new_order, payment, order_status, delivery, stock_level };
        let mut run = OrdersRun {
            schema: ORDERS_RUN_SCHEMA,
            disclaimer: ORDERS_DISCLAIMER.to_owned(),
            warehouses: about.warehouses,
            users: about.users,
            threads: about.threads,
            seed: about.seed,
            connections: about.connections,
            active_warehouses: about.active_warehouses,
            terminals: about.terminals.name().to_owned(),
            load_model: about.model.name().to_owned(),
            mode: about.mode.name().to_owned(),
            mix: about.mix.name().to_owned(),
            mix_weights: mix_weights(about.mix),
            time_scale: time_scale(about.model),
            offered: self.offered(&about),
            deliveries: if about.deferred_deliveries { "deferred" } else { "direct" }.to_owned(),
            deferred: about.deferred_deliveries.then(|| self.deferred()),
            isolation: about.isolation.to_owned(),
            database_version: about.database_version,
            warmup_s: about.warmup.as_secs_f64(),
            measured_s,
            oets_per_minute: orders as f64 * 60.0 / measured_s,
            orders,
            mix_percent: transactions.mix_percent(),
            audit: self.audit(),
            per_second: self.per_second,
            transactions,
            connection_losses: about.connection_losses,
            unfinished: about.unfinished,
            driver_cpu: about.driver_cpu,
            interrupted: about.interrupted,
            series: about.series,
            ..OrdersRun::default()
        };
        run.conform = conform(&run);
        run
    }

    /// The due transactions; `None` for a closed loop.
    fn offered(&self, about: &RunFacts) -> Option<Offered> {
        let (rate_per_s, arrivals, queue_limit) = match about.model {
            LoadModel::Closed => return None,
            LoadModel::Paced { time_scale } => {
                let cycle_s = Pacing::new(time_scale).cycle_mean().as_secs_f64();
                (f64::from(about.users) / cycle_s, "paced", about.users)
            }
            LoadModel::Open { rate, arrivals, queue_limit } => (rate.per_s(), arrivals.name(), queue_limit),
        };
        let Due { due, finished, refused, left, queued_max } = self.due;
        let (arrivals, queue_limit) = (arrivals.to_owned(), queue_limit.into());
        Some(Offered { rate_per_s, arrivals, due, finished, refused, left, queued_max, queue_limit })
    }

    fn deferred(&self) -> DeferredDeliveries {
        let deferred = &self.deferred;
        let completed = deferred.completion.count();
        DeferredDeliveries {
            queued: deferred.queued,
            completed,
            within_80_s_percent: percent(deferred.within_limit, completed),
            queued_max: deferred.queued_max,
            left: deferred.left,
            completion_us: deferred.completion.summary(),
            histogram_v2_base64: deferred.completion.to_v2_base64(),
        }
    }

    fn audit(&self) -> Audit {
        let drawn = &self.drawn;
        let orders = &self.counters[Kind::NewOrder.index()];
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

/// The parts of the record that are not measured.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields of OrdersRun of the same names")]
pub struct RunFacts {
    pub warehouses: u32,
    pub active_warehouses: u32,
    pub users: u32,
    pub connections: u32,
    pub threads: u32,
    pub model: LoadModel,
    pub terminals: Terminals,
    pub mode: Mode,
    pub deferred_deliveries: bool,
    pub seed: u64,
    pub mix: MixRule,
    pub isolation: &'static str,
    pub database_version: String,
    pub warmup: Duration,
    pub connection_losses: u64,
    pub unfinished: u64,
    pub driver_cpu: CpuTime,
    pub interrupted: bool,
    pub series: Vec<SeriesSecond>,
}

/// CPU time that this process has used so far, from /proc/self/stat.
///
/// The kernel reports it in ticks of 10 ms on every architecture. `None` if there is no /proc.
#[must_use]
pub fn process_cpu() -> Option<CpuTime> {
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command name may contain spaces and parentheses, so fields are counted after the last parenthesis.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user_ticks: u64 = fields.next()?.parse().ok()?;
    let sys_ticks: u64 = fields.next()?.parse().ok()?;
    Some(CpuTime { user_s: user_ticks as f64 / TICKS_PER_S, sys_s: sys_ticks as f64 / TICKS_PER_S })
}

fn record(counters: &Counters) -> TransactionRecord {
    TransactionRecord {
        count: counters.count,
        rolled_back: counters.rolled_back,
        errors: counters.errors,
        retries: counters.retries,
        response_us: counters.response.summary(),
        histogram_v2_base64: counters.response.to_v2_base64(),
        service_us: counters.service.summary(),
        service_histogram_v2_base64: counters.service.to_v2_base64(),
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn mix_weights(rule: MixRule) -> Option<MixPercent> {
    let MixRule::Weights(weights) = rule else { return None };
    let [new_order, payment, order_status, delivery, stock_level] = weights.percent();
    Some(MixPercent { new_order, payment, order_status, delivery, stock_level })
}

fn time_scale(model: LoadModel) -> Option<f64> {
    match model {
        LoadModel::Paced { time_scale } if time_scale != 1.0 => Some(time_scale),
        _ => None,
    }
}

/// Facts of an imaginary run.
#[cfg(test)]
pub(crate) fn test_facts() -> RunFacts {
    RunFacts {
        warehouses: 2,
        active_warehouses: 2,
        users: 4,
        connections: 4,
        threads: 1,
        model: LoadModel::Closed,
        terminals: Terminals::AllWarehouses,
        mode: Mode::Statements,
        deferred_deliveries: false,
        seed: 1,
        mix: MixRule::Deck,
        isolation: "read committed, row locks",
        database_version: "PostgreSQL 15".to_owned(),
        warmup: Duration::from_millis(1),
        connection_losses: 0,
        unfinished: 0,
        driver_cpu: CpuTime::default(),
        interrupted: false,
        series: Vec::new(),
    }
}
