//! Connection poolers between `millrace orders` and the server, and roles with limits of their own.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::pgbouncer::PgBouncer;
use crate::support::postgres::Cluster;
use crate::support::{Scratch, millrace, skip, succeed, text};

/// Settings that a client of the pool sees.
const SEEN: &str = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE source = 'session' \
                    AND name NOT IN ('client_encoding', 'application_name', 'DateStyle', 'TimeZone', 'standard_conforming_strings')";

fn cluster(label: &str) -> Option<(Scratch, Cluster)> {
    let scratch = Scratch::new(label);
    let Some(cluster) = Cluster::start(scratch.path()) else {
        skip("PostgreSQL is not installed");
        return None;
    };
    cluster.sql("CREATE ROLE clerk LOGIN SUPERUSER");
    Some((scratch, cluster))
}

fn orders(arguments: &[&str], dsn: &str) -> Command {
    let mut command = millrace();
    command.arg("orders").args(arguments).args(["-d", dsn]);
    command
}

/// The settings that other clients of the pool see in their sessions, over several queries.
fn seen(pooler: &PgBouncer) -> BTreeSet<String> {
    (0..6).map(|_| succeed(&mut pooler.psql(SEEN)).trim().to_owned()).collect()
}

#[test]
fn a_pooler_that_shares_sessions_is_refused_and_no_setting_stays_in_them() {
    let Some((scratch, cluster)) = cluster("pool-shared") else { return };
    let pools = [
        ("transaction", "default_pool_size = 4"),
        ("transaction", "default_pool_size = 1"),
        ("transaction", "default_pool_size = 4\nserver_round_robin = 1"),
        ("statement", "default_pool_size = 4"),
    ];
    for (mode, settings) in pools {
        let Some(pooler) = PgBouncer::start(&scratch, &cluster, mode, settings) else {
            return skip("PgBouncer is not installed");
        };
        // Several sessions of the server are in the pool already, as on a host in use.
        let busy: Vec<_> = (0..3).map(|_| pooler.psql("SELECT pg_sleep(0.2)").spawn().unwrap()).collect();
        busy.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
        for job in [&["load", "--warehouses", "1"][..], &["run", "-c", "4", "-T", "1"], &["check"]] {
            let output = orders(job, &pooler.dsn()).output().unwrap();
            let said = text(&output);
            assert_eq!(output.status.code(), Some(2), "{mode} {settings}: {said}");
            assert!(
                said.contains("connection pooler") && said.contains("hint: ") && said.contains("pool_mode = session"),
                "{said}"
            );
        }
        // An audit needs no session of its own: it reads in separate transactions.
        if mode == "transaction" {
            let audit = millrace().args(["audit", "--db", &pooler.dsn()]).output().unwrap();
            assert!(matches!(audit.status.code(), Some(0 | 1)), "{}", text(&audit));
        }
        assert_eq!(seen(&pooler), BTreeSet::from([String::new()]), "{mode} {settings}");
    }
}

#[test]
fn a_pooler_that_keeps_sessions_is_used_and_too_few_of_them_are_an_error_that_says_so() {
    let Some((scratch, cluster)) = cluster("pool-session") else { return };
    let Some(pooler) = PgBouncer::start(&scratch, &cluster, "session", "default_pool_size = 4") else {
        return skip("PgBouncer is not installed");
    };
    succeed(&mut orders(&["load", "--warehouses", "1", "-j", "2"], &pooler.dsn()));
    succeed(&mut orders(&["run", "-c", "4", "-T", "1"], &pooler.dsn()));
    assert!(succeed(&mut orders(&["check"], &pooler.dsn())).contains("12 passed, 0 failed"));
    let dsn = format!("{} connect_timeout=2", pooler.dsn());
    let output = orders(&["run", "-c", "8", "-T", "1"], &dsn).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("had no free server session for 4 s") && said.contains("hint: use at most as many sessions"), "{said}");
    assert_eq!(seen(&pooler), BTreeSet::from([String::new()]));
}

#[test]
fn limits_of_a_role_end_no_load_and_no_run() {
    let Some((_scratch, cluster)) = cluster("role-limits") else { return };
    for (setting, value) in [
        ("statement_timeout", "'20ms'"),
        ("lock_timeout", "'1ms'"),
        ("idle_in_transaction_session_timeout", "'20ms'"),
        ("default_transaction_read_only", "on"),
        ("default_transaction_isolation", "serializable"),
    ] {
        cluster.sql(&format!("ALTER ROLE clerk SET {setting} = {value}"));
    }
    let dsn = cluster.dsn().replace("user=postgres", "user=clerk");
    succeed(&mut orders(&["load", "--existing", "--warehouses", "1", "-j", "2"], &dsn));
    let run = succeed(&mut orders(&["run", "-c", "4", "-T", "1"], &dsn));
    assert!(run.contains("read committed"), "{run}");
    assert!(succeed(&mut orders(&["check"], &dsn)).contains("12 passed, 0 failed"));
    a_load_that_is_there_is_used_when_it_is_the_one_that_was_asked_for(&dsn);
}

fn a_load_that_is_there_is_used_when_it_is_the_one_that_was_asked_for(dsn: &str) {
    let load = |more: &[&str]| orders(&["load", "--existing", "-j", "2"], dsn).args(more).output().unwrap();
    let again = load(&["--warehouses", "1"]);
    assert!(again.status.success() && text(&again).contains("already loaded: 1 warehouse with seed 1"), "{}", text(&again));
    let other = load(&["--warehouses", "1", "--seed", "2"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other).contains("that of --warehouses 1 --seed 1, not of --warehouses 1 --seed 2"), "{}", text(&other));
}
