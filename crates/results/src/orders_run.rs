//! The record of one run of the order-entry load.

use serde::{Deserialize, Serialize};

use crate::histogram::ResponseSummary;

/// Version of [`OrdersRun`]; fields are added, never renamed.
pub const ORDERS_RUN_SCHEMA: u32 = 1;

/// Printed with every figure of this load.
pub const ORDERS_DISCLAIMER: &str = "derived from the TPC-C specification; not comparable to published TPC-C results";

/// One run of the order-entry load over its measured interval (after warm-up).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OrdersRun {
    /// [`ORDERS_RUN_SCHEMA`].
    pub schema: u32,
    /// Restriction on the use of the figures: [`ORDERS_DISCLAIMER`].
    pub disclaimer: String,
    /// Warehouses in the database.
    pub warehouses: u32,
    /// Terminals (closed, paced) or workers that carry out due transactions (open).
    pub users: u32,
    /// Database sessions that the users share; 0 in records of older versions: one per user.
    #[serde(default)]
    pub connections: u32,
    /// Threads of the driver.
    pub threads: u32,
    /// Seed of all random choices of the run.
    pub seed: u64,
    /// Number of warehouses, from the first, that the run used; 0 in records of older versions: all.
    #[serde(default)]
    pub active_warehouses: u32,
    /// How a terminal chooses its warehouse: `all-warehouses` draws one per transaction,
    /// `home-warehouse` keeps one (ten terminals per warehouse).
    pub terminals: String,
    /// `closed`: each user sends the next transaction when the last one has ended. `paced`: keying and
    /// think times of the specification. `open-constant`, `open-poisson`: transactions become due at
    /// a rate that does not depend on the database.
    pub load_model: String,
    /// `statements` of the client or `functions` stored in the database; empty in records of
    /// older versions: statements.
    #[serde(default)]
    pub mode: String,
    /// `deck` or `weights`.
    pub mix: String,
    /// Weights of the mix in per cent, if it was not dealt from the deck.
    #[serde(default)]
    pub mix_weights: Option<MixPercent>,
    /// Factor for keying and think times (paced); absent for the times of the specification.
    #[serde(default)]
    pub time_scale: Option<f64>,
    /// The offered load and its results (open model only).
    #[serde(default)]
    pub offered: Option<Offered>,
    /// `direct` or `deferred`; empty in records of older versions: direct.
    #[serde(default)]
    pub deliveries: String,
    /// Deliveries that terminals only queued and sessions carried out later (deferred only).
    #[serde(default)]
    pub deferred: Option<DeferredDeliveries>,
    /// Isolation level of the transactions.
    pub isolation: String,
    /// Version of the database, as the database reports it.
    pub database_version: String,
    /// Seconds before the measured interval.
    pub warmup_s: f64,
    /// Seconds of the measured interval.
    pub measured_s: f64,
    /// Whether the user ended the interval early; then all figures cover only the part that was measured.
    #[serde(default)]
    pub interrupted: bool,
    /// Order entry transactions per minute: new orders committed in the interval, per minute.
    pub oets_per_minute: f64,
    /// New orders committed in the interval, without the 1 % that are rolled back.
    pub orders: u64,
    /// Each of the five transactions.
    pub transactions: Transactions,
    /// Connections lost and reopened during the complete run.
    pub connection_losses: u64,
    /// Transactions that still ran after the interval and were abandoned: after 60 s without a success, or 240 s after its end.
    pub unfinished: u64,
    /// CPU time of the driver process over the measured interval.
    pub driver_cpu: CpuTime,
    /// New orders committed in each whole second of the interval.
    pub per_second: Vec<u64>,
    /// Each whole second of the interval, in order.
    #[serde(default)]
    pub series: Vec<SeriesSecond>,
    /// Share of each transaction among the finished ones, in per cent.
    pub mix_percent: MixPercent,
    /// The drawn inputs, for comparison with the rules of the load.
    pub audit: Audit,
    /// The run compared with the ranges of the specification.
    #[serde(default)]
    pub conform: Conform,
    /// The drivers whose records were merged into this one; empty for a single driver.
    #[serde(default)]
    pub drivers: Vec<DriverRecord>,
}

/// One record for each of the five transactions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Transactions {
    /// New-Order.
    pub new_order: TransactionRecord,
    /// Payment.
    pub payment: TransactionRecord,
    /// Order-Status.
    pub order_status: TransactionRecord,
    /// Delivery of the ten districts of a warehouse.
    pub delivery: TransactionRecord,
    /// Stock-Level.
    pub stock_level: TransactionRecord,
}

impl Transactions {
    /// Share of each transaction among the finished ones, in per cent; all 0 if there are none.
    #[must_use]
    pub fn mix_percent(&self) -> MixPercent {
        let each = [&self.new_order, &self.payment, &self.order_status, &self.delivery, &self.stock_level];
        let whole: u64 = each.iter().map(|record| record.finished()).sum();
        let percent = |record: &TransactionRecord| record.finished() as f64 * 100.0 / whole.max(1) as f64;
        MixPercent {
            new_order: percent(&self.new_order),
            payment: percent(&self.payment),
            order_status: percent(&self.order_status),
            delivery: percent(&self.delivery),
            stock_level: percent(&self.stock_level),
        }
    }
}

/// Counts and response times of one transaction over the measured interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TransactionRecord {
    /// Committed.
    pub count: u64,
    /// Rolled back on purpose: the 1 % of New-Orders with an unused item.
    pub rolled_back: u64,
    /// Ended by an error that is neither retried nor a lost connection.
    pub errors: u64,
    /// Repeated after a deadlock or serialization failure.
    pub retries: u64,
    /// Response times in microseconds, including retries, of transactions that were committed or rolled back on purpose.
    /// Measured from the first attempt (closed) or from the due time (paced, open)
    /// to the acknowledgement; for a deferred Delivery, until it was queued.
    pub response_us: ResponseSummary,
    /// The histogram of `response_us`: HDR V2, base64, microseconds.
    pub histogram_v2_base64: String,
    /// Service times in microseconds: from the first attempt on a session to the acknowledgement,
    /// without the wait before; the same as `response_us` in a closed loop in which each user has
    /// its own session.
    #[serde(default)]
    pub service_us: ResponseSummary,
    /// The histogram of `service_us`: HDR V2, base64, microseconds; empty in records of older versions.
    #[serde(default)]
    pub service_histogram_v2_base64: String,
}

impl TransactionRecord {
    /// Committed or rolled back on purpose.
    #[must_use]
    pub const fn finished(&self) -> u64 {
        self.count + self.rolled_back
    }
}

/// The offered load of an open run over the measured interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// Intended rate of due transactions per second.
    pub rate_per_s: f64,
    /// `constant` or `poisson`.
    pub arrivals: String,
    /// Became due in the interval.
    pub due: u64,
    /// Of these, started and ended, with any result.
    pub finished: u64,
    /// Of these, never started because the queue of due transactions was full.
    pub refused: u64,
    /// Of these, still queued when the run ended: never started.
    pub left: u64,
    /// Largest number of transactions that were due and not yet started at the same time.
    pub queued_max: u64,
    /// Capacity of the queue of due transactions.
    pub queue_limit: u64,
}

/// Deferred deliveries over the measured interval (clause 2.7.2).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeferredDeliveries {
    /// Queued in the interval.
    pub queued: u64,
    /// Completed in the interval.
    pub completed: u64,
    /// Of the completed ones, those completed within 80 seconds after they were queued, in per cent.
    pub within_80_s_percent: f64,
    /// Largest number of deliveries in the queue at the same time.
    pub queued_max: u64,
    /// Still queued when the run ended: never carried out.
    pub left: u64,
    /// Time from queueing to the acknowledgement of the complete delivery, in microseconds.
    pub completion_us: ResponseSummary,
    /// The histogram of `completion_us`: HDR V2, base64, microseconds.
    pub histogram_v2_base64: String,
}

/// One second of the measured interval; a transaction belongs to the second in which it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesSecond {
    /// Seconds since the start of the interval, from 0.
    pub second: u32,
    /// New orders committed.
    pub orders: u64,
    /// Transactions of all kinds, without errors.
    pub transactions: u64,
    /// Transactions that ended by an error.
    pub errors: u64,
    /// Median response time of all kinds, in microseconds; 0 if no transaction ended. Absent from the merged
    /// record of several drivers, which keep no histogram of each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_p50_us: Option<u64>,
    /// 90th percentile of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_p90_us: Option<u64>,
    /// Longest of the same.
    pub response_max_us: u64,
}

/// A run compared with the ranges of the specification.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conform {
    /// Whether every judged item is within its range; false if no item was judged.
    pub passed: bool,
    /// Further information for the reader, such as scaled times.
    pub notes: Vec<String>,
    /// Every item.
    pub items: Vec<ConformItem>,
}

/// One rule, the measured value, and the allowed range.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConformItem {
    /// The rule, with its unit.
    pub name: String,
    /// Clause of the TPC-C specification (5.11) that contains the rule.
    pub clause: String,
    /// The run's value.
    pub found: f64,
    /// Smallest allowed value, if there is one.
    pub least: Option<f64>,
    /// Largest allowed value, if there is one.
    pub most: Option<f64>,
    /// Whether `found` is in the range; true for an item that was not judged.
    pub passed: bool,
    /// Why the item was not judged, such as too few transactions or a rule of another load model.
    pub not_judged: Option<String>,
}

/// One of several drivers of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DriverRecord {
    /// Its name in the run.
    pub name: String,
    /// Name of its host.
    pub host: String,
    /// Users that it drove.
    pub users: u32,
    /// `finished`, `failed` (it reported an error) or `lost` (its heartbeats stopped).
    pub status: String,
    /// Seconds of the measured interval without it.
    pub lost_s: f64,
    /// Number of its first user in the run.
    #[serde(default)]
    pub first_user: u32,
    /// Seconds of the interval for which its measurements are in the merged record.
    #[serde(default)]
    pub counted_s: f64,
    /// Time of its last heartbeat in seconds after the start of the interval, negative in the warm-up;
    /// absent if it finished.
    #[serde(default)]
    pub missing_from_s: Option<f64>,
    /// Its own order entry transactions per minute, over all of its known measurements.
    #[serde(default)]
    pub oets_per_minute: f64,
    /// Largest error of its start time against the common clock, in milliseconds.
    #[serde(default)]
    pub start_error_ms: f64,
    /// Why it failed or counts as lost.
    #[serde(default)]
    pub reason: Option<String>,
}

/// CPU time in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub sys_s: f64,
}

/// Share of each transaction in per cent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MixPercent {
    /// New-Order, including those rolled back on purpose.
    pub new_order: f64,
    /// Payment.
    pub payment: f64,
    /// Order-Status.
    pub order_status: f64,
    /// Delivery.
    pub delivery: f64,
    /// Stock-Level.
    pub stock_level: f64,
}

/// Inputs drawn in the measured interval; 0 if none were drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// New-Orders rolled back on purpose, per cent (rule: 1).
    pub rollback_percent: f64,
    /// Mean lines of an order (rule: 10).
    pub lines_per_order: f64,
    /// Lines supplied by another warehouse, per cent (rule: 1; 0 with one warehouse).
    pub remote_lines_percent: f64,
    /// Payments by a customer of another warehouse, per cent (rule: 15; 0 with one warehouse).
    pub remote_payments_percent: f64,
    /// Payments and order statuses that select the customer by name, per cent (rule: 60).
    pub by_name_percent: f64,
    /// Districts without an undelivered order at the time of a delivery, per cent of districts (rule: at most 1).
    pub skipped_deliveries_percent: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_keeps_the_field_names_readers_depend_on() {
        let record = TransactionRecord::default();
        let json = serde_json::to_value(&record).unwrap();
        for field in ["count", "rolled_back", "errors", "retries", "histogram_v2_base64"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        for field in ["service_us", "service_histogram_v2_base64"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        for field in ["mean", "p50", "p90", "p95", "p99", "p999", "max"] {
            assert!(json["response_us"].get(field).is_some(), "{field}");
        }
        let transactions = serde_json::to_value(Transactions::default()).unwrap();
        for field in ["new_order", "payment", "order_status", "delivery", "stock_level"] {
            assert!(transactions.get(field).is_some(), "{field}");
        }
    }

    #[test]
    fn a_record_of_before_the_load_models_is_read() {
        let mut json = serde_json::to_value(OrdersRun { users: 8, ..OrdersRun::default() }).unwrap();
        let fields = json.as_object_mut().unwrap();
        for field in [
            "connections",
            "active_warehouses",
            "mode",
            "mix_weights",
            "time_scale",
            "offered",
            "deliveries",
            "deferred",
            "series",
            "conform",
            "drivers",
        ] {
            assert!(fields.remove(field).is_some(), "{field}");
        }
        let run: OrdersRun = serde_json::from_value(json).unwrap();
        assert_eq!((run.users, run.connections, run.series.len(), run.conform.passed), (8, 0, 0, false));
    }
}
