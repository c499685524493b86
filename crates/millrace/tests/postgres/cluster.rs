//! An unmodified PostgreSQL whose files, log and tablespace are on a mount: normal operation and crashes.
//!
//! Ten quits for each of `MILLRACE_E2E_SEEDS` (2 by default: 20; `make nightly`: 200);
//! `MILLRACE_SEED` changes when they come.

use crate::support::filer::Filer;
use crate::support::postgres::{as_database_user, give_to_database_user, server_programs};
use crate::support::remote::{MOUNT, RemoteCluster};
use crate::support::tls::Pki;
use crate::support::{Scratch, await_until, environment_number, find_program, seed_count, skip, succeed, text};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Small buffers and frequent checkpoints, so that pages are written and read back over the network.
const SETTINGS: &str = "-c shared_buffers=16MB -c max_wal_size=64MB -c min_wal_size=32MB -c checkpoint_timeout=30s \
                        -c autovacuum_naptime=1s -c max_parallel_workers_per_gather=2 -c log_min_messages=notice";

/// Fields drop in this order: the database before the filer that it uses.
struct World {
    cluster: RemoteCluster,
    filer: Filer,
    programs: PathBuf,
    _scratch: Scratch,
}

impl World {
    fn build(label: &str) -> Option<Self> {
        let Some(programs) = server_programs() else {
            skip("PostgreSQL server programs are not installed");
            return None;
        };
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, &[]);
        let cluster = RemoteCluster::create(&scratch, &filer, &programs, SETTINGS);
        Some(Self { cluster, filer, programs, _scratch: scratch })
    }

    /// The same with every byte under TLS, with a certificate of the filer and one of the client.
    fn build_under_tls(label: &str) -> Option<Self> {
        let Some(programs) = server_programs() else {
            skip("PostgreSQL server programs are not installed");
            return None;
        };
        let scratch = Scratch::new(label);
        let pki = Pki::new(&scratch);
        give_to_database_user(Path::new(&pki.path("client.key")));
        let filer = pki.filer(&scratch, "mutual");
        let url = filer.url.clone() + &pki.mutual();
        let cluster = RemoteCluster::create_by(&url, &scratch, &filer, &programs, SETTINGS);
        Some(Self { cluster, filer, programs, _scratch: scratch })
    }

    fn pgbench(&self, arguments: &[&str]) -> Command {
        // Server packages without clients (MILLRACE_TEST_PG_BIN) are tested with the installed clients.
        let own = self.programs.join("pgbench");
        let installed = || find_program("pgbench").expect("pgbench");
        let mut command = as_database_user(if own.exists() { own } else { installed() });
        command.args(arguments).arg(self.cluster.dsn());
        command
    }

    /// Runs load in the background, as long as the server lives.
    fn load(&self, seconds: u32) -> Child {
        let seconds = seconds.to_string();
        self.pgbench(&["-n", "-c", "4", "-j", "2", "-T", &seconds]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The invariant of TPC-B: the sums of the moved amounts are equal in all four tables.
    fn check_balance(&self) {
        let sums = self.cluster.sql(
            "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), \
             (select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)",
        );
        let sums: Vec<&str> = sums.trim().split('|').collect();
        assert!(sums.iter().all(|sum| *sum == sums[0]), "balances differ: {sums:?}");
    }

    /// Starts a server that ended under `load`. The load has lost its server and is ended first.
    fn start_again(&self, mut load: Child) {
        let _ = load.kill();
        load.wait().unwrap();
        self.cluster.start();
    }

    /// Checks that pages are undamaged, no hidden name is left, and the log has no panic. The
    /// cluster is stopped then.
    fn unharmed(&self) {
        self.check_pages();
        self.no_hidden_names();
        assert!(!self.log().contains("PANIC"), "{}", self.log());
    }

    /// Checks that pg_amcheck and pg_checksums find nothing. The cluster is stopped then.
    fn check_pages(&self) {
        let amcheck = self.programs.join("pg_amcheck");
        if amcheck.exists() {
            self.cluster.sql("create extension if not exists amcheck");
            let dsn = self.cluster.dsn();
            let host = dsn.split_whitespace().find_map(|word| word.strip_prefix("host=")).unwrap();
            succeed(as_database_user(amcheck).args(["--heapallindexed", "-h", host, "-U", "postgres", "postgres"]));
        }
        self.cluster.stop("fast");
        let checksums = self.programs.join("pg_checksums");
        if !checksums.exists() {
            return skip("pg_checksums is not among the server programs");
        }
        let out = succeed(self.cluster.exec(&checksums).args(["--check", "-D", &self.cluster.data()]));
        assert!(out.contains("Bad checksums:  0"), "{out}");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.filer.export().join("log")).unwrap_or_default()
    }

    fn no_hidden_names(&self) {
        let found = Command::new("find").arg(self.filer.export()).args(["-name", ".nfs*"]).output().unwrap();
        assert!(found.stdout.is_empty(), "left behind: {}", text(&found));
    }
}

#[test]
fn cluster_lives_on_a_mount_from_initdb_to_checksums() {
    let Some(world) = World::build("pg-life") else { return };
    let cluster = &world.cluster;
    cluster.start();
    assert!(!Path::new(MOUNT).exists(), "the mount's path must not exist on this host");
    assert!(world.log().contains("ready to accept connections"), "the log is on the mount: {}", world.log());
    let reads = world.filer.calls("READ");
    succeed(&mut world.pgbench(&["-i", "-q", "-s", "3"]));
    succeed(&mut world.pgbench(&["-n", "-c", "4", "-j", "2", "-t", "200"]));
    world.check_balance();
    assert!(world.filer.calls("READ") > reads + 1000, "the database read its pages over the wire");

    // COPY to and from a file of the server, temporary files, a parallel query, and a tablespace on
    // the mount.
    let file = format!("{MOUNT}/accounts.csv");
    cluster.sql(&format!("copy pgbench_accounts to '{file}' (format csv)"));
    let count = "create table back (like pgbench_accounts); copy back from '{}' (format csv); select count(*) from back";
    assert_eq!(cluster.sql(&count.replace("{}", &file)).trim(), "300000");
    let sorted = "set work_mem = '1MB'; select count(*) from (select abalance, filler from back order by filler, aid offset 0) s";
    assert_eq!(cluster.sql(sorted).trim(), "300000");
    let parallel = "set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; \
                    select sum(aid) from back";
    assert_eq!(cluster.sql(parallel).trim(), "45000150000");
    succeed(cluster.exec(Path::new("/bin/mkdir")).args(["-m", "700", &format!("{MOUNT}/space")]));
    cluster.sql(&format!("create tablespace space location '{MOUNT}/space'"));
    cluster.sql("create table there tablespace space as select * from back limit 10000; drop table back");
    assert_eq!(cluster.sql("select count(*) from there").trim(), "10000");
    cluster.sql("create database other template template0");
    cluster.sql("drop database other");

    cluster.stop("immediate");
    cluster.start();
    assert!(world.log().contains("automatic recovery in progress"), "{}", world.log());
    assert_eq!(cluster.sql("select count(*) from there").trim(), "10000");
    world.check_balance();
    world.check_pages();
    world.no_hidden_names();
    for message in ["PANIC", "could not fsync", "could not write", "could not read", "Input/output error"] {
        assert!(!world.log().contains(message), "{message}: {}", world.log());
    }
}

#[test]
#[ignore = "nightly: a cluster made under TLS in a debug build, half a minute"]
fn cluster_under_mutual_tls_outlives_its_filer_and_its_own_end() {
    let Some(mut world) = World::build_under_tls("pg-tls") else { return };
    world.cluster.start();
    succeed(&mut world.pgbench(&["-i", "-q", "-s", "1"]));
    let (before, mut load) =
        (world.filer.calls("WRITE"), world.pgbench(&["-n", "-c", "4", "-j", "2", "-t", "150"]).spawn().unwrap());
    await_until("the load to write", Duration::from_secs(20), || (world.filer.calls("WRITE") > before).then_some(()));
    // Every process of the database makes a new TLS handshake during its calls.
    world.filer.kill();
    world.filer.restart();
    assert!(load.wait().unwrap().success());
    assert_eq!(world.cluster.sql("select count(*) from pgbench_history").trim(), "600");
    world.check_balance();
    world.cluster.stop("immediate");
    world.cluster.start();
    world.check_balance();
    world.unharmed();
}

#[test]
#[ignore = "nightly: a cluster that is ended many times, most of a minute"]
fn quits_under_load_leave_no_hang_no_damage_and_no_name() {
    let Some(world) = World::build("pg-quit") else { return };
    world.cluster.start();
    succeed(&mut world.pgbench(&["-i", "-q", "-s", "1"]));
    let seed = environment_number("MILLRACE_SEED").unwrap_or(7);
    println!("seed {seed}");
    let mut random = seed;
    for _ in 0..10 * seed_count() {
        let load = world.load(30);
        await_until("the load to be connected", Duration::from_secs(20), || {
            let busy = world.cluster.sql("select count(*) from pg_stat_activity where application_name = 'pgbench'");
            (busy.trim() != "0").then_some(())
        });
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(20 + (random >> 33) % 400)); // the seed decides when
        // SIGQUIT to every process at once: each writes its last message to the log, in whatever call it is.
        for pid in world.cluster.pids() {
            let _ = Command::new("kill").args(["-QUIT", &pid.to_string()]).output();
        }
        await_until("every process to be gone", Duration::from_secs(20), || world.cluster.pids().is_empty().then_some(()));
        world.start_again(load);
    }
    world.check_balance();
    world.unharmed();
}

#[test]
fn killed_database_recovers_and_the_next_one_cleans_up() {
    let Some(world) = World::build("pg-kill") else { return };
    world.cluster.start();
    succeed(&mut world.pgbench(&["-i", "-q", "-s", "1"]));
    for _ in 0..2 {
        let load = world.load(30);
        await_until("some history", Duration::from_secs(20), || {
            (world.cluster.sql("select count(*) from pgbench_history").trim().len() > 2).then_some(())
        });
        // A table that is dropped while open leaves names that only the killed process could have removed.
        world.cluster.sql("create table gone as select generate_series(1, 100000); select count(*) from gone; drop table gone");
        world.cluster.kill();
        world.start_again(load);
        world.check_balance();
    }
    world.unharmed();
}
