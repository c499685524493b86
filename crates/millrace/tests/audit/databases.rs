//! `millrace audit --db`: the settings of a live PostgreSQL and MariaDB reach the rules, and
//! nothing on the server is changed.

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Cluster;
use crate::support::{Scratch, await_until, millrace_without_databases_of_host, skip, text};
use results::audit::{Audit, Finding};

const RULES: &str = r#"
schema = 1
layer = "db"

[[rule]]
id = "test-shared-buffers"
title = "Shared buffers are as no test sets them"
platforms = ["postgres"]
test = "postgres.shared_buffers == 1"
severity = "low"
reason = "To see the value."
sources = [{ name = "A manual" }]
status = "valid"
fires = [{ facts = { "postgres.shared_buffers" = 2 } }]
silent = [{ facts = { "postgres.shared_buffers" = 1 } }]

[[rule]]
id = "test-buffer-pool"
title = "The buffer pool is as no test sets it"
platforms = ["mysql", "mariadb"]
test = "mysql.innodb_buffer_pool_size == 1"
severity = "low"
reason = "To see the value."
sources = [{ name = "A manual" }]
status = "valid"
fires = [{ facts = { "mysql.innodb_buffer_pool_size" = 2 } }]
silent = [{ facts = { "mysql.innodb_buffer_pool_size" = 1 } }]
"#;

/// Findings of one of the rules above about the server at `dsn`. The host may also have files of
/// other servers.
fn findings(scratch: &Scratch, dsn: &str, rule: &str) -> Vec<Finding> {
    let rules = scratch.folder("rules/test");
    std::fs::write(rules.join("db.toml"), RULES).unwrap();
    let output = millrace_without_databases_of_host()
        .args(["audit", "--json", "--db", dsn, "--rules"])
        .arg(scratch.path().join("rules"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let audit: Audit = serde_json::from_slice(&output.stdout).unwrap();
    let asked = |finding: &Finding| finding.server.as_ref().is_some_and(|server| server.contains(" at "));
    audit.findings.into_iter().filter(|finding| finding.rule == rule && asked(finding)).collect()
}

#[test]
fn settings_of_postgres_are_facts_shown_with_their_units() {
    let scratch = Scratch::new("audit-postgres");
    let Some(cluster) = Cluster::start(scratch.path()) else {
        skip("PostgreSQL is not installed");
        return;
    };
    // The server reports the size in pages of 8 KiB.
    let pages: u64 = cluster.sql("SELECT setting FROM pg_settings WHERE name = 'shared_buffers'").trim().parse().unwrap();
    let found = findings(&scratch, &cluster.dsn(), "test-shared-buffers");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].found, [format!("postgres.shared_buffers is {} MiB", (pages * 8192) >> 20)]);
}

#[test]
fn the_plan_of_postgres_takes_a_value_away_where_it_was_set_and_its_way_back_sets_what_was_there() {
    let scratch = Scratch::new("plan-postgres");
    let Some(cluster) = Cluster::start(scratch.path()) else {
        skip("PostgreSQL is not installed");
        return;
    };
    let database = cluster.sql("SELECT current_database()").trim().to_owned();
    cluster.sql(&format!("ALTER DATABASE {database} SET synchronous_commit = off"));
    cluster.sql("ALTER SYSTEM SET max_wal_size = '256MB'");
    cluster.sql("SELECT pg_reload_conf()");
    // The server reads its files a moment after the signal.
    let reloaded = || (cluster.sql("SHOW max_wal_size").trim() == "256MB").then_some(());
    await_until("the settings to be read", std::time::Duration::from_secs(20), reloaded);
    let rules = ["--rule", "postgres-synchronous-commit-on", "--rule", "postgres-max-wal-size"];
    let plan = millrace_without_databases_of_host().args(["tune", "plan", "--db", &cluster.dsn()]).args(rules).output().unwrap();
    let plan = text(&plan);
    for line in [
        format!("ALTER DATABASE {database} RESET synchronous_commit;"),
        format!("ALTER DATABASE {database} SET synchronous_commit = 'off';"),
        "ALTER SYSTEM SET max_wal_size = '256MB';".to_owned(),
    ] {
        assert!(plan.contains(&line), "{line}: {plan}");
    }
}

#[test]
fn variables_of_mariadb_are_facts_shown_with_their_units() {
    let scratch = Scratch::new("audit-mariadb");
    let Some(server) = MariaDb::start(scratch.path(), &["--innodb-buffer-pool-size=64M"]) else {
        skip("MariaDB is not installed");
        return;
    };
    let found = findings(&scratch, &server.dsn(), "test-buffer-pool");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].found, ["mysql.innodb_buffer_pool_size is 64 MiB"]);
}

#[test]
fn a_setting_of_another_database_or_role_is_found_and_named() {
    let scratch = Scratch::new("audit-set-for");
    let Some(cluster) = Cluster::start(scratch.path()) else {
        skip("PostgreSQL is not installed");
        return;
    };
    let rule = "postgres-no-database-or-role-risks-data";
    let audit = || {
        let output = millrace_without_databases_of_host()
            .args(["audit", "--json", "--rule", rule, "--db", &cluster.dsn()])
            .output()
            .unwrap();
        let audit: Audit = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
        let of = |finding: Finding| format!("{:?} {}", finding.verdict, finding.subject.unwrap_or_default());
        audit.findings.into_iter().map(of).collect::<Vec<_>>()
    };
    for statement in ["CREATE DATABASE other", "CREATE ROLE clerk", "ALTER DATABASE other SET synchronous_commit = 0"] {
        cluster.sql(statement);
    }
    // The catalogue keeps a value in the form that the statement has.
    cluster.sql("ALTER ROLE clerk IN DATABASE other SET zero_damaged_pages = 1");
    cluster.sql("ALTER ROLE clerk SET ignore_checksum_failure = f");
    let found = audit();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("Finding db_role_setting synchronous_commit of database other of PostgreSQL at "), "{found:?}");
    assert!(found[1].contains(" zero_damaged_pages of role clerk in database other of "), "{found:?}");
}

#[test]
fn the_hint_for_a_database_that_is_not_there_is_one_that_audit_knows() {
    let scratch = Scratch::new("audit-hint");
    let Some(cluster) = Cluster::start(scratch.path()) else {
        skip("PostgreSQL is not installed");
        return;
    };
    let output = millrace_without_databases_of_host()
        .args(["audit", "--db", &cluster.dsn().replace("dbname=postgres", "dbname=nowhere")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("or name another: dbname= in the connection string, or PGDATABASE"), "{}", text(&output));
}
