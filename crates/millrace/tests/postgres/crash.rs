//! The database keeps what it acknowledged: the filer is killed and restarted, the whole database
//! is killed, the power of the filer is cut. The order load runs all the time, and the test checks
//! its acknowledged orders.
//!
//! `MILLRACE_E2E_SEEDS` rounds each (2 by default, 20 in `make nightly`); `MILLRACE_SEED` replays one.

use crate::support::filer::Filer;
use crate::support::ganesha::Ganesha;
use crate::support::postgres::server_programs;
use crate::support::remote::RemoteCluster;
use crate::support::{Scratch, await_until, millrace, seeds, skip, succeed, text};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Checkpoints are frequent, so that files are written and committed within a round. Buffers are
/// small, so that backends write too.
const SETTINGS: &str = "-c shared_buffers=8MB -c checkpoint_timeout=30s -c max_wal_size=64MB -c log_min_messages=warning";

#[test]
#[ignore = "nightly: a load over an outage, more than a minute"]
fn filer_killed_for_ten_seconds_is_a_pause_and_no_error() {
    let Some(world) = World::build("filer-killed", &[]) else { return };
    let World { scratch, mut filer, cluster } = world;
    for seed in seeds(|count| count) {
        let run = Run::start(&scratch, &cluster, seed, 25, false);
        std::thread::sleep(moment(seed, 3..8)); // the seed decides when it crashes; nothing is awaited
        filer.kill();
        std::thread::sleep(Duration::from_secs(10)); // the outage itself
        filer.restart();
        run.finish_without_an_error(seed);
        check(&scratch, &cluster, seed);
    }
}

#[test]
#[ignore = "nightly: a load and a recovery, more than a minute"]
fn database_killed_keeps_every_acknowledged_order() {
    let Some(world) = World::build("database-killed", &[]) else { return };
    for seed in seeds(|count| count) {
        let run = Run::start(&world.scratch, &world.cluster, seed, 20, true);
        std::thread::sleep(moment(seed, 3..12));
        world.cluster.kill();
        world.cluster.start();
        run.finish();
        check(&world.scratch, &world.cluster, seed);
    }
}

#[test]
#[ignore = "nightly: a load and a recovery, more than a minute"]
fn power_cut_of_the_filer_keeps_every_acknowledged_order_when_nothing_written_is_kept() {
    let Some(world) = World::build_with("power-cut", &["--loss-layer"], "&retain=0") else { return };
    for seed in seeds(|count| count) {
        let mut run = Run::start(&world.scratch, &world.cluster, seed, 25, true);
        std::thread::sleep(moment(seed, 3..12));
        let cut = world.filer.admin(r#"{"op":"power-cut"}"#);
        assert_eq!(cut["ok"], true, "{cut}");
        // A failed fsync is a PANIC. The postmaster recovers by itself. If its own fsync failed, it
        // ends and the test starts it again.
        await_until("a checkpoint after the recovery", Duration::from_secs(120), || {
            if !world.cluster.is_running() {
                world.cluster.kill();
                world.cluster.start();
            }
            world.cluster.try_sql("CHECKPOINT").ok()
        });
        run.ended(); // with errors of transactions that met lost data, which is the right answer; what counts is the oracle
        check(&world.scratch, &world.cluster, seed);
    }
}

#[test]
fn power_cuts_and_restarts_with_another_verifier_are_no_error_to_the_database() {
    // Checkpoints write many times the limit of kept data, so that the client commits early and often.
    let Some(mut world) = World::build_with("verifiers", &["--loss-layer"], "&retain=1MiB") else { return };
    for seed in seeds(|count| count) {
        let run = Run::start(&world.scratch, &world.cluster, seed, 12, false);
        let before = world.cluster.checkpointed_blocks();
        for event in 0..3 {
            std::thread::sleep(moment(seed + event, 1..2)); // the seed decides when it comes; nothing is awaited
            let checkpoint = std::thread::scope(|scope| {
                let checkpoint = scope.spawn(|| world.cluster.try_sql("CHECKPOINT"));
                std::thread::sleep(moment(seed + event, 0..1));
                let cut = world.filer.admin(r#"{"op":"power-cut"}"#);
                assert_eq!(cut["ok"], true, "{cut}");
                checkpoint.join().unwrap()
            });
            assert_eq!(checkpoint, Ok(String::new()), "seed {seed}");
            world.filer.kill();
            let boot = format!("11111111-2222-3333-4444-{:012}", seed * 10 + event);
            world.filer.restart_with(&["--loss-layer", "--boot-id", &boot]);
        }
        run.finish_without_an_error(seed);
        world.cluster.sql("CHECKPOINT");
        let written = world.cluster.checkpointed_blocks() - before;
        assert!(written > 4 * 128, "seed {seed}: {written} blocks are less than four times what is kept");
        check(&world.scratch, &world.cluster, seed);
    }
}

#[test]
#[ignore = "nightly: a load over restarts, more than a minute"]
fn restarts_of_a_foreign_server_whose_verifier_changes_are_no_error_to_the_database() {
    let Some(programs) = programs() else { return };
    let Some(mut ganesha) = Ganesha::start("verifiers-ganesha") else { return };
    let (url, export) = (format!("{}&retain=1MiB", ganesha.url()), ganesha.export());
    let scratch = Scratch::new("verifiers-ganesha-cluster");
    let cluster = RemoteCluster::create_on(&url, &export, Some(ganesha.shell()), &scratch, &programs, SETTINGS);
    cluster.start();
    succeed(millrace().args(["orders", "load", "--warehouses", "1", "--db", &cluster.dsn()]));
    for seed in seeds(|count| count) {
        let run = Run::start(&scratch, &cluster, seed, 20, false);
        for event in 0..3 {
            std::thread::sleep(moment(seed + event, 1..4)); // the seed decides when it comes; nothing is awaited
            let checkpoint = std::thread::scope(|scope| {
                let checkpoint = scope.spawn(|| cluster.try_sql("CHECKPOINT"));
                std::thread::sleep(moment(seed + event, 0..1));
                ganesha.restart();
                checkpoint.join().unwrap()
            });
            assert_eq!(checkpoint, Ok(String::new()), "seed {seed}");
        }
        run.finish_without_an_error(seed);
        check(&scratch, &cluster, seed);
    }
}

fn programs() -> Option<PathBuf> {
    let programs = server_programs();
    if programs.is_none() {
        skip("PostgreSQL's server programs (apt-get install postgresql)");
    }
    programs
}

/// A filer and a cluster on it with one warehouse.
struct World {
    cluster: RemoteCluster, // dropped before the filer that it uses
    filer: Filer,
    scratch: Scratch,
}

impl World {
    fn build(label: &str, filer_options: &[&str]) -> Option<Self> {
        Self::build_with(label, filer_options, "")
    }

    /// With options of the mount, each after an `&`.
    fn build_with(label: &str, filer_options: &[&str], mount_options: &str) -> Option<Self> {
        let programs = programs()?;
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, filer_options);
        let url = format!("{}{mount_options}", filer.url);
        let cluster = RemoteCluster::create_by(&url, &scratch, &filer, &programs, SETTINGS);
        cluster.start();
        succeed(millrace().args(["orders", "load", "--warehouses", "1", "--db", &cluster.dsn()]));
        Some(Self { cluster, filer, scratch })
    }
}

/// A load of orders that runs in its own process.
pub(crate) struct Run {
    pub(crate) driver: Child,
    record: PathBuf,
}

impl Run {
    pub(crate) fn start(scratch: &Scratch, cluster: &RemoteCluster, seed: u64, seconds: u64, reconnect: bool) -> Self {
        let record = scratch.path().join(format!("record-{seed}.json"));
        let mut command = millrace();
        command.args(["orders", "run", "--db", &cluster.dsn(), "-c", "4", "-j", "1", "-T", &seconds.to_string()]);
        command.args(["--seed", &seed.to_string(), "--ack-log"]).arg(ack_log(scratch)).arg("--record").arg(&record);
        if reconnect {
            command.arg("--reconnect");
        }
        Self { driver: command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap(), record }
    }

    /// Waits for the driver.
    pub(crate) fn ended(&mut self) {
        await_until("the driver to end", Duration::from_secs(150), || self.driver.try_wait().unwrap());
    }

    /// Waits for the driver, which must succeed, and returns its record.
    fn finish(mut self) -> serde_json::Value {
        self.ended();
        let output = self.driver.wait_with_output().unwrap();
        assert!(output.status.success(), "orders run: {}\n{}", output.status, text(&output));
        let record: serde_json::Value = serde_json::from_slice(&std::fs::read(&self.record).unwrap()).unwrap();
        assert!(record["orders"].as_u64().unwrap() > 0, "no order was committed");
        record
    }
}

impl Run {
    /// As [`Self::finish`], and no transaction met an error.
    fn finish_without_an_error(self, seed: u64) {
        let record = self.finish();
        assert_eq!(record["connection_losses"], 0, "seed {seed}: the database lost a connection");
        for (name, transaction) in record["transactions"].as_object().unwrap() {
            assert_eq!(transaction["errors"], 0, "seed {seed}: {name}");
        }
    }
}

pub(crate) fn check(scratch: &Scratch, cluster: &RemoteCluster, seed: u64) {
    let output = millrace()
        .args(["orders", "check", "--after-run", "--db", &cluster.dsn(), "--ack-log"])
        .arg(ack_log(scratch))
        .output()
        .unwrap();
    assert!(output.status.success(), "seed {seed}: {}", text(&output));
}

pub(crate) fn ack_log(scratch: &Scratch) -> PathBuf {
    Path::new(scratch.path()).join("acknowledged")
}

/// The time until the injected crash: within a span of seconds, in milliseconds, from the seed.
fn moment(seed: u64, seconds: std::ops::Range<u64>) -> Duration {
    println!("seed {seed}");
    let span_ms = (seconds.end - seconds.start) * 1000;
    Duration::from_millis(seconds.start * 1000 + sim::Rng::new(seed).below(span_ms))
}
