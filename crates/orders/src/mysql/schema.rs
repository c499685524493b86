//! Tables and indexes on MariaDB and MySQL: how they are created, completed and dropped.
//!
//! InnoDB stores rows in the order of their primary key, so tables have their keys from the start and rows
//! are loaded in key order. Text is ASCII, compared byte by byte, like the names of the load.

use crate::tables::Table;

const OPTIONS: &str = "ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin";

/// Each table: its name, its columns and its key.
pub(crate) const TABLES: [(&str, &str); 12] = [
    (
        "config",
        "version INT NOT NULL, loaded BOOLEAN NOT NULL, made_schema BOOLEAN NOT NULL, warehouses INT NOT NULL,
         load_seed BIGINT UNSIGNED NOT NULL, c_last_load INT NOT NULL, c_last_run INT NOT NULL, c_id INT NOT NULL,
         ol_i_id INT NOT NULL, PRIMARY KEY (version)",
    ),
    ("load_progress", "part INT NOT NULL, warehouse INT NOT NULL, amount BIGINT NOT NULL, PRIMARY KEY (part, warehouse)"),
    (
        "item",
        "i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_price BIGINT NOT NULL,
         i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id)",
    ),
    (
        "warehouse",
        "w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL,
         w_street_2 VARCHAR(20) NOT NULL, w_city VARCHAR(20) NOT NULL, w_state CHAR(2) NOT NULL,
         w_zip CHAR(9) NOT NULL, w_tax INT NOT NULL, w_ytd BIGINT NOT NULL, PRIMARY KEY (w_id)",
    ),
    (
        "district",
        "d_w_id INT NOT NULL, d_id INT NOT NULL, d_name VARCHAR(10) NOT NULL, d_street_1 VARCHAR(20) NOT NULL,
         d_street_2 VARCHAR(20) NOT NULL, d_city VARCHAR(20) NOT NULL, d_state CHAR(2) NOT NULL,
         d_zip CHAR(9) NOT NULL, d_tax INT NOT NULL, d_ytd BIGINT NOT NULL, d_next_o_id INT NOT NULL,
         PRIMARY KEY (d_w_id, d_id)",
    ),
    ("delivered", "dl_w_id INT NOT NULL, dl_d_id INT NOT NULL, dl_count BIGINT NOT NULL, PRIMARY KEY (dl_w_id, dl_d_id)"),
    (
        "stock",
        "s_w_id INT NOT NULL, s_i_id INT NOT NULL, s_quantity INT NOT NULL,
         s_dist_01 CHAR(24) NOT NULL, s_dist_02 CHAR(24) NOT NULL, s_dist_03 CHAR(24) NOT NULL,
         s_dist_04 CHAR(24) NOT NULL, s_dist_05 CHAR(24) NOT NULL, s_dist_06 CHAR(24) NOT NULL,
         s_dist_07 CHAR(24) NOT NULL, s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL,
         s_dist_10 CHAR(24) NOT NULL, s_ytd BIGINT NOT NULL, s_order_cnt INT NOT NULL,
         s_remote_cnt INT NOT NULL, s_data VARCHAR(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id)",
    ),
    (
        "customer",
        "c_w_id INT NOT NULL, c_d_id INT NOT NULL, c_id INT NOT NULL, c_first VARCHAR(16) NOT NULL,
         c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, c_street_1 VARCHAR(20) NOT NULL,
         c_street_2 VARCHAR(20) NOT NULL, c_city VARCHAR(20) NOT NULL, c_state CHAR(2) NOT NULL,
         c_zip CHAR(9) NOT NULL, c_phone CHAR(16) NOT NULL, c_since DATETIME(6) NOT NULL,
         c_credit CHAR(2) NOT NULL, c_credit_lim BIGINT NOT NULL, c_discount INT NOT NULL,
         c_balance BIGINT NOT NULL, c_ytd_payment BIGINT NOT NULL, c_payment_cnt INT NOT NULL,
         c_delivery_cnt INT NOT NULL, c_data VARCHAR(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id)",
    ),
    (
        "history",
        "h_c_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_w_id INT NOT NULL, h_d_id INT NOT NULL,
         h_w_id INT NOT NULL, h_date DATETIME(6) NOT NULL, h_amount BIGINT NOT NULL, h_data VARCHAR(24) NOT NULL",
    ),
    (
        "orders",
        "o_w_id INT NOT NULL, o_d_id INT NOT NULL, o_id INT NOT NULL, o_c_id INT NOT NULL,
         o_entry_d DATETIME(6) NOT NULL, o_carrier_id INT, o_ol_cnt INT NOT NULL, o_all_local INT NOT NULL,
         PRIMARY KEY (o_w_id, o_d_id, o_id)",
    ),
    ("new_order", "no_w_id INT NOT NULL, no_d_id INT NOT NULL, no_o_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id)"),
    (
        "order_line",
        "ol_w_id INT NOT NULL, ol_d_id INT NOT NULL, ol_o_id INT NOT NULL, ol_number INT NOT NULL,
         ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL, ol_delivery_d DATETIME(6), ol_quantity INT NOT NULL,
         ol_amount BIGINT NOT NULL, ol_dist_info CHAR(24) NOT NULL,
         PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    ),
];

/// The key of `history`, which has no key of its own, on a server that requires one for every table
/// (`innodb_force_primary_key`, `sql_require_primary_key`).
const HISTORY_KEY: &str = ", h_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, PRIMARY KEY (h_id)";

/// The statements that create the missing tables; `keyed` is true if each table needs a key.
pub(super) fn create(keyed: bool) -> Vec<String> {
    let key = |name: &str| if keyed && name == "history" { HISTORY_KEY } else { "" };
    let create = |(name, columns): &(&str, &str)| format!("CREATE TABLE IF NOT EXISTS {name} ({columns}{}) {OPTIONS}", key(name));
    TABLES.iter().map(create).collect()
}

/// The columns of the generated rows, if the table may have a further one.
pub(super) const fn copied_columns(table: Table) -> &'static str {
    match table {
        Table::History => " (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)",
        _ => "",
    }
}

/// The statement that drops every table, `config` last, so that an interrupted drop can be repeated.
pub(super) fn drop_tables() -> String {
    let names: Vec<&str> = TABLES.iter().rev().map(|(name, _)| *name).collect();
    format!("DROP TABLE IF EXISTS {}", names.join(", "))
}

/// The step that collects the optimizer's statistics.
pub(crate) const STATISTICS: &str = "statistics";

/// The steps after the rows: name and statement of each.
pub(crate) const STEPS: [(&str, &str); 3] = [
    ("customers by name", "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first, c_id)"),
    ("orders by customer", "CREATE UNIQUE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)"),
    (STATISTICS, "ANALYZE TABLE item, warehouse, district, delivered, stock, customer, history, orders, new_order, order_line"),
];

/// The steps in stages: both indexes, then statistics.
pub(crate) fn finishing_steps() -> Vec<Vec<&'static str>> {
    let [(customers, _), (orders, _), (statistics, _)] = STEPS;
    vec![vec![customers, orders], vec![statistics]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_rows_leads_with_its_warehouse() {
        for (table, columns) in TABLES.iter().filter(|(table, _)| !["config", "load_progress", "item"].contains(table)) {
            let Some((_, key)) = columns.split_once("PRIMARY KEY (") else {
                assert_eq!(*table, "history");
                continue;
            };
            assert!(key.split([',', ')']).next().unwrap().ends_with("w_id"), "{table}");
        }
    }

    #[test]
    fn every_table_has_a_key_on_a_server_that_wants_one() {
        assert!(create(true).iter().all(|text| text.contains("PRIMARY KEY (")));
        assert_eq!(create(false).iter().filter(|text| !text.contains("PRIMARY KEY (")).count(), 1);
    }

    #[test]
    fn steps_are_named_as_in_their_stages() {
        let names: Vec<_> = finishing_steps().concat();
        assert_eq!(names, STEPS.map(|(name, _)| name));
    }
}
