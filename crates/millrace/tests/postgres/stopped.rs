//! Processes of a PostgreSQL on Direct NFS are stopped under load and continue. So do all others.

use crate::crash::{Run, ack_log, check};
use crate::support::filer::Filer;
use crate::support::postgres::server_programs;
use crate::support::remote::RemoteCluster;
use crate::support::{Scratch, await_until, millrace, seeds, skip, succeed};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time limit from SIGCONT until orders are acknowledged again.
const GOES_ON_WITHIN: Duration = Duration::from_secs(3);

#[test]
fn orders_go_on_within_three_seconds_when_a_stopped_process_of_the_database_does() {
    stop_under_orders(3);
}

#[test]
#[ignore = "nightly: fifty stops under the order-entry load, minutes"]
fn orders_go_on_within_three_seconds_after_each_of_fifty_stops() {
    stop_under_orders(50);
}

fn stop_under_orders(stops: u64) {
    let Some(programs) = server_programs() else { return skip("PostgreSQL's server programs (apt-get install postgresql)") };
    let scratch = Scratch::new("stopped-orders");
    let filer = Filer::start(&scratch, &[]);
    let settings = "-c shared_buffers=8MB -c max_wal_size=64MB -c checkpoint_timeout=30s -c bgwriter_delay=20ms";
    let cluster = RemoteCluster::create(&scratch, &filer, &programs, settings);
    cluster.start();
    succeed(millrace().args(["orders", "load", "--warehouses", "1", "--db", &cluster.dsn()]));
    let acks = ack_log(&scratch);
    let mut run = Run::start(&scratch, &cluster, 1, 3600, false);
    let mut random = sim::Rng::new(seeds(|_| 1)[0]);
    goes_on(&acks, "the load to begin", Duration::from_secs(30));
    for _ in 0..stops {
        let pids = cluster.pids();
        let pid = pids[random.below(pids.len() as u64) as usize];
        let name = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
        signal("-STOP", pid);
        std::thread::sleep(Duration::from_millis(500 + random.below(2500))); // how long it is stopped
        signal("-CONT", pid);
        let lasted = goes_on(&acks, &format!("orders after {name} was stopped"), GOES_ON_WITHIN);
        println!("{pid} of {pids:?} ({name}): {lasted:?}");
    }
    signal("-INT", run.driver.id());
    run.ended();
    check(&scratch, &cluster, 1);
    cluster.stop("fast");
}

/// Sends a signal. The process may have ended.
fn signal(name: &str, pid: u32) {
    let _ = Command::new("kill").args([name, &pid.to_string()]).output().unwrap();
}

/// Waits until further orders are acknowledged. Returns how long that took.
fn goes_on(acks: &Path, what: &str, longest: Duration) -> Duration {
    let bytes = || std::fs::metadata(acks).map_or(0, |found| found.len());
    let (begun, before) = (Instant::now(), bytes());
    await_until(what, longest, || (bytes() > before).then_some(()));
    begun.elapsed()
}
