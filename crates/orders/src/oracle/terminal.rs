//! A terminal's session on Oracle: one PL/SQL block per transaction.

use std::sync::LazyLock;
use std::time::Duration;

use oracle::sql_type::{OracleType, ToSql};
use oracle::{Connection, Error, Statement};

use crate::database::{DeliveryAnswer, Failure, NewOrderAnswer, Terminal};
use crate::error::OrdersError;
use crate::inputs::{CustomerKey, DeliveryInput, LINES_MAX, NewOrderInput, OrderStatusInput, PaymentInput, StockLevelInput};
use crate::isolation::Stepwise;
use crate::money::order_total_cents;
use crate::random::{DISTRICTS, last_name};

use super::session::Session;
use super::statements;

const NEW_ORDER: &str = "New-Order";
const DELIVERY: &str = "Delivery";

/// Error codes after which the same transaction may be repeated: deadlock, cannot serialize.
const RETRIED: [i32; 2] = [60, 8_177];
/// Error codes for a lost connection or a server that is shutting down.
const ENDED: [i32; 14] = [28, 1_012, 1_033, 1_034, 1_089, 1_090, 1_092, 3_113, 3_114, 3_135, 12_170, 12_537, 12_541, 12_571];
/// The same codes of ODPI-C: not connected, connection closed.
const ENDED_BETWEEN: [i32; 2] = [1_010, 1_080];

/// Type of the text that a block returns: an order's lines, or a customer with addresses.
const SHOWN: OracleType = OracleType::Varchar2(4_000);
const NUMBER: OracleType = OracleType::Int64;

/// The block of an order by its number of lines, so that the server parses only a few texts.
static NEW_ORDERS: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..=LINES_MAX as usize).map(|lines| statements::new_order(lines, true)).collect());

/// One session for the five transactions.
pub struct OracleTerminal {
    session: Session,
}

impl std::fmt::Debug for OracleTerminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OracleTerminal")
    }
}

impl OracleTerminal {
    pub(super) const fn new(session: Session) -> Self {
        Self { session }
    }

    /// Runs `work` with the connection. Rolls back if it fails.
    async fn ask<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Failure> {
        // If the rollback fails too, the connection is gone, and the first error reports that.
        let work = move |connection: &Connection| work(connection).inspect_err(|_| drop(connection.rollback()));
        self.session.ask(work).await.map_err(|error| classify(what, error))
    }

    async fn enter(&self, input: &NewOrderInput, ends: bool) -> Result<NewOrderAnswer, Failure> {
        let order = input.clone();
        let entered = self.ask(NEW_ORDER, move |connection| enter(connection, &order, ends)).await?;
        let committed = entered.taken == input.lines.len();
        if !committed && !input.has_unused_item() {
            if !ends {
                self.end_block(false).await?;
            }
            return Err(unexpected(NEW_ORDER, format!("{} lines of {} were taken", entered.taken, input.lines.len())));
        }
        let total_cents = order_total_cents(entered.cents, entered.discount, entered.warehouse_tax, entered.district_tax);
        Ok(NewOrderAnswer { order: entered.order, committed, total_cents })
    }

    async fn deliver(&self, input: DeliveryInput, ends: bool) -> Result<DeliveryAnswer, Failure> {
        let work = move |connection: &Connection| {
            let binds: [(&str, &dyn ToSql); 3] = [("w", &input.warehouse), ("carrier", &input.carrier), ("districts", &NUMBER)];
            connection.execute_named(&statements::delivery(ends), &binds)?.bind_value("districts")
        };
        match self.ask(DELIVERY, work).await? {
            delivered if delivered <= DISTRICTS => Ok(DeliveryAnswer { delivered }),
            delivered => Err(unexpected(DELIVERY, format!("{delivered} districts"))),
        }
    }

    async fn end_block(&self, commit: bool) -> Result<(), Failure> {
        let end = move |connection: &Connection| if commit { connection.commit() } else { connection.rollback() };
        self.ask("ending a transaction", end).await
    }
}

/// The result of a New-Order's block.
struct Entered {
    order: u32,
    taken: usize,
    cents: i64,
    discount: i64,
    warehouse_tax: i64,
    district_tax: i64,
}

fn enter(connection: &Connection, input: &NewOrderInput, ends: bool) -> Result<Entered, Error> {
    let opened;
    let text = if ends {
        &NEW_ORDERS[input.lines.len()]
    } else {
        opened = statements::new_order(input.lines.len(), false);
        &opened
    };
    let mut statement = connection.statement(text).build()?;
    let all_local = u32::from(input.all_local());
    let given: [(&str, &dyn ToSql); 4] =
        [("w", &input.warehouse), ("d", &input.district), ("c", &input.customer), ("all_local", &all_local)];
    for (name, value) in given {
        statement.bind(name, value)?;
    }
    for (number, line) in (1..).zip(&input.lines) {
        for (name, value) in [("n", line.number), ("i", line.item), ("s", line.supply_warehouse), ("q", line.quantity)] {
            statement.bind(format!("{name}{number}").as_str(), &value)?;
        }
    }
    for name in ["o", "taken", "amount", "discount", "warehouse_tax", "district_tax"] {
        statement.bind(name, &NUMBER)?;
    }
    statement.bind("shown", &SHOWN)?;
    statement.bind("lines", &SHOWN)?;
    statement.execute(&[])?;
    shown(&statement, &["shown", "lines"])?;
    Ok(Entered {
        order: statement.bind_value("o")?,
        taken: statement.bind_value::<_, u32>("taken")? as usize,
        cents: statement.bind_value("amount")?,
        discount: statement.bind_value("discount")?,
        warehouse_tax: statement.bind_value("warehouse_tax")?,
        district_tax: statement.bind_value("district_tax")?,
    })
}

/// Reads the values that a terminal would show.
fn shown(statement: &Statement, names: &[&str]) -> Result<(), Error> {
    names.iter().try_for_each(|name| statement.bind_value::<_, Option<String>>(*name).map(drop))
}

/// How a customer is bound, and whether by name.
fn keyed(customer: CustomerKey) -> (bool, Box<dyn ToSql>) {
    match customer {
        CustomerKey::Id(number) => (false, Box::new(number)),
        CustomerKey::LastName(number) => (true, Box::new(last_name(number))),
    }
}

impl Terminal for OracleTerminal {
    async fn new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        self.enter(input, true).await
    }

    async fn payment(&mut self, input: &PaymentInput) -> Result<(), Failure> {
        let input = *input;
        let work = move |connection: &Connection| {
            let (by_name, customer) = keyed(input.customer);
            let binds: [(&str, &dyn ToSql); 7] = [
                ("w", &input.warehouse),
                ("d", &input.district),
                ("cw", &input.customer_warehouse),
                ("cd", &input.customer_district),
                ("c", customer.as_ref()),
                ("cents", &input.amount_cents),
                ("shown", &SHOWN),
            ];
            shown(&connection.execute_named(&statements::payment(by_name), &binds)?, &["shown"])
        };
        self.ask("Payment", work).await
    }

    async fn order_status(&mut self, input: &OrderStatusInput) -> Result<(), Failure> {
        const WHAT: &str = "Order-Status";
        let input = *input;
        let work = move |connection: &Connection| {
            let (by_name, customer) = keyed(input.customer);
            let binds: [(&str, &dyn ToSql); 7] = [
                ("promised", &NUMBER),
                ("found", &NUMBER),
                ("shown", &SHOWN),
                ("lines", &SHOWN),
                ("w", &input.warehouse),
                ("d", &input.district),
                ("c", customer.as_ref()),
            ];
            let statement = connection.execute_named(&statements::order_status(by_name), &binds)?;
            shown(&statement, &["shown", "lines"])?;
            Ok((statement.bind_value::<_, u32>("promised")?, statement.bind_value::<_, u32>("found")?))
        };
        match self.ask(WHAT, work).await? {
            (promised, found) if promised == found => Ok(()),
            (promised, found) => Err(unexpected(WHAT, format!("an order of {promised} lines has {found}"))),
        }
    }

    async fn delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure> {
        self.deliver(*input, true).await
    }

    async fn stock_level(&mut self, input: &StockLevelInput) -> Result<u32, Failure> {
        let StockLevelInput { warehouse, district, threshold } = *input;
        let work = move |connection: &Connection| {
            let binds: [(&str, &dyn ToSql); 3] = [("w", &warehouse), ("d", &district), ("threshold", &threshold)];
            connection.query_row_as_named(&statements::stock_level(), &binds)
        };
        self.ask("Stock-Level", work).await
    }
}

impl Stepwise for OracleTerminal {
    async fn open_new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        self.enter(input, false).await
    }

    async fn open_delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure> {
        self.deliver(*input, false).await
    }

    async fn end(&mut self, commit: bool) -> Result<(), Failure> {
        self.end_block(commit).await
    }

    async fn number(&mut self, text: &str) -> Result<i64, Failure> {
        let text = text.to_owned();
        self.ask("reading beside a transaction", move |connection| connection.query_row_as(&text, &[])).await
    }

    async fn change(&mut self, text: &str) -> Result<(), Failure> {
        let text = text.to_owned();
        let work = move |connection: &Connection| connection.execute(&text, &[]).and_then(|_| connection.commit());
        self.ask("a change beside a transaction", work).await
    }

    async fn twice(&mut self, text: &str, apart: Duration) -> Result<[i64; 2], Failure> {
        self.ask("Order-Status", |connection| connection.execute(statements::READ_ONLY, &[]).map(drop)).await?;
        let first = self.number(text).await?;
        tokio::time::sleep(apart).await;
        let again = self.number(text).await?;
        self.end(true).await?;
        Ok([first, again])
    }
}

fn unexpected(what: &'static str, detail: String) -> Failure {
    Failure::Error(OrdersError::Answer { what, detail })
}

/// The class of a failure, from the error codes of the database and of ODPI-C.
fn class_of(oci: Option<i32>, between: Option<i32>) -> fn(OrdersError) -> Failure {
    match (oci, between) {
        (Some(code), _) if RETRIED.contains(&code) => Failure::Retry,
        (Some(code), _) if ENDED.contains(&code) => Failure::Lost,
        (_, Some(code)) if ENDED_BETWEEN.contains(&code) => Failure::Lost,
        _ => Failure::Error,
    }
}

fn classify(what: &'static str, source: Error) -> Failure {
    class_of(source.oci_code(), source.dpi_code())(OrdersError::Oracle { what: what.to_owned(), source: Box::new(source) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadlock_is_sent_again_and_a_shutdown_loses_the_connection() {
        let of = |oci, between| class_of(oci, between)(OrdersError::Interrupted);
        assert!(matches!(of(Some(60), None), Failure::Retry(_)));
        assert!(matches!(of(Some(8_177), None), Failure::Retry(_)));
        assert!(matches!(of(Some(3_113), None), Failure::Lost(_)));
        assert!(matches!(of(None, Some(1_080)), Failure::Lost(_)));
        assert!(matches!(of(Some(1_403), None), Failure::Error(_)));
        assert!(matches!(of(None, None), Failure::Error(_)));
    }
}
