//! A run of the order-entry load that is interrupted before its time, and what it prints while it runs.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::support::postgres::Cluster;
use crate::support::{Scratch, millrace, skip, succeed};
use serde_json::Value;

/// A run in the background, and the lines of its stderr.
struct Run {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Run {
    /// Starts a run that would take ten minutes.
    fn start(cluster: &Cluster, more: &[&str]) -> Self {
        let mut command = millrace();
        command.args(["orders", "run", "-d", &cluster.dsn(), "-c", "4", "-j", "2", "-T", "600", "--marks"]).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line of stderr that begins with `beginning`.
    fn line(&mut self, beginning: &str) -> String {
        let mut seen = Vec::new();
        loop {
            let Some(line) = self.lines.next() else { panic!("no {beginning:?} in {seen:#?}") };
            let line = line.unwrap();
            if line.starts_with(beginning) {
                return line;
            }
            seen.push(line);
        }
    }

    fn signal(&self, name: &str) {
        succeed(Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]));
    }

    /// Waits for its end. Returns its exit status and what it printed on stdout.
    fn end(mut self) -> (ExitStatus, String) {
        self.lines.by_ref().for_each(drop);
        let printed = std::io::read_to_string(self.child.stdout.take().unwrap()).unwrap();
        (self.child.wait().unwrap(), printed)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The run has ended, unless the test failed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn loaded(scratch: &Scratch) -> Option<Cluster> {
    let Some(cluster) = Cluster::start(scratch.path()) else {
        skip("PostgreSQL is not installed");
        return None;
    };
    succeed(millrace().args(["orders", "load", "-d", &cluster.dsn(), "--warehouses", "1", "-j", "2"]));
    Some(cluster)
}

fn every_check_holds(cluster: &Cluster, acks: &Path) {
    let arguments = ["orders", "check", "--after-run", "--ack-log", acks.to_str().unwrap(), "-d", &cluster.dsn()];
    let checks = succeed(millrace().args(arguments));
    assert!(checks.contains("12 passed, 0 failed"), "{checks}");
}

#[test]
fn an_interrupted_run_prints_what_it_measured_and_says_so_in_its_record() {
    let scratch = Scratch::new("interrupted");
    let Some(cluster) = loaded(&scratch) else { return };
    let (acks, file) = (scratch.path().join("acks"), scratch.path().join("run.json"));
    let more = ["-P", "1", "--ack-log", acks.to_str().unwrap(), "--record", file.to_str().unwrap()];
    let mut run = Run::start(&cluster, &more);
    run.line("measuring");
    let progress = [run.line("progress: "), run.line("progress: "), run.line("progress: ")];
    let pieces: Vec<&str> = progress[1].split(", ").collect();
    assert!(
        pieces[0].ends_with(" s") && pieces[1].ends_with(" tps") && pieces[2].contains(" ms stddev ") && pieces[3] == "0 failed",
        "{progress:?}"
    );
    run.signal("INT");
    run.line("interrupted: ");
    let (status, printed) = run.end();
    assert_eq!(status.code(), Some(130), "{printed}");
    assert!(printed.starts_with("INTERRUPTED after "), "{printed}");

    let record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let (measured_s, orders) = (record["measured_s"].as_f64().unwrap(), record["orders"].as_u64().unwrap());
    assert!(record["interrupted"] == true && (2.5..60.0).contains(&measured_s), "{record}");
    assert!(orders > 20 && (record["oets_per_minute"].as_f64().unwrap() - orders as f64 * 60.0 / measured_s).abs() < 1e-6);
    // The record has whole seconds only.
    for series in ["per_second", "series"] {
        assert_eq!(record[series].as_array().unwrap().len(), measured_s as usize, "{series}");
    }
    // The database has no open transaction, and it has every acknowledged order.
    assert_eq!(cluster.sql("SELECT count(*) FROM pg_prepared_xacts").trim(), "0");
    every_check_holds(&cluster, &acks);
}

#[test]
fn rates_and_paced_loads_are_cut_at_the_same_moment_and_sigterm_has_its_own_code() {
    let scratch = Scratch::new("terminated");
    let Some(cluster) = loaded(&scratch) else { return };
    for model in [&["--model", "open", "--rate", "50/s"][..], &["--model", "paced", "--time-scale", "0.01"]] {
        let mut run = Run::start(&cluster, &[model, &["-P", "1", "--json"]].concat());
        run.line("measuring");
        run.line("progress: ");
        run.line("progress: ");
        run.signal("TERM");
        let (status, printed) = run.end();
        assert_eq!(status.code(), Some(143), "{printed}");
        let record: Value = serde_json::from_str(&printed).unwrap();
        let number = |name: &str| record["offered"][name].as_u64().unwrap();
        assert!(record["interrupted"] == true && number("due") > 20, "{record}");
        assert_eq!(number("due"), number("finished") + number("refused") + number("left"), "{}", record["offered"]);
    }
}

#[test]
fn before_the_interval_there_is_no_result_and_a_second_signal_ends_at_once() {
    let scratch = Scratch::new("early");
    let Some(cluster) = loaded(&scratch) else { return };
    let mut run = Run::start(&cluster, &["--warmup", "600", "-P", "1"]);
    run.line("progress: ");
    run.signal("INT");
    let said = run.line("millrace: cannot run the load");
    assert!(said.contains("interrupted before the measured interval began: nothing was measured"), "{said}");
    let (status, printed) = run.end();
    assert_eq!((status.code(), printed.as_str()), (Some(130), ""));

    // The run waits for a transaction that hangs in the database, until the second signal.
    let mut run = Run::start(&cluster, &["-P", "1"]);
    run.line("measuring");
    run.line("progress: ");
    let mut lock = Command::new("psql");
    // One table only: a lock of two could end in a deadlock with a transaction.
    let statement = "BEGIN; LOCK millrace_orders.warehouse IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)";
    let mut lock = lock.args(["-X", "-d", &cluster.dsn(), "-c", statement]).stdout(Stdio::null()).spawn().unwrap();
    // Every user waits for the lock, and no transaction ends.
    let stands_still = (0..60).any(|_| run.line("progress: ").contains(", 0.0 tps,"));
    assert!(stands_still, "the lock stops nobody");
    run.signal("INT");
    run.line("interrupted: ");
    let began = Instant::now();
    run.signal("INT");
    let (status, printed) = run.end();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!((status.code(), printed.as_str()), (Some(130), ""));
    lock.kill().unwrap();
    lock.wait().unwrap();
}
