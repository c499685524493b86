//! The twelve consistency conditions in the SQL of MariaDB and MySQL.
//!
//! Every query gives the violations: rows of one text column that says where. All run on one
//! snapshot. Two sides that must agree are added up in one union, so that a row missing on either
//! side is found.

use std::collections::HashSet;
use std::time::Instant;

use crate::checks::{AcknowledgedOrder, CONDITIONS, CheckOutcome};
use crate::error::OrdersError;
use crate::limits::ACK_IN_LIST_ROWS;

use super::{Session, statements, value};

const DUE: &str = "(SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS due
   FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
  WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS o
    ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id";

#[expect(clippy::too_many_lines, reason = "twelve texts, one after the other")]
fn violations(number: u32, after_run: bool) -> String {
    let both = |name: &str, columns: &str, left: &str, right: &str| {
        format!(
            "SELECT CONCAT('{name} ', CONCAT_WS('/', {columns}), ': ', SUM(a), ' against ', SUM(b)) AS place
               FROM ({left} UNION ALL {right}) AS both_sides GROUP BY {columns} HAVING SUM(a) <> SUM(b)"
        )
    };
    match number {
        1 => both(
            "warehouse",
            "w",
            "SELECT w_id AS w, w_ytd AS a, 0 AS b FROM warehouse",
            "SELECT d_w_id, 0, SUM(d_ytd) FROM district GROUP BY d_w_id",
        ),
        2 => "SELECT CONCAT('district ', d_w_id, '/', d_id, ': next ', d_next_o_id, ', newest ', COALESCE(newest, 'none'),
                     ', newest open ', COALESCE(newest_open, 'none')) AS place
                FROM district
                LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS newest FROM orders GROUP BY o_w_id, o_d_id) AS o
                  ON o_w_id = d_w_id AND o_d_id = d_id
                LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS newest_open FROM new_order
                            GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id
               WHERE NOT (d_next_o_id - 1 <=> newest) OR newest_open <> d_next_o_id - 1"
            .to_owned(),
        3 => "SELECT CONCAT('district ', no_w_id, '/', no_d_id, ': open ', MIN(no_o_id), ' to ', MAX(no_o_id), ', ',
                     COUNT(*), ' rows') AS place
                FROM new_order GROUP BY no_w_id, no_d_id HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)"
            .to_owned(),
        4 => both(
            "district",
            "w, d",
            "SELECT o_w_id AS w, o_d_id AS d, SUM(o_ol_cnt) AS a, 0 AS b FROM orders GROUP BY o_w_id, o_d_id",
            "SELECT ol_w_id, ol_d_id, 0, COUNT(*) FROM order_line GROUP BY ol_w_id, ol_d_id",
        ),
        5 => "SELECT CONCAT('order ', o_w_id, '/', o_d_id, '/', o_id, ': carrier ', COALESCE(o_carrier_id, 'none'),
                     IF(no_o_id IS NULL, ', not open', ', open')) AS place
                FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
               WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)
              UNION ALL
              SELECT CONCAT('order ', no_w_id, '/', no_d_id, '/', no_o_id, ': open but not there')
                FROM new_order LEFT JOIN orders ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id
               WHERE o_id IS NULL"
            .to_owned(),
        6 => both(
            "order",
            "w, d, o",
            "SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_ol_cnt AS a, 0 AS b FROM orders",
            "SELECT ol_w_id, ol_d_id, ol_o_id, 0, COUNT(*) FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id",
        ),
        7 => "SELECT CONCAT('order line ', ol_w_id, '/', ol_d_id, '/', ol_o_id, '/', ol_number, ': delivered ',
                     COALESCE(ol_delivery_d, 'never'), ', carrier ', COALESCE(o_carrier_id, 'none')) AS place
                FROM order_line LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
               WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)"
            .to_owned(),
        8 => both(
            "warehouse",
            "w",
            "SELECT w_id AS w, w_ytd AS a, 0 AS b FROM warehouse",
            "SELECT h_w_id, 0, SUM(h_amount) FROM history GROUP BY h_w_id",
        ),
        9 => both(
            "district",
            "w, d",
            "SELECT d_w_id AS w, d_id AS d, d_ytd AS a, 0 AS b FROM district",
            "SELECT h_w_id, h_d_id, 0, SUM(h_amount) FROM history GROUP BY h_w_id, h_d_id",
        ),
        10 => format!(
            "SELECT CONCAT('customer ', c_w_id, '/', c_d_id, '/', c_id, ': balance ', c_balance, ', delivered ',
                    COALESCE(due, 0), ', paid ', COALESCE(paid, 0)) AS place
               FROM customer LEFT JOIN {DUE}
               LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history
                           GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h
                 ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
              WHERE c_balance <> COALESCE(due, 0) - COALESCE(paid, 0)"
        ),
        11 => format!(
            "SELECT CONCAT('district ', d_w_id, '/', d_id, ': orders ', COALESCE(entered, 0), ', open ', COALESCE(open, 0),
                    ', deliveries counted ', COALESCE(dl_count, 'none')) AS place
               FROM district
               LEFT JOIN (SELECT o_w_id, o_d_id, COUNT(*) AS entered FROM orders GROUP BY o_w_id, o_d_id) AS o
                 ON o_w_id = d_w_id AND o_d_id = d_id
               LEFT JOIN (SELECT no_w_id, no_d_id, COUNT(*) AS open FROM new_order GROUP BY no_w_id, no_d_id) AS n
                 ON no_w_id = d_w_id AND no_d_id = d_id
               LEFT JOIN delivered ON dl_w_id = d_w_id AND dl_d_id = d_id
              WHERE NOT (entered - COALESCE(open, 0) <=> 2100 + IF({}, dl_count, 0))",
            u32::from(after_run)
        ),
        _ => format!(
            "SELECT CONCAT('customer ', c_w_id, '/', c_d_id, '/', c_id, ': balance ', c_balance, ', paid in all ',
                    c_ytd_payment, ', delivered ', COALESCE(due, 0)) AS place
               FROM customer LEFT JOIN {DUE} WHERE c_balance + c_ytd_payment <> COALESCE(due, 0)"
        ),
    }
}

pub(super) async fn check(session: &mut Session, after_run: bool) -> Result<Vec<CheckOutcome>, OrdersError> {
    const WHAT: &str = "beginning the checks";
    for text in statements::BEGIN_READING {
        session.execute(WHAT, text).await?;
    }
    let mut outcomes = Vec::with_capacity(CONDITIONS.len());
    for (number, name) in (1..).zip(CONDITIONS) {
        let began = Instant::now();
        let text = format!("SELECT COUNT(*), MIN(place) FROM ({}) AS violations", violations(number, after_run));
        let rows = session.rows(&format!("check {number}"), &text).await?;
        let Some(row) = rows.first() else {
            return Err(OrdersError::Answer { what: "a check", detail: "no row".to_owned() });
        };
        let violations: u64 = value("a check", row, 0)?;
        outcomes.push(CheckOutcome {
            number,
            name: name.to_owned(),
            passed: violations == 0,
            violations,
            example: value("a check", row, 1)?,
            seconds: began.elapsed().as_secs_f64(),
        });
    }
    session.execute("ending the checks", "COMMIT").await?;
    Ok(outcomes)
}

pub(super) async fn missing(session: &mut Session, orders: &[AcknowledgedOrder]) -> Result<Vec<AcknowledgedOrder>, OrdersError> {
    const WHAT: &str = "looking up acknowledged orders";
    let mut missing = Vec::new();
    for chunk in orders.chunks(ACK_IN_LIST_ROWS) {
        let keys: Vec<String> =
            chunk.iter().map(|order| format!("({}, {}, {})", order.warehouse, order.district, order.order)).collect();
        let text = format!("SELECT o_w_id, o_d_id, o_id FROM orders WHERE (o_w_id, o_d_id, o_id) IN ({})", keys.join(", "));
        let mut present = HashSet::with_capacity(chunk.len());
        for row in session.rows(WHAT, &text).await? {
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
