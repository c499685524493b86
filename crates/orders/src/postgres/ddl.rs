//! The statements that create the tables, and the lock for changes of the schema.

use crate::error::OrdersError;

use super::Session;

/// Key of the advisory lock that keeps two loads of one database apart ("millrace" in ASCII).
const LOAD_LOCK: i64 = 0x6D69_6C6C_7261_6365;

/// Creates every table, without keys and indexes.
pub(super) const TABLES: &str = "
CREATE TABLE config (
    version INTEGER NOT NULL, loaded BOOLEAN NOT NULL, made_schema BOOLEAN NOT NULL,
    warehouses INTEGER NOT NULL, load_seed BIGINT NOT NULL,
    c_last_load INTEGER NOT NULL, c_last_run INTEGER NOT NULL,
    c_id INTEGER NOT NULL, ol_i_id INTEGER NOT NULL);
CREATE TABLE load_progress (
    part INTEGER NOT NULL, warehouse INTEGER NOT NULL, amount BIGINT NOT NULL,
    PRIMARY KEY (part, warehouse));
CREATE TABLE item (
    i_id INTEGER NOT NULL, i_im_id INTEGER NOT NULL, i_name VARCHAR(24) NOT NULL,
    i_price BIGINT NOT NULL, i_data VARCHAR(50) NOT NULL);
CREATE TABLE warehouse (
    w_id INTEGER NOT NULL, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL,
    w_street_2 VARCHAR(20) NOT NULL, w_city VARCHAR(20) NOT NULL, w_state CHAR(2) NOT NULL,
    w_zip CHAR(9) NOT NULL, w_tax INTEGER NOT NULL, w_ytd BIGINT NOT NULL)
    WITH (fillfactor = 20);
CREATE TABLE district (
    d_w_id INTEGER NOT NULL, d_id INTEGER NOT NULL, d_name VARCHAR(10) NOT NULL,
    d_street_1 VARCHAR(20) NOT NULL, d_street_2 VARCHAR(20) NOT NULL,
    d_city VARCHAR(20) NOT NULL, d_state CHAR(2) NOT NULL, d_zip CHAR(9) NOT NULL,
    d_tax INTEGER NOT NULL, d_ytd BIGINT NOT NULL, d_next_o_id INTEGER NOT NULL)
    WITH (fillfactor = 20);
CREATE TABLE delivered (
    dl_w_id INTEGER NOT NULL, dl_d_id INTEGER NOT NULL, dl_count BIGINT NOT NULL)
    WITH (fillfactor = 20);
CREATE TABLE stock (
    s_w_id INTEGER NOT NULL, s_i_id INTEGER NOT NULL, s_quantity INTEGER NOT NULL,
    s_dist_01 CHAR(24) NOT NULL, s_dist_02 CHAR(24) NOT NULL, s_dist_03 CHAR(24) NOT NULL,
    s_dist_04 CHAR(24) NOT NULL, s_dist_05 CHAR(24) NOT NULL, s_dist_06 CHAR(24) NOT NULL,
    s_dist_07 CHAR(24) NOT NULL, s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL,
    s_dist_10 CHAR(24) NOT NULL, s_ytd BIGINT NOT NULL, s_order_cnt INTEGER NOT NULL,
    s_remote_cnt INTEGER NOT NULL, s_data VARCHAR(50) NOT NULL);
CREATE TABLE customer (
    c_w_id INTEGER NOT NULL, c_d_id INTEGER NOT NULL, c_id INTEGER NOT NULL,
    c_first VARCHAR(16) NOT NULL, c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL,
    c_street_1 VARCHAR(20) NOT NULL, c_street_2 VARCHAR(20) NOT NULL,
    c_city VARCHAR(20) NOT NULL, c_state CHAR(2) NOT NULL, c_zip CHAR(9) NOT NULL,
    c_phone CHAR(16) NOT NULL, c_since TIMESTAMPTZ NOT NULL, c_credit CHAR(2) NOT NULL,
    c_credit_lim BIGINT NOT NULL, c_discount INTEGER NOT NULL, c_balance BIGINT NOT NULL,
    c_ytd_payment BIGINT NOT NULL, c_payment_cnt INTEGER NOT NULL,
    c_delivery_cnt INTEGER NOT NULL, c_data VARCHAR(500) NOT NULL);
CREATE TABLE history (
    h_c_id INTEGER NOT NULL, h_c_d_id INTEGER NOT NULL, h_c_w_id INTEGER NOT NULL,
    h_d_id INTEGER NOT NULL, h_w_id INTEGER NOT NULL, h_date TIMESTAMPTZ NOT NULL,
    h_amount BIGINT NOT NULL, h_data VARCHAR(24) NOT NULL);
CREATE TABLE orders (
    o_w_id INTEGER NOT NULL, o_d_id INTEGER NOT NULL, o_id INTEGER NOT NULL,
    o_c_id INTEGER NOT NULL, o_entry_d TIMESTAMPTZ NOT NULL, o_carrier_id INTEGER,
    o_ol_cnt INTEGER NOT NULL, o_all_local INTEGER NOT NULL);
CREATE TABLE new_order (
    no_w_id INTEGER NOT NULL, no_d_id INTEGER NOT NULL, no_o_id INTEGER NOT NULL);
CREATE TABLE order_line (
    ol_w_id INTEGER NOT NULL, ol_d_id INTEGER NOT NULL, ol_o_id INTEGER NOT NULL,
    ol_number INTEGER NOT NULL, ol_i_id INTEGER NOT NULL, ol_supply_w_id INTEGER NOT NULL,
    ol_delivery_d TIMESTAMPTZ, ol_quantity INTEGER NOT NULL, ol_amount BIGINT NOT NULL,
    ol_dist_info CHAR(24) NOT NULL);
";

/// Keeps two loads of one database apart until the transaction ends, if the engine has advisory locks.
pub(super) async fn lock(session: &Session, what: &str) -> Result<(), OrdersError> {
    if !session.dialect.advisory_locks {
        return Ok(());
    }
    session.execute(what, &format!("SELECT pg_advisory_xact_lock({LOAD_LOCK})")).await
}
