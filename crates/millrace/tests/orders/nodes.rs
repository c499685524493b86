//! `millrace orders` on a schema partitioned over two PostgreSQL servers: load with both, then run
//! and check by one DSN.

use crate::support::orders::{SUMS, carry_out};
use crate::support::postgres::Cluster;
use crate::support::{Scratch, millrace, skip, succeed};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// A small number, because each statement on the other server costs round trips.
const COUNT: u32 = 150;

/// Updates the warehouse of the second server and commits only when another session waits for it.
const CHANGE_WHILE_OTHERS_WAIT: &str = "SET statement_timeout = '20s'; DO $$ BEGIN \
    UPDATE millrace_orders.warehouse SET w_ytd = w_ytd WHERE w_id = 2; \
    WHILE NOT EXISTS (SELECT FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))) LOOP PERFORM pg_sleep(0.001); END LOOP; END $$";

#[test]
#[ignore = "nightly: a minute"]
fn a_schema_split_over_two_servers_loads_runs_and_checks_by_dsn() {
    let scratch = Scratch::new("nodes");
    let (Some(first), Some(second)) = (Cluster::start(&scratch.folder("first")), Cluster::start(&scratch.folder("second")))
    else {
        return skip("PostgreSQL is not installed");
    };
    let load = ["orders", "load", "--warehouses", "2", "-j", "2", "--db", &first.dsn(), "--node", &second.dsn()];
    succeed(millrace().args(load));
    // One warehouse is on each server, the catalogue on both.
    let rows = "SELECT (SELECT count(*) FROM millrace_orders.stock_0), (SELECT count(*) FROM millrace_orders.item)";
    assert_eq!(first.sql(rows).trim(), "100000|100000");
    assert_eq!(second.sql(&rows.replace("stock_0", "stock")).trim(), "100000|100000");
    assert_eq!(second.sql("SELECT min(s_w_id), max(s_w_id) FROM millrace_orders.stock").trim(), "2|2");
    succeed(millrace().args(["orders", "check", "--db", &first.dsn()]));

    // The rows and the answers are the same as on one server.
    first.sql("CREATE DATABASE whole");
    let whole = first.dsn().replace("dbname=postgres", "dbname=whole");
    succeed(millrace().args(["orders", "load", "--warehouses", "2", "-j", "2", "--db", &whole]));
    let database = |dsn: &str| orders::postgres::Postgres::parse(dsn).unwrap();
    assert_eq!(carry_out(&database(&first.dsn()), 5, COUNT), carry_out(&database(&whole), 5, COUNT));
    let sums = format!("SET search_path = millrace_orders; {SUMS}");
    assert_eq!(first.sql(&sums), first.sql_in("whole", &sums));

    // A transaction waits for a row of the other server and finds it changed. This is a
    // serialization failure: the run repeats and counts the transaction.
    let acks = scratch.path().join("acks");
    let run = ["orders", "run", "-c", "6", "-j", "2", "-T", "4", "--marks", "--json", "--db", &first.dsn(), "--ack-log"];
    let mut run = millrace().args(run).arg(&acks).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "measuring"), "it ended before it measured");
    second.sql(CHANGE_WHILE_OTHERS_WAIT);
    let said: Vec<String> = lines.collect();
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{said:?}");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(record["database_version"].as_str().unwrap().ends_with("partitioned over 2 servers"), "{record}");
    assert!(record["orders"].as_u64().unwrap() > 5, "{record}");
    let retries: u64 =
        ["new_order", "payment", "delivery"].map(|name| record["transactions"][name]["retries"].as_u64().unwrap()).iter().sum();
    assert!(retries > 0, "{record}");
    succeed(millrace().args(["orders", "check", "--after-run", "--db", &first.dsn(), "--ack-log"]).arg(&acks));
}
