//! A log archive on a mount: what `archive_command` copied with `cp`, and PostgreSQL believes archived, is whole, whatever happens to
//! the power of the filer it was copied to.
//!
//! `MILLRACE_E2E_SEEDS` power cuts (2 by default, 20 in `make nightly`); `MILLRACE_SEED` replays one.

use crate::support::filer::Filer;
use crate::support::postgres::{give_to_database_user, server_programs};
use crate::support::remote::RemoteCluster;
use crate::support::{Scratch, await_until, seeds, skip};
use std::path::Path;
use std::time::Duration;

/// Where the archive appears; there is no such path on the host.
const ARCHIVE: &str = "/millrace-archive";

#[test]
fn every_segment_that_postgresql_believes_archived_is_whole_after_power_cuts_of_the_archive() {
    let Some(programs) = server_programs() else {
        return skip("PostgreSQL's server programs (apt-get install postgresql)");
    };
    let (scratch, archive_scratch) = (Scratch::new("archiving"), Scratch::new("archive"));
    let filer = Filer::start(&scratch, &[]);
    let archive = Filer::start(&archive_scratch, &["--loss-layer"]);
    // What PostgreSQL had to archive, kept on this host when the command for the archive has succeeded.
    let kept = scratch.folder("kept");
    give_to_database_user(&kept);
    let command = format!("test ! -f {ARCHIVE}/%f && cp %p {ARCHIVE}/%f && cp %p {}/%f", kept.display());
    let settings = format!("-c archive_mode=on -c 'archive_command={command}' -c log_min_messages=warning");
    let mut cluster = RemoteCluster::create(&scratch, &filer, &programs, &settings);
    cluster.mount(ARCHIVE, &archive);
    cluster.start();
    cluster.sql("create table t(a int, b text)");
    let mut switched = 0;
    for seed in seeds(|count| count) {
        let mut random = sim::Rng::new(seed);
        cluster.sql("insert into t select i, repeat('x', 100) from generate_series(1, 1000) i; select pg_switch_wal()");
        switched += 1;
        // Anywhere between before the copy and behind it: it takes some tens of milliseconds.
        std::thread::sleep(Duration::from_millis(random.below(400)));
        let cut = archive.admin(r#"{"op":"power-cut"}"#);
        assert_eq!(cut["ok"], true, "{cut}");
        await_until("the archiver to catch up", Duration::from_secs(60), || {
            let counts = cluster.sql("select archived_count, failed_count from pg_stat_archiver");
            let (archived, failed) = counts.trim().split_once('|').unwrap();
            assert_eq!(failed, "0", "seed {seed}");
            (archived.parse::<u64>().unwrap() >= switched).then_some(())
        });
        let cut = archive.admin(r#"{"op":"power-cut"}"#);
        assert_eq!(cut["ok"], true, "{cut}");
        assert_eq!(compared(&kept, archive.export(), seed), switched, "seed {seed}");
    }
    cluster.stop("fast");
}

/// Compares each segment in the archive, as its filer has it now, with what PostgreSQL had: how many there are.
fn compared(kept: &Path, archive: &Path, seed: u64) -> u64 {
    let mut count = 0;
    for entry in std::fs::read_dir(kept).unwrap() {
        let name = entry.unwrap().file_name();
        let found = std::fs::read(archive.join(&name)).unwrap_or_default();
        let expected = std::fs::read(kept.join(&name)).unwrap();
        assert!(found == expected, "seed {seed}: {}: {} bytes of {}", name.display(), found.len(), expected.len());
        count += 1;
    }
    count
}
