//! The audit has few findings on a stock Debian with a sensibly configured server, and it finds
//! exactly the planted faults.
//!
//! The servers are real. The hosts are the one that the test runs on and two of `tests/hosts`: they
//! have what a stock Debian 12 and 13 show, taken from the defaults of their packages and kernels.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Cluster;
use crate::support::{Scratch, millrace, skip, text};
use results::audit::{Audit, Finding, Verdict};

const MIB: u64 = 1 << 20;
/// Memory of the hosts in `tests/hosts`.
const STOCK_MEMORY: u64 = 8_129_888 << 10;

/// Rules that may have findings on a well configured host, including those for information.
/// docs/audit.md (A well-configured host) says why each is right.
const QUIET: [&str; 4] = [
    // One of these two, depending on the size of the buffers.
    "cross-huge-pages-hold-shared-memory",
    "linux-huge-pages-for-shared-buffers",
    "linux-overcommit-strict-for-postgres",
    "linux-swappiness",
];
const QUIET_MAX: usize = 3;

/// A finding in this test: the rule and the kind of its subject.
type Found = (String, &'static str);

fn hosts(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts").join(name)
}

/// A server as its administrator would configure it on a host with this memory.
fn well_set(folder: &Path, memory: u64) -> Option<Cluster> {
    let (quarter, cache) = (memory / 4 / MIB, memory / 2 / MIB);
    let options = format!(
        "-c shared_buffers={quarter}MB -c effective_cache_size={cache}MB -c work_mem=16MB -c maintenance_work_mem=256MB \
         -c wal_compression=on -c wal_buffers=64MB -c max_wal_size=8GB -c min_wal_size=1GB -c checkpoint_timeout=15min \
         -c checkpoint_completion_target=0.9 -c random_page_cost=1.1 -c effective_io_concurrency=200 \
         -c track_io_timing=on -c track_wal_io_timing=on"
    );
    let cluster = Cluster::start_made_with(folder, &["--data-checksums"], options)?;
    if cluster.sql("SHOW server_version_num").trim() >= "180000" {
        cluster.sql("ALTER SYSTEM SET io_workers = 8");
        cluster.sql("SELECT pg_reload_conf()");
    }
    Some(cluster)
}

fn run(host: Option<&Path>, dsns: &[String], more: &[&str]) -> Output {
    let mut command = millrace();
    command.arg("audit").args(more);
    if let Some(host) = host {
        command.arg("--facts").arg(host);
    }
    command.args(dsns.iter().flat_map(|dsn| ["--db", dsn])).output().unwrap()
}

fn audit(host: Option<&Path>, dsns: &[String]) -> Audit {
    let output = run(host, dsns, &["--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
}

/// The kind of a finding's subject: a server that was asked, another server, or the host and its parts.
fn subject(finding: &Finding) -> &'static str {
    match finding.server.as_deref() {
        None => "host",
        Some(server) if server.starts_with("PostgreSQL at ") => "PostgreSQL",
        Some(server) if server.starts_with("MariaDB at ") => "MariaDB",
        Some(_) => "a server that was not asked",
    }
}

fn of(audit: &Audit, verdict: Verdict) -> Vec<Found> {
    let named = |finding: &Finding| (finding.rule.clone(), subject(finding));
    audit.findings.iter().filter(|finding| finding.verdict == verdict).map(named).collect()
}

/// Asserts that there are at most three findings, including those for information, and that
/// docs/audit.md explains each.
fn assert_quiet(found: &[Found]) {
    assert!(found.len() <= QUIET_MAX, "{found:?}");
    assert!(found.iter().all(|(rule, _)| QUIET.contains(&rule.as_str())), "{found:?}");
}

fn memory_here() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    total.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_stock_debian_with_a_well_set_server_is_quiet() {
    let scratch = Scratch::new("audit-quiet");
    let Some(cluster) = well_set(scratch.path(), STOCK_MEMORY) else { return skip("PostgreSQL is not installed") };
    for name in ["debian-12", "debian-13"] {
        let found = audit(Some(&hosts(name)), &[cluster.dsn()]);
        assert_quiet(&of(&found, Verdict::Finding));
        assert_eq!(of(&found, Verdict::Unknown), [], "{name}");
        assert_eq!(found.remarks, [""; 0], "{name}");
        assert!(found.passed > 30, "{name}: {} passed", found.passed);
    }
}

#[test]
fn a_well_set_server_on_this_host_is_quiet() {
    let scratch = Scratch::new("audit-quiet-here");
    let Some(cluster) = well_set(scratch.path(), memory_here()) else { return skip("PostgreSQL is not installed") };
    let mut found = of(&audit(None, &[cluster.dsn()]), Verdict::Finding);
    // The test does not judge the host itself and clusters that it did not start: their
    // administrator configured them.
    found.retain(|(_, subject)| *subject == "PostgreSQL");
    assert_quiet(&found);
}

/// The host of Debian 12 with three faults: in its memory, in its huge pages, and in the file
/// system of the databases.
fn with_faults(folder: &Path) -> PathBuf {
    copy(&hosts("debian-12"), folder);
    for (file, was, is) in [
        ("commands/sysctl-a.txt", "vm.zone_reclaim_mode = 0", "vm.zone_reclaim_mode = 1"),
        ("commands/grep-sys.txt", "always defer defer+madvise [madvise] never", "[always] defer defer+madvise madvise never"),
        ("files/proc/self/mountinfo", "rw,errors=remount-ro", "rw,nobarrier,errors=remount-ro"),
    ] {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(was), "{was} is not in {file}");
        std::fs::write(path, text.replace(was, is)).unwrap();
    }
    folder.to_owned()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

const MARIADB_WELL_SET: [&str; 2] = ["--innodb-buffer-pool-size=2G", "--innodb-flush-method=O_DIRECT"];

fn mariadb(folder: &Path, log: [&str; 4]) -> Option<MariaDb> {
    MariaDb::start(folder, &[&MARIADB_WELL_SET[..], &log].concat())
}

#[test]
fn ten_faults_in_three_subjects_are_found_and_nothing_else() {
    let scratch = Scratch::new("audit-ten-faults");
    let options = "-c fsync=off -c full_page_writes=off -c autovacuum=off -c shared_buffers=32MB -c max_wal_size=8GB \
                   -c min_wal_size=1GB -c checkpoint_timeout=15min -c wal_compression=on -c effective_io_concurrency=200 \
                   -c track_io_timing=on -c track_wal_io_timing=on";
    let Some(cluster) = Cluster::start_made_with(scratch.path(), &["--data-checksums"], options) else {
        return skip("PostgreSQL is not installed");
    };
    let faulty = ["--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=0", "--log-bin=log", "--sync-binlog=0"];
    let Some(lossy) = mariadb(&scratch.folder("lossy"), faulty) else { return skip("MariaDB is not installed") };
    let host = with_faults(&scratch.folder("host"));

    let mut found = of(&audit(Some(&host), &[cluster.dsn(), lossy.dsn()]), Verdict::Finding);
    let planted = [
        ("postgres-fsync-on", "PostgreSQL"),
        ("postgres-full-page-writes-on", "PostgreSQL"),
        ("postgres-autovacuum-on", "PostgreSQL"),
        ("postgres-shared-buffers-from-memory", "PostgreSQL"),
        ("mysql-log-flushed-at-commit", "MariaDB"),
        ("mysql-doublewrite-on", "MariaDB"),
        ("mysql-binlog-flushed-at-commit", "MariaDB"),
        ("linux-zone-reclaim-off", "host"),
        ("linux-thp-no-stalls", "host"),
        ("linux-write-barriers", "host"),
    ]
    .map(|(rule, subject)| (rule.to_owned(), subject));
    // The same host has these findings without any fault. Both belong to a stock Debian, not to the
    // ten faults.
    let allowed = ["linux-overcommit-strict-for-postgres", "linux-swappiness"].map(|rule| (rule.to_owned(), "host"));
    let mut expected: Vec<Found> = planted.into_iter().chain(allowed).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn the_same_servers_without_the_faults_are_quiet() {
    let scratch = Scratch::new("audit-no-faults");
    let Some(cluster) = well_set(scratch.path(), STOCK_MEMORY) else { return skip("PostgreSQL is not installed") };
    let sound = ["--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1", "--log-bin=log", "--sync-binlog=1"];
    let Some(synced) = mariadb(&scratch.folder("synced"), sound) else { return skip("MariaDB is not installed") };
    let found = audit(Some(&hosts("debian-12")), &[cluster.dsn(), synced.dsn()]);
    assert_quiet(&of(&found, Verdict::Finding));
    assert_eq!(of(&found, Verdict::Unknown), []);
}

#[test]
fn rules_of_a_database_that_was_not_asked_are_not_unknown() {
    let scratch = Scratch::new("audit-one-kind");
    let Some(cluster) = well_set(scratch.path(), STOCK_MEMORY) else { return skip("PostgreSQL is not installed") };
    let host = scratch.folder("host");
    copy(&hosts("debian-12"), &host);
    // As Debian installs it: it has no setting that a rule asks for.
    let files = host.join("files/etc/mysql/mariadb.conf.d");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("50-server.cnf"), "[mysqld]\npid-file = /run/mysqld/mysqld.pid\nbind-address = 127.0.0.1\n")
        .unwrap();
    std::fs::write(host.join("files/etc/mysql/my.cnf"), "!includedir /etc/mysql/mariadb.conf.d/\n").unwrap();
    let found = audit(Some(&host), &[cluster.dsn()]);
    assert_eq!(of(&found, Verdict::Unknown), []);
    assert_quiet(&of(&found, Verdict::Finding));
    assert!(found.remarks.iter().any(|remark| remark.contains("/etc/mysql (from files) was not asked")), "{:?}", found.remarks);
}
