//! The SQL of the five transactions on MariaDB and MySQL, in addition to [`common_sql`].
//!
//! Each piece takes its values as text: numbers if the driver sends statements, names of
//! parameters in the stored procedures. So both modes use the same text. Rows are locked in a fixed order
//! (stock by key, customer, district, warehouse; Delivery first locks the row that serializes deliveries). Values are
//! numbers and names made from the load's syllables; no external text enters a statement. A query inside SET locks
//! the rows it reads, but `SELECT … INTO` reads a snapshot: the latter is used where nothing may wait.

use std::fmt::Display;

use crate::common_sql;

/// Session variables: the current order and customer.
pub(super) const ORDER: &str = "@o";
const CUSTOMER: &str = "@c";

/// Settings of every session: those that the pieces below rely on, and no limit of the account or the server on a statement. Only
/// MariaDB or MySQL of at least the given version executes the text of the comments.
pub(super) const SESSION_SETTINGS: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; \
     SET autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,PIPES_AS_CONCAT' \
     /*M!100301 , max_statement_time = 0, idle_transaction_timeout = 0 */ /*!80000 , max_execution_time = 0 */";

/// Opens a transaction that changes rows.
pub(super) const BEGIN: &str = "START TRANSACTION";

/// Makes the server join tables in the written order.
pub(super) const JOIN: &str = "STRAIGHT_JOIN";

/// Assigns the order its number, in `@o`, and inserts it.
pub(super) fn enter_order(
    warehouse: impl Display,
    district: impl Display,
    customer: impl Display,
    line_count: impl Display,
    all_local: impl Display,
) -> Vec<String> {
    let mut parts = vec![
        format!(
            "UPDATE district SET d_next_o_id = LAST_INSERT_ID(d_next_o_id) + 1
              WHERE d_w_id = {warehouse} AND d_id = {district}"
        ),
        "SET @o = LAST_INSERT_ID()".to_owned(),
    ];
    parts.extend(common_sql::enter_order((warehouse, district, ORDER), customer, line_count, all_local));
    parts
}

/// The values of order `@o` that a terminal shows: a row of its head, then a row for each line.
pub(super) fn show_order(warehouse: impl Display, district: impl Display, customer: impl Display) -> Vec<String> {
    vec![
        format!(
            "SELECT @o, w_tax, d_tax, c_discount, c_last, c_credit, NOW(6) FROM warehouse, district, customer
              WHERE w_id = {warehouse} AND d_w_id = {warehouse} AND d_id = {district}
                AND c_w_id = {warehouse} AND c_d_id = {district} AND c_id = {customer}"
        ),
        format!(
            "SELECT ol_number, i_name, s_quantity, i_price, ol_amount,
                    i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%'
               FROM order_line STRAIGHT_JOIN item ON i_id = ol_i_id
                    STRAIGHT_JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id
              WHERE ol_w_id = {warehouse} AND ol_d_id = {district} AND ol_o_id = @o"
        ),
    ]
}

/// Sets `@c` to the customer with a last name.
pub(super) fn choose_by_name(warehouse: impl Display, district: impl Display, name: impl Display) -> String {
    common_sql::choose_by_name(CUSTOMER, warehouse, district, name)
}

/// Sets `@c` to a customer's number.
pub(super) fn choose_by_id(customer: impl Display) -> String {
    format!("SET @c = {customer}")
}

/// Payment of customer `@c`, and the values that the terminal shows, in one row.
pub(super) fn pay(
    warehouse: impl Display,
    district: impl Display,
    customer_warehouse: impl Display,
    customer_district: impl Display,
    cents: impl Display,
) -> Vec<String> {
    let [taken_by_district, taken_by_warehouse] = common_sql::take_in(&warehouse, &district, &cents);
    vec![
        format!(
            "UPDATE customer SET c_balance = c_balance - {cents}, c_ytd_payment = c_ytd_payment + {cents},
                c_payment_cnt = c_payment_cnt + 1,
                c_data = IF(c_credit = 'BC', LEFT(CONCAT_WS(' ', c_id, c_d_id, c_w_id, {district}, {warehouse},
                    CAST({cents} / 100 AS DECIMAL(8, 2)), c_data), 500), c_data)
              WHERE c_w_id = {customer_warehouse} AND c_d_id = {customer_district} AND c_id = @c"
        ),
        taken_by_district,
        taken_by_warehouse,
        format!(
            "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
             SELECT @c, {customer_district}, {customer_warehouse}, {district}, {warehouse}, NOW(6), {cents},
                    CONCAT(w_name, '    ', d_name)
               FROM warehouse, district WHERE w_id = {warehouse} AND d_w_id = {warehouse} AND d_id = {district}"
        ),
        format!(
            "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip,
                    d_name, d_street_1, d_street_2, d_city, d_state, d_zip,
                    c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since,
                    c_credit, c_credit_lim, c_discount, c_balance, IF(c_credit = 'BC', LEFT(c_data, 200), NULL), NOW(6)
               FROM warehouse, district, customer
              WHERE w_id = {warehouse} AND d_w_id = {warehouse} AND d_id = {district}
                AND c_w_id = {customer_warehouse} AND c_d_id = {customer_district} AND c_id = @c"
        ),
    ]
}

/// Opens the snapshot that Order-Status reads.
pub(super) const BEGIN_READING: [&str; 2] =
    ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"];

/// The values of Order-Status for customer `@c`: a row of the customer and the newest order, then its lines.
pub(super) fn show_status(warehouse: impl Display, district: impl Display) -> Vec<String> {
    vec![
        format!(
            "SELECT o_id INTO @o FROM orders WHERE o_w_id = {warehouse} AND o_d_id = {district} AND o_c_id = @c
              ORDER BY o_id DESC LIMIT 1"
        ),
        format!(
            "SELECT c_id, c_first, c_middle, c_last, c_balance, o_id, o_entry_d, o_carrier_id, o_ol_cnt
               FROM customer, orders
              WHERE c_w_id = {warehouse} AND c_d_id = {district} AND c_id = @c
                AND o_w_id = {warehouse} AND o_d_id = {district} AND o_id = @o"
        ),
        format!(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
              WHERE ol_w_id = {warehouse} AND ol_d_id = {district} AND ol_o_id = @o"
        ),
    ]
}

/// Serializes the deliveries of one warehouse, so that each sees which orders the previous one left undelivered.
pub(super) fn take_turn(warehouse: impl Display) -> Vec<String> {
    vec![common_sql::take_turn("@turn", warehouse), "SET @districts = 0".to_owned()]
}

/// Delivers the oldest undelivered order of a district, if there is one, and counts it in `@districts`.
pub(super) fn deliver(warehouse: impl Display, district: impl Display, carrier: impl Display) -> Vec<String> {
    let order = (&warehouse, &district, ORDER);
    let [closed, carried, lined] = common_sql::close_order(order, carrier);
    let [owed, counted] = common_sql::charge(order, CUSTOMER, "@due");
    vec![
        format!(
            "SET @o = (SELECT no_o_id FROM new_order WHERE no_w_id = {warehouse} AND no_d_id = {district}
              ORDER BY no_o_id LIMIT 1)"
        ),
        closed,
        carried,
        format!("SET @c = (SELECT o_c_id FROM orders WHERE o_w_id = {warehouse} AND o_d_id = {district} AND o_id = @o)"),
        lined,
        format!(
            "SET @due = (SELECT SUM(ol_amount) FROM order_line
              WHERE ol_w_id = {warehouse} AND ol_d_id = {district} AND ol_o_id = @o)"
        ),
        owed,
        counted,
        "SET @districts = @districts + (@o IS NOT NULL)".to_owned(),
    ]
}
