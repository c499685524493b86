//! An export that is unavailable for a moment while PostgreSQL works on it: a pause, no error, no
//! loss, and no manual step.

use crate::support::ganesha::Ganesha;
use crate::support::postgres::server_programs;
use crate::support::remote::{MOUNT, RemoteCluster};
use crate::support::withdrawn::{Withdrawn, Withdraws};
use crate::support::{seeds, skip};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Each round fills a segment of WAL, and a program on the mount archives it.
const SETTINGS: &str = "-c shared_buffers=8MB -c max_wal_size=64MB -c log_min_messages=warning -c archive_mode=on";

/// How an export is unavailable.
#[derive(Clone, Copy, Debug)]
enum Outage {
    /// The server refuses MNT and every handle.
    Withdrawn,
    /// No server listens on the port.
    Dead,
    /// First the error of a dead server, then the error of a server that does not know the export.
    DeadThenWithdrawn,
}

const OUTAGES: [Outage; 3] = [Outage::Withdrawn, Outage::Dead, Outage::DeadThenWithdrawn];

#[test]
fn an_export_that_is_away_and_comes_back_is_a_pause_to_the_database() {
    goes_on_over(3, Withdrawn::start("away-database"));
}

#[test]
#[ignore = "nightly: fifty outages under load, minutes"]
fn an_export_that_is_away_fifty_times_is_a_pause_to_the_database() {
    goes_on_over(50, Withdrawn::start("away-database"));
}

#[test]
#[ignore = "nightly: twenty outages under load, a minute"]
fn an_export_of_ganesha_that_is_away_twenty_times_is_a_pause_to_the_database() {
    let Some(ganesha) = Ganesha::start("away-database-ganesha") else { return };
    goes_on_over(20, ganesha);
}

fn goes_on_over(outages: usize, mut served: impl Withdraws) {
    let Some(programs) = server_programs() else { return skip("PostgreSQL's server programs (apt-get install postgresql)") };
    let archive = format!("-c archive_command='mkdir -p {MOUNT}/archive && cp %p {MOUNT}/archive/%f'");
    let settings = format!("{SETTINGS} {archive}");
    let scratch = crate::support::Scratch::new("away-cluster");
    let url = format!("{}close=nothing", served.url());
    let cluster = RemoteCluster::create_on(&url, &served.export(), served.inside(), &scratch, &programs, &settings);
    cluster.start();
    cluster.sql("create table rows (number bigint primary key, filler text default repeat('x', 500))");
    let mut random = sim::Rng::new(seeds(|_| 1)[0]);
    let (acknowledged, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !over.load(SeqCst) {
                let next = acknowledged.load(SeqCst);
                cluster.sql(&format!("insert into rows select * from generate_series({next}, {})", next + 99)); // a new session
                acknowledged.fetch_add(100, SeqCst);
            }
        });
        for round in 0..outages {
            let outage = OUTAGES[round % OUTAGES.len()];
            let checkpoint = scope.spawn(|| cluster.sql("select pg_switch_wal(); CHECKPOINT"));
            std::thread::sleep(Duration::from_millis(random.below(300))); // the seed decides when it begins
            println!("round {round}: {outage:?}");
            let pause = Duration::from_millis(300 + random.below(1500)); // the outage itself
            match outage {
                Outage::Withdrawn => {
                    served.withdraw();
                    std::thread::sleep(pause);
                    served.offer();
                }
                Outage::Dead => {
                    served.kill();
                    std::thread::sleep(pause);
                    served.restart(true);
                }
                Outage::DeadThenWithdrawn => {
                    served.kill();
                    served.restart(false);
                    std::thread::sleep(pause);
                    served.kill();
                    served.restart(true);
                }
            }
            checkpoint.join().unwrap();
            let before = acknowledged.load(SeqCst);
            crate::support::await_until("the load to go on", Duration::from_secs(60), || {
                (acknowledged.load(SeqCst) > before || load.is_finished()).then_some(())
            });
        }
        over.store(true, SeqCst);
        load.join().unwrap();
    });
    let rows = cluster.sql("select count(*), count(distinct number), max(number) + 1 from rows");
    let expected = acknowledged.into_inner();
    assert_eq!(rows.trim(), format!("{expected}|{expected}|{expected}"));
    cluster.sql("select pg_switch_wal()");
    crate::support::await_until("every segment to be archived", Duration::from_secs(60), || {
        let waiting = cluster.sql("select count(*) from pg_ls_archive_statusdir() where name like '%.ready'");
        (waiting.trim() == "0").then_some(())
    });
    assert!(std::fs::read_dir(served.export().join("archive")).unwrap().count() >= outages);
    cluster.stop("fast");
}
