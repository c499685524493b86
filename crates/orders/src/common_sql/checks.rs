//! The twelve consistency conditions in SQL that MariaDB, MySQL and Oracle all accept.
//!
//! Every query returns the violations: rows of one text column with the place. Two sides that must
//! be equal are added up in one union, so that a row missing on either side is found. `||` concatenates
//! texts: sessions of MariaDB and MySQL set `sql_mode` accordingly.

use crate::ack_log::AcknowledgedOrder;

/// Deliveries committed since the load.
pub(crate) const DELIVERIES: &str = "SELECT COALESCE(SUM(dl_count), 0) FROM delivered";

/// The number of violations of a condition, and the place of one.
pub(crate) fn counted(number: u32) -> String {
    format!("SELECT COUNT(*), MIN(place) FROM ({}) violations", violations(number))
}

/// The orders, of these, that exist in the database.
pub(crate) fn present(orders: &[AcknowledgedOrder]) -> String {
    let keys: Vec<String> =
        orders.iter().map(|order| format!("({}, {}, {})", order.warehouse, order.district, order.order)).collect();
    format!("SELECT o_w_id, o_d_id, o_id FROM orders WHERE (o_w_id, o_d_id, o_id) IN ({})", keys.join(", "))
}

const DUE: &str = "(SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS due
   FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
  WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) o
    ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id";

#[expect(clippy::too_many_lines, reason = "twelve texts, one after the other")]
fn violations(number: u32) -> String {
    let both = |name: &str, columns: &str, left: &str, right: &str| {
        format!(
            "SELECT '{name} ' || {} || ': ' || SUM(a) || ' against ' || SUM(b) AS place
               FROM ({left} UNION ALL {right}) both_sides GROUP BY {columns} HAVING SUM(a) <> SUM(b)",
            columns.replace(", ", " || '/' || ")
        )
    };
    match number {
        1 => both(
            "warehouse",
            "w",
            "SELECT w_id AS w, w_ytd AS a, 0 AS b FROM warehouse",
            "SELECT d_w_id, 0, SUM(d_ytd) FROM district GROUP BY d_w_id",
        ),
        2 => "SELECT 'district ' || d_w_id || '/' || d_id || ': next ' || d_next_o_id || ', newest '
                      || COALESCE(newest, 0) || ', newest open '
                      || COALESCE(newest_open, 0) AS place
                FROM district
                LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS newest FROM orders GROUP BY o_w_id, o_d_id) o
                  ON o_w_id = d_w_id AND o_d_id = d_id
                LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS newest_open FROM new_order
                            GROUP BY no_w_id, no_d_id) n ON no_w_id = d_w_id AND no_d_id = d_id
               WHERE d_next_o_id - 1 <> COALESCE(newest, 0) OR newest_open <> d_next_o_id - 1"
            .to_owned(),
        3 => "SELECT 'district ' || no_w_id || '/' || no_d_id || ': open ' || MIN(no_o_id) || ' to ' || MAX(no_o_id)
                      || ', ' || COUNT(*) || ' rows' AS place
                FROM new_order GROUP BY no_w_id, no_d_id HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)"
            .to_owned(),
        4 => both(
            "district",
            "w, d",
            "SELECT o_w_id AS w, o_d_id AS d, SUM(o_ol_cnt) AS a, 0 AS b FROM orders GROUP BY o_w_id, o_d_id",
            "SELECT ol_w_id, ol_d_id, 0, COUNT(*) FROM order_line GROUP BY ol_w_id, ol_d_id",
        ),
        5 => "SELECT 'order ' || o_w_id || '/' || o_d_id || '/' || o_id || ': carrier ' || COALESCE(o_carrier_id, 0)
                      || CASE WHEN no_o_id IS NULL THEN ', not open' ELSE ', open' END AS place
                FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
               WHERE (o_carrier_id IS NULL AND no_o_id IS NULL) OR (o_carrier_id IS NOT NULL AND no_o_id IS NOT NULL)
              UNION ALL
              SELECT 'order ' || no_w_id || '/' || no_d_id || '/' || no_o_id || ': open but not there'
                FROM new_order LEFT JOIN orders ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id
               WHERE o_id IS NULL"
            .to_owned(),
        6 => both(
            "order",
            "w, d, o",
            "SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_ol_cnt AS a, 0 AS b FROM orders",
            "SELECT ol_w_id, ol_d_id, ol_o_id, 0, COUNT(*) FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id",
        ),
        7 => "SELECT 'order line ' || ol_w_id || '/' || ol_d_id || '/' || ol_o_id || '/' || ol_number || ': delivered '
                      || CASE WHEN ol_delivery_d IS NULL THEN 'never' ELSE 'once' END || ', carrier '
                      || COALESCE(o_carrier_id, 0) AS place
                FROM order_line LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
               WHERE o_id IS NULL OR (ol_delivery_d IS NULL AND o_carrier_id IS NOT NULL)
                  OR (ol_delivery_d IS NOT NULL AND o_carrier_id IS NULL)"
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
            "SELECT 'customer ' || c_w_id || '/' || c_d_id || '/' || c_id || ': balance ' || c_balance || ', delivered '
                      || COALESCE(due, 0) || ', paid ' || COALESCE(paid, 0) AS place
               FROM customer LEFT JOIN {DUE}
               LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history
                           GROUP BY h_c_w_id, h_c_d_id, h_c_id) h
                 ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
              WHERE c_balance <> COALESCE(due, 0) - COALESCE(paid, 0)"
        ),
        11 => "SELECT 'district ' || d_w_id || '/' || d_id || ': orders ' || COALESCE(entered, 0) || ', open '
                      || COALESCE(open, 0) || ', deliveries counted '
                      || COALESCE(dl_count, -1) AS place
               FROM district
               LEFT JOIN (SELECT o_w_id, o_d_id, COUNT(*) AS entered FROM orders GROUP BY o_w_id, o_d_id) o
                 ON o_w_id = d_w_id AND o_d_id = d_id
               LEFT JOIN (SELECT no_w_id, no_d_id, COUNT(*) AS open FROM new_order GROUP BY no_w_id, no_d_id) n
                 ON no_w_id = d_w_id AND no_d_id = d_id
               LEFT JOIN delivered ON dl_w_id = d_w_id AND dl_d_id = d_id
              WHERE COALESCE(entered, 0) - COALESCE(open, 0) <> 2100 + COALESCE(dl_count, -1)"
            .to_owned(),
        _ => format!(
            "SELECT 'customer ' || c_w_id || '/' || c_d_id || '/' || c_id || ': balance ' || c_balance
                      || ', paid in all ' || c_ytd_payment || ', delivered '
                      || COALESCE(due, 0) AS place
               FROM customer LEFT JOIN {DUE} WHERE c_balance + c_ytd_payment <> COALESCE(due, 0)"
        ),
    }
}
