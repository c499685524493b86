//! The isolation tests of clause 3.4.2: two sessions, one of which stops before its COMMIT.
//!
//! They change rows as the transactions do, so the consistency conditions hold before and after;
//! the prices that the seventh test changes are restored. Delivery and New-Order read what they
//! change once and under locks, so the tests check the rows that the two leave; Order-Status reads
//! one snapshot, which is read twice.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::database::{Database, DeliveryAnswer, Failure, NewOrderAnswer, Terminal};
use crate::error::OrdersError;
use crate::inputs::{CustomerKey, DeliveryInput, LineInput, NewOrderInput, OrderStatusInput, PaymentInput};
use crate::limits::{ISOLATION_ANSWER_S, ISOLATION_BLOCKED_MS};

/// Where the tests work: warehouse 1, district 1.
const PLACE: (u32, u32) = (1, 1);
const CUSTOMER: u32 = 7;

/// A terminal that can stop in the middle of a transaction.
#[expect(async_fn_in_trait, reason = "sessions stay on the thread that opened them")]
pub trait Stepwise: Terminal {
    /// New-Order up to its COMMIT.
    async fn open_new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure>;
    /// Delivery up to its COMMIT.
    async fn open_delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure>;
    /// Commits or rolls back the open transaction.
    async fn end(&mut self, commit: bool) -> Result<(), Failure>;
    /// The single number that a query returns.
    async fn number(&mut self, text: &str) -> Result<i64, Failure>;
    /// A change in its own transaction.
    async fn change(&mut self, text: &str) -> Result<(), Failure>;
    /// Runs the same query twice, `apart` apart, on one snapshot as Order-Status does.
    async fn twice(&mut self, text: &str, apart: Duration) -> Result<[i64; 2], Failure>;
}

/// Result of one isolation test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IsolationOutcome {
    /// The clause, `3.4.2.1` to `3.4.2.9`.
    pub clause: String,
    /// Name of the test.
    pub name: String,
    /// Whether the sessions were isolated.
    pub passed: bool,
    /// The wrong result, if the test failed.
    pub found: Option<String>,
    /// Seconds the test took.
    pub seconds: f64,
}

const NAMES: [&str; 9] = [
    "Order-Status beside a New-Order that commits",
    "Order-Status beside a New-Order that rolls back",
    "two New-Orders, the first commits",
    "two New-Orders, the first rolls back",
    "Payment beside a Delivery that commits",
    "Payment beside a Delivery that rolls back",
    "one price for an item within a New-Order",
    "a New-Order appears beside a Delivery",
    "a New-Order appears beside an Order-Status",
];

/// Runs the nine tests, in the statement mode, on a loaded database that no other program uses.
///
/// # Errors
/// The database cannot be reached, or a transaction ends by an error.
pub async fn run<D: Database>(database: &D) -> Result<Vec<IsolationOutcome>, OrdersError>
where
    D::Terminal: Stepwise,
{
    database.config().await?;
    let mut outcomes = Vec::with_capacity(NAMES.len());
    for (number, name) in (1..).zip(NAMES) {
        let began = Instant::now();
        let (first, second) = (database.terminal().await?, database.terminal().await?);
        let pair = Pair { first, second };
        let outcome = match number {
            1 | 2 => pair.status_beside_order(number == 1).await,
            3 | 4 => pair.two_orders(number == 3).await,
            5 | 6 => pair.payment_beside_delivery(number == 5).await,
            7 => pair.one_price().await,
            8 => pair.order_beside_delivery().await,
            _ => pair.order_beside_status().await,
        };
        let found = match outcome {
            Ok(found) => found,
            Err(Failure::Retry(error) | Failure::Lost(error) | Failure::Error(error)) => return Err(error),
        };
        outcomes.push(IsolationOutcome {
            clause: format!("3.4.2.{number}"),
            name: name.to_owned(),
            passed: found.is_none(),
            found,
            seconds: began.elapsed().as_secs_f64(),
        });
    }
    Ok(outcomes)
}

/// Two sessions. Each test returns the fault that it found.
struct Pair<T> {
    first: T,
    second: T,
}

type Found = Result<Option<String>, Failure>;

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Option<String> {
    (!holds).then(otherwise)
}

fn order() -> NewOrderInput {
    let (warehouse, district) = PLACE;
    let line = |number| LineInput { number, item: 10 * number, supply_warehouse: warehouse, quantity: number };
    NewOrderInput { warehouse, district, customer: CUSTOMER, lines: (1..=5).map(line).collect() }
}

fn newest() -> String {
    let (warehouse, district) = PLACE;
    format!("SELECT max(o_id) FROM orders WHERE o_w_id = {warehouse} AND o_d_id = {district} AND o_c_id = {CUSTOMER}")
}

fn status() -> OrderStatusInput {
    OrderStatusInput { warehouse: PLACE.0, district: PLACE.1, customer: CustomerKey::Id(CUSTOMER) }
}

/// The result of work that must not wait for a lock.
async fn promptly<T>(what: &str, work: impl Future<Output = Result<T, Failure>>) -> Result<Result<T, String>, Failure> {
    match tokio::time::timeout(Duration::from_secs(ISOLATION_ANSWER_S), work).await {
        Ok(answer) => answer.map(Ok),
        Err(_) => Ok(Err(format!("{what} waited for the other transaction"))),
    }
}

impl<T: Stepwise> Pair<T> {
    async fn status_beside_order(mut self, commit: bool) -> Found {
        let before = self.second.number(&newest()).await?;
        let entered = self.first.open_new_order(&order()).await?;
        if let Err(waited) = promptly("Order-Status", self.second.order_status(&status())).await? {
            return Ok(Some(waited));
        }
        let beside = self.second.number(&newest()).await?;
        self.first.end(commit).await?;
        let after = self.second.number(&newest()).await?;
        let expected = if commit { i64::from(entered.order) } else { before };
        Ok(expect((beside, after) == (before, expected), || {
            format!("newest order {beside} before the end and {after} after it, not {before} and {expected}")
        }))
    }

    async fn two_orders(mut self, commit: bool) -> Found {
        let one = self.first.open_new_order(&order()).await?;
        let (again, second) = (order(), &mut self.second);
        let mut other = pin!(second.new_order(&again));
        if blocked(&mut other).await?.is_some() {
            return Ok(Some("the second order of the district did not wait for the first".to_owned()));
        }
        self.first.end(commit).await?;
        let two = other.await?;
        let expected = one.order + u32::from(commit);
        Ok(expect(two.order == expected, || format!("the second order is number {}, not {expected}", two.order)))
    }

    async fn payment_beside_delivery(mut self, commit: bool) -> Found {
        let (warehouse, district) = PLACE;
        let oldest = format!(
            "SELECT o_c_id FROM orders WHERE o_w_id = {warehouse} AND o_d_id = {district} AND o_id = (SELECT min(no_o_id) \
             FROM new_order WHERE no_w_id = {warehouse} AND no_d_id = {district})"
        );
        let customer = self.second.number(&oldest).await?;
        let row = format!("c_w_id = {warehouse} AND c_d_id = {district} AND c_id = {customer}");
        let balance = format!("SELECT c_balance FROM customer WHERE {row}");
        let before = self.second.number(&balance).await?;
        self.first.open_delivery(&DeliveryInput { warehouse, carrier: 3 }).await?;
        let delivered = self.first.number(&balance).await? - before;
        let customer = CustomerKey::Id(u32::try_from(customer).unwrap_or_default());
        let input = PaymentInput {
            warehouse,
            district,
            customer_warehouse: warehouse,
            customer_district: district,
            customer,
            amount_cents: 1_234,
        };
        {
            let mut payment = pin!(self.second.payment(&input));
            if blocked(&mut payment).await?.is_some() {
                return Ok(Some("the payment did not wait for the delivery to the same customer".to_owned()));
            }
            self.first.end(commit).await?;
            payment.await?;
        }
        let after = self.second.number(&balance).await?;
        let expected = before - 1_234 + if commit { delivered } else { 0 };
        Ok(expect(after == expected && delivered > 0, || format!("balance {after}, not {expected} ({delivered} were delivered)")))
    }

    async fn one_price(mut self) -> Found {
        let (warehouse, district) = PLACE;
        let prices = "SELECT sum(i_price * i_id) FROM item WHERE i_id IN (10, 20, 30, 40, 50)";
        let before = self.second.number(prices).await?;
        let entered = self.first.open_new_order(&order()).await?;
        let raise = |by: &str| format!("UPDATE item SET i_price = i_price {by} 1000 WHERE i_id IN (10, 20, 30, 40, 50)");
        let raised = promptly("a change of prices", self.second.change(&raise("+"))).await?;
        self.first.end(true).await?;
        // Quantities are a tenth of the item's number, so amounts with these weights are prices.
        let amounts = format!(
            "SELECT sum(ol_amount) * 10 FROM order_line WHERE ol_w_id = {warehouse} AND ol_d_id = {district} AND ol_o_id = {}",
            entered.order
        );
        let charged = self.second.number(&amounts).await?;
        if raised.is_ok() {
            self.second.change(&raise("-")).await?;
        }
        Ok(raised
            .err()
            .or_else(|| expect(charged == before, || format!("{charged} were charged at prices that add up to {before}"))))
    }

    async fn order_beside_delivery(mut self) -> Found {
        let (warehouse, district) = PLACE;
        let open = |what: &str| format!("SELECT {what} FROM new_order WHERE no_w_id = {warehouse} AND no_d_id = {district}");
        let (oldest, count) = (self.second.number(&open("min(no_o_id)")).await?, self.second.number(&open("count(*)")).await?);
        self.first.open_delivery(&DeliveryInput { warehouse, carrier: 4 }).await?;
        let entered = match promptly("New-Order", self.second.new_order(&order())).await? {
            Ok(entered) => entered,
            Err(waited) => return Ok(Some(waited)),
        };
        self.first.end(true).await?;
        let after = self.second.number(&open("count(*)")).await?;
        let gone = self.second.number(&format!("{} AND no_o_id = {oldest}", open("count(*)"))).await?;
        let there = self.second.number(&format!("{} AND no_o_id = {}", open("count(*)"), entered.order)).await?;
        Ok(expect((after, gone, there) == (count, 0, 1), || {
            format!("{after} orders open, not {count}; the oldest is there {gone} times, the new one {there} times")
        }))
    }

    async fn order_beside_status(mut self) -> Found {
        let text = newest();
        let reading = self.first.twice(&text, Duration::from_millis(2 * ISOLATION_BLOCKED_MS));
        let entering = async {
            tokio::time::sleep(Duration::from_millis(ISOLATION_BLOCKED_MS)).await;
            self.second.new_order(&order()).await
        };
        let (read, entered) = tokio::join!(reading, entering);
        let ([one, two], entered) = (read?, entered?);
        Ok(expect(one == two && one < i64::from(entered.order), || {
            format!("newest order {one}, then {two}, while order {} was entered", entered.order)
        }))
    }
}

/// The result of work that should wait for a lock; `None` if it waits.
async fn blocked<T>(work: &mut (impl Future<Output = Result<T, Failure>> + Unpin)) -> Result<Option<T>, Failure> {
    match tokio::time::timeout(Duration::from_millis(ISOLATION_BLOCKED_MS), work).await {
        Ok(answer) => answer.map(Some),
        Err(_) => Ok(None),
    }
}
