//! The twelve consistency conditions on MariaDB and MySQL, all on one snapshot.

use std::collections::HashSet;
use std::time::Instant;

use mysql_async::Row;

use crate::ack_log::AcknowledgedOrder;
use crate::common_sql;
use crate::conditions::{CONDITIONS, CheckOutcome, Checked};
use crate::error::OrdersError;
use crate::limits::ACK_IN_LIST_ROWS;

use super::{Session, statements, value};

pub(super) async fn check(session: &mut Session) -> Result<Checked, OrdersError> {
    const WHAT: &str = "beginning the checks";
    for text in statements::BEGIN_READING {
        session.execute(WHAT, text).await?;
    }
    let deliveries = session.number("counting deliveries", common_sql::checks::DELIVERIES).await?.cast_unsigned();
    let mut outcomes = Vec::with_capacity(CONDITIONS.len());
    for (number, name) in (1..).zip(CONDITIONS) {
        let began = Instant::now();
        let text = common_sql::checks::counted(number);
        let rows: Vec<Row> = session.rows(&format!("check {number}"), &text).await?;
        let Some(row) = rows.first() else {
            return Err(OrdersError::Answer { what: "a check", detail: "no row".to_owned() });
        };
        let (violations, example) = (value("a check", row, 0)?, value("a check", row, 1)?);
        outcomes.push(CheckOutcome::new(number, name, violations, example, began));
    }
    session.execute("ending the checks", "COMMIT").await?;
    Ok(Checked { deliveries, outcomes })
}

pub(super) async fn missing(session: &mut Session, orders: &[AcknowledgedOrder]) -> Result<Vec<AcknowledgedOrder>, OrdersError> {
    const WHAT: &str = "looking up acknowledged orders";
    let mut missing = Vec::new();
    for chunk in orders.chunks(ACK_IN_LIST_ROWS) {
        let text = common_sql::checks::present(chunk);
        let mut present = HashSet::with_capacity(chunk.len());
        for row in session.rows::<Row>(WHAT, &text).await? {
            present.insert(AcknowledgedOrder {
                warehouse: value(WHAT, &row, 0)?,
                district: value(WHAT, &row, 1)?,
                order: value(WHAT, &row, 2)?,
            });
        }
        missing.extend(chunk.iter().filter(|order| !present.contains(order)));
    }
    Ok(missing)
}
