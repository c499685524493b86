//! SQL that MariaDB, MySQL and Oracle all accept.
//!
//! Each piece takes its values as text: numbers, names of parameters, or variables of a procedure.
//! `join` is the keyword that keeps the order of a join, if the database needs one. Rows are locked in a fixed order
//! (stock by key, customer, district, warehouse; Delivery first locks the row that serializes deliveries).

pub(crate) mod checks;

use std::fmt::Display;

use crate::database::{Config, SCHEMA_VERSION};

/// Stores the configuration of a load, marked as half loaded.
pub(crate) fn insert_config(config: &Config, made_schema: bool) -> String {
    let Config { warehouses, seed, constants } = config;
    format!(
        "INSERT INTO config VALUES ({SCHEMA_VERSION}, 0, {}, {warehouses}, {seed}, {}, {}, {}, {})",
        u32::from(made_schema),
        constants.last_load,
        constants.last_run,
        constants.customer,
        constants.item,
    )
}

/// Notes that a part of the load is done.
pub(crate) fn note(part: u32, warehouse: u32, rows: u64) -> String {
    format!("INSERT INTO load_progress VALUES ({part}, {warehouse}, {rows})")
}

/// Takes stock for one line of an order at warehouse `home`. Changes nothing if the item is not in the catalogue.
pub(crate) fn take_stock(home: impl Display, item: impl Display, supply: impl Display, quantity: impl Display) -> String {
    format!(
        "UPDATE stock SET s_quantity = s_quantity - {quantity} + CASE WHEN s_quantity >= {quantity} + 10 THEN 0 ELSE 91 END,
            s_ytd = s_ytd + {quantity}, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + CASE WHEN {supply} = {home} THEN 0 ELSE 1 END
          WHERE s_w_id = {supply} AND s_i_id = {item}"
    )
}

/// Inserts `order`, undelivered, without its lines.
pub(crate) fn enter_order(
    (warehouse, district, order): (impl Display, impl Display, &str),
    customer: impl Display,
    line_count: impl Display,
    all_local: impl Display,
) -> [String; 2] {
    [
        format!(
            "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
             VALUES ({warehouse}, {district}, {order}, {customer}, CURRENT_TIMESTAMP(6), {line_count}, {all_local})"
        ),
        format!("INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ({warehouse}, {district}, {order})"),
    ]
}

/// Adds a line to `order`, unless its item is not in the catalogue.
pub(crate) fn add_line(
    (warehouse, district, order): (impl Display, impl Display, &str),
    number: impl Display,
    item: impl Display,
    supply: impl Display,
    quantity: impl Display,
    join: &str,
) -> String {
    let district_info: String = (1..=10).map(|number| format!(" WHEN {number} THEN s_dist_{number:02}")).collect();
    format!(
        "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
                                 ol_amount, ol_dist_info)
         SELECT {warehouse}, {district}, {order}, {number}, i_id, s_w_id, {quantity}, {quantity} * i_price,
                CASE {district}{district_info} END
           FROM item {join} stock ON s_i_id = i_id
          WHERE i_id = {item} AND s_w_id = {supply}"
    )
}

/// Sets `chosen` to the customer at position ceil(n/2) of those with a last name, sorted by first name.
pub(crate) fn choose_by_name(chosen: &str, warehouse: impl Display, district: impl Display, name: impl Display) -> String {
    format!(
        "SELECT c_id INTO {chosen} FROM (
            SELECT c_id, ROW_NUMBER() OVER (ORDER BY c_first, c_id) AS nth, COUNT(*) OVER () AS names FROM customer
             WHERE c_w_id = {warehouse} AND c_d_id = {district} AND c_last = {name}) named
          WHERE nth = FLOOR((names + 1) / 2)"
    )
}

/// Adds a payment to the totals of its district and its warehouse. The most contended row, the warehouse, comes last.
pub(crate) fn take_in(warehouse: impl Display, district: impl Display, cents: impl Display) -> [String; 2] {
    [
        format!("UPDATE district SET d_ytd = d_ytd + {cents} WHERE d_w_id = {warehouse} AND d_id = {district}"),
        format!("UPDATE warehouse SET w_ytd = w_ytd + {cents} WHERE w_id = {warehouse}"),
    ]
}

/// Serializes the deliveries of one warehouse, so that each sees which orders the previous one left undelivered.
pub(crate) fn take_turn(into: &str, warehouse: impl Display) -> String {
    format!("SELECT dl_count INTO {into} FROM delivered WHERE dl_w_id = {warehouse} AND dl_d_id = 1 FOR UPDATE")
}

/// Marks `order` as delivered and assigns it to a carrier; no effect if the order is NULL.
pub(crate) fn close_order(
    (warehouse, district, order): (impl Display, impl Display, &str),
    carrier: impl Display,
) -> [String; 3] {
    [
        format!("DELETE FROM new_order WHERE no_w_id = {warehouse} AND no_d_id = {district} AND no_o_id = {order}"),
        format!(
            "UPDATE orders SET o_carrier_id = {carrier}
              WHERE o_w_id = {warehouse} AND o_d_id = {district} AND o_id = {order}"
        ),
        format!(
            "UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP(6)
              WHERE ol_w_id = {warehouse} AND ol_d_id = {district} AND ol_o_id = {order}"
        ),
    ]
}

/// Charges a customer for `order`, and counts its delivery; no effect if the order is NULL.
pub(crate) fn charge((warehouse, district, order): (impl Display, impl Display, &str), customer: &str, due: &str) -> [String; 2] {
    [
        format!(
            "UPDATE customer SET c_balance = c_balance + {due}, c_delivery_cnt = c_delivery_cnt + 1
              WHERE c_w_id = {warehouse} AND c_d_id = {district} AND c_id = {customer}"
        ),
        format!(
            "UPDATE delivered SET dl_count = dl_count + 1
              WHERE dl_w_id = {warehouse} AND dl_d_id = {district} AND {order} IS NOT NULL"
        ),
    ]
}

/// Stock-Level: returns one row, the number of items with low stock in the last 20 orders.
pub(crate) fn stock_level(warehouse: impl Display, district: impl Display, threshold: impl Display, join: &str) -> String {
    format!(
        "SELECT COUNT(DISTINCT s_i_id)
           FROM district
                {join} order_line ON ol_w_id = d_w_id AND ol_d_id = d_id
                    AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id
                {join} stock ON s_w_id = d_w_id AND s_i_id = ol_i_id
          WHERE d_w_id = {warehouse} AND d_id = {district} AND s_quantity < {threshold}"
    )
}
