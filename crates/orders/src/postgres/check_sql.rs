//! The twelve consistency conditions in SQL.
//!
//! Every query returns the violations: rows of one text column with the place. All run in one
//! REPEATABLE READ transaction, so they are also correct on a database that is in use.

use std::time::Instant;

use crate::ack_log::AcknowledgedOrder;
use crate::conditions::{CONDITIONS, CheckOutcome, Checked};
use crate::error::OrdersError;

use super::{Session, sql};

/// The query for violations of each of [`CONDITIONS`].
const VIOLATIONS: [&str; 12] = [
    // 1
    "
SELECT format('warehouse %s: W_YTD %s, districts %s', w_id, w_ytd, ytd) AS place
  FROM warehouse FULL JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY 1) AS d
    ON d_w_id = w_id WHERE w_ytd IS DISTINCT FROM ytd",
    // 2
    "
SELECT format('district %s/%s: next %s, newest %s, newest open %s',
              d_w_id, d_id, d_next_o_id, newest, newest_open) AS place
  FROM district
  LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS newest FROM orders GROUP BY 1, 2) AS o
    ON o_w_id = d_w_id AND o_d_id = d_id
  LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS newest_open FROM new_order GROUP BY 1, 2)
    AS n ON no_w_id = d_w_id AND no_d_id = d_id
 WHERE d_next_o_id - 1 IS DISTINCT FROM newest OR newest_open <> d_next_o_id - 1",
    // 3
    "
SELECT format('district %s/%s: open %s to %s, %s rows', no_w_id, no_d_id, min(no_o_id),
              max(no_o_id), count(*)) AS place
  FROM new_order GROUP BY no_w_id, no_d_id
HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    // 4
    "
SELECT format('district %s/%s: promised %s, lines %s', coalesce(o_w_id, ol_w_id),
              coalesce(o_d_id, ol_d_id), promised, lines) AS place
  FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS promised FROM orders GROUP BY 1, 2) AS o
  FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines FROM order_line GROUP BY 1, 2) AS l
    ON ol_w_id = o_w_id AND ol_d_id = o_d_id
 WHERE promised IS DISTINCT FROM lines",
    // 5
    "
SELECT format('order %s/%s/%s: carrier %s, %s', coalesce(o_w_id, no_w_id),
              coalesce(o_d_id, no_d_id), coalesce(o_id, no_o_id), o_carrier_id,
              CASE WHEN o_id IS NULL THEN 'open but not there' WHEN no_o_id IS NULL
              THEN 'not open' ELSE 'open' END) AS place
  FROM orders FULL JOIN new_order
    ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
 WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    // 6
    "
SELECT format('order %s/%s/%s: promised %s, lines %s', coalesce(o_w_id, ol_w_id),
              coalesce(o_d_id, ol_d_id), coalesce(o_id, ol_o_id), o_ol_cnt, lines) AS place
  FROM orders
  FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines FROM order_line
              GROUP BY 1, 2, 3) AS l
    ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
 WHERE o_ol_cnt IS DISTINCT FROM lines",
    // 7
    "
SELECT format('order line %s/%s/%s/%s: delivered %s, carrier %s', ol_w_id, ol_d_id, ol_o_id,
              ol_number, ol_delivery_d, o_carrier_id) AS place
  FROM order_line LEFT JOIN orders
    ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
 WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    // 8
    "
SELECT format('warehouse %s: W_YTD %s, history %s', coalesce(w_id, h_w_id), w_ytd, paid) AS place
  FROM warehouse
  FULL JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY 1) AS h ON h_w_id = w_id
 WHERE w_ytd IS DISTINCT FROM paid",
    // 9
    "
SELECT format('district %s/%s: D_YTD %s, history %s', coalesce(d_w_id, h_w_id),
              coalesce(d_id, h_d_id), d_ytd, paid) AS place
  FROM district
  FULL JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2) AS h
    ON h_w_id = d_w_id AND h_d_id = d_id
 WHERE d_ytd IS DISTINCT FROM paid",
    // 10
    "
SELECT format('customer %s/%s/%s: balance %s, delivered %s, paid %s',
              c_w_id, c_d_id, c_id, c_balance, due, paid) AS place
  FROM customer
  LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS due
               FROM orders JOIN order_line
                 ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
              WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) AS o
    ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
  LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history
              GROUP BY 1, 2, 3) AS h
    ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
 WHERE c_balance <> coalesce(due, 0) - coalesce(paid, 0)",
    // 11
    "
SELECT format('district %s/%s: orders %s, open %s, deliveries counted %s',
              d_w_id, d_id, orders, open, dl_count) AS place
  FROM district
  LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS orders FROM orders GROUP BY 1, 2) AS o
    ON o_w_id = d_w_id AND o_d_id = d_id
  LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS open FROM new_order GROUP BY 1, 2) AS n
    ON no_w_id = d_w_id AND no_d_id = d_id
  LEFT JOIN delivered ON dl_w_id = d_w_id AND dl_d_id = d_id
 WHERE orders - coalesce(open, 0)
       IS DISTINCT FROM 2100 + dl_count",
    // 12
    "
SELECT format('customer %s/%s/%s: balance %s, paid in all %s, delivered %s',
              c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, due) AS place
  FROM customer
  LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS due
               FROM orders JOIN order_line
                 ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
              WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) AS o
    ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
 WHERE c_balance + c_ytd_payment <> coalesce(due, 0)",
];

pub(super) async fn check(session: &Session) -> Result<Checked, OrdersError> {
    let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {}", session.dialect.check_settings);
    session.execute("beginning the checks", &begin).await?;
    let deliveries = deliveries(session).await?;
    let mut outcomes = Vec::with_capacity(CONDITIONS.len());
    for (number, (name, violations)) in (1..).zip(CONDITIONS.into_iter().zip(VIOLATIONS)) {
        outcomes.push(run(session, number, name, violations).await?);
    }
    session.execute("ending the checks", "COMMIT").await?;
    Ok(Checked { deliveries, outcomes })
}

async fn deliveries(session: &Session) -> Result<u64, OrdersError> {
    const WHAT: &str = "counting deliveries";
    const TEXT: &str = "SELECT CAST(coalesce(sum(dl_count), 0) AS bigint) FROM delivered";
    let row = session.client.query_one(TEXT, &[]).await.map_err(sql(WHAT))?;
    Ok(row.try_get::<_, i64>(0).map_err(sql(WHAT))?.cast_unsigned())
}

async fn run(session: &Session, number: u32, name: &str, violations: &str) -> Result<CheckOutcome, OrdersError> {
    let what = format!("check {number}");
    let began = Instant::now();
    let text = format!("SELECT count(*), min(place) FROM ({violations}) AS violations");
    let row = session.client.query_one(&text, &[]).await.map_err(sql(&what))?;
    let violations: i64 = row.try_get(0).map_err(sql(&what))?;
    let example = row.try_get(1).map_err(sql(&what))?;
    Ok(CheckOutcome::new(number, name, violations.cast_unsigned(), example, began))
}

pub(super) async fn missing(session: &Session, orders: &[AcknowledgedOrder]) -> Result<Vec<AcknowledgedOrder>, OrdersError> {
    const WHAT: &str = "looking up acknowledged orders";
    const TEXT: &str = "
        SELECT w, d, o FROM unnest($1::int4[], $2::int4[], $3::int4[]) AS a(w, d, o)
         WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_w_id = w AND o_d_id = d AND o_id = o)";
    let column = |of: fn(&AcknowledgedOrder) -> u32| -> Vec<i32> { orders.iter().map(|order| of(order).cast_signed()).collect() };
    let (warehouses, districts, numbers) =
        (column(|order| order.warehouse), column(|order| order.district), column(|order| order.order));
    let rows = session.client.query(TEXT, &[&warehouses, &districts, &numbers]).await.map_err(sql(WHAT))?;
    rows.iter()
        .map(|row| {
            let number = |column: usize| -> Result<u32, OrdersError> {
                Ok(row.try_get::<_, i32>(column).map_err(sql(WHAT))?.cast_unsigned())
            };
            Ok(AcknowledgedOrder { warehouse: number(0)?, district: number(1)?, order: number(2)? })
        })
        .collect()
}
