//! A terminal's session: the five transactions over prepared statements, pipelined.

mod stepwise;

use std::sync::LazyLock;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Statement};

use crate::database::{DeliveryAnswer, Failure, Isolation, Mode, NewOrderAnswer, Terminal};
use crate::error::OrdersError;
use crate::inputs::{CustomerKey, DeliveryInput, NewOrderInput, OrderStatusInput, PaymentInput, StockLevelInput};
use crate::money::order_total_cents;
use crate::random::{DISTRICTS, last_name};

use super::answers::{read, unexpected};
use super::arrays::{Count, Numbers};
use super::errors::{Class, classify};
use super::lines::{Lines, Shown, rounds};
use super::{Session, functions, statements};

const NEW_ORDER: &str = "New-Order";

/// One session with its prepared statements.
#[derive(Debug)]
pub struct PostgresTerminal {
    session: Session,
    new_order: Statement,
    /// Additional statements of the statement mode; the function mode has them inside its functions.
    blocks: Option<Blocks>,
    payment_by_id: Statement,
    payment_by_name: Statement,
    order_status_by_id: Statement,
    order_status_by_name: Statement,
    delivery: Statement,
    stock_level: Statement,
}

/// Further statements of the blocks that the driver opens and closes in the statement mode.
#[derive(Debug)]
struct Blocks {
    new_order_again: Statement,
    delivery_turn: Statement,
}

/// C_LAST of each number 0 to 999, shared by all sessions.
static LAST_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| (0..1_000).map(last_name).collect());

impl PostgresTerminal {
    pub(super) async fn open(session: Session, mode: Mode, isolation: Isolation) -> Result<Self, OrdersError> {
        session.execute("setting up a terminal's session", &session.dialect.terminal(isolation)).await?;
        let functions = mode == Mode::Functions;
        let prepare = |what, name: &'static str, text: String| {
            let session = &session;
            let text = if functions { functions::call(name).unwrap_or(text) } else { text };
            async move { session.prepare(what, &text, &types(name, &text)).await }
        };
        let blocks = if functions {
            None
        } else {
            let again = statements::new_order_again();
            Some(Blocks {
                new_order_again: session.prepare("New-Order", &again, &types("new_order", &again)).await?,
                delivery_turn: session.prepare("Delivery", statements::DELIVERY_TURN, &[Type::INT4]).await?,
            })
        };
        Ok(Self {
            new_order: prepare("New-Order", "new_order", statements::new_order()).await?,
            blocks,
            payment_by_id: prepare("Payment", "payment_by_id", statements::payment(false)).await?,
            payment_by_name: prepare("Payment", "payment_by_name", statements::payment(true)).await?,
            order_status_by_id: prepare("Order-Status", "order_status_by_id", statements::order_status(false)).await?,
            order_status_by_name: prepare("Order-Status", "order_status_by_name", statements::order_status(true)).await?,
            delivery: prepare("Delivery", "delivery", statements::DELIVERY.to_owned()).await?,
            stock_level: prepare("Stock-Level", "stock_level", statements::STOCK_LEVEL.to_owned()).await?,
            session,
        })
    }

    /// Runs a statement that returns exactly one row.
    async fn one(&self, what: &'static str, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Failure> {
        self.session.client.query_one(statement, params).await.map_err(|error| self.failure(what, error))
    }

    async fn block(&self, what: &'static str, text: &'static str) -> Result<(), Failure> {
        let outcome = self.session.client.batch_execute(text).await;
        outcome.map_err(|error| self.failure(what, error))
    }

    /// Rolls back a block after `failure` in it. If the rollback fails too, the connection is lost.
    async fn roll_back(&self, what: &'static str, failure: Failure) -> Failure {
        if matches!(failure, Failure::Lost(_)) {
            return failure;
        }
        match self.block(what, "ROLLBACK").await {
            Err(lost @ Failure::Lost(_)) => lost,
            _ => failure,
        }
    }

    fn failure(&self, what: &'static str, source: Error) -> Failure {
        let kind = classify(&source, self.session.client.is_closed());
        let error = OrdersError::Sql { what: what.to_owned(), source };
        match kind {
            Class::Retry => Failure::Retry(error),
            Class::Lost => Failure::Lost(error),
            Class::Error => Failure::Error(error),
        }
    }

    /// The statements of a New-Order between BEGIN and its end.
    async fn enter(&self, blocks: &Blocks, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        let rounds = rounds(&input.lines);
        let (warehouse, district) = (input.warehouse as i32, input.district as i32);
        let customer = input.customer as i32;
        let all_local = i32::from(input.all_local());
        let line_count = input.lines.len() as i32;
        let Lines { numbers, items, supplies, quantities } = &rounds[0];
        let params: [&(dyn ToSql + Sync); 9] =
            [&warehouse, &district, &customer, numbers, items, supplies, quantities, &all_local, &line_count];
        let (begun, answer) = tokio::join!(
            biased;
            self.block(NEW_ORDER, "BEGIN"),
            self.one(NEW_ORDER, &self.new_order, &params),
        );
        begun?;
        let row = answer?;
        let order: i32 = read(NEW_ORDER, &row, 0)?;
        let mut shown = Shown::default();
        shown.add(NEW_ORDER, &row, 7)?;
        for Lines { numbers, items, supplies, quantities } in &rounds[1..] {
            let params: [&(dyn ToSql + Sync); 7] = [&warehouse, &district, &order, numbers, items, supplies, quantities];
            shown.add(NEW_ORDER, &self.one(NEW_ORDER, &blocks.new_order_again, &params).await?, 0)?;
        }
        entered(input, &row, &shown)
    }

    /// A complete New-Order in one call.
    async fn call_new_order(&self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        let (warehouse, district) = (input.warehouse as i32, input.district as i32);
        let customer = input.customer as i32;
        let all_local = i32::from(input.all_local());
        let line_count = input.lines.len() as i32;
        let mut rounds = rounds(&input.lines).into_iter();
        let first = rounds.next().unwrap_or_default();
        // The later rounds in sequence; nearly every order has only one round.
        let again = rounds.reduce(Lines::then);
        let field = |of: fn(&Lines) -> &Numbers| again.as_ref().map(of);
        let (numbers, items) = (field(|lines| &lines.numbers), field(|lines| &lines.items));
        let (supplies, quantities) = (field(|lines| &lines.supplies), field(|lines| &lines.quantities));
        let params: [&(dyn ToSql + Sync); 13] = [
            &warehouse,
            &district,
            &customer,
            &first.numbers,
            &first.items,
            &first.supplies,
            &first.quantities,
            &all_local,
            &line_count,
            &numbers,
            &items,
            &supplies,
            &quantities,
        ];
        let row = self.one(NEW_ORDER, &self.new_order, &params).await?;
        let mut shown = Shown::default();
        shown.add(NEW_ORDER, &row, 7)?;
        let answer = entered(input, &row, &shown)?;
        if read::<bool>(NEW_ORDER, &row, 13)? != answer.committed {
            return Err(unexpected(NEW_ORDER, format!("{} lines, but committed = {}", shown.lines, !answer.committed)));
        }
        Ok(answer)
    }
}

/// Types of the parameters that a statement of this transaction uses.
fn types(name: &str, text: &str) -> Vec<Type> {
    let named = (1..).take_while(|number| text.contains(&format!("${number}"))).count();
    let of = |name: &&str| match *name {
        "int4[]" => Type::INT4_ARRAY,
        "int8" => Type::INT8,
        "varchar" => Type::VARCHAR,
        _ => Type::INT4,
    };
    functions::takes(name).iter().take(named).map(of).collect()
}

/// The result of a New-Order. Only the database can report that an item is not in the catalogue.
fn entered(input: &NewOrderInput, row: &Row, shown: &Shown) -> Result<NewOrderAnswer, Failure> {
    let committed = shown.lines == input.lines.len();
    if !committed && !input.has_unused_item() {
        let detail = format!("{} lines of {} were taken", shown.lines, input.lines.len());
        return Err(unexpected(NEW_ORDER, detail));
    }
    let order: i32 = read(NEW_ORDER, row, 0)?;
    let (warehouse_tax, district_tax): (i32, i32) = (read(NEW_ORDER, row, 1)?, read(NEW_ORDER, row, 2)?);
    let discount: i32 = read(NEW_ORDER, row, 3)?;
    let _name: &str = read(NEW_ORDER, row, 4)?;
    let _credit: &str = read(NEW_ORDER, row, 5)?;
    Ok(NewOrderAnswer {
        order: order.cast_unsigned(),
        committed,
        total_cents: order_total_cents(shown.amount_cents, discount.into(), warehouse_tax.into(), district_tax.into()),
    })
}

impl Terminal for PostgresTerminal {
    async fn new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        let Some(blocks) = &self.blocks else {
            return self.call_new_order(input).await;
        };
        match self.enter(blocks, input).await {
            Ok(answer) => match self.block(NEW_ORDER, if answer.committed { "COMMIT" } else { "ROLLBACK" }).await {
                Ok(()) => Ok(answer),
                // Not every engine leaves the block if its COMMIT fails; an additional ROLLBACK does no harm.
                Err(failure) => Err(self.roll_back(NEW_ORDER, failure).await),
            },
            Err(failure) => Err(self.roll_back(NEW_ORDER, failure).await),
        }
    }

    async fn payment(&mut self, input: &PaymentInput) -> Result<(), Failure> {
        const WHAT: &str = "Payment";
        let warehouse = input.warehouse as i32;
        let district = input.district as i32;
        let customer_warehouse = input.customer_warehouse as i32;
        let customer_district = input.customer_district as i32;
        let id: i32;
        let (statement, customer): (_, &(dyn ToSql + Sync)) = match input.customer {
            CustomerKey::Id(number) => {
                id = number as i32;
                (&self.payment_by_id, &id)
            }
            CustomerKey::LastName(number) => (&self.payment_by_name, &LAST_NAMES[number as usize]),
        };
        let row = self
            .one(
                WHAT,
                statement,
                &[&warehouse, &district, &customer_warehouse, &customer_district, customer, &input.amount_cents],
            )
            .await?;
        let _customer: i32 = read(WHAT, &row, 12)?;
        let _balance_cents: i64 = read(WHAT, &row, 26)?;
        Ok(())
    }

    async fn order_status(&mut self, input: &OrderStatusInput) -> Result<(), Failure> {
        const WHAT: &str = "Order-Status";
        let (warehouse, district) = (input.warehouse as i32, input.district as i32);
        let id: i32;
        let (statement, customer): (_, &(dyn ToSql + Sync)) = match input.customer {
            CustomerKey::Id(number) => {
                id = number as i32;
                (&self.order_status_by_id, &id)
            }
            CustomerKey::LastName(number) => (&self.order_status_by_name, &LAST_NAMES[number as usize]),
        };
        let row = self.one(WHAT, statement, &[&warehouse, &district, customer]).await?;
        let promised: i32 = read(WHAT, &row, 8)?;
        let Count(lines) = read(WHAT, &row, 12)?;
        if i32::try_from(lines) != Ok(promised) {
            let detail = format!("an order of {promised} lines has {lines}");
            return Err(unexpected(WHAT, detail));
        }
        Ok(())
    }

    async fn delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure> {
        const WHAT: &str = "Delivery";
        let (warehouse, carrier) = (input.warehouse as i32, input.carrier as i32);
        let turn_params: [&(dyn ToSql + Sync); 1] = [&warehouse];
        let params: [&(dyn ToSql + Sync); 2] = [&warehouse, &carrier];
        let row = if let Some(blocks) = &self.blocks {
            // One pipeline: if a statement fails, the server turns this COMMIT into a ROLLBACK.
            let (begun, turn, answer, ended) = tokio::join!(
                biased;
                self.block(WHAT, "BEGIN"),
                self.one(WHAT, &blocks.delivery_turn, &turn_params),
                self.one(WHAT, &self.delivery, &params),
                self.block(WHAT, "COMMIT"),
            );
            begun?;
            turn?;
            let row = answer?;
            ended?;
            row
        } else {
            self.one(WHAT, &self.delivery, &params).await?
        };
        let closed: i64 = read(WHAT, &row, 0)?;
        for column in 1..4 {
            let changed: i64 = read(WHAT, &row, column)?;
            if changed != closed {
                let detail = format!("{closed} orders, but {changed} in answer {column}");
                return Err(unexpected(WHAT, detail));
            }
        }
        match u32::try_from(closed) {
            Ok(delivered) if delivered <= DISTRICTS => Ok(DeliveryAnswer { delivered }),
            _ => Err(unexpected(WHAT, format!("{closed} districts"))),
        }
    }

    async fn stock_level(&mut self, input: &StockLevelInput) -> Result<u32, Failure> {
        const WHAT: &str = "Stock-Level";
        let (warehouse, district) = (input.warehouse as i32, input.district as i32);
        let threshold = input.threshold as i32;
        let row = self.one(WHAT, &self.stock_level, &[&warehouse, &district, &threshold]).await?;
        let low: i64 = read(WHAT, &row, 0)?;
        u32::try_from(low).map_err(|_| unexpected(WHAT, format!("{low} items")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_prepared_with_the_types_of_the_parameters_it_names() {
        let types = |name, text: &str| types(name, text).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(types("new_order", &statements::new_order()), "int4 int4 int4 _int4 _int4 _int4 _int4 int4 int4");
        assert_eq!(types("new_order", &statements::new_order_again()), "int4 int4 int4 _int4 _int4 _int4 _int4");
        assert_eq!(types("payment_by_name", &statements::payment(true)), "int4 int4 int4 int4 varchar int8");
        assert_eq!(types("delivery", statements::DELIVERY), "int4 int4");
    }
}
