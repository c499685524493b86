//! `millrace compare` with the files of the database on several volumes: log and archive on
//! separate ones, tables and indexes on several filers.

use crate::support::compare::{Place, postgres_is_here};
use crate::support::{preload_library, text};
use results::compare::{PathResult, PathStatus};

/// Size of a segment of the database's log, in bytes.
const SEGMENT: u64 = 16 << 20;
/// The part of a plan after its configurations.
const PLAN: &str = r#"
[load]
warehouses = 1
users = 4
threads = 2
seconds = 4
warmup_seconds = 1
seed = 1
[runs]
repeats = 1
budget = "10m"
[database]
buffers_share = 0.25
"#;

/// Measures both layouts over a path. Every configuration must be valid.
fn measured(path: &str) -> [PathResult; 2] {
    let place = Place::new();
    let plan = place.work().with_file_name("plan.toml");
    let arm = |layout: &str| format!("[[arm]]\npath = \"{path}\"\nlayout = \"{layout}\"\n");
    std::fs::write(&plan, format!("schema = 1\n{}{}{PLAN}", arm("split-archive"), arm("filers=2"))).unwrap();
    let output = place.compare(&[plan.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    place.assert_nothing_left(0);
    let record = place.record();
    record.paths.iter().for_each(sound);
    let archive = &record.paths[0];
    let database = &archive.runs[0].database;
    assert!(database.log_segments_archived > 0 && database.log_archive_failures == 0, "{database:?}");
    assert!(archive.layout.as_ref().unwrap().contains("copies of its finished segments"), "{:?}", archive.layout);
    record.paths.try_into().unwrap()
}

fn sound(path: &PathResult) {
    assert_eq!(path.status, PathStatus::Measured, "{path:?}");
    assert_eq!(path.checks.as_ref().unwrap().passed, 12);
    assert!(path.proof.as_ref().unwrap().passed, "{:?}", path.proof);
}

#[test]
#[ignore = "nightly: a minute"]
fn archived_log_and_several_filers_are_measured_proved_and_restored() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let paths = measured("dnfs");
    let whole_segments = (paths[0].runs[0].database.log_bytes / SEGMENT).saturating_sub(2);
    let [archive, filers] = paths.map(|path| path.runs[0].read_bytes_by_volume.clone());
    assert_eq!(archive.keys().collect::<Vec<_>>(), ["archive", "data", "log"]);
    // The archive command reads a segment to copy it. The first and the last segment of the
    // interval may be read outside it.
    assert!(archive["log"] >= whole_segments * SEGMENT, "{whole_segments} segments of {archive:?}");
    assert_eq!(filers.keys().collect::<Vec<_>>(), ["data", "data-2"]);
    assert!(filers.values().all(|bytes| *bytes > 1 << 20), "each filer carries its share: {filers:?}");
}

#[test]
#[ignore = "nightly: half a minute; the same layouts run over dnfs in each test run"]
fn local_directories_take_the_same_layouts() {
    if postgres_is_here() {
        let volumes = measured("local").map(|path| path.runs[0].read_bytes_by_volume.len());
        assert_eq!(volumes, [0, 0], "nobody counts by volume on the host's own file system");
    }
}
