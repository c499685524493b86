//! The twelve consistency conditions (clause 3.3.2), and their results.

use std::time::Instant;

use serde::Serialize;

/// Text of the conditions 1 to 12 of clause 3.3.2.
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

/// Result of one consistency condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckOutcome {
    /// Number of the condition, 1 to 12.
    pub number: u32,
    /// Text of the condition.
    pub name: String,
    /// Whether it holds everywhere.
    pub passed: bool,
    /// Warehouses, districts, orders or customers where it does not hold.
    pub violations: u64,
    /// The first violation.
    pub example: Option<String>,
    /// Seconds the check took.
    pub seconds: f64,
}

/// The twelve conditions, all on one snapshot.
#[derive(Debug)]
pub struct Checked {
    /// Deliveries committed since the load, one for each district of a Delivery; condition 11 counts them.
    pub deliveries: u64,
    /// Result of each condition.
    pub outcomes: Vec<CheckOutcome>,
}

impl CheckOutcome {
    /// Result of condition `number` with this number of violations; the check began at `began`.
    pub(crate) fn new(number: u32, name: &str, violations: u64, example: Option<String>, began: Instant) -> Self {
        let seconds = began.elapsed().as_secs_f64();
        Self { number, name: name.to_owned(), passed: violations == 0, violations, example, seconds }
    }
}
