//! The audit judges each database server by itself, and the settings of a server that it asked
//! outweigh the files on the host.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use crate::support::mariadb::MariaDb;
use crate::support::postgres::{Cluster, give_to_database_user};
use crate::support::{Scratch, await_until, millrace_without_databases_of_host, skip, text};
use results::audit::{Audit, Finding, Severity, Verdict};

const FSYNC: &str = "postgres-fsync-on";

/// Two clusters with the settings of their files. `None`, with a message, if PostgreSQL is not installed.
fn two_clusters(scratch: &Scratch) -> Option<[Cluster; 2]> {
    let start = |name: &str| Cluster::start_with(&scratch.folder(name), "");
    let both = start("first").zip(start("second")).map(|(first, second)| [first, second]);
    if both.is_none() {
        skip("PostgreSQL is not installed");
    }
    both
}

/// Executes a statement that sets fsync, and waits until the setting is effective.
fn set_fsync(cluster: &Cluster, statement: &str, to: &str) {
    cluster.sql(statement);
    reload(cluster, to);
}

fn reload(cluster: &Cluster, fsync: &str) {
    cluster.sql("SELECT pg_reload_conf()");
    await_until("fsync to be as set", Duration::from_secs(30), || (cluster.sql("SHOW fsync").trim() == fsync).then_some(()));
}

fn run(arguments: &[&str], dsns: &[&str]) -> Output {
    let dsns = dsns.iter().flat_map(|dsn| ["--db", dsn]);
    millrace_without_databases_of_host().args(arguments).args(dsns).output().unwrap()
}

fn audit(arguments: &[&str], dsns: &[&str]) -> Audit {
    let output = run(&[&["audit", "--json", "--passed"], arguments].concat(), dsns);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
}

/// Names of the servers with this verdict.
fn servers(audit: &Audit, verdict: Verdict) -> Vec<&str> {
    let of = |finding: &&Finding| finding.verdict == verdict;
    audit.findings.iter().filter(of).map(|finding| finding.server.as_deref().unwrap_or("no server")).collect()
}

fn name(cluster: &Cluster) -> String {
    format!(
        "PostgreSQL at {} ({})",
        cluster.sql("SELECT current_setting('unix_socket_directories') || ':5432'").trim(),
        cluster.data().display()
    )
}

#[test]
fn fsync_off_on_one_of_two_servers_is_a_finding_of_that_one_in_each_order_and_form() {
    let scratch = Scratch::new("audit-two-servers");
    let Some([first, second]) = two_clusters(&scratch) else { return };
    set_fsync(&second, "ALTER SYSTEM SET fsync = off", "off");
    let (one, other) = (first.dsn(), second.dsn());
    for dsns in [[one.as_str(), &other], [&other, &one]] {
        let audit = audit(&["--rule", FSYNC], &dsns);
        assert_eq!(servers(&audit, Verdict::Finding), [name(&second)], "{audit:?}");
        assert!(servers(&audit, Verdict::Passed).contains(&name(&first).as_str()), "{audit:?}");
        let found = &audit.findings[0];
        assert_eq!((found.severity, found.subject.as_ref()), (Severity::Critical, found.server.as_ref()));
    }
    // A form prints the audit, whose order the loop above checks.
    for form in ["text", "json", "sarif", "junit", "html"] {
        let output = run(&["audit", "--rule", FSYNC, "--format", form], &[&one, &other]);
        assert_eq!(output.status.code(), Some(1), "{form}");
        assert!(text(&output).contains(&name(&second)), "{form}: {}", text(&output));
    }
    // The server reports the file and line of the setting.
    let sarif = text(&run(&["audit", "--rule", FSYNC, "--format", "sarif"], &[&other]));
    assert!(sarif.contains("second/data/postgresql.auto.conf\""), "{sarif}");
    let told = text(&run(&["audit", "--rule", FSYNC, "-v"], &[&other]));
    let told: String = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("found postgres.fsync is false (/") && told.contains("/postgresql.auto.conf:"), "{told}");

    set_fsync(&second, "ALTER SYSTEM RESET fsync", "on");
    let audit = audit(&["--rule", FSYNC], &[&one, &other]);
    assert_eq!(servers(&audit, Verdict::Finding), [""; 0], "{audit:?}");
}

#[test]
fn waivers_baselines_and_differences_tell_servers_apart() {
    let scratch = Scratch::new("audit-servers-waived");
    let Some([first, second]) = two_clusters(&scratch) else { return };
    for cluster in [&first, &second] {
        set_fsync(cluster, "ALTER SYSTEM SET fsync = off", "off");
    }
    let (one, other) = (first.dsn(), second.dsn());
    let file = |name: &str| scratch.path().join(name).display().to_string();
    let waiver = format!(
        "schema = 1\n[[waiver]]\nrule = \"{FSYNC}\"\nsubject = \"PostgreSQL at *{}*\"\nreason = \"a copy\"\nexpires = 2999-01-01\n",
        first.data().display()
    );
    std::fs::write(file("waivers.toml"), waiver).unwrap();
    let waived = audit(&["--rule", FSYNC, "--waivers", &file("waivers.toml")], &[&one, &other]);
    assert_eq!(servers(&waived, Verdict::Waived), [name(&first)]);
    assert_eq!(servers(&waived, Verdict::Finding), [name(&second)]);

    run(&["audit", "--rule", FSYNC, "--format", "json", "--out", &file("one.json")], &[&one]);
    run(&["audit", "--rule", FSYNC, "--format", "json", "--out", &file("both.json")], &[&one, &other]);
    let against = run(&["audit", "--rule", FSYNC, "--baseline", &file("one.json")], &[&one, &other]);
    assert_eq!(against.status.code(), Some(1), "{}", text(&against));
    assert!(text(&against).contains("1 new finding"), "{}", text(&against));
    let differ = run(&["audit", "diff", &file("one.json"), &file("both.json")], &[]);
    assert!(text(&differ).contains("1 new, 0 gone") && text(&differ).contains(&name(&second)), "{}", text(&differ));
}

/// A tree with the files of one cluster whose configuration turns fsync off.
fn tree(root: &Path) {
    let etc = root.join("etc/postgresql/15/main");
    std::fs::create_dir_all(&etc).unwrap();
    std::fs::write(etc.join("postgresql.conf"), "data_directory = '/var/lib/postgresql/15/main'\nfsync = off\n").unwrap();
    let data = root.join("var/lib/postgresql/15/main");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("postgresql.auto.conf"), "# Do not edit this file manually!\n").unwrap();
    std::fs::write(root.join("etc/os-release"), "ID=debian\nVERSION_ID=\"12\"\n").unwrap();
}

#[test]
fn files_of_a_stopped_cluster_are_a_subject_of_their_own_beside_a_live_server() {
    let scratch = Scratch::new("audit-stopped");
    let Some(live) = Cluster::start_with(&scratch.folder("live"), "") else {
        skip("PostgreSQL is not installed");
        return;
    };
    let root = scratch.folder("capture/files");
    tree(&root);
    let capture = scratch.path().join("capture").display().to_string();
    let found = audit(&["--rule", FSYNC, "--facts", &capture], &[&live.dsn()]);
    assert_eq!(servers(&found, Verdict::Finding), ["PostgreSQL in /etc/postgresql/15/main (from files)"]);
    assert_eq!(servers(&found, Verdict::Passed), [name(&live)]);

    let root = root.display().to_string();
    let plan = text(&run(&["tune", "plan", "--root", &root, "--rule", FSYNC], &[&live.dsn()]));
    assert!(plan.contains("PostgreSQL in /etc/postgresql/15/main (stopped)"), "{plan}");
    assert!(!plan.contains(&name(&live)), "{plan}");
}

#[test]
fn each_server_has_its_change_in_its_own_file_and_the_finding_clears() {
    let scratch = Scratch::new("plan-two-servers");
    let Some(both) = two_clusters(&scratch) else { return };
    for cluster in &both {
        let drop_ins = cluster.data().join("conf.d");
        std::fs::create_dir(&drop_ins).unwrap();
        give_to_database_user(&drop_ins);
        let config = cluster.data().join("postgresql.conf");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}fsync = off\ninclude_dir = 'conf.d'\n")).unwrap();
        reload(cluster, "off");
    }
    let dsns = both.each_ref().map(Cluster::dsn);
    let dsns = dsns.each_ref().map(String::as_str);
    let plan = text(&run(&["tune", "plan", "--rule", FSYNC], &dsns));
    for cluster in &both {
        assert!(plan.contains(&format!("{FSYNC} ({})", name(cluster))), "{plan}");
        assert!(plan.contains(&format!("+++ {}/conf.d/60-millrace.conf", cluster.data().display())), "{plan}");
    }
    let state = scratch.path().join("state").display().to_string();
    let applied = run(&["tune", "apply", "--yes", "--state", &state, "--rule", FSYNC], &dsns);
    assert_eq!(applied.status.code(), Some(4), "{}", text(&applied));
    both.iter().for_each(|cluster| reload(cluster, "on"));
    let audit = audit(&["--rule", FSYNC], &dsns);
    assert_eq!(servers(&audit, Verdict::Finding), [""; 0], "{audit:?}");
}

/// The verdict on `fsync` of this cluster in an audit without `--db`.
fn found_of(data: &Path) -> Option<Verdict> {
    let output = run(&["audit", "--json", "--passed", "--rule", FSYNC], &[]);
    if output.status.code() == Some(2) && text(&output).contains("does not apply to them") {
        return None; // no database is on this host
    }
    let audit: Audit = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    let name = format!("PostgreSQL in {} (from files)", data.display());
    audit.findings.iter().find(|finding| finding.server.as_ref() == Some(&name)).map(|finding| finding.verdict)
}

#[test]
fn a_server_that_runs_anywhere_is_judged_though_nobody_named_it() {
    let scratch = Scratch::new("audit-running");
    let Some(cluster) = Cluster::start_with(scratch.path(), "") else { return skip("PostgreSQL is not installed") };
    let data = cluster.data().to_owned();
    assert_eq!(found_of(&data), Some(Verdict::Passed));

    let config = data.join("postgresql.conf");
    let said = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{said}\nfsync = off\n")).unwrap();
    assert_eq!(found_of(&data), Some(Verdict::Finding));
    let sarif = text(&run(&["audit", "--rule", FSYNC, "--format", "sarif"], &[]));
    assert!(sarif.contains(format!("{}\"", config.display()).trim_start_matches('/')), "{sarif}");
    let plan = text(&run(&["tune", "plan", "--rule", FSYNC], &[]));
    assert!(plan.contains(&format!("{FSYNC} (PostgreSQL in {} (from files))", data.display())), "{plan}");

    // The connection string in the note reaches the server itself, which has not read its file yet.
    let note = |remark: &&String| remark.contains(&data.display().to_string());
    let notes = audit(&["--rule", FSYNC], &[]).remarks;
    let note = notes.iter().find(note).unwrap_or_else(|| panic!("{notes:?}"));
    let dsn = note.split('\'').nth(1).unwrap_or_else(|| panic!("{note}")).to_owned();
    let asked = audit(&["--rule", FSYNC], &[&dsn]);
    assert!(servers(&asked, Verdict::Passed).contains(&name(&cluster).as_str()), "{asked:?}");

    drop(cluster);
    assert_eq!(found_of(&data), None, "it does not run any more");
}

#[test]
fn what_a_command_line_sets_decides_over_the_files_of_a_server_that_runs() {
    let scratch = Scratch::new("audit-command-line");
    let Some(cluster) = Cluster::start_with(scratch.path(), "-c fsync=off") else { return skip("PostgreSQL is not installed") };
    assert_eq!(found_of(cluster.data()), Some(Verdict::Finding));
}

#[test]
fn a_file_that_the_servers_user_may_not_read_sets_nothing_here_and_in_a_capture_of_this_host() {
    let scratch = Scratch::new("audit-asked");
    let Some(cluster) = Cluster::start_with(scratch.path(), "-c full_page_writes=off") else {
        return skip("PostgreSQL is not installed");
    };
    // The server ignores a file that it cannot open. Root can open it.
    let config = cluster.data().join("postgresql.conf");
    let said = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{said}\nfsync = off\ninclude_if_exists 'root.conf'\n")).unwrap();
    let root = cluster.data().join("root.conf");
    std::fs::write(&root, "fsync = on\n").unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o600)).unwrap();
    let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
    if owner(&root) == owner(cluster.data()) {
        return sim::skip_unsupported("the server runs as the user of this test");
    }
    assert_eq!(found_of(cluster.data()), Some(Verdict::Finding));

    let capture = scratch.path().join("capture").display().to_string();
    let collected = run(&["collect", "--out", &capture], &[]);
    assert_eq!(collected.status.code(), Some(0), "{}", text(&collected));
    let name = format!("PostgreSQL in {} (from files)", cluster.data().display());
    for rule in [FSYNC, "postgres-full-page-writes-on"] {
        let audit = audit(&["--rule", rule, "--facts", &capture], &[]);
        assert!(servers(&audit, Verdict::Finding).contains(&name.as_str()), "{audit:?}");
    }
}

#[test]
fn two_servers_of_mariadb_are_judged_each_by_its_own_variables() {
    let scratch = Scratch::new("audit-two-mariadb");
    let synced = MariaDb::start(&scratch.folder("first"), &["--innodb-flush-log-at-trx-commit=1"]);
    let Some((synced, lossy)) = synced.zip(MariaDb::start(&scratch.folder("second"), &[])) else {
        skip("MariaDB is not installed");
        return;
    };
    let found = audit(&["--rule", "mysql-log-flushed-at-commit"], &[&synced.dsn(), &lossy.dsn()]);
    let of = |verdict| servers(&found, verdict).into_iter().filter(|name| name.contains(" at ")).collect::<Vec<_>>();
    let (findings, passed) = (of(Verdict::Finding), of(Verdict::Passed));
    assert!(findings.len() == 1 && findings[0].starts_with("MariaDB at ") && findings[0].contains("/second/"), "{found:?}");
    assert!(passed.len() == 1 && passed[0].contains("/first/"), "{found:?}");
}

#[test]
fn a_value_that_the_server_chooses_or_shows_otherwise_is_no_change_after_a_restart() {
    let scratch = Scratch::new("audit-chosen");
    let Some(cluster) = Cluster::start_with(scratch.path(), "") else { return skip("PostgreSQL is not installed") };
    let config = cluster.data().join("postgresql.conf");
    let said = std::fs::read_to_string(&config).unwrap();
    let chosen = "wal_buffers = -1\nlog_file_mode = 0640\nunix_socket_permissions = 0700\nhba_file = 'pg_hba.conf'\nlog_timezone = 'utc'\n\
                  autovacuum_work_mem = -1\nhuge_page_size = 0\nmax_wal_size = 1500MB\n";
    std::fs::write(&config, format!("{said}\n{chosen}")).unwrap();
    cluster.sql("SELECT pg_reload_conf()");
    let is_reloaded = || (cluster.sql("SHOW log_file_mode").trim() == "0640").then_some(());
    await_until("the settings to be read", Duration::from_secs(30), is_reloaded);
    // This one is not read yet.
    std::fs::write(&config, format!("{said}\n{chosen}unix_socket_permissions = 0777\nwork_mem = 8MB\n")).unwrap();
    // A capture has the files of all servers that run.
    let capture = scratch.path().join("capture").display().to_string();
    let collected = run(&["collect", "--out", &capture], &[&cluster.dsn()]);
    assert!(collected.status.success(), "{}", text(&collected));
    let audit = audit(&["--rule", "cross-running-is-persistent", "--facts", &capture], &[]);
    let of_server: Vec<&Finding> =
        audit.findings.iter().filter(|one| one.server.is_some() && one.verdict == Verdict::Finding).collect();
    let subjects: Vec<&str> = of_server.iter().filter_map(|one| one.subject.as_deref()?.split(" of ").next()).collect();
    assert_eq!(subjects, ["setting postgres work_mem"], "{of_server:?}");
    assert_eq!(of_server[0].found, ["setting.running is 4194304", "setting.persistent is 8388608"]);
}
