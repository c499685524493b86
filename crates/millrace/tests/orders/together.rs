//! Several processes of `millrace orders run` share one run: they synchronise in a results
//! database, and one may be killed.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::postgres::Cluster;
use crate::support::{Scratch, await_until, millrace, skip, succeed, text};
use results::histogram::ResponseTimes;
use results::orders_run::OrdersRun;

fn cluster(label: &str) -> Option<(Scratch, Cluster)> {
    let scratch = Scratch::new(label);
    let Some(cluster) = Cluster::start(scratch.path()) else {
        skip("PostgreSQL is not installed");
        return None;
    };
    cluster.sql("CREATE DATABASE shared_run");
    succeed(orders(&["load", "--warehouses", "1", "-j", "2"]).args(["--db", &cluster.dsn()]));
    Some((scratch, cluster))
}

fn orders(arguments: &[&str]) -> Command {
    let mut command = millrace();
    command.arg("orders").args(arguments);
    command
}

/// The results database, which is not the load's database.
fn shared_run(cluster: &Cluster) -> String {
    cluster.dsn().replace("dbname=postgres", "dbname=shared_run")
}

fn run(cluster: &Cluster, name: &str, drivers: &str, more: &[&str]) -> Command {
    let mut command = orders(&["run", "--db", &cluster.dsn(), "--results-db", &shared_run(cluster)]);
    command.args(["--run", name, "--drivers", drivers]).args(more);
    command
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn record(output: &Output) -> OrdersRun {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(output)))
}

/// Runs a query on the tables of the shared run.
fn ask(cluster: &Cluster, statement: &str) -> String {
    let exists = cluster.sql("SELECT count(*) FROM pg_database WHERE datname = 'shared_run'");
    assert_eq!(exists.trim(), "1");
    cluster.sql_in("shared_run", statement).trim().to_owned()
}

/// Asserts that the percentiles and counts of a merged record agree with each other.
fn is_consistent(run: &OrdersRun) {
    let all = &run.transactions;
    assert_eq!(run.orders, all.new_order.count);
    assert_eq!(run.per_second.iter().sum::<u64>(), run.orders);
    assert_eq!(run.per_second.len() as f64, run.measured_s);
    assert!((run.oets_per_minute - run.orders as f64 * 60.0 / run.measured_s).abs() < 1e-6);
    for record in [&all.new_order, &all.payment, &all.order_status, &all.delivery, &all.stock_level] {
        let times = ResponseTimes::from_v2_base64(&record.histogram_v2_base64).unwrap();
        let (own, recorded) = (times.summary(), record.response_us);
        assert_eq!(times.count(), record.count + record.rolled_back);
        assert_eq!(
            (own.p50, own.p90, own.p95, own.p99, own.max),
            (recorded.p50, recorded.p90, recorded.p95, recorded.p99, recorded.max)
        );
        // A mean that was read from JSON may differ in its last binary digit.
        assert!((own.mean - recorded.mean).abs() <= own.mean * 1e-12, "{own:?} {recorded:?}");
    }
}

#[test]
#[ignore = "nightly: half a minute of load"]
fn three_drivers_share_the_users_begin_together_and_each_gives_the_same_merged_record() {
    let Some((scratch, cluster)) = cluster("together") else { return };
    let acks: Vec<_> = (0..3).map(|number| scratch.path().join(format!("acks{number}"))).collect();
    let load = ["-c", "7", "-T", "4", "--warmup", "1", "--json"];
    let children: Vec<Child> =
        acks.iter().map(|acks| spawn(run(&cluster, "friday", "3", &load).arg("--ack-log").arg(acks))).collect();
    let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let records: Vec<OrdersRun> = outputs.iter().map(record).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{}", text(&outputs[0]));
    assert!(records.iter().all(|record| *record == records[0]));

    let merged = &records[0];
    is_consistent(merged);
    assert_eq!((merged.users, merged.measured_s, merged.per_second.len()), (7, 4.0, 4));
    let drivers: Vec<_> = merged.drivers.iter().map(|driver| (driver.name.as_str(), driver.users, driver.first_user)).collect();
    assert_eq!(drivers, [("1", 3, 0), ("2", 2, 3), ("3", 2, 5)]);
    assert!(merged.drivers.iter().all(|driver| driver.status == "finished" && driver.counted_s == 4.0));
    assert!(merged.drivers.iter().all(|driver| driver.start_error_ms < 500.0), "{:?}", merged.drivers);
    let rates: f64 = merged.drivers.iter().map(|driver| driver.oets_per_minute).sum();
    assert!((rates - merged.oets_per_minute).abs() < 1e-6);
    // The interval began at one moment for all: no driver was alone in the first or last second.
    let first: u64 = merged.per_second[0];
    assert!(first * 20 > merged.orders / 4, "{:?}", merged.per_second);

    // A second merge gives the same record. The snapshots, which only a lost driver needs, are deleted.
    let again = orders(&["merge", "--results-db", &shared_run(&cluster), "--run", "friday", "--json"]).output().unwrap();
    assert_eq!((again.status.code(), &record(&again)), (Some(0), merged));
    assert_eq!(ask(&cluster, "SELECT count(*) FROM millrace_results.cut"), "0");
    for acks in &acks {
        let checked = ["check", "--db", &cluster.dsn(), "--after-run", "--ack-log", acks.to_str().unwrap()];
        succeed(&mut orders(&checked));
    }

    refusals(&cluster);
}

fn refusals(cluster: &Cluster) {
    let refused = |command: &mut Command, words: &[&str]| {
        let output = command.output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} not in {said}");
    };
    // The run is over.
    let over = ["-c", "7", "-T", "4", "--warmup", "1"];
    refused(&mut run(cluster, "friday", "3", &over), &["run friday began", "hint: every run needs a new --run NAME"]);
    refused(&mut run(cluster, "few", "3", &["-c", "2", "-T", "1"]), &["--users: 2 users are fewer than the 3 of --drivers"]);
    let unknown = ["merge", "--results-db", &shared_run(cluster), "--run", "nobody"];
    refused(&mut orders(&unknown), &["there is no run nobody"]);
    // A second driver has other options, another asks for a number that is taken, and no driver 1 comes.
    let alone = ["-c", "4", "-T", "1", "--barrier-timeout", "6", "--driver", "2"];
    let first = spawn(&mut run(cluster, "alone", "2", &alone));
    await_until("the driver to be ready", Duration::from_secs(80), || {
        (ask(cluster, "SELECT count(*) FROM millrace_results.driver WHERE status = 'ready'") == "1").then_some(())
    });
    refused(&mut run(cluster, "alone", "2", &["-c", "5", "-T", "1"]), &["--users 4, this driver has 5", "hint: "]);
    refused(&mut run(cluster, "alone", "2", &alone), &["driver number 2 of run alone is taken"]);
    let output = first.wait_with_output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("1 of 2 drivers ready, waiting for driver 1"), "{said}");
    assert!(said.contains("run alone still lacks driver 1") && said.contains("--barrier-timeout"), "{said}");
}

#[test]
#[ignore = "nightly: half a minute of load"]
fn a_driver_killed_in_the_interval_is_named_and_the_figures_are_those_of_the_common_seconds() {
    let Some((_scratch, cluster)) = cluster("together-killed") else { return };
    let load = ["-c", "6", "-T", "8", "--json"];
    let mut children: Vec<Child> = ["1", "2", "3"]
        .map(|driver| spawn(run(&cluster, "saturday", "3", &load).args(["--driver", driver])))
        .into_iter()
        .collect();
    // Driver 2 has stored three snapshots, so it is in the middle of the interval.
    await_until("cuts of driver 2", Duration::from_secs(120), || {
        let cuts = "SELECT coalesce(max(second), 0) FROM millrace_results.cut WHERE number = 2";
        let there = ask(&cluster, "SELECT to_regclass('millrace_results.cut') IS NOT NULL") == "t";
        (there && ask(&cluster, cuts).parse::<u64>().unwrap() >= 3).then_some(())
    });
    let mut killed = children.remove(1);
    killed.kill().unwrap();
    let at = Instant::now();
    killed.wait().unwrap();
    let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    // 5 s of the interval were left, and a driver that does not answer is regarded as lost after 10
    // s. The rest is reserve.
    assert!(at.elapsed() < Duration::from_secs(60), "{:?}", at.elapsed());
    for output in &outputs {
        assert_eq!(output.status.code(), Some(3), "{}", text(output));
    }
    let merged = record(&outputs[0]);
    assert_eq!(merged, record(&outputs[1]));
    is_consistent(&merged);
    assert!((3.0..8.0).contains(&merged.measured_s), "{}", merged.measured_s);
    assert_eq!((merged.users, merged.drivers.len()), (6, 3));
    for driver in &merged.drivers {
        let expected = if driver.name == "2" { "lost" } else { "finished" };
        assert_eq!((driver.status.as_str(), driver.counted_s), (expected, merged.measured_s), "{driver:?}");
    }
    let lost = &merged.drivers[1];
    let from_s = lost.missing_from_s.unwrap();
    assert!(from_s >= merged.measured_s && from_s < 8.0, "{lost:?}");
    assert!((lost.lost_s - (8.0 - from_s)).abs() < 1e-9 && lost.reason.is_some(), "{lost:?}");
    let said = text(&outputs[0]);
    assert!(said.contains("INCOMPLETE: driver 2 did not finish"), "{said}");

    // The merged record has no more orders than the database. The killed driver's orders are in both.
    let entered = "SELECT sum(d_next_o_id - 3001) FROM millrace_orders.district";
    assert!(merged.orders <= cluster.sql(entered).trim().parse::<u64>().unwrap());
    let own = "SELECT record->>'orders' FROM millrace_results.cut WHERE number = 2 ORDER BY second";
    let counted: Vec<u64> = ask(&cluster, own).lines().map(|orders| orders.parse().unwrap()).collect();
    assert!(counted.is_sorted() && counted.last().unwrap() > &0, "{counted:?}");
    let merge = orders(&["merge", "--results-db", &shared_run(&cluster), "--run", "saturday"]).output().unwrap();
    let said = text(&merge);
    assert_eq!(merge.status.code(), Some(3), "{said}");
    assert!(said.contains("lost from second") && said.contains("s without it"), "{said}");
    succeed(&mut orders(&["check", "--db", &cluster.dsn(), "--after-run"]));
}

#[test]
#[ignore = "nightly: half a minute of load"]
fn a_driver_that_is_interrupted_prints_its_own_part_and_the_others_go_on_without_it() {
    let Some((_scratch, cluster)) = cluster("together-interrupted") else { return };
    // Long enough that a busy host can let three seconds pass and send a signal before the end.
    let load = ["-c", "4", "-T", "20", "--json"];
    let [leaves, stays] = ["1", "2"].map(|driver| spawn(run(&cluster, "sunday", "2", &load).args(["--driver", driver])));
    await_until("snapshots of driver 1", Duration::from_secs(120), || {
        let there = ask(&cluster, "SELECT to_regclass('millrace_results.cut') IS NOT NULL") == "t";
        let second = "SELECT coalesce(max(second), 0) FROM millrace_results.cut WHERE number = 1";
        (there && ask(&cluster, second).parse::<u64>().unwrap() >= 3).then_some(())
    });
    succeed(Command::new("kill").args(["-INT", &leaves.id().to_string()]));
    let (left, stayed) = (leaves.wait_with_output().unwrap(), stays.wait_with_output().unwrap());
    assert_eq!((left.status.code(), stayed.status.code()), (Some(130), Some(3)), "{}{}", text(&left), text(&stayed));
    let (own, merged) = (record(&left), record(&stayed));
    assert!(own.interrupted && own.drivers.is_empty() && (3.0..20.0).contains(&own.measured_s), "{}", own.measured_s);
    is_consistent(&merged);
    assert!(!merged.interrupted && merged.measured_s <= own.measured_s, "{} {}", merged.measured_s, own.measured_s);
    let status: Vec<_> = merged.drivers.iter().map(|driver| (driver.status.as_str(), driver.reason.as_deref())).collect();
    assert_eq!(status, [("failed", Some("it was interrupted")), ("finished", None)]);

    // A driver at the barrier has nothing to print.
    let waits = spawn(&mut run(&cluster, "monday", "2", &load));
    await_until("the driver to be ready", Duration::from_secs(80), || {
        (ask(&cluster, "SELECT count(*) FROM millrace_results.driver WHERE run = 'monday' AND status = 'ready'") == "1")
            .then_some(())
    });
    succeed(Command::new("kill").args(["-INT", &waits.id().to_string()]));
    let output = waits.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0), "{}", text(&output));
}
