//! The two modes of the order-entry load, statements and stored functions, do the same work.

use crate::support::orders::carry_out;
use crate::support::postgres::Cluster;
use crate::support::{Scratch, millrace, skip, succeed};
use orders::database::Mode;
use orders::postgres::Postgres;

/// Enough for several orders of each sort: rolled back, remote, with the same item twice.
const TRANSACTIONS: u32 = 2_000;

/// One digest per table, without the columns of times.
fn digest(cluster: &Cluster, database: &str) -> String {
    let tables = [
        "warehouse",
        "district",
        "delivered",
        "stock",
        "customer",
        "new_order",
        "(SELECT h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_amount, h_data FROM history)",
        "(SELECT o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local FROM orders)",
        "(SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d IS NULL, ol_quantity, \
          ol_amount, ol_dist_info FROM order_line)",
    ];
    let sums: Vec<String> =
        tables.iter().map(|table| format!("(SELECT sum(hashtextextended(t::text, 0)) FROM {table} AS t)")).collect();
    cluster.sql_in(database, &format!("SET search_path = millrace_orders; SELECT {}", sums.join(" || ' ' || ")))
}

#[test]
#[ignore = "nightly: a minute"]
fn statements_and_stored_functions_answer_the_same_and_leave_the_same_rows() {
    let scratch = Scratch::new("modes");
    let Some(cluster) = Cluster::start(scratch.path()) else { return skip("PostgreSQL is not installed") };
    succeed(millrace().args(["orders", "load", "--warehouses", "2", "-j", "2", "--db", &cluster.dsn()]));
    cluster.sql_in("template1", "CREATE DATABASE other TEMPLATE postgres");
    let database = |name: &str| Postgres::parse(&cluster.dsn().replace("dbname=postgres", &format!("dbname={name}"))).unwrap();
    let by_statements = carry_out(&database("postgres"), 3, TRANSACTIONS);
    let by_functions = carry_out(&database("other").with_mode(Mode::Functions), 3, TRANSACTIONS);
    assert_eq!(by_statements, by_functions);
    assert!(by_statements.iter().any(|answer| answer.contains("committed: false")), "no order was rolled back");
    assert_eq!(digest(&cluster, "postgres"), digest(&cluster, "other"));
    let twice = "SELECT count(*) FROM (SELECT FROM millrace_orders.order_line WHERE ol_o_id > 3000 \
                 GROUP BY ol_w_id, ol_d_id, ol_o_id, ol_supply_w_id, ol_i_id HAVING count(*) > 1) AS t";
    assert_ne!(cluster.sql(twice).trim(), "0", "no order named an item twice");

    // The record names the mode of the run, and the checks hold.
    let dsn = cluster.dsn().replace("dbname=postgres", "dbname=other");
    let run = ["orders", "run", "--mode", "functions", "-c", "4", "-T", "2", "--json", "--db", &dsn];
    let record: serde_json::Value = serde_json::from_str(&succeed(millrace().args(run))).unwrap();
    assert_eq!(record["mode"], "functions");
    assert!(record["orders"].as_u64().unwrap() > 20, "{record}");
    let outcomes = succeed(millrace().args(["orders", "check", "--isolation", "--db", &dsn]));
    assert!(outcomes.contains("9 passed, 0 failed"), "{outcomes}");
    succeed(millrace().args(["orders", "check", "--after-run", "--db", &dsn]));
}
