//! `millrace orders like` on a PostgreSQL that pgbench uses at the same time.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::postgres::{Cluster, as_database_user, server_programs};
use crate::support::{Scratch, await_until, millrace, skip, succeed, text};
use serde_json::Value;

fn like(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command: Command = millrace();
    command.args(["orders", "like", "--db", &cluster.dsn()]).args(arguments).output().unwrap()
}

fn number(record: &Value, path: &str) -> f64 {
    let found = record.pointer(path).unwrap_or_else(|| panic!("no {path} in {record}"));
    found.as_f64().unwrap_or_else(|| panic!("{path} is {found}"))
}

#[test]
fn a_database_at_work_is_compared_by_its_own_counters_and_left_as_it_was() {
    let scratch = Scratch::new("orders-like");
    let pgbench = server_programs().map(|programs| programs.join("pgbench")).filter(|program| program.is_file());
    let (Some(pgbench), Some(cluster)) = (pgbench, Cluster::start(scratch.path())) else {
        return skip("PostgreSQL with pgbench is not installed");
    };
    let dsn = cluster.dsn();
    succeed(as_database_user(&pgbench).args(["-i", "-q", "-s", "2", &dsn]));

    // The database is idle, so there is no verdict.
    let idle = like(&cluster, &["--seconds", "1"]);
    assert_eq!(idle.status.code(), Some(3), "{}", text(&idle));
    assert!(text(&idle).contains("no verdict") && text(&idle).contains("too few"), "{}", text(&idle));

    let relations =
        "SELECT count(*), sum(hashtext(nspname || relname)) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace";
    let before = cluster.sql(relations);
    let mut bench = as_database_user(&pgbench);
    bench.args(["-n", "-c", "2", "-T", "60", "-M", "prepared", &dsn]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut bench = bench.spawn().unwrap();
    let commits = || cluster.sql("SELECT sum(xact_commit)::int8 FROM pg_stat_database").trim().parse::<u64>().unwrap();
    let start = commits();
    await_until("pgbench to commit", Duration::from_secs(120), || (commits() > start + 500).then_some(()));
    let saved = scratch.path().join("reading.json");
    let log =
        || cluster.sql("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'").trim().parse::<u64>().unwrap();
    let from = log();
    let output = like(&cluster, &["--seconds", "4", "--json", "--save", saved.to_str().unwrap()]);
    let upto = log();
    bench.kill().unwrap();
    bench.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();

    // A transaction of pgbench is a commit, writes at least a few hundred bytes of log, and finds
    // nearly all pages in buffers.
    let counted = number(&record, "/theirs/counted/commits");
    assert!(counted > 100.0 && counted <= (upto - from) as f64 + 50.0, "{counted} of {}", upto - from);
    let log_bytes = number(&record, "/theirs/figures/log_bytes_per_commit");
    assert!((200.0..60_000.0).contains(&log_bytes), "{log_bytes}");
    assert!((0.9..=1.0).contains(&number(&record, "/theirs/figures/hit_ratio")), "{record}");
    let rate = number(&record, "/theirs/figures/commits_per_s");
    assert!((rate - counted / number(&record, "/theirs/seconds")).abs() < 1e-6);
    // This load reads where pgbench finds all pages in buffers: its I/O per commit is higher, and
    // the verdict says the ratio.
    let io = number(&record, "/theirs/figures/io_per_commit");
    if io > 0.0 {
        let ratio = number(&record, "/io_ratio");
        assert!((ratio - number(&record, "/ours/io_per_commit") / io).abs() < 1e-9);
        assert!(record["verdict"].as_str().unwrap().contains("x your I/O per commit"), "{record}");
    }
    let after = cluster.sql(relations);
    assert_eq!(before, after);

    // A database compared with its own reading has the reading's figures. A file that is not a
    // record is refused before the wait.
    let reading: Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    assert_eq!(reading["figures"], record["theirs"]["figures"]);
    let refused = like(&cluster, &["--ours", cluster_file(&scratch).to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("not a record of compare"), "{}", text(&refused));
    let idle = like(&cluster, &["--seconds", "1", "--ours", saved.to_str().unwrap()]);
    let read = format!("this load: a reading of {:.0} s of PostgreSQL", number(&record, "/theirs/seconds"));
    assert!(text(&idle).contains(&read), "no {read}: {}", text(&idle));
}

fn cluster_file(scratch: &Scratch) -> std::path::PathBuf {
    let path = scratch.path().join("other.json");
    std::fs::write(&path, "{\"kind\": \"something else\"}").unwrap();
    path
}
