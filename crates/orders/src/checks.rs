//! The twelve consistency conditions (clause 3.3.2) and the check of acknowledged orders.

use std::path::Path;

use serde::Serialize;

use crate::ack_log::{self, AcknowledgedOrder};
use crate::conditions::{CheckOutcome, Checked};
use crate::database::Database;
use crate::error::OrdersError;
use crate::limits::{ACK_CHUNK_ROWS, ACK_EXAMPLES_MAX};

/// Result of checking the orders in an acknowledgement log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Acknowledged {
    /// Orders in the log.
    pub orders: u64,
    /// Orders acknowledged twice: the same number was given to two customers.
    pub repeated: u64,
    /// Orders that are not in the database.
    pub missing: u64,
    /// Some of the missing orders.
    pub examples: Vec<AcknowledgedOrder>,
    /// Whether the log ended in the middle of a line, which can happen if the driver was killed.
    pub cut_short: bool,
}

/// Complete result of `check`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckReport {
    /// Version of this record.
    pub schema: u32,
    /// Whether every condition holds and every acknowledged order is present.
    pub passed_all: bool,
    /// Conditions that hold.
    pub passed: u32,
    /// Conditions that do not hold.
    pub failed: u32,
    /// Whether a run has changed the database: deliveries were committed since the load.
    pub after_run: bool,
    /// Those deliveries, one for each district of a Delivery; condition 11 takes them into account.
    pub deliveries: u64,
    /// Result of each condition.
    pub checks: Vec<CheckOutcome>,
    /// Result of the acknowledgement log, if one was given.
    pub acknowledged: Option<Acknowledged>,
}

/// Runs the twelve checks on one snapshot, then looks up every acknowledged order.
///
/// # Errors
/// The database cannot be reached or contains no loaded schema, or the log is unreadable.
pub async fn check<D: Database>(database: &D, ack_log: Option<&Path>) -> Result<CheckReport, OrdersError> {
    // The log first, so that an unreadable one is reported before the checks, which can take minutes.
    let log = ack_log.map(ack_log::read).transpose()?;
    let Checked { deliveries, outcomes: checks } = database.check().await?;
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
        after_run: deliveries > 0,
        deliveries,
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
        let left = ACK_EXAMPLES_MAX - examples.len();
        examples.extend(gone.into_iter().take(left));
    }
    Ok(Acknowledged {
        orders: count as u64,
        repeated: (count - orders.len()) as u64,
        missing,
        examples,
        cut_short: log.cut_short,
    })
}
