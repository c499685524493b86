//! `millrace orders` on a real MariaDB: load, run, check, both modes, deadlocks, an interrupted load.

use std::process::Stdio;
use std::time::Duration;

use crate::support::mariadb::MariaDb;
use crate::support::orders::{SUMS, carry_out, fields};
use crate::support::postgres::Cluster;
use crate::support::{Scratch, await_until, millrace, skip, succeed, text};
use orders::any::AnyDatabase;
use orders::database::Mode;
use serde_json::Value;

const COUNT: u32 = 700;

fn mariadb(label: &str, options: &[&str]) -> Option<(Scratch, MariaDb)> {
    let scratch = Scratch::new(label);
    let started = MariaDb::start(scratch.path(), options);
    if started.is_none() {
        skip("MariaDB is not installed");
    }
    Some((scratch, started?))
}

fn failed(report: &Value) -> Vec<u64> {
    let all = report["checks"].as_array().unwrap();
    assert_eq!(all.len(), 12);
    all.iter().filter(|check| check["passed"] == false).map(|check| check["number"].as_u64().unwrap()).collect()
}

fn check(dsn: &str, more: &[&str]) -> (Option<i32>, Value) {
    let output = millrace().args(["orders", "check", "--json", "--db", dsn]).args(more).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    (output.status.code(), report)
}

#[test]
#[ignore = "nightly: two minutes"]
fn mariadb_loads_runs_and_checks_and_answers_as_postgresql_does_in_both_modes() {
    let Some((scratch, mariadb)) = mariadb("mariadb", &[]) else { return };
    let Some(cluster) = Cluster::start(scratch.path()) else { return skip("PostgreSQL is not installed") };
    let dsn = mariadb.dsn();
    for dsn in [&dsn, &cluster.dsn()] {
        succeed(millrace().args(["orders", "load", "--warehouses", "2", "-j", "2", "--db", dsn]));
    }
    let (code, fresh) = check(&dsn, &[]);
    assert_eq!((failed(&fresh), code), (vec![], Some(0)));

    // The same transactions, one after the other: both databases and both modes give the same answers.
    let answers = |dsn: &str, modes: [Mode; 2]| -> Vec<String> {
        let part = |seed, mode| carry_out(&AnyDatabase::parse(dsn, mode).unwrap(), seed, COUNT);
        [part(3, modes[0]), part(4, modes[1])].concat()
    };
    let here = answers(&dsn, [Mode::Statements, Mode::Functions]);
    assert_eq!(here, answers(&cluster.dsn(), [Mode::Functions, Mode::Statements]));
    assert!(here.iter().any(|answer| answer.contains("committed: false")), "no order was rolled back");
    let sums = fields(&mariadb.sql(&format!("USE millrace_orders; {SUMS}")));
    assert_eq!(sums, fields(&cluster.sql(&format!("SET search_path = millrace_orders; {SUMS}"))));
    assert_eq!(sums.len(), 31);

    // Two measured runs, one per mode, on the same rows. The database has every acknowledged order.
    let acks = scratch.path().join("acks");
    for mode in ["statements", "functions"] {
        let run = ["orders", "run", "--mode", mode, "-c", "4", "-T", "2", "--json", "--db", &dsn, "--ack-log"];
        let record: Value = serde_json::from_str(&succeed(millrace().args(run).arg(&acks))).unwrap();
        assert_eq!(record["mode"], mode);
        assert!(record["database_version"].as_str().unwrap().starts_with("MariaDB 1"), "{record}");
        assert!(record["orders"].as_u64().unwrap() > 10, "{record}");
    }
    let (code, report) = check(&dsn, &["--ack-log", acks.to_str().unwrap()]);
    assert!(report["after_run"] == true && report["deliveries"].as_u64() > Some(0), "{report}");
    assert_eq!((failed(&report), code, &report["acknowledged"]["missing"]), (vec![], Some(0), &Value::from(0)));
    damage_is_found(&mariadb);
    let outcomes = succeed(millrace().args(["orders", "check", "--isolation", "--db", &dsn]));
    assert!(outcomes.contains("9 passed, 0 failed"), "{outcomes}");
    assert_eq!(failed(&check(&dsn, &["--after-run"]).1), Vec::<u64>::new());
}

#[test]
fn a_run_on_mariadb_says_what_each_unsafe_setting_may_cost() {
    let Some((_scratch, mariadb)) = mariadb("mariadb-notes", &[]) else { return };
    // The servers of these tests flush nothing. The run finds no loaded schema, so it prints only the notes.
    let output = millrace().args(["orders", "run", "-c", "1", "-T", "1", "--db", &mariadb.dsn()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    for note in [
        "note: innodb_doublewrite = OFF: a page torn by a crash cannot be repaired: the database may be damaged",
        "note: innodb_flush_log_at_trx_commit = 0: an acknowledged order may be lost in a crash",
        "note: innodb_flush_method = nosync: data files are never flushed: a crash of the host may damage the database",
    ] {
        assert!(text(&output).contains(note), "{note}\n{}", text(&output));
    }
}

/// Damages each condition and repairs it: the check finds all twelve broken, and then none.
fn damage_is_found(mariadb: &MariaDb) {
    let pairs = [
        ("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1", "UPDATE warehouse SET w_ytd = w_ytd - 1 WHERE w_id = 1"),
        (
            "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 2 AND o_d_id = 3 AND o_id = 5",
            "UPDATE orders SET o_ol_cnt = o_ol_cnt - 1 WHERE o_w_id = 2 AND o_d_id = 3 AND o_id = 5",
        ),
        (
            "UPDATE customer SET c_balance = c_balance + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
            "UPDATE customer SET c_balance = c_balance - 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
        ),
        (
            "UPDATE district SET d_next_o_id = d_next_o_id + 1, d_ytd = d_ytd + 1 WHERE d_w_id = 2 AND d_id = 4",
            "UPDATE district SET d_next_o_id = d_next_o_id - 1, d_ytd = d_ytd - 1 WHERE d_w_id = 2 AND d_id = 4",
        ),
        ("INSERT INTO new_order VALUES (2, 1, 7)", "DELETE FROM new_order WHERE no_w_id = 2 AND no_d_id = 1 AND no_o_id = 7"),
        (
            "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 2 AND ol_o_id = 7 AND ol_number = 1",
            "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = 1 AND ol_d_id = 2 AND ol_o_id = 7 AND ol_number = 1",
        ),
    ];
    mariadb.sql(&format!("USE millrace_orders; {}", pairs.map(|(damage, _)| damage).join(";")));
    let (code, report) = check(&mariadb.dsn(), &["--after-run"]);
    assert_eq!((failed(&report), code), ((1..=12).collect(), Some(1)));
    mariadb.sql(&format!("USE millrace_orders; {}", pairs.map(|(_, repair)| repair).join(";")));
    assert_eq!(failed(&check(&mariadb.dsn(), &["--after-run"]).1), Vec::<u64>::new());
}

#[test]
#[ignore = "nightly: loads a database several times, half a minute"]
fn a_mariadb_load_that_is_cut_off_goes_on_and_rows_in_statements_load_as_well() {
    let Some((_scratch, mariadb)) = mariadb("mariadb-cut", &["--local-infile=0"]) else { return };
    let load = || {
        let mut command = millrace();
        command.args(["orders", "load", "--warehouses", "1", "-j", "1", "--db", &mariadb.dsn()]);
        command
    };
    let child = load().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    await_until("a part to be loaded", Duration::from_secs(240), || {
        let client = mariadb.sql("SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'load_progress'");
        (client.trim() == "1" && mariadb.sql("SELECT COUNT(*) > 4 FROM millrace_orders.load_progress").trim() == "1")
            .then_some(())
    });
    succeed(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("--resume"), "{}", text(&output));
    // A half-loaded schema is refused by a run and by a second load.
    for again in [["load", "--warehouses", "1"], ["run", "-c1", "-T1"]] {
        let refused = millrace().arg("orders").args(again).args(["--db", &mariadb.dsn()]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
        assert!(text(&refused).contains("half loaded"), "{}", text(&refused));
    }
    let before: u64 = mariadb.sql("SELECT SUM(amount) FROM millrace_orders.load_progress").trim().parse().unwrap();
    let report: Value = serde_json::from_str(&succeed(load().args(["--resume", "--json"]))).unwrap();
    assert_eq!(report["rows_before"].as_u64().unwrap(), before);
    assert_eq!(failed(&check(&mariadb.dsn(), &[]).1), Vec::<u64>::new());
    assert_eq!(mariadb.sql("SELECT COUNT(*) FROM millrace_orders.customer").trim(), "30000");
}
