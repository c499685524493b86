//! `millrace compare --database mariadb`: figures, proof and checks as on PostgreSQL, and what is refused.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::compare::Place;
use crate::support::{millrace, preload_library, skip, succeed, text};
use results::compare::{Comparison, PathStatus};

/// Whether this host has a MariaDB to compare on. Prints a message if not.
fn mariadb_is_here() -> bool {
    let output = millrace().arg("doctor").output().unwrap();
    let here = text(&output).lines().any(|line| line.starts_with("ok") && line.contains("MariaDB"));
    if !here {
        skip("no MariaDB server programs, compare can't be measured on it");
    }
    here
}

/// Runs a comparison to its end. It must succeed and leave nothing.
fn measured(place: &Place, arguments: &[&str]) -> (Comparison, String) {
    preload_library();
    let mut child = place.compare(&[&["--database", "mariadb"], arguments].concat());
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    place.assert_nothing_left(pid);
    (place.record(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[ignore = "nightly: a comparison, a minute"]
fn small_comparison_on_mariadb_passes_its_checks_and_proves_both_paths() {
    if !mariadb_is_here() {
        return;
    }
    let place = Place::new();
    // A run of five seconds on busy processors reads so little that read-ahead at the wrong moment
    // is a twentieth of it. This one takes 12.
    let long = ["--paths", "local,dnfs", "--quick", "--seconds", "12", "--warehouses", "1", "--users", "4"];
    let (record, printed) = measured(&place, &long);
    assert!(record.valid && record.plan.database.as_str() == "mariadb", "{}", record.verdict);
    assert!(record.environment.database_version.contains("MariaDB"), "{}", record.environment.database_version);
    for (setting, value) in [("innodb_flush_log_at_trx_commit", "1"), ("innodb_doublewrite", "ON")] {
        assert_eq!(record.environment.database_settings[setting], value);
    }
    let names: Vec<&str> = record.paths.iter().map(|path| path.name.as_str()).collect();
    assert_eq!(names, ["local", "dnfs"]);
    for path in &record.paths {
        assert_eq!(path.status, PathStatus::Measured, "{path:?}");
        let (checks, proof) = (path.checks.as_ref().unwrap(), path.proof.as_ref().unwrap());
        assert_eq!((checks.passed, checks.failed), (12, 0), "{checks:?}");
        assert!(proof.passed && proof.database_read_bytes > 1 << 20, "{proof:?}");
        let counted = &path.runs[0].database;
        for (name, count) in [
            ("blocks read", counted.blocks_read),
            ("blocks hit", counted.blocks_hit),
            ("blocks written", counted.blocks_written),
            ("log bytes", counted.log_bytes),
            ("log flushes", counted.log_syncs),
            ("commits", counted.commits),
        ] {
            assert!(count > 0, "no {name} on {}: {counted:?}", path.name);
        }
        assert!(counted.block_read_ms > 0.0 && path.block_read_us.as_ref().unwrap().mean > 0.0, "{counted:?}");
        let waits = &path.runs[0].waits;
        assert!(waits.keys().all(|event| !event.contains("LWLock") && !event.contains("IO:")), "{waits:?}");
        assert!(path.cpu.as_ref().unwrap().by_owner["database"].s_per_1000_orders > 0.0);
        assert!(path.bottleneck.is_some());
    }
    let dnfs = &record.paths[1];
    assert_eq!(dnfs.proof.as_ref().unwrap().kind.as_str(), "filer_reads");
    // A flush of the log is a COMMIT on the filer.
    let (commits, flushes) = (dnfs.runs[0].filer["COMMIT"].calls, dnfs.runs[0].database.log_syncs);
    assert!(commits >= flushes / 2, "{commits} COMMITs for {flushes} flushes of the log");
    assert!(printed.contains("MariaDB, 1 warehouses"), "{printed}");
    let page = std::fs::read_to_string(place.out().join("report.html")).unwrap();
    let drawing = page.split("application/json").next().unwrap();
    assert!(drawing.contains("MariaDB 10") || drawing.contains("MariaDB 11"), "the disclosure names database and version");
    assert!(!drawing.contains("PostgreSQL"), "and no other");
}

#[test]
#[ignore = "nightly: a minute, more arms of what the small comparison shows"]
fn a_log_on_a_volume_of_its_own_and_the_built_in_tuning_are_measured_on_mariadb() {
    if !mariadb_is_here() {
        return;
    }
    let place = Place::new();
    let arguments = ["--paths", "local,dnfs", "--quick", "--warehouses", "1", "--layout", "split", "--tuning", "untuned,tuned"];
    let (record, _) = measured(&place, &arguments);
    assert!(record.valid && record.paths.len() == 4, "{}", record.verdict);
    assert_eq!(record.tunings["tuned"]["database.innodb_io_capacity"], "2000");
    for path in &record.paths {
        let checks = path.checks.as_ref().unwrap();
        assert_eq!((checks.passed, checks.failed), (12, 0), "{}: {checks:?}", path.arm);
        assert!(path.proof.as_ref().unwrap().passed, "{}: {:?}", path.arm, path.proof);
    }
    let dnfs = record.paths.iter().find(|path| path.name == "dnfs").unwrap();
    assert!(dnfs.runs[0].read_bytes_by_volume.contains_key("log"), "{:?}", dnfs.runs[0].read_bytes_by_volume);
}

#[test]
#[ignore = "nightly: half a minute; what a medium delays is the same code on PostgreSQL"]
fn a_modelled_medium_below_a_directory_carries_mariadb_which_does_without_libaio_there() {
    if !mariadb_is_here() {
        return;
    }
    let place = Place::new();
    let arguments = ["--paths", "local", "--medium", "nvme", "--quick", "--warehouses", "1"];
    let (record, _) = measured(&place, &arguments);
    let path = &record.paths[0];
    assert!(path.status == PathStatus::Measured && path.checks.as_ref().unwrap().failed == 0, "{path:?}");
    assert!(path.runs[0].medium.as_ref().is_some_and(|medium| medium.reads > 0), "{:?}", path.runs[0].medium);
}

#[test]
#[ignore = "nightly: half a minute, the end of a process of the database is the same code on PostgreSQL"]
fn a_server_that_is_killed_while_it_is_measured_ends_the_comparison_and_leaves_nothing() {
    if !mariadb_is_here() {
        return;
    }
    preload_library();
    let place = Place::new();
    let arguments =
        ["--database", "mariadb", "--paths", "dnfs", "--quick", "--warehouses", "1", "--seconds", "600", "--budget", "1h"];
    let mut child = place.compare(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains("measuring 600 s")), "never came to measuring");
    let socket = format!("--socket={}", place.work().display());
    let server = processes().find(|(_, command)| command.contains("mariadbd") && command.contains(&socket)).unwrap().0;
    succeed(Command::new("kill").args(["-KILL", &server]));
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest:?}");
    let named = |line: &String| line.contains("the database of run 1 of ") && line.contains("was ended by signal 9");
    assert!(rest.iter().any(named), "{rest:?}");
    place.assert_nothing_left(pid);
}

/// Pid and command line of each process.
fn processes() -> impl Iterator<Item = (String, String)> {
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some((entry.file_name().into_string().ok()?, String::from_utf8_lossy(&line).replace('\0', " ")))
    })
}

#[test]
fn what_only_postgresql_has_is_refused_with_both_names() {
    let place = Place::new();
    let refused = |arguments: &[&str], object: &str| {
        let output = place.compare(&[&["--database", "mariadb", "--dry-run"], arguments].concat()).output().unwrap();
        let all = text(&output);
        assert_eq!(output.status.code(), Some(2), "{all}");
        assert!(all.contains("millrace: cannot ") && all.contains(object), "{all}");
        assert!(all.contains("MariaDB") && all.contains("PostgreSQL"), "{all}");
    };
    refused(&["--layout", "split-archive"], "use the layout split-archive with MariaDB");
    refused(&["--layout", "filers=2"], "use the layout filers=2 with MariaDB");
    refused(&["--pg-bin", "/usr/lib/postgresql/15/bin"], "use --pg-bin with MariaDB");
    if mariadb_is_here() {
        let plan = place.work().join("plan.toml");
        let built_in = include_str!("../../../../plans/compare.toml");
        std::fs::write(&plan, format!("{built_in}\n[tuning.mine.database]\nwal_buffers = \"64MB\"\n")).unwrap();
        refused(&[plan.to_str().unwrap(), "--tuning", "mine"], "unknown variable 'wal_buffers=64MB'");
    }
}

#[test]
fn a_dry_run_names_the_database_and_an_unknown_one_is_refused_with_the_known_ones() {
    let place = Place::new();
    if mariadb_is_here() {
        let output = place.compare(&["--database", "mariadb", "--dry-run"]).output().unwrap();
        let all = text(&output);
        assert_eq!(output.status.code(), Some(0), "{all}");
        assert!(all.starts_with("database   MariaDB ") && !all.contains("PostgreSQL"), "{all}");
    }
    let output = place.compare(&["--database", "mysql", "--dry-run"]).output().unwrap();
    let all = text(&output);
    assert_eq!(output.status.code(), Some(2), "{all}");
    assert!(all.contains("compare with the database \"mysql\"") && all.contains("postgresql and mariadb"), "{all}");
}

#[test]
fn without_its_programs_mariadb_could_not_run_and_the_package_is_named() {
    let place = Place::new();
    let empty = place.work();
    // The search always includes /usr/sbin. The program that creates a database is in another directory.
    let output = place.compare(&["--database", "mariadb", "--dry-run"]).env("PATH", &empty).output().unwrap();
    let all = text(&output);
    assert_eq!(output.status.code(), Some(2), "{all}");
    assert!(all.contains("find MariaDB's server programs") && all.contains("apt-get install mariadb-server-core"), "{all}");
    let doctor = millrace().arg("doctor").env("PATH", &empty).output().unwrap();
    let line = text(&doctor).lines().find(|line| line.contains("MariaDB")).unwrap().to_owned();
    assert!(line.starts_with("note") && line.contains("--database mariadb"), "{line}");
}
