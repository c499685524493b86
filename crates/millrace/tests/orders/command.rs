//! `millrace orders` on a real PostgreSQL: load, run, check, crashes and bad input.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::support::postgres::Cluster;
use crate::support::{Scratch, await_until, millrace, skip, succeed, text};
use serde_json::Value;

fn cluster(label: &str) -> Option<(Scratch, Cluster)> {
    let scratch = Scratch::new(label);
    let started = Cluster::start(scratch.path());
    if started.is_none() {
        skip("PostgreSQL is not installed");
    }
    Some((scratch, started?))
}

fn orders(arguments: &[&str]) -> Command {
    let mut command = millrace();
    command.arg("orders").args(arguments);
    command
}

fn load(cluster: &Cluster, warehouses: &str) -> String {
    succeed(&mut orders(&["load", "--db", &cluster.dsn(), "--warehouses", warehouses, "-j", "2"]))
}

fn checks(cluster: &Cluster, more: &[&str]) -> (Output, Value) {
    let output = orders(&["check", "--db", &cluster.dsn(), "--json"]).args(more).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    (output, report)
}

/// Numbers of the conditions that do not hold.
fn failed(report: &Value) -> Vec<u64> {
    let all = report["checks"].as_array().unwrap();
    assert_eq!(all.len(), 12);
    all.iter().filter(|check| check["passed"] == false).map(|check| check["number"].as_u64().unwrap()).collect()
}

/// Asserts a refusal: exit code 2, one message with these words, and no panic.
fn refused(command: &mut Command, words: &[&str]) {
    let output = command.output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

fn relations(cluster: &Cluster) -> u64 {
    let statement = "SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
                     WHERE nspname = 'millrace_orders') + (SELECT count(*) FROM pg_namespace \
                     WHERE nspname = 'millrace_orders')";
    cluster.sql(statement).trim().parse().unwrap()
}

#[test]
fn a_load_runs_and_every_check_holds_until_a_row_is_damaged() {
    let Some((scratch, cluster)) = cluster("orders") else { return };
    assert!(load(&cluster, "2").contains("loaded 2 warehouses"));
    let (_, fresh) = checks(&cluster, &[]);
    assert_eq!((failed(&fresh), &fresh["passed_all"]), (vec![], &Value::Bool(true)));
    assert_eq!((&fresh["after_run"], &fresh["deliveries"]), (&Value::Bool(false), &Value::from(0)));

    let (acks, record) = (scratch.path().join("acks"), scratch.path().join("run.json"));
    let output = orders(&["run", "--db", &cluster.dsn(), "-c", "4", "-j", "2", "-T", "5", "--warmup", "1", "--marks"])
        .args(["--seed", "7", "--ack-log", acks.to_str().unwrap(), "--record", record.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let marks = String::from_utf8(output.stderr).unwrap();
    let (measuring, measured) = (marks.find("measuring\n").unwrap(), marks.find("measured\n").unwrap());
    assert!(measuring < measured);
    assert!(String::from_utf8_lossy(&output.stdout).contains("not comparable to published TPC-C results"));
    let run: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    run_keeps_the_rules(&run);

    let (output, report) = checks(&cluster, &["--after-run", "--ack-log", acks.to_str().unwrap()]);
    assert_eq!((failed(&report), output.status.code()), (vec![], Some(0)));
    let acknowledged = &report["acknowledged"];
    assert!(acknowledged["orders"].as_u64().unwrap() >= run["orders"].as_u64().unwrap());
    assert_eq!((&acknowledged["missing"], &acknowledged["repeated"]), (&Value::from(0), &Value::from(0)));
    stock_agrees_with_the_lines(&cluster);
    // The check finds without `--after-run` that a run delivered orders since the load.
    let (_, untold) = checks(&cluster, &[]);
    assert_eq!((failed(&untold), &untold["after_run"]), (vec![], &Value::Bool(true)));
    assert!(untold["deliveries"].as_u64() > Some(0), "{untold}");

    a_record_that_cannot_be_written_costs_no_figures(&cluster, scratch.path());
    damage_is_found(&cluster, &acks);
}

/// A directory takes the name of the record after the command checked that name.
fn a_record_that_cannot_be_written_costs_no_figures(cluster: &Cluster, place: &Path) {
    let record = place.join("taken.json");
    let arguments = ["run", "--db", &cluster.dsn(), "-c", "2", "-T", "3", "--record", record.to_str().unwrap()];
    let active = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'millrace orders'";
    let child = orders(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_until("the run", Duration::from_secs(60), || (cluster.sql(active).trim() != "0").then_some(()));
    std::fs::create_dir(&record).unwrap();
    let output = child.wait_with_output().unwrap();
    let (said, table) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(table.contains("not comparable to published TPC-C results"), "{table}");
    assert!(said.contains(&format!("millrace: cannot write the record {}: ", record.display())), "{said}");
    assert!(said.contains(&format!("hint: the complete record is in {}.part", record.display())), "{said}");
    assert_eq!(output.status.code(), Some(1));
    let part = std::fs::read(place.join("taken.json.part")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&part).unwrap()["users"], 2);
}

fn run_keeps_the_rules(run: &Value) {
    let orders = run["orders"].as_u64().unwrap();
    assert!(orders > 50, "{run}");
    assert_eq!((&run["schema"], &run["warehouses"], &run["users"], &run["seed"]), (&1.into(), &2.into(), &4.into(), &7.into()));
    let rate = run["oets_per_minute"].as_f64().unwrap();
    assert!((rate - orders as f64 * 12.0).abs() < 1e-6);
    let per_second: u64 = run["per_second"].as_array().unwrap().iter().map(|orders| orders.as_u64().unwrap()).sum();
    assert_eq!(per_second, orders);
    for (name, least, most) in [
        ("new_order", 40.0, 47.0),
        ("payment", 40.0, 47.0),
        ("order_status", 2.5, 6.5),
        ("delivery", 2.5, 6.5),
        ("stock_level", 2.5, 6.5),
    ] {
        let share = run["mix_percent"][name].as_f64().unwrap();
        assert!((least..most).contains(&share), "{name} {share}");
        let record = &run["transactions"][name];
        assert_eq!((&record["errors"], record["count"].as_u64() > Some(0)), (&0.into(), true), "{name}");
        let times = results::histogram::ResponseTimes::from_v2_base64(record["histogram_v2_base64"].as_str().unwrap());
        let times = times.unwrap();
        assert_eq!(times.count(), record["count"].as_u64().unwrap() + record["rolled_back"].as_u64().unwrap());
        assert_eq!(times.summary().p99, record["response_us"]["p99"].as_u64().unwrap());
    }
    assert_eq!(run["connection_losses"], 0);
    let cpu = run["driver_cpu"]["user_s"].as_f64().unwrap() + run["driver_cpu"]["sys_s"].as_f64().unwrap();
    assert!(cpu > 0.0);
}

/// Beyond the twelve conditions: every order line took its stock exactly once.
fn stock_agrees_with_the_lines(cluster: &Cluster) {
    let wrong = cluster.sql(
        "SET search_path = millrace_orders;
         SELECT count(*) FROM stock LEFT JOIN (SELECT ol_supply_w_id AS w, ol_i_id AS i, sum(ol_quantity) AS pieces,
                count(*) AS lines, count(*) FILTER (WHERE ol_supply_w_id <> ol_w_id) AS remote
           FROM order_line WHERE ol_o_id > 3000 GROUP BY 1, 2) AS taken ON w = s_w_id AND i = s_i_id
          WHERE (s_ytd, s_order_cnt, s_remote_cnt) <> (coalesce(pieces, 0), coalesce(lines, 0), coalesce(remote, 0))",
    );
    assert_eq!(wrong.trim(), "0");
}

fn damage_is_found(cluster: &Cluster, acks: &Path) {
    for (damage, repair, found) in [
        (
            "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1",
            "UPDATE warehouse SET w_ytd = w_ytd - 1 WHERE w_id = 1",
            vec![1, 8],
        ),
        (
            "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE (o_w_id, o_d_id, o_id) = (2, 3, 5)",
            "UPDATE orders SET o_ol_cnt = o_ol_cnt - 1 WHERE (o_w_id, o_d_id, o_id) = (2, 3, 5)",
            vec![4, 6],
        ),
        (
            "UPDATE customer SET c_balance = c_balance + 1 WHERE (c_w_id, c_d_id, c_id) = (1, 1, 1)",
            "UPDATE customer SET c_balance = c_balance - 1 WHERE (c_w_id, c_d_id, c_id) = (1, 1, 1)",
            vec![10, 12],
        ),
        (
            "UPDATE delivered SET dl_count = dl_count + 1 WHERE (dl_w_id, dl_d_id) = (2, 10)",
            "UPDATE delivered SET dl_count = dl_count - 1 WHERE (dl_w_id, dl_d_id) = (2, 10)",
            vec![11],
        ),
        (
            "UPDATE order_line SET ol_delivery_d = NULL WHERE (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 2, 7, 1)",
            "UPDATE order_line SET ol_delivery_d = now() WHERE (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 2, 7, 1)",
            vec![7],
        ),
    ] {
        cluster.sql(&format!("SET search_path = millrace_orders; {damage}"));
        let (output, report) = checks(cluster, &["--after-run"]);
        assert_eq!((failed(&report), output.status.code()), (found, Some(1)), "{damage}");
        cluster.sql(&format!("SET search_path = millrace_orders; {repair}"));
    }
    let mut log = std::fs::read_to_string(acks).unwrap();
    log.push_str("2 10 99999\n");
    std::fs::write(acks, log).unwrap();
    let (output, report) = checks(cluster, &["--after-run", "--ack-log", acks.to_str().unwrap()]);
    assert_eq!((failed(&report), output.status.code()), (vec![], Some(1)));
    assert_eq!(report["acknowledged"]["missing"], 1);
    assert_eq!(report["acknowledged"]["examples"][0]["order"], 99999);
}

/// Starts a run in the background and waits until it has acknowledged an order.
fn running(cluster: &Cluster, acks: &Path, more: &[&str]) -> Child {
    let child = orders(&["run", "--db", &cluster.dsn(), "-c", "4", "-T", "6", "--ack-log", acks.to_str().unwrap()])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    await_until("an acknowledged order", Duration::from_secs(120), || std::fs::metadata(acks).ok().filter(|log| log.len() > 0));
    child
}

/// Sends SIGKILL to one backend of the load: the server ends all sessions and recovers.
fn crash(cluster: &Cluster) {
    let pid = cluster.sql("SELECT min(pid) FROM pg_stat_activity WHERE application_name = 'millrace orders'");
    succeed(Command::new("kill").args(["-KILL", pid.trim()]));
}

#[test]
fn acknowledged_orders_survive_a_crash_and_the_run_goes_on() {
    let Some((scratch, cluster)) = cluster("orders-crash") else { return };
    load(&cluster, "1");
    let (acks, record) = (scratch.path().join("acks"), scratch.path().join("run.json"));
    let child = running(&cluster, &acks, &["--reconnect", "--record", record.to_str().unwrap()]);
    crash(&cluster);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let run: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    assert!(run["connection_losses"].as_u64().unwrap() >= 1, "{run}");
    let last = run["per_second"].as_array().unwrap().last().unwrap().as_u64().unwrap();
    assert!(last > 0, "no orders in the last second: {}", run["per_second"]);
    let (_, report) = checks(&cluster, &["--after-run", "--ack-log", acks.to_str().unwrap()]);
    assert_eq!((failed(&report), &report["acknowledged"]["missing"]), (vec![], &Value::from(0)));

    // The same without --reconnect: the run fails with a message.
    std::fs::remove_file(&acks).unwrap();
    let child = running(&cluster, &acks, &[]);
    crash(&cluster);
    let output = child.wait_with_output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("connection of session") && said.contains("hint: --reconnect"), "{said}");
    let ready = || orders(&["check", "--db", &cluster.dsn()]).output().ok().filter(|output| output.status.code() != Some(2));
    await_until("the server to have recovered", Duration::from_secs(120), ready);
    let (_, report) = checks(&cluster, &["--after-run", "--ack-log", acks.to_str().unwrap()]);
    assert_eq!((failed(&report), &report["acknowledged"]["missing"]), (vec![], &Value::from(0)));
}

#[test]
#[ignore = "nightly: loads a database several times, half a minute"]
fn a_load_that_is_cut_off_goes_on_to_the_same_rows() {
    let Some((_scratch, cluster)) = cluster("orders-cut") else { return };
    let cut_load = |more: &[&str]| {
        let mut command = orders(&["load", "--db", &cluster.dsn(), "--warehouses", "3", "-j", "2"]);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let parts = "SELECT count(*) FROM millrace_orders.load_progress";
    let copied = |least: u64| {
        await_until("parts of a load", Duration::from_secs(240), || {
            let there = cluster.sql("SELECT to_regclass('millrace_orders.load_progress') IS NOT NULL");
            (there.trim() == "t" && cluster.sql(parts).trim().parse::<u64>().unwrap() >= least).then_some(())
        });
    };
    refused(&mut cut_load(&["--resume"]), &["is not in database"]);
    // The load is cut off first by a signal, then by the server, then by the end of the loader itself.
    let child = cut_load(&[]).spawn().unwrap();
    copied(3);
    refused(&mut orders(&["run", "--db", &cluster.dsn(), "-c", "1", "-T", "1"]), &["half loaded", "hint: "]);
    refused(&mut cut_load(&[]), &["half loaded", "--resume", "DROP SCHEMA"]);
    succeed(Command::new("kill").args(["-INT", &child.id().to_string()]));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("interrupted with") && text(&output).contains("--resume"), "{}", text(&output));
    refused(&mut cut_load(&["--resume", "--seed", "2"]), &["that of --warehouses 3 --seed 1, not of --warehouses 3 --seed 2"]);

    let child = cut_load(&["--resume"]).spawn().unwrap();
    let pid = await_until("a COPY", Duration::from_secs(120), || {
        let copying = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY order_line%' AND state = 'active' LIMIT 1";
        Some(cluster.sql(copying).trim().to_owned()).filter(|pid| !pid.is_empty())
    });
    cluster.sql(&format!("SELECT pg_terminate_backend({pid})"));
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));

    let mut child = cut_load(&["--resume"]).spawn().unwrap();
    copied(12);
    child.kill().unwrap();
    child.wait().unwrap();

    let report: Value = serde_json::from_str(&succeed(cut_load(&["--resume", "--json"]).stderr(Stdio::null()))).unwrap();
    let before = report["rows_before"].as_u64().unwrap();
    assert!(before > 100_000 && before < report["rows"].as_u64().unwrap(), "{report}");
    assert_eq!(failed(&checks(&cluster, &[]).1), Vec::<u64>::new());
    refused(&mut cut_load(&["--resume"]), &["is already loaded, with 3 warehouses"]);
    let resumed = sums(&cluster);
    cluster.sql("DROP SCHEMA millrace_orders CASCADE");
    load(&cluster, "3");
    assert_eq!(resumed, sums(&cluster));
}

fn sums(cluster: &Cluster) -> String {
    cluster.sql(&format!("SET search_path = millrace_orders; {}", crate::support::orders::SUMS))
}

#[test]
fn a_load_prints_its_plan_and_refuses_a_disk_that_is_too_small() {
    let Some((_scratch, cluster)) = cluster("orders-plan") else { return };
    let plan = |warehouses: &str, more: &[&str]| {
        let mut command = orders(&["load", "--db", &cluster.dsn(), "--warehouses", warehouses]);
        command.args(more).output().unwrap()
    };
    let said = text(&plan("6003", &["--plan"]));
    assert!(
        said.contains("plan: 6003 warehouses, 2995723063 rows") && said.contains("GiB are free in the file system of"),
        "{said}"
    );
    // This load needs ten terabytes, more than any host of these tests has.
    let output = plan("100000", &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("MiB are needed") && text(&output).contains("--no-space-check"), "{}", text(&output));
    assert_eq!(relations(&cluster), 0);
}

#[test]
fn bad_input_is_refused_with_one_message_and_changes_nothing() {
    let Some((scratch, cluster)) = cluster("orders-bad") else { return };
    let dsn = cluster.dsn();
    let unused = scratch.path().join("nobody-here");
    let unreachable = format!("host={} user=postgres dbname=postgres", unused.display());
    let acks = scratch.path().join("acks");
    refused(
        &mut orders(&["load", "--db", &unreachable, "--warehouses", "1"]),
        &["no session with", "nobody-here", "hint: check that the server runs"],
    );
    refused(&mut orders(&["run", "--db", &unreachable, "-c", "1", "-T", "1"]), &["no session with", "hint: "]);
    refused(&mut orders(&["check", "--db", "postgres//no"]), &["connection string", "hint: write postgresql://"]);
    let no_database = dsn.replace("dbname=postgres", "dbname=nothing");
    refused(&mut orders(&["check", "--db", &no_database]), &["database nothing", "hint: create the database first"]);
    refused(
        orders(&["run", "--db", &dsn, "-c", "1", "-T", "1", "--ack-log"]).arg(&acks),
        &["schema millrace_orders is not in database postgres", "hint: load it first"],
    );
    assert!(!acks.exists(), "a refused run made its log");
    refused(&mut orders(&["check", "--db", &dsn]), &["is not in database postgres"]);
    refused(&mut orders(&["load", "--db", &dsn, "--warehouses", "0"]), &["--warehouses", "0"]);
    refused(&mut orders(&["run", "--db", &dsn, "-c", "0", "-T", "1"]), &["--users", "0"]);
    refused(&mut orders(&["run", "--db", &dsn, "-c", "1", "-T", "0"]), &["--seconds", "0"]);

    cluster.sql("CREATE SCHEMA millrace_orders; CREATE TABLE millrace_orders.precious AS SELECT 42 AS answer");
    refused(&mut orders(&["load", "--db", &dsn, "--warehouses", "1"]), &["is not empty (relations: 1)", "hint: ", "DROP SCHEMA"]);
    assert_eq!(cluster.sql("SELECT answer FROM millrace_orders.precious").trim(), "42");

    // The last statement of this superuser makes the server ask for passwords.
    cluster.sql("CREATE ROLE clerk LOGIN PASSWORD 'right'");
    let file = cluster.sql("SHOW hba_file");
    cluster.sql(&format!("COPY (SELECT 'local all clerk scram-sha-256') TO '{}'; SELECT pg_reload_conf()", file.trim()));
    let wrong = dsn.replace("user=postgres", "user=clerk password=wrong");
    await_until("the password to be asked for", Duration::from_secs(120), || {
        let said = text(&orders(&["check", "--db", &wrong]).output().unwrap());
        said.contains("password authentication failed").then_some(())
    });
    let output = orders(&["check", "--db", &wrong]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("hint: check user and password") && !text(&output).contains("wrong"), "{}", text(&output));
}
