//! PostgreSQL on a file system on an attached LUN keeps what it acknowledged. The filer is killed,
//! its power is cut, a path is cut, and the database's host dies, with the filer or alone. The
//! order load runs all the time, and the test checks its acknowledged orders.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::attached::Host;
use crate::support::namespaces::Namespaces;
use crate::support::postgres::{Cluster, server_programs};
use crate::support::target::Target;
use crate::support::{Scratch, await_until, find_program, millrace, seeds, skip, succeed, text};
use serde_json::Value;
use sim::Rng;

/// Checkpoints are frequent, so that files are written and flushed within a run. Buffers are small,
/// so that backends write too.
const SETTINGS: &str = "-c listen_addresses='' -c shared_buffers=8MB -c checkpoint_timeout=30s -c max_wal_size=64MB";

#[test]
#[ignore = "nightly: a load and three ends, half a minute"]
fn no_acknowledged_order_on_ext4_is_lost_when_the_filer_its_power_or_the_host_goes() {
    ends_with("ext4", &["e2fsck", "-fn"]);
}

#[test]
#[ignore = "nightly: forty seconds, and every run has the same on ext4"]
fn no_acknowledged_order_on_xfs_is_lost_when_the_filer_its_power_or_the_host_goes() {
    ends_with("xfs", &["xfs_repair", "-n"]);
}

#[test]
#[ignore = "nightly: three cuts under a load, half a minute"]
fn a_cable_that_is_cut_under_a_database_costs_less_than_two_seconds_and_no_error() {
    let Some(namespaces) = Namespaces::linked(2) else { return };
    let Some(world) = World::build("ext4", Some(&namespaces)) else { return };
    let mut run = Run::start(&world, 7, false);
    run.make_progress();
    let writer = Writer::start(&world.place.join("beside"));
    // A busy host may add a second of its own. If one cut of three is as short as promised, the
    // initiator works.
    let mut stalls = Vec::new();
    for nth in [0, 1, 0] {
        let path = || world.host.list().remove(0)["paths"][nth].clone();
        let failures = path()["failures"].as_u64().unwrap();
        writer.measure(|| {
            namespaces.cut(nth);
            await_until("the cut path's failure in the list", Duration::from_secs(60), || {
                (path()["failures"].as_u64()? > failures).then_some(())
            });
        });
        run.make_progress();
        stalls.push(writer.longest());
        namespaces.mend(nth);
        await_until("the path to come back", Duration::from_secs(60), || (path()["state"] == "up").then_some(()));
    }
    println!("longest synchronous writes beside the database: {stalls:?}");
    assert!(stalls.iter().any(|stall| *stall < Duration::from_secs(2)), "{stalls:?}");
    run.finish_without_an_error();
    let listed = world.host.list().remove(0);
    assert_eq!(listed["failed"], 0, "{listed}");
    drop(writer);
    world.check(7);
    world.end();
}

/// 1 seed in `make test`, 50 in `make nightly`; each has three ends.
fn ends_with(kind: &str, check: &[&str]) {
    let Some(mut world) = World::build(kind, None) else { return };
    for seed in seeds(|count| if count > 2 { 5 * count / 2 } else { 1 }) {
        println!("{kind}, seed {seed}");
        world.filer_ends(seed);
        world.host_ends(seed);
    }
    let url = world.url.clone();
    let (host, _target, _scratch) = world.end();
    let attached = host.attach(&[&url]);
    succeed(Command::new(check[0]).args(&check[1..]).arg(attached["device"].as_str().unwrap()));
    host.detach(&url);
    assert_eq!(host.left(), Vec::<String>::new());
}

/// A filer with an attached LUN, a file system on it, and a cluster in that with one warehouse.
struct World {
    cluster: Cluster, // dropped before what it uses
    place: PathBuf,
    url: String,
    attached: Value,
    host: Host,
    target: Target,
    scratch: Scratch,
}

impl World {
    fn build(kind: &str, namespaces: Option<&Namespaces>) -> Option<Self> {
        if server_programs().is_none() {
            skip("PostgreSQL's server programs (apt-get install postgresql)");
            return None;
        }
        if find_program(&format!("mkfs.{kind}")).is_none() {
            skip(&format!("mkfs.{kind} is not installed"));
            return None;
        }
        let scratch = Scratch::new("iscsi-database");
        let mut host = Host::new(&scratch)?;
        let target = match namespaces {
            None => Target::with_portals(&scratch, 2, &["--loss-layer"]),
            Some(namespaces) => {
                host = host.inside(namespaces.client());
                let portals = [0, 1].map(Namespaces::address);
                Target::at(&scratch, Some(namespaces.filer()), &portals, &[])
            }
        };
        let url = target.url_of_all(target.create("db", "1GiB", &[]));
        let place = scratch.folder("place");
        let attached = host.attach(&[&url, "--mkfs", kind, "--mount", place.to_str().unwrap()]);
        let cluster = Cluster::start_made_with(&place.join("db"), &["--data-checksums"], SETTINGS)?;
        succeed(millrace().args(["orders", "load", "--warehouses", "1", "--db", &cluster.dsn()]));
        // The test does not check what initdb wrote without a sync.
        succeed(Command::new("sync").arg("-f").arg(&place));
        Some(Self { cluster, place, url, attached, host, target, scratch })
    }

    /// The filer is killed, and its power is cut. The database's host continues, and the database
    /// gets no error.
    fn filer_ends(&mut self, seed: u64) {
        let mut rng = Rng::new(seed);
        let mut run = Run::start(self, seed, false);
        let first_is_kill = rng.index(2) == 0;
        for is_kill in [first_is_kill, !first_is_kill] {
            run.make_progress();
            some_time(&mut rng);
            self.filer_goes(is_kill);
        }
        run.make_progress();
        run.finish_without_an_error();
        self.check(seed);
    }

    /// The host of the database dies: alone, or just before or just after the filer or the filer's power.
    fn host_ends(&mut self, seed: u64) {
        let mut rng = Rng::new(seed + 1_000_000);
        let mut run = Run::start(self, seed, true);
        run.make_progress();
        some_time(&mut rng);
        let (filer, filer_first) = (rng.index(3), rng.index(2) == 0);
        if filer_first && filer < 2 {
            self.filer_goes(filer == 0);
        }
        let serving = self.attached["pid"].to_string();
        if rng.index(2) == 0 {
            self.cluster.kill();
        }
        succeed(Command::new("kill").args(["-KILL", &serving]));
        self.cluster.kill();
        if !filer_first && filer < 2 {
            self.filer_goes(filer == 0);
        }
        let place = self.place.to_str().unwrap().to_owned();
        self.host.detach(&place);
        self.attached = self.host.attach(&[&self.url, "--mount", &place]);
        self.cluster.restart();
        run.make_progress();
        run.finish();
        self.check(seed);
    }

    fn filer_goes(&mut self, is_kill: bool) {
        if is_kill {
            self.target.kill();
            self.target.restart();
        } else {
            self.target.volume(&["power-cut"]);
        }
    }

    /// Checks that no acknowledged order is lost and that the database is consistent.
    fn check(&self, seed: u64) {
        let mut check = millrace();
        check.args(["orders", "check", "--after-run", "--db", &self.cluster.dsn(), "--ack-log"]).arg(self.ack_log());
        let output = check.output().unwrap();
        assert!(output.status.success(), "seed {seed}: {}", text(&output));
    }

    fn ack_log(&self) -> PathBuf {
        self.scratch.path().join("acknowledged")
    }

    /// Stops the database and detaches the LUN. Returns the other parts of the world.
    fn end(self) -> (Host, Target, Scratch) {
        self.cluster.sql("CHECKPOINT");
        self.cluster.kill();
        self.host.detach(self.place.to_str().unwrap());
        assert_eq!(self.host.left(), Vec::<String>::new());
        (self.host, self.target, self.scratch)
    }
}

/// An order load that runs until [`Self::finish`].
struct Run {
    driver: Child,
    record: PathBuf,
    acknowledged: PathBuf,
}

impl Run {
    fn start(world: &World, seed: u64, reconnect: bool) -> Self {
        let (record, acknowledged) = (world.scratch.path().join("record.json"), world.ack_log());
        let mut command = millrace();
        command.args(["orders", "run", "--db", &world.cluster.dsn(), "-c", "4", "-j", "1", "-T", "3600"]);
        command.args(["--seed", &seed.to_string(), "--ack-log"]).arg(&acknowledged).arg("--record").arg(&record);
        if reconnect {
            command.arg("--reconnect");
        }
        Self { driver: command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap(), record, acknowledged }
    }

    /// Waits for further acknowledged orders.
    fn make_progress(&mut self) {
        let bytes = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let before = bytes(&self.acknowledged);
        await_until("orders to be acknowledged", Duration::from_secs(120), || {
            assert!(self.driver.try_wait().unwrap().is_none(), "the driver has ended");
            (bytes(&self.acknowledged) > before + 400).then_some(())
        });
    }

    /// Interrupts the driver and returns its record.
    fn finish(mut self) -> Value {
        succeed(Command::new("kill").args(["-INT", &self.driver.id().to_string()]));
        await_until("the driver to end", Duration::from_secs(120), || self.driver.try_wait().unwrap());
        let output = self.driver.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "orders run: {}", text(&output)); // interrupted
        let record: Value = serde_json::from_slice(&fs::read(&self.record).unwrap()).unwrap();
        assert!(record["orders"].as_u64().unwrap() > 0, "no order was committed");
        record
    }

    /// As [`Self::finish`], and no transaction met an error.
    fn finish_without_an_error(self) {
        let record = self.finish();
        assert_eq!(record["connection_losses"], 0, "the database lost a connection");
        for (name, transaction) in record["transactions"].as_object().unwrap() {
            assert_eq!(transaction["errors"], 0, "{name}");
        }
    }
}

/// Writes to a file of the file system synchronously, one write at a time, until it is dropped.
struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    writes: AtomicU64,
    longest_us: AtomicU64,
}

impl Writer {
    fn start(path: &Path) -> Self {
        let shared = Arc::new(Shared::default());
        let (mut file, of_thread) = (File::create(path).unwrap(), shared.clone());
        let thread = std::thread::spawn(move || {
            while !of_thread.is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                file.rewind().and_then(|()| file.write_all(&[7; 4096])).and_then(|()| file.sync_data()).unwrap();
                of_thread.longest_us.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
                of_thread.writes.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { shared, thread: Some(thread) }
    }

    /// Resets the longest time, runs `what`, and waits for the writes that were open.
    fn measure(&self, what: impl FnOnce()) {
        let writes = || self.shared.writes.load(Ordering::Relaxed);
        self.shared.longest_us.store(0, Ordering::Relaxed);
        what();
        let before = writes();
        await_until("writes to end", Duration::from_secs(60), || (writes() > before + 1).then_some(()));
    }

    fn longest(&self) -> Duration {
        Duration::from_micros(self.shared.longest_us.load(Ordering::Relaxed))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Waits for a time in milliseconds from the seed. It awaits no condition.
fn some_time(rng: &mut Rng) {
    std::thread::sleep(Duration::from_millis(rng.below(2_000)));
}
