//! The load models on a real PostgreSQL: what a stall shows in each, that no due transaction is
//! missing in the counts, and that paced terminals keep the rules of the specification.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::postgres::Cluster;
use crate::support::{Scratch, millrace, skip, succeed, text};
use results::histogram::ResponseTimes;
use results::orders_run::{OrdersRun, TransactionRecord};

/// Longer than any wait of a transaction without the stall, and shorter than the stall.
const SLOW_US: u64 = 1_000_000;
const STALL: Duration = Duration::from_secs(2);

fn loaded(label: &str, warehouses: &str) -> Option<(Scratch, Cluster)> {
    let scratch = Scratch::new(label);
    let Some(cluster) = Cluster::start(scratch.path()) else {
        skip("PostgreSQL is not installed");
        return None;
    };
    succeed(&mut orders(&["load", "--db", &cluster.dsn(), "--warehouses", warehouses, "-j", "2"]));
    Some((scratch, cluster))
}

fn orders(arguments: &[&str]) -> Command {
    let mut command = millrace();
    command.arg("orders").args(arguments);
    command
}

/// A run in the background.
struct Run {
    child: Child,
    record: PathBuf,
}

impl Run {
    fn start(cluster: &Cluster, record: PathBuf, arguments: &[&str]) -> Self {
        let mut command = orders(&["run", "--db", &cluster.dsn(), "--marks", "--seed", "5", "--record"]);
        command.arg(&record).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap(), record }
    }

    /// Waits until the run's measured interval begins.
    fn await_measuring(&mut self) {
        let mut lines = BufReader::new(self.child.stderr.as_mut().unwrap());
        let mut line = String::new();
        while line.trim() != "measuring" {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it measured");
        }
    }

    fn finish(mut self) -> OrdersRun {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        read(&self.record)
    }
}

fn read(record: &Path) -> OrdersRun {
    serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap()
}

fn records(run: &OrdersRun) -> [&TransactionRecord; 5] {
    let records = &run.transactions;
    [&records.new_order, &records.payment, &records.order_status, &records.delivery, &records.stock_level]
}

/// All transactions of a run in one histogram. `histogram` selects which histogram of a record.
fn merged(run: &OrdersRun, histogram: impl Fn(&TransactionRecord) -> &str) -> ResponseTimes {
    let mut all = ResponseTimes::new();
    for record in records(run) {
        all.merge(&ResponseTimes::from_v2_base64(histogram(record)).unwrap());
    }
    all
}

fn responses(run: &OrdersRun) -> ResponseTimes {
    merged(run, |record| &record.histogram_v2_base64)
}

/// Asserts that every due transaction of the interval was finished, refused, left or unfinished, and counted.
fn nothing_due_is_lost(run: &OrdersRun) {
    let offered = run.offered.as_ref().unwrap();
    assert_eq!(offered.due, offered.finished + offered.refused + offered.left + run.unfinished, "{offered:?}");
    assert!(offered.due > 0);
}

#[test]
#[ignore = "nightly: three loads, half a minute"]
fn a_stall_shows_in_open_and_paced_percentiles_and_hides_in_closed_ones() {
    let Some((scratch, cluster)) = loaded("models-stall", "1") else { return };
    let start = |name: &str, arguments: &[&str]| {
        let arguments = [&["-T", "8", "--warmup", "1"], arguments].concat();
        Run::start(&cluster, scratch.path().join(name), &arguments)
    };
    let mut open = start("open", &["--model", "open", "--rate", "50/s", "--connections", "4"]);
    let mut paced = start("paced", &["--model", "paced", "--time-scale", "0.2", "-c", "100", "--connections", "4"]);
    let mut closed = start("closed", &["-c", "2"]);
    for run in [&mut open, &mut paced, &mut closed] {
        run.await_measuring();
    }
    cluster.pause(STALL);
    let [open, paced, closed] = [open, paced, closed].map(Run::finish);
    let slow = |run: &OrdersRun| responses(run).count_from(SLOW_US);

    // 50 became due in the first second of the stall, and waited for at least its whole second one.
    assert!(slow(&open) >= 40, "{}", slow(&open));
    assert!(responses(&open).summary().p90 >= SLOW_US / 2, "{:?}", responses(&open).summary());
    // Only the transactions on a session had the stall in their service time.
    let service = merged(&open, |record| &record.service_histogram_v2_base64);
    assert_eq!(service.count(), responses(&open).count());
    assert!(service.count_from(SLOW_US) * 4 < slow(&open), "{} of {}", service.count_from(SLOW_US), slow(&open));
    assert_eq!((open.load_model.as_str(), open.connections, open.offered.as_ref().unwrap().refused), ("open-constant", 4, 0));
    let due = open.offered.as_ref().unwrap().due;
    assert!((399..=401).contains(&due), "{due} of 8 s at 50/s");
    nothing_due_is_lost(&open);

    // Of the hundred terminals, about two dozen become due in a second.
    assert!(slow(&paced) >= 10, "{}", slow(&paced));
    assert!(responses(&paced).summary().p99 >= SLOW_US);
    assert_eq!((paced.load_model.as_str(), paced.users, paced.connections), ("paced", 100, 4));
    nothing_due_is_lost(&paced);

    // Two users: two transactions were open during the stall, and the users sent no others.
    assert!(slow(&closed) >= 1 && slow(&closed) <= 4, "{}", slow(&closed));
    let all = responses(&closed).count();
    // The open load shows the stall here. The number of the other transactions depends on the host.
    assert!(slow(&closed) * 20 < all && responses(&closed).summary().p90 < SLOW_US / 2, "{} of {all}", slow(&closed));
    assert!(closed.offered.is_none());

    for run in [&open, &paced, &closed] {
        the_series_shows_the_stall(run);
    }
}

fn the_series_shows_the_stall(run: &OrdersRun) {
    assert_eq!(run.series.len(), 8);
    let transactions: u64 = run.series.iter().map(|second| second.transactions).sum();
    assert_eq!(transactions, responses(run).count());
    for (index, second) in run.series.iter().enumerate() {
        assert_eq!((second.second as usize, second.orders), (index, run.per_second[index]));
        let [p50, p90] = [second.response_p50_us.unwrap(), second.response_p90_us.unwrap()];
        assert!(p50 <= p90 && p90 <= second.response_max_us);
    }
    let longest = run.series.iter().map(|second| second.response_max_us).max().unwrap();
    assert_eq!(longest, responses(run).summary().max);
    assert!(longest >= SLOW_US && run.series.iter().any(|second| second.transactions == 0), "{:?}", run.series);
}

#[test]
fn an_overloaded_open_run_counts_what_it_refuses() {
    let Some((scratch, cluster)) = loaded("models-open", "1") else { return };
    let record = scratch.path().join("run.json");
    let arguments = ["--model", "open", "--rate", "20000/s", "--arrivals", "poisson", "-c", "1", "--queue", "50", "-T", "3"];
    let run = Run::start(&cluster, record.clone(), &arguments).finish();
    let offered = run.offered.as_ref().unwrap();
    assert!(offered.refused > offered.due / 10 && offered.finished > 0, "{offered:?}");
    assert_eq!((offered.queued_max, offered.queue_limit, offered.arrivals.as_str()), (50, 50, "poisson"));
    // 60,000 of a Poisson process, within six standard deviations.
    assert!((58_500..=61_500).contains(&offered.due), "{offered:?}");
    nothing_due_is_lost(&run);
    // No percentile has the refused transactions, so they break a rule.
    let output = orders(&["conform", record.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("BROKEN due transactions never started"), "{}", text(&output));

    for (arguments, words) in [
        (["--model", "open", "-T", "1", "-c", "1"].as_slice(), "needs --rate"),
        (&["--rate", "5/s", "-T", "1", "-c", "1"], "--rate is for --model open"),
        (&["--time-scale", "0.5", "-T", "1", "-c", "1"], "--time-scale is for --model paced"),
        (&["--queue", "5", "-T", "1", "-c", "1"], "--queue is for --model open"),
        (&["--model", "paced", "--arrivals", "constant", "-T", "1"], "--arrivals is for --model open"),
        (&["--barrier-timeout", "5", "-T", "1", "-c", "1"], "--results-db"),
        (&["--mix", "deck", "--weights", "1,1,1,1,1", "-T", "1", "-c", "1"], "--weights is for --mix weights"),
        (&["-T", "1"], "-c N"),
        (&["-T", "1", "-c", "1", "--active-warehouses", "2"], "--active-warehouses: 2 is not from 1 to 1"),
        (&["-T", "1", "-c", "1", "--weights", "1,2"], "five numbers"),
    ] {
        let output = orders(&["run", "--db", &cluster.dsn()]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(words), "{words:?} is not in: {}", text(&output));
    }
}

/// Runs paced terminals with deferred deliveries. Returns the record and the rules that they broke.
fn paced_run(cluster: &Cluster, record: &Path, arguments: &[&str]) -> (OrdersRun, Vec<String>) {
    let arguments = [&["--model", "paced", "--deliveries", "deferred", "-j", "2"], arguments].concat();
    let run = Run::start(cluster, record.to_owned(), &arguments).finish();
    nothing_due_is_lost(&run);
    let deferred = run.deferred.as_ref().unwrap();
    let completion = ResponseTimes::from_v2_base64(&deferred.histogram_v2_base64).unwrap();
    assert_eq!((completion.count(), run.transactions.delivery.count), (deferred.completed, deferred.queued));
    assert!(deferred.completed > 0 && deferred.queued.abs_diff(deferred.completed) <= 5, "{deferred:?}");
    let broken = run.conform.items.iter().filter(|item| !item.passed).map(|item| item.name.clone()).collect();
    (run, broken)
}

#[test]
#[ignore = "nightly: paced terminals, half a minute"]
fn paced_terminals_keep_the_rules_with_scaled_times_and_say_so() {
    let Some((scratch, cluster)) = loaded("models-paced", "2") else { return };
    let record = scratch.path().join("run.json");
    let touched = "SELECT string_agg(DISTINCT o_w_id::text, ',') FROM millrace_orders.orders WHERE o_id > 3000";
    let first = Run::start(&cluster, record.clone(), &["-c", "2", "--active-warehouses", "1", "-T", "1"]).finish();
    assert_eq!((first.warehouses, first.active_warehouses, cluster.sql(touched).trim()), (2, 1, "1"));

    let arguments = ["--time-scale", "0.05", "-T", "15", "--warmup", "2"];
    let (run, broken) = paced_run(&cluster, &record, &arguments);
    // Ten terminals for each warehouse, on few sessions.
    assert_eq!((run.users, run.connections, run.active_warehouses), (20, 4, 2));
    assert_eq!((run.terminals.as_str(), run.time_scale), ("home-warehouse", Some(0.05)));
    assert!(run.conform.notes[0].contains("times scaled by 0.05"), "{:?}", run.conform.notes);
    // A slow host may miss the floor and change response times. It cannot exceed the ceiling or
    // change the draws.
    let of_time =
        |name: &String| ["floor", "average", "p90", "due transactions never started"].iter().any(|part| name.contains(part));
    assert!(broken.iter().all(of_time), "{broken:?}");
    let judged = run.conform.items.iter().filter(|item| item.not_judged.is_none()).count();
    assert!(judged >= 10, "{:?}", run.conform);
    assert_eq!(cluster.sql(touched).trim(), "1,2");

    let again = orders(&["conform", record.to_str().unwrap(), "--json"]).output().unwrap();
    assert_eq!(again.status.code(), Some(i32::from(!broken.is_empty())));
    let again: results::orders_run::Conform = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again, run.conform);
    assert_eq!(orders(&["conform", "/nowhere/run.json"]).output().unwrap().status.code(), Some(2));
    let checked = orders(&["check", "--db", &cluster.dsn(), "--after-run"]).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked));
}

/// The times are those of the specification.
#[test]
#[ignore = "nightly: 21 minutes"]
fn paced_terminals_of_ten_warehouses_keep_every_rule() {
    let Some((scratch, cluster)) = loaded("models-paced-full", "10") else { return };
    let (run, broken) = paced_run(&cluster, &scratch.path().join("run.json"), &["-T", "1200", "--warmup", "60"]);
    assert_eq!((run.users, run.time_scale), (100, None));
    // If transactions take milliseconds, one flush of the host's disk in a second raises the
    // average above the 90th percentile.
    assert!(broken.iter().all(|name| name.contains("average")), "{:?}", run.conform);
    let judged = |part: &str| run.conform.items.iter().any(|item| item.name.contains(part) && item.not_judged.is_none());
    for part in ["of mix", "ceiling", "floor", "p90", "80 s"] {
        assert!(judged(part), "{part}: {:?}", run.conform);
    }
}
