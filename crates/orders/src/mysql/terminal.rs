//! A terminal's session on MariaDB or MySQL: each transaction is one text, of statements or a call.

use std::time::Duration;

use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, DriverError, Error, Row};

use crate::common_sql;
use crate::database::{DeliveryAnswer, Failure, Mode, NewOrderAnswer, Terminal};
use crate::error::OrdersError;
use crate::inputs::{CustomerKey, DeliveryInput, NewOrderInput, OrderStatusInput, PaymentInput, StockLevelInput};
use crate::isolation::Stepwise;
use crate::money::order_total_cents;
use crate::random::{DISTRICTS, last_name};

use super::caught::caught;
use super::{procedures, statements};

/// Server errors after which the same transaction may be repeated: lock wait timeout, deadlock,
/// record changed since it was read.
const RETRIED: [u16; 3] = [1205, 1213, 1020];
/// Server errors that end the connection: server shutdown, connection killed.
const ENDED: [u16; 3] = [1053, 1079, 1927];

/// One session for the five transactions.
#[derive(Debug)]
pub struct MySqlTerminal {
    conn: Conn,
    mode: Mode,
}

impl MySqlTerminal {
    pub(super) const fn new(conn: Conn, mode: Mode) -> Self {
        Self { conn, mode }
    }

    /// Sends a text. Returns the rows of each of its statements that returns any. Rolls back a failed
    /// transaction.
    async fn ask(&mut self, what: &'static str, text: &str) -> Result<Vec<Vec<Row>>, Failure> {
        match self.sets(text).await {
            Ok(sets) => Ok(sets),
            Err(error) => {
                let failure = classify(what, error);
                if matches!(failure, Failure::Lost(_)) {
                    return Err(failure);
                }
                match caught(self.conn.query_drop("ROLLBACK")).await.map_err(|error| classify(what, error)) {
                    Err(lost @ Failure::Lost(_)) => Err(lost),
                    _ => Err(failure),
                }
            }
        }
    }

    async fn sets(&mut self, text: &str) -> Result<Vec<Vec<Row>>, Error> {
        caught(async {
            let mut result = self.conn.query_iter(text).await?;
            let mut sets = Vec::new();
            while !result.is_empty() {
                let rows: Vec<Row> = result.collect().await?;
                if !rows.is_empty() {
                    sets.push(rows);
                }
            }
            result.drop_result().await?;
            Ok(sets)
        })
        .await
    }

    /// The text of a transaction: a call, or its statements in one packet.
    fn text(&self, procedure: &str, arguments: &[String], statements: impl FnOnce() -> Vec<String>) -> String {
        match self.mode {
            Mode::Functions => format!("CALL {}({})", procedures::name(procedure), arguments.join(", ")),
            Mode::Statements => statements().join(";"),
        }
    }

    fn new_order_text(&self, input: &NewOrderInput) -> String {
        let NewOrderInput { warehouse, district, customer, lines } = input;
        let (count, all_local) = (lines.len(), u32::from(input.all_local()));
        if self.mode == Mode::Functions {
            let packed: String = lines
                .iter()
                .map(|line| procedures::line_text(line.number, line.item, line.supply_warehouse, line.quantity))
                .collect();
            let name = procedures::name("new_order");
            return format!("CALL {name}({warehouse}, {district}, {customer}, {count}, {all_local}, '{packed}')");
        }
        let mut parts = vec![statements::BEGIN.to_owned()];
        let take =
            |line: &crate::inputs::LineInput| common_sql::take_stock(warehouse, line.item, line.supply_warehouse, line.quantity);
        parts.extend(lines.iter().map(take));
        parts.extend(statements::enter_order(warehouse, district, customer, count, all_local));
        let add = |line: &crate::inputs::LineInput| {
            let order = (warehouse, district, statements::ORDER);
            common_sql::add_line(order, line.number, line.item, line.supply_warehouse, line.quantity, statements::JOIN)
        };
        parts.extend(lines.iter().map(add));
        parts.extend(statements::show_order(warehouse, district, customer));
        parts.join(";")
    }
}

impl MySqlTerminal {
    /// New-Order; in the statement mode without its COMMIT or ROLLBACK.
    async fn enter(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        const WHAT: &str = "New-Order";
        let text = self.new_order_text(input);
        let sets = self.ask(WHAT, &text).await?;
        let Some(head) = sets.first().and_then(|rows| rows.first()) else {
            return Err(unexpected(WHAT, "no order".to_owned()));
        };
        let mut taken = 0;
        let mut amount_cents = 0;
        // An order whose lines were all dropped returns no rows of lines.
        let has_lines = sets.get(1).and_then(|rows| rows.first()).is_some_and(|row| row.len() == 6);
        for row in sets.get(1).filter(|_| has_lines).into_iter().flatten() {
            let _name: String = read(WHAT, row, 1)?;
            let _quantity: i32 = read(WHAT, row, 2)?;
            amount_cents += read::<i64>(WHAT, row, 4)?;
            taken += 1;
        }
        let committed = taken == input.lines.len();
        if self.mode == Mode::Functions
            && let Some(said) = sets.last().and_then(|rows| rows.first())
            && read::<i32>(WHAT, said, 0)? != i32::from(committed)
        {
            return Err(unexpected(WHAT, format!("{taken} lines, but committed = {}", !committed)));
        }
        if !committed && !input.has_unused_item() {
            self.end(false).await?;
            return Err(unexpected(WHAT, format!("{taken} lines of {} were taken", input.lines.len())));
        }
        let (warehouse_tax, district_tax): (i64, i64) = (read(WHAT, head, 1)?, read(WHAT, head, 2)?);
        let total_cents = order_total_cents(amount_cents, read(WHAT, head, 3)?, warehouse_tax, district_tax);
        Ok(NewOrderAnswer { order: read(WHAT, head, 0)?, committed, total_cents })
    }

    fn delivery_parts(warehouse: u32, carrier: u32) -> Vec<String> {
        let mut parts = vec![statements::BEGIN.to_owned()];
        parts.extend(statements::take_turn(warehouse));
        parts.extend((1..=DISTRICTS).flat_map(|district| statements::deliver(warehouse, district, carrier)));
        parts
    }
}

impl Stepwise for MySqlTerminal {
    async fn open_new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        if self.mode == Mode::Functions {
            return Err(unexpected("New-Order", "a stored procedure does not stop before its end".to_owned()));
        }
        self.enter(input).await
    }

    async fn open_delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure> {
        const WHAT: &str = "Delivery";
        let mut parts = Self::delivery_parts(input.warehouse, input.carrier);
        parts.push("SELECT @districts".to_owned());
        Ok(DeliveryAnswer { delivered: one(WHAT, &self.ask(WHAT, &parts.join(";")).await?)? })
    }

    async fn end(&mut self, commit: bool) -> Result<(), Failure> {
        self.ask("ending a transaction", if commit { "COMMIT" } else { "ROLLBACK" }).await.map(|_| ())
    }

    async fn number(&mut self, text: &str) -> Result<i64, Failure> {
        const WHAT: &str = "reading beside a transaction";
        let sets = self.ask(WHAT, text).await?;
        let row = sets.first().and_then(|rows| rows.first()).ok_or_else(|| unexpected(WHAT, "no row".to_owned()))?;
        read(WHAT, row, 0)
    }

    async fn change(&mut self, text: &str) -> Result<(), Failure> {
        self.ask("a change beside a transaction", text).await.map(|_| ())
    }

    async fn twice(&mut self, text: &str, apart: Duration) -> Result<[i64; 2], Failure> {
        self.ask("Order-Status", &statements::BEGIN_READING.join(";")).await?;
        let first = self.number(text).await?;
        tokio::time::sleep(apart).await;
        let again = self.number(text).await?;
        self.end(true).await?;
        Ok([first, again])
    }
}

impl Terminal for MySqlTerminal {
    async fn new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        let answer = self.enter(input).await?;
        if self.mode == Mode::Statements {
            self.end(answer.committed).await?;
        }
        Ok(answer)
    }

    async fn payment(&mut self, input: &PaymentInput) -> Result<(), Failure> {
        const WHAT: &str = "Payment";
        let PaymentInput { warehouse, district, customer_warehouse, customer_district, customer, amount_cents } = *input;
        let (procedure, key) = keyed("payment", customer);
        let arguments = [warehouse, district, customer_warehouse, customer_district].map(|number| number.to_string());
        let arguments = [&arguments[..], &[key.clone(), amount_cents.to_string()]].concat();
        let text = self.text(&procedure, &arguments, || {
            let mut parts = vec![statements::BEGIN.to_owned(), choose(customer_warehouse, customer_district, customer, &key)];
            parts.extend(statements::pay(warehouse, district, customer_warehouse, customer_district, amount_cents));
            parts.push("COMMIT".to_owned());
            parts
        });
        let sets = self.ask(WHAT, &text).await?;
        let row = sets.first().and_then(|rows| rows.first()).ok_or_else(|| unexpected(WHAT, "no row".to_owned()))?;
        let _customer: i32 = read(WHAT, row, 12)?;
        let _balance_cents: i64 = read(WHAT, row, 26)?;
        Ok(())
    }

    async fn order_status(&mut self, input: &OrderStatusInput) -> Result<(), Failure> {
        const WHAT: &str = "Order-Status";
        let OrderStatusInput { warehouse, district, customer } = *input;
        let (procedure, key) = keyed("order_status", customer);
        let arguments = [warehouse.to_string(), district.to_string(), key.clone()];
        let text = self.text(&procedure, &arguments, || {
            let mut parts = statements::BEGIN_READING.map(str::to_owned).to_vec();
            parts.push(choose(warehouse, district, customer, &key));
            parts.extend(statements::show_status(warehouse, district));
            parts.push("COMMIT".to_owned());
            parts
        });
        let sets = self.ask(WHAT, &text).await?;
        let [head, lines] = sets.as_slice() else {
            return Err(unexpected(WHAT, format!("{} answers instead of 2", sets.len())));
        };
        let promised: usize = head.first().map_or(Ok(0), |row| read(WHAT, row, 8))?;
        if lines.len() != promised {
            return Err(unexpected(WHAT, format!("an order of {promised} lines has {}", lines.len())));
        }
        Ok(())
    }

    async fn delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure> {
        const WHAT: &str = "Delivery";
        let DeliveryInput { warehouse, carrier } = *input;
        let text = self.text("delivery", &[warehouse.to_string(), carrier.to_string()], || {
            let mut parts = Self::delivery_parts(warehouse, carrier);
            parts.push("COMMIT".to_owned());
            parts.push("SELECT @districts".to_owned());
            parts
        });
        match one(WHAT, &self.ask(WHAT, &text).await?)? {
            delivered if delivered <= DISTRICTS => Ok(DeliveryAnswer { delivered }),
            delivered => Err(unexpected(WHAT, format!("{delivered} districts"))),
        }
    }

    async fn stock_level(&mut self, input: &StockLevelInput) -> Result<u32, Failure> {
        const WHAT: &str = "Stock-Level";
        let StockLevelInput { warehouse, district, threshold } = *input;
        let arguments = [warehouse, district, threshold].map(|number| number.to_string());
        let text = self
            .text("stock_level", &arguments, || vec![common_sql::stock_level(warehouse, district, threshold, statements::JOIN)]);
        one(WHAT, &self.ask(WHAT, &text).await?)
    }
}

/// The procedure for a customer by number or name, and the key as SQL text.
fn keyed(procedure: &str, customer: CustomerKey) -> (String, String) {
    match customer {
        CustomerKey::Id(number) => (format!("{procedure}_by_id"), number.to_string()),
        CustomerKey::LastName(number) => (format!("{procedure}_by_name"), format!("'{}'", last_name(number))),
    }
}

fn choose(warehouse: u32, district: u32, customer: CustomerKey, key: &str) -> String {
    match customer {
        CustomerKey::Id(_) => statements::choose_by_id(key),
        CustomerKey::LastName(_) => statements::choose_by_name(warehouse, district, key),
    }
}

/// The single number of a result.
fn one(what: &'static str, sets: &[Vec<Row>]) -> Result<u32, Failure> {
    match sets {
        [rows] if rows.len() == 1 => read(what, &rows[0], 0),
        _ => Err(unexpected(what, format!("{} answers instead of 1", sets.len()))),
    }
}

fn read<T: FromValue>(what: &'static str, row: &Row, column: usize) -> Result<T, Failure> {
    super::value(what, row, column).map_err(Failure::Error)
}

fn unexpected(what: &'static str, detail: String) -> Failure {
    Failure::Error(OrdersError::Answer { what, detail })
}

fn classify(what: &'static str, source: Error) -> Failure {
    enum Class {
        Retry,
        Lost,
        Error,
    }
    let class = match &source {
        Error::Server(server) if RETRIED.contains(&server.code) || server.state == "40001" => Class::Retry,
        Error::Server(server) if ENDED.contains(&server.code) || server.state.starts_with("08") => Class::Lost,
        Error::Io(_) | Error::Other(_) | Error::Driver(DriverError::ConnectionClosed) => Class::Lost,
        _ => Class::Error,
    };
    let error = super::sql(what)(source);
    match class {
        Class::Retry => Failure::Retry(error),
        Class::Lost => Failure::Lost(error),
        Class::Error => Failure::Error(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_async::ServerError;

    #[test]
    fn a_deadlock_is_sent_again_and_a_shutdown_loses_the_connection() {
        let server = |code, state: &str| {
            let error = ServerError { code, message: String::new(), state: state.to_owned() };
            classify("New-Order", Error::Server(error))
        };
        assert!(matches!(server(1213, "40001"), Failure::Retry(_)));
        assert!(matches!(server(1205, "HY000"), Failure::Retry(_)));
        assert!(matches!(server(1053, "08S01"), Failure::Lost(_)));
        assert!(matches!(server(1054, "42S22"), Failure::Error(_)));
    }
}
