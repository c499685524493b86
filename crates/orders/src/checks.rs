//! The twelve consistency conditions (clause 3.3.2) and the check of acknowledged orders.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::ack_log;
use crate::database::Database;
use crate::error::OrdersError;
use crate::limits::{ACK_CHUNK_ROWS, ACK_EXAMPLES_MAX};

/// What the conditions 1 to 12 of clause 3.3.2 say.
pub(crate) const CONDITIONS: [&str; 12] = [
    "W_YTD = sum of D_YTD",
    "D_NEXT_O_ID - 1 = newest order = newest open order",
    "open orders of a district have no gap",
    "sum of O_OL_CNT = order lines of the district",
    "an order has no carrier exactly when it is open",
    "O_OL_CNT = lines of the order",
    "a line has no delivery date exactly when its order has no carrier",
    "W_YTD = sum of H_AMOUNT of the warehouse",
    "D_YTD = sum of H_AMOUNT of the district",
    "C_BALANCE = delivered amounts - H_AMOUNT of the customer",
    "orders - open orders = 2,100 in each district, and one more per delivery committed",
    "C_BALANCE + C_YTD_PAYMENT = delivered amounts of the customer",
];

/// An order that the database acknowledged to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct AcknowledgedOrder {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID.
    pub district: u32,
    /// O_ID.
    pub order: u32,
}

/// What one consistency condition came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckOutcome {
    /// Number of the condition, 1 to 12.
    pub number: u32,
    /// What it says.
    pub name: String,
    /// Whether it holds everywhere.
    pub passed: bool,
    /// Warehouses, districts, orders or customers where it does not hold.
    pub violations: u64,
    /// The first of them.
    pub example: Option<String>,
    /// Seconds the check took.
    pub seconds: f64,
}

impl CheckOutcome {
    /// Of condition `number`, found violated so often by a check that began then.
    pub(crate) fn new(number: u32, name: &str, violations: u64, example: Option<String>, began: Instant) -> Self {
        let seconds = began.elapsed().as_secs_f64();
        Self { number, name: name.to_owned(), passed: violations == 0, violations, example, seconds }
    }
}

/// What became of the orders in an acknowledgement log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Acknowledged {
    /// Orders in the log.
    pub orders: u64,
    /// Orders acknowledged twice: the same number was given to two customers.
    pub repeated: u64,
    /// Orders that are not in the database.
    pub missing: u64,
    /// Some of those missing.
    pub examples: Vec<AcknowledgedOrder>,
    /// Whether the log ended in the middle of a line, as it may when the driver was killed.
    pub cut_short: bool,
}

/// Everything `check` found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckReport {
    /// Version of this record.
    pub schema: u32,
    /// Whether every condition holds and every acknowledged order is present.
    pub passed_all: bool,
    /// Conditions that hold.
    pub passed: u32,
    /// Conditions that do not.
    pub failed: u32,
    /// Whether condition 11 took deliveries since the load into account.
    pub after_run: bool,
    /// Each condition.
    pub checks: Vec<CheckOutcome>,
    /// The acknowledgement log, when one was given.
    pub acknowledged: Option<Acknowledged>,
}

/// Runs the twelve checks on one snapshot, then looks up every acknowledged order.
///
/// # Errors
/// When the database cannot be reached or holds no loaded schema, and when the log is unreadable.
pub async fn check<D: Database>(database: &D, after_run: bool, ack_log: Option<&Path>) -> Result<CheckReport, OrdersError> {
    // The log first: an unreadable one shall not cost the minutes of the checks.
    let log = ack_log.map(ack_log::read).transpose()?;
    let checks = database.check(after_run).await?;
    let acknowledged = match log {
        Some(log) => Some(look_up(database, log).await?),
        None => None,
    };
    let failed = checks.iter().filter(|check| !check.passed).count();
    let acknowledged_ok =
        acknowledged.as_ref().is_none_or(|acknowledged| acknowledged.missing == 0 && acknowledged.repeated == 0);
    Ok(CheckReport {
        schema: 1,
        passed_all: failed == 0 && acknowledged_ok,
        passed: (checks.len() - failed) as u32,
        failed: failed as u32,
        after_run,
        checks,
        acknowledged,
    })
}

async fn look_up<D: Database>(database: &D, log: ack_log::AckLogContents) -> Result<Acknowledged, OrdersError> {
    let mut orders = log.orders;
    let count = orders.len();
    orders.sort_unstable();
    orders.dedup();
    let mut missing = 0;
    let mut examples = Vec::new();
    for chunk in orders.chunks(ACK_CHUNK_ROWS) {
        let gone = database.missing(chunk).await?;
        missing += gone.len() as u64;
        let room = ACK_EXAMPLES_MAX - examples.len();
        examples.extend(gone.into_iter().take(room));
    }
    Ok(Acknowledged {
        orders: count as u64,
        repeated: (count - orders.len()) as u64,
        missing,
        examples,
        cut_short: log.cut_short,
    })
}
