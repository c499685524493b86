//! The record of one run of the order-entry load.

use serde::{Deserialize, Serialize};

use crate::histogram::ResponseSummary;

/// Version of [`OrdersRun`]; fields are added, never renamed.
pub const ORDERS_RUN_SCHEMA: u32 = 1;

/// Printed beside every figure of this load.
pub const ORDERS_DISCLAIMER: &str = "derived from the TPC-C specification; not comparable to published TPC-C results";

/// One run of the order-entry load over its measured interval (after warm-up).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrdersRun {
    /// [`ORDERS_RUN_SCHEMA`].
    pub schema: u32,
    /// What the figures may be compared with: [`ORDERS_DISCLAIMER`].
    pub disclaimer: String,
    /// Warehouses in the database.
    pub warehouses: u32,
    /// Terminals, each with its own connection.
    pub users: u32,
    /// Threads of the driver.
    pub threads: u32,
    /// Seed of all random choices of the run.
    pub seed: u64,
    /// How a terminal chooses its warehouse: `all-warehouses` draws one per transaction.
    pub terminals: String,
    /// `closed`: each user sends the next transaction when the last one ended.
    pub load_model: String,
    /// `deck` or `weighted`.
    pub mix: String,
    /// Isolation level of the transactions.
    pub isolation: String,
    /// What the database says of itself.
    pub database_version: String,
    /// Seconds before the measured interval.
    pub warmup_s: f64,
    /// Seconds of the measured interval.
    pub measured_s: f64,
    /// Order entry transactions per minute: new orders committed in the interval, per minute.
    pub oets_per_minute: f64,
    /// New orders committed in the interval; the 1 % rolled back are not in it.
    pub orders: u64,
    /// Each of the five transactions.
    pub transactions: Transactions,
    /// Connections lost and opened again, during the whole run.
    pub connection_losses: u64,
    /// Transactions still running 60 seconds after the interval ended, given up.
    pub unfinished: u64,
    /// CPU time of the driver process over the measured interval.
    pub driver_cpu: CpuTime,
    /// New orders committed in each whole second of the interval.
    pub per_second: Vec<u64>,
    /// Share of each transaction among those finished, in per cent.
    pub mix_percent: MixPercent,
    /// What was really drawn, against the rules of the load.
    pub audit: Audit,
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
    /// Response times in microseconds: first attempt to acknowledgement, retries included,
    /// committed and rolled back on purpose.
    pub response_us: ResponseSummary,
    /// The histogram behind `response_us`: HDR V2, base64, microseconds.
    pub histogram_v2_base64: String,
}

/// CPU time in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub sys_s: f64,
}

/// Per cent of each transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MixPercent {
    /// New-Order, those rolled back on purpose included.
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

/// What was drawn in the measured interval; 0 when there was nothing to draw from.
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
    /// Payments and order statuses that look the customer up by name, per cent (rule: 60).
    pub by_name_percent: f64,
    /// Districts that had no open order when a delivery came, per cent of districts (rule: at most 1).
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
        for field in ["mean", "p50", "p90", "p95", "p99", "p999", "max"] {
            assert!(json["response_us"].get(field).is_some(), "{field}");
        }
        let transactions = serde_json::to_value(Transactions::default()).unwrap();
        for field in ["new_order", "payment", "order_status", "delivery", "stock_level"] {
            assert!(transactions.get(field).is_some(), "{field}");
        }
    }
}
