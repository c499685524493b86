//! More sessions than a server accepts connections. No session may fail or wait for a connection
//! whose owner sleeps.

use crate::support::filer::Filer;
use crate::support::postgres::{as_database_user, server_programs};
use crate::support::proxy::Proxy;
use crate::support::remote::RemoteCluster;
use crate::support::{Scratch, find_program, skip, text};

/// Number of connections that the server accepts.
const CONNECTIONS: usize = 80;

fn sessions(label: &str, count: u32, seconds: u32) {
    let Some(programs) = server_programs() else { return skip("PostgreSQL server programs are not installed") };
    let scratch = Scratch::new(label);
    let filer = Filer::start(&scratch, &[]);
    let proxy = Proxy::start_for(filer.port, CONNECTIONS);
    let url = filer.url.replace(&filer.port.to_string(), &proxy.port.to_string());
    let settings = format!("-c max_connections={} -c shared_buffers=16MB -c autovacuum_naptime=1s", count + 20);
    let cluster = RemoteCluster::create_by(&url, &scratch, &filer, &programs, &settings);
    cluster.start();
    let own = programs.join("pgbench");
    let pgbench = if own.exists() { own } else { find_program("pgbench").expect("pgbench") };
    let run = |arguments: &[&str]| as_database_user(pgbench.clone()).args(arguments).arg(cluster.dsn()).output().unwrap();
    // At least three times the size of the buffers, so that sessions read.
    let made = run(&["-i", "-q", "-s", &(count / 40).to_string()]);
    assert!(made.status.success(), "{}", text(&made));
    let (clients, time) = (count.to_string(), seconds.to_string());
    let done = run(&["-n", "-c", &clients, "-j", "4", "-T", &time]);
    let said = text(&done);
    assert!(done.status.success() && said.contains("number of failed transactions: 0 ") && !said.contains("aborted"), "{said}");
    let sums = cluster
        .sql("select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history)");
    assert_eq!(sums.trim(), "t");
    cluster.stop("fast");
}

#[test]
fn a_hundred_and_twenty_sessions_share_eighty_connections() {
    sessions("sessions", 120, 3);
}

#[test]
#[ignore = "nightly: five hundred processes"]
fn five_hundred_sessions_share_eighty_connections() {
    sessions("sessions-many", 500, 60);
}
