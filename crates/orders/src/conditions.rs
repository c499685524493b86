//! The twelve consistency conditions (clause 3.3.2), and what each came to.

use std::time::Instant;

use serde::Serialize;

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

/// The twelve conditions, all on one snapshot.
#[derive(Debug)]
pub struct Checked {
    /// Deliveries committed since the load, one for each district of a Delivery; condition 11 counts them.
    pub deliveries: u64,
    /// Each condition.
    pub outcomes: Vec<CheckOutcome>,
}

impl CheckOutcome {
    /// Of condition `number`, found violated so often by a check that began then.
    pub(crate) fn new(number: u32, name: &str, violations: u64, example: Option<String>, began: Instant) -> Self {
        let seconds = began.elapsed().as_secs_f64();
        Self { number, name: name.to_owned(), passed: violations == 0, violations, example, seconds }
    }
}
