//! What other engines with PostgreSQL's wire protocol need, tested on PostgreSQL: conflicts that
//! end in serialization failures, also at COMMIT, and a schema without PostgreSQL's own features.

use crate::support::postgres::Cluster;
use crate::support::{Scratch, millrace, skip, succeed, text};
use serde_json::Value;

const USERS: u64 = 4;

/// A run of 4 s with these arguments. Returns its record.
fn run(cluster: &Cluster, arguments: &[&str]) -> Value {
    let users = USERS.to_string();
    let mut command = millrace();
    command.args(["orders", "run", "--db", &cluster.dsn(), "-c", &users, "-T", "4", "--json"]).args(arguments);
    let record: Value = serde_json::from_str(&succeed(&mut command)).unwrap();
    assert!(record["orders"].as_u64().unwrap() > 20, "{record}");
    record
}

/// The sum of a count over all five transactions.
fn total(record: &Value, name: &str) -> u64 {
    let each = record["transactions"].as_object().unwrap().values();
    each.map(|of_kind| of_kind[name].as_u64().unwrap()).sum()
}

fn every_check_holds(cluster: &Cluster) {
    let checks = succeed(millrace().args(["orders", "check", "--after-run", "--db", &cluster.dsn()]));
    assert!(checks.contains("12 passed, 0 failed"), "{checks}");
}

#[test]
#[ignore = "nightly: half a minute of load"]
fn serialization_failures_are_sent_again_as_whole_transactions_and_counted() {
    let scratch = Scratch::new("wire");
    let Some(cluster) = Cluster::start(scratch.path()) else { return skip("PostgreSQL is not installed") };
    // The portable form of the schema: keys with the tables, no VACUUM, no surrounding transaction.
    let load = ["orders", "load", "--portable", "--warehouses", "1", "-j", "2", "--db", &cluster.dsn()];
    succeed(millrace().args(load));
    let keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND connamespace = 'millrace_orders'::regnamespace";
    assert_eq!(cluster.sql(keys).trim(), "10", "a table of rows has no key");

    // All users work on one warehouse, and all payments update its row.
    for mode in ["statements", "functions"] {
        let record = run(&cluster, &["--isolation-level", "serializable", "--mode", mode]);
        assert_eq!(record["isolation"], "serializable, conflicts retried");
        assert!(total(&record, "retries") > 0, "{mode}: {record}");
        assert_eq!((total(&record, "errors"), &record["unfinished"]), (0, &Value::from(0)), "{mode}");
    }
    every_check_holds(&cluster);

    // A failure at COMMIT itself, as a distributed engine reports it. Here a deferred trigger raises it.
    cluster.sql(
        "SET search_path = millrace_orders; CREATE SEQUENCE raised;
         CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF random() < 0.2 THEN PERFORM nextval('millrace_orders.raised'); RAISE SQLSTATE '40001'; END IF; RETURN NULL;
         END $$;
         CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION raise()",
    );
    let mut raised_before = 0;
    for arguments in [["--mode", "statements"], ["--mode", "functions"], ["--portable", "--warmup=0"]] {
        let record = run(&cluster, &arguments);
        let raised: u64 = cluster.sql("SELECT last_value FROM millrace_orders.raised").trim().parse().unwrap();
        let retries = record["transactions"]["new_order"]["retries"].as_u64().unwrap();
        let now = raised - raised_before;
        // The record does not count transactions that the end of the interval cut off.
        assert!(now > 5 && retries + USERS >= now, "{arguments:?}: {retries} retries after {now} failures");
        assert_eq!(total(&record, "errors"), 0, "{arguments:?}");
        raised_before = raised;
    }
    every_check_holds(&cluster);
}

#[test]
fn an_engine_is_not_asked_for_what_it_is_not_known_to_have() {
    let scratch = Scratch::new("wire-refusals");
    let Some(cluster) = Cluster::start(scratch.path()) else { return skip("PostgreSQL is not installed") };
    let dsn = cluster.dsn();
    let refused = |arguments: &[&str], words: [&str; 2]| {
        let output = millrace().arg("orders").args(arguments).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    };
    refused(
        &["load", "--portable", "--warehouses", "2", "--node", "host=/nowhere", "--db", &dsn],
        ["this engine is not known to have shares on further servers", "leave --node out"],
    );
    succeed(millrace().args(["orders", "load", "--portable", "--warehouses", "1", "--db", &dsn]));
    refused(
        &["run", "--portable", "--mode", "functions", "-c", "1", "-T", "1", "--db", &dsn],
        ["this engine is not known to have stored functions", "run with --mode statements"],
    );
    refused(
        &["run", "--isolation-level", "serializable", "-c", "1", "-T", "1", "--db", "mysql://root@127.0.0.1:1/"],
        ["--isolation-level is for PostgreSQL", "leave --isolation-level out"],
    );
}
