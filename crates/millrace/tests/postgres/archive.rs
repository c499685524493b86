//! A log archive on a mount. What `archive_command` copied with `cp` and PostgreSQL regards as
//! archived is complete, whenever the power of the archive's filer is cut, and however many
//! directories other programs walk through.
//!
//! `MILLRACE_E2E_SEEDS` power cuts (2 by default, 20 in `make nightly`); `MILLRACE_SEED` replays one.

use crate::support::filer::Filer;
use crate::support::postgres::{give_to_database_user, server_programs};
use crate::support::remote::{MOUNT, RemoteCluster};
use crate::support::{Scratch, await_until, seeds, skip, succeed};
use std::path::Path;
use std::time::Duration;

/// Where the archive appears; there is no such path on the host.
const ARCHIVE: &str = "/millrace-archive";

/// Number of directories in a tree. The library keeps fewer for processes that do not know them.
const TREE: usize = 4600;

#[test]
fn every_segment_that_postgresql_believes_archived_by_absolute_and_relative_path_is_whole_after_a_walk_and_power_cuts() {
    let Some(programs) = server_programs() else {
        return skip("PostgreSQL's server programs (apt-get install postgresql)");
    };
    let (scratch, archive_scratch) = (Scratch::new("archiving"), Scratch::new("archive"));
    let filer = Filer::start(&scratch, &[]);
    let archive = Filer::start(&archive_scratch, &["--loss-layer"]);
    // The segments that PostgreSQL archived. This host gets a copy after the copy to the archive
    // has succeeded.
    let kept = scratch.folder("kept");
    give_to_database_user(&kept);
    let relative = "test ! -f ../archive/%f && cp %p ../archive/%f";
    let command = format!("test ! -f {ARCHIVE}/%f && cp %p {ARCHIVE}/%f && {relative} && cp %p {}/%f", kept.display());
    let settings = format!("-c archive_mode=on -c 'archive_command={command}' -c log_min_messages=warning");
    let mut cluster = RemoteCluster::create(&scratch, &filer, &programs, &settings);
    cluster.mount(ARCHIVE, &archive);
    let beside_data = filer.export().join("archive");
    std::fs::create_dir(&beside_data).unwrap();
    give_to_database_user(&beside_data);
    cluster.start();
    cluster.sql("create table t(a int, b text)");
    walk_over_a_tree(&cluster, filer.export());
    let mut switched = 0;
    for seed in seeds(|count| count) {
        let mut random = sim::Rng::new(seed);
        cluster.sql("insert into t select i, repeat('x', 100) from generate_series(1, 1000) i; select pg_switch_wal()");
        switched += 1;
        // Any moment before, during or after the copy, which takes some tens of milliseconds.
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
    assert!(compared(&kept, &beside_data, 0) >= switched);
}

/// Runs `find` on a large tree of the mount while the archiver has its working directory there.
fn walk_over_a_tree(cluster: &RemoteCluster, export: &Path) {
    for number in 0..TREE {
        std::fs::create_dir_all(export.join(format!("tree/{}/{number}", number / 500))).unwrap();
    }
    let found = succeed(cluster.exec(Path::new("/usr/bin/find")).args([&format!("{MOUNT}/tree"), "-type", "d"]));
    assert!(found.lines().count() > TREE);
}

/// Compares each segment in the archive, as its filer has it now, with PostgreSQL's. Returns their number.
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
