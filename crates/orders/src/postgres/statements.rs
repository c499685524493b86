//! The SQL of the five transactions.
//!
//! Each transaction is one set-based statement over arrays or keys; New-Order and Delivery wrap
//! theirs in a block. A data-modifying WITH reads under the statement's snapshot and changes the
//! newest committed version of each row it locks (READ COMMITTED). Where one part takes rows from
//! another, its locks come after that part's: stock and customer rows, then the district, then
//! the warehouse: the most contended row is locked last and for the shortest time. Types are explicit, and halves are
//! shifts, because other engines of the same wire protocol would infer other types.

/// Takes stock for a set of lines in which no (warehouse, item) occurs twice: the common part of
/// the first and any further statement of one New-Order. $1 home warehouse, $2 district, $4 to $7 the
/// lines: number, item, supplying warehouse, quantity. Lines whose item is not in the catalogue
/// are dropped.
const STOCKED: &str = "
stocked AS (
    UPDATE stock
       SET s_quantity = s_quantity - l.quantity
                        + CASE WHEN s_quantity >= l.quantity + 10 THEN 0 ELSE 91 END,
           s_ytd = s_ytd + l.quantity,
           s_order_cnt = s_order_cnt + 1,
           s_remote_cnt = s_remote_cnt + CASE WHEN l.supply = $1::int4 THEN 0 ELSE 1 END
      FROM unnest($4::int4[], $5::int4[], $6::int4[], $7::int4[])
               AS l(number, item, supply, quantity)
      JOIN item ON i_id = l.item
     WHERE s_w_id = l.supply AND s_i_id = l.item
    RETURNING l.number, l.item, l.supply, l.quantity, i_name, s_quantity, i_price,
              l.quantity * i_price AS amount,
              CASE $2::int4 WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03
                      WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06
                      WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09
                      ELSE s_dist_10 END AS dist_info,
              i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%' AS brand)";

/// The columns of each line that a terminal shows.
const SHOWN: &str = "
array_agg(number) AS numbers, array_agg(i_name) AS names, array_agg(s_quantity) AS quantities,
array_agg(brand) AS brands, array_agg(i_price) AS prices, array_agg(amount) AS amounts";

/// New-Order: $3 customer, $8 whether all lines are local. One row: order, taxes, discount, name,
/// credit, entry date, then the lines shown.
pub(super) fn new_order() -> String {
    format!(
        "WITH {STOCKED},
        dist AS (
            UPDATE district SET d_next_o_id = d_next_o_id + 1
              FROM (SELECT count(*) AS lines FROM stocked) AS after_stock
             WHERE d_w_id = $1 AND d_id = $2
            RETURNING (d_next_o_id - 1)::int4 AS o_id, d_tax),
        ordered AS (
            INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
            SELECT $1, $2, o_id, $3::int4, now(), $9::int4, $8::int4 FROM dist),
        opened AS (
            INSERT INTO new_order (no_w_id, no_d_id, no_o_id) SELECT $1, $2, o_id FROM dist),
        lined AS (
            INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id,
                                    ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
            SELECT $1, $2, o_id, number, item, supply, quantity, amount, dist_info
              FROM dist, stocked),
        shown AS (SELECT {SHOWN} FROM stocked)
        SELECT o_id, w_tax, d_tax, c_discount, c_last, c_credit, now(),
               numbers, names, quantities, brands, prices, amounts
          FROM dist, shown, warehouse, customer
         WHERE w_id = $1 AND c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
    )
}

/// Further lines of an order whose (warehouse, item) already occurred in it: $3 is the order.
pub(super) fn new_order_again() -> String {
    format!(
        "WITH {STOCKED},
        lined AS (
            INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id,
                                    ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
            SELECT $1, $2, $3::int4, number, item, supply, quantity, amount, dist_info
              FROM stocked)
        SELECT {SHOWN} FROM stocked"
    )
}

/// The customer at position ceil(n/2) of those with a given last name, sorted by first name. $3 warehouse, $4
/// district, $5 name.
const CHOSEN_BY_NAME: &str = "
chosen AS (
    SELECT (array_agg(c_id ORDER BY c_first))[(count(*) + 1) >> 1] AS id
      FROM customer WHERE c_w_id = $3 AND c_d_id = $4 AND c_last = $5)";
const CHOSEN_BY_ID: &str = "chosen AS (SELECT $5::int4 AS id)";

const fn chosen(by_name: bool) -> &'static str {
    if by_name { CHOSEN_BY_NAME } else { CHOSEN_BY_ID }
}

/// Payment: $1 warehouse, $2 district, $3 to $5 the customer, $6 amount in cents. Returns one row: the values that
/// a terminal shows.
pub(super) fn payment(by_name: bool) -> String {
    let chosen = chosen(by_name);
    format!(
        "WITH {chosen},
        paid AS (
            UPDATE customer
               SET c_balance = c_balance - $6, c_ytd_payment = c_ytd_payment + $6,
                   c_payment_cnt = c_payment_cnt + 1,
                   c_data = CASE WHEN c_credit = 'BC' THEN left(concat_ws(' ', c_id, c_d_id,
                       c_w_id, $2::int4, $1::int4, ($6::int8 / 100.0)::numeric(8, 2), c_data), 500)
                       ELSE c_data END
              FROM chosen
             WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = chosen.id
            RETURNING c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state,
                c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance,
                CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END AS data),
        dist AS (
            UPDATE district SET d_ytd = d_ytd + $6 FROM paid WHERE d_w_id = $1 AND d_id = $2
            RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip),
        ware AS (
            UPDATE warehouse SET w_ytd = w_ytd + $6 FROM dist WHERE w_id = $1
            RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip),
        noted AS (
            INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount,
                                 h_data)
            SELECT c_id, $4, $3, $2, $1, now(), $6, w_name || '    ' || d_name
              FROM ware, dist, paid)
        SELECT *, now() FROM ware, dist, paid"
    )
}

/// Order-Status: $1 to $3 the customer. Returns one row: customer, order, its lines.
pub(super) fn order_status(by_name: bool) -> String {
    let chosen = chosen(by_name).replace("$3", "$1").replace("$4", "$2").replace("$5", "$3");
    format!(
        "WITH {chosen}
        SELECT c_id, c_first, c_middle, c_last, c_balance, o_id, o_entry_d, o_carrier_id,
               o_ol_cnt, items, supplies, quantities, amounts, deliveries
          FROM chosen
          JOIN customer ON c_w_id = $1 AND c_d_id = $2 AND c_id = chosen.id,
          LATERAL (SELECT o_id, o_entry_d, o_carrier_id, o_ol_cnt FROM orders
                    WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = chosen.id
                    ORDER BY o_id DESC LIMIT 1) AS newest,
          LATERAL (SELECT array_agg(ol_i_id) AS items, array_agg(ol_supply_w_id) AS supplies,
                          array_agg(ol_quantity) AS quantities, array_agg(ol_amount) AS amounts,
                          array_agg(ol_delivery_d) AS deliveries
                     FROM order_line
                    WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = newest.o_id) AS lines"
    )
}

/// Serializes the deliveries of one warehouse, so that each sees which orders the previous one left undelivered.
pub(super) const DELIVERY_TURN: &str = "SELECT dl_count FROM delivered WHERE dl_w_id = $1 AND dl_d_id = 1 FOR UPDATE";

/// Delivery: $1 warehouse, $2 carrier. Returns one row: districts delivered, orders, charged customers.
pub(super) const DELIVERY: &str = "
WITH oldest AS (
    SELECT district, o_id
      FROM generate_series(1, 10) AS district,
           LATERAL (SELECT no_o_id AS o_id FROM new_order
                     WHERE no_w_id = $1 AND no_d_id = district
                     ORDER BY no_o_id LIMIT 1) AS open),
closed AS (
    DELETE FROM new_order USING oldest
     WHERE no_w_id = $1 AND no_d_id = district AND no_o_id = o_id
    RETURNING no_d_id, no_o_id),
carried AS (
    UPDATE orders SET o_carrier_id = $2 FROM closed
     WHERE o_w_id = $1 AND o_d_id = no_d_id AND o_id = no_o_id
    RETURNING o_d_id, o_id, o_c_id),
lined AS (
    UPDATE order_line SET ol_delivery_d = now() FROM carried
     WHERE ol_w_id = $1 AND ol_d_id = o_d_id AND ol_o_id = o_id
    RETURNING ol_d_id, o_c_id, ol_amount),
due AS (SELECT ol_d_id, o_c_id, sum(ol_amount)::int8 AS cents FROM lined GROUP BY 1, 2 ORDER BY 1),
owed AS (
    UPDATE customer SET c_balance = c_balance + cents, c_delivery_cnt = c_delivery_cnt + 1
      FROM due WHERE c_w_id = $1 AND c_d_id = ol_d_id AND c_id = o_c_id
    RETURNING c_d_id),
counted AS (
    UPDATE delivered SET dl_count = dl_count + 1
      FROM closed WHERE dl_w_id = $1 AND dl_d_id = no_d_id
    RETURNING dl_d_id)
SELECT (SELECT count(*) FROM closed), (SELECT count(*) FROM carried),
       (SELECT count(*) FROM owed), (SELECT count(*) FROM counted)";

/// Stock-Level: $1 warehouse, $2 district, $3 threshold. Returns one row: the number of distinct items, in the last 20
/// orders of the district, whose stock is below the threshold.
pub(super) const STOCK_LEVEL: &str = "
SELECT count(DISTINCT s_i_id)
  FROM district
  JOIN order_line ON ol_w_id = $1 AND ol_d_id = $2
                 AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id
  JOIN stock ON s_w_id = $1 AND s_i_id = ol_i_id
 WHERE d_w_id = $1 AND d_id = $2 AND s_quantity < $3";
