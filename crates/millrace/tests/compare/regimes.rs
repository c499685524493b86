//! Further scenarios of `millrace compare`: one record has all of them, each with its own verdict,
//! and it names what was left out or failed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::compare::{Place, filers_below, postgres_is_here};
use crate::support::{millrace, preload_library, succeed, text};
use results::compare::{BottleneckKind, Comparison, PathStatus, RegimeResult, RegimeStatus};

/// A small, short load with one round of each scenario.
const SMALL: [&str; 8] = ["--warehouses", "1", "--seconds", "3", "--warmup", "1", "--repeats", "1"];

/// Asserts that every path of a scenario was measured, and that its database passed the checks.
fn assert_sound(regime: &RegimeResult) {
    assert!(regime.is_measured() && regime.valid && regime.reason.is_none(), "{regime:?}");
    assert_eq!(regime.paths.len(), 2);
    for path in &regime.paths {
        assert_eq!(path.status, PathStatus::Measured, "{path:?}");
        let (checks, proof) = (path.checks.as_ref().unwrap(), path.proof.as_ref().unwrap());
        assert_eq!((checks.passed, checks.failed, proof.passed), (12, 0, true), "{checks:?} {proof:?}");
        assert!(path.response_ms["new_order"].p99 > 0.0 && path.cpu.as_ref().unwrap().database_host_s_per_1000_orders() > 0.0);
    }
}

#[test]
#[ignore = "nightly: two minutes, six runs of three regimes"]
fn host_array_and_fixed_load_are_measured_into_one_record_each_with_its_own_verdict() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let place = Place::new();
    let arguments = [&["--paths", "local,dnfs", "--full", "--no-gates"], &SMALL[..]].concat();
    let child = place.compare(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let all = text(&output);
    assert_eq!(output.status.code(), Some(0), "{all}");
    place.assert_nothing_left(pid);
    assert!(all.contains(" of 45:00 allowed; after host comes array, fixed load (with repeats)"), "{all}");
    assert!(all.contains("array: run 1 of 2, local: measuring 3 s") && all.contains("fixed load: run 2 of 2, dnfs"), "{all}");
    assert!(output.stdout.split(|byte| *byte == b'\n').all(|line| String::from_utf8_lossy(line).chars().count() <= 100), "{all}");

    let record = place.record();
    assert_eq!((record.schema, record.paths.len(), record.regimes.len()), (1, 2, 2));
    assert!(record.paths.iter().all(|path| path.medium.is_none() && path.users == Some(8)), "{:?}", record.paths);
    record.regimes.iter().for_each(assert_sound);
    let [array, fixed] = &record.regimes[..] else { panic!("{:?}", record.regimes) };
    assert_eq!((array.name.as_str(), fixed.name.as_str()), ("array", "fixed load"));
    for path in &array.paths {
        assert_eq!((path.medium.as_ref(), path.users), (array.medium.as_ref(), Some(32)));
        assert!(path.runs[0].medium.as_ref().unwrap().reads > 0 && path.read_probe.is_some(), "{:?}", path.runs[0].medium);
    }
    let slowest = record.paths.iter().map(|path| path.oets_per_minute.as_ref().unwrap().mean).fold(f64::MAX, f64::min);
    let offered = fixed.offered_orders_per_minute.unwrap();
    assert!((offered - 0.6 * slowest).abs() < 1e-6 * slowest, "{offered} of {slowest}");
    for path in &fixed.paths {
        let load = path.runs[0].load.as_ref().unwrap();
        assert_eq!((load.model.as_str(), path.medium.as_ref()), ("open-poisson", None));
    }
    assert!(fixed.verdict.contains(" orders per minute on every path: Direct NFS takes "), "{}", fixed.verdict);
    let sequence: Vec<u32> = record.regimes.iter().flat_map(|regime| &regime.paths).map(|path| path.runs[0].sequence).collect();
    assert_eq!(sequence, [4, 5, 6, 7], "each run has a number of its own");

    // The diff and the report read the same record.
    let diff = text(&millrace().arg("diff").arg(place.out()).arg(place.out()).output().unwrap());
    assert!(diff.contains("\nlocal: orders/min") && diff.contains("\narray: dnfs: orders/min"), "{diff}");
    let page = std::fs::read_to_string(place.out().join("report.html")).unwrap();
    assert!(page.contains("id=\"regime-array\"") && page.contains("id=\"regime-fixed-load\""));
}

#[test]
#[ignore = "nightly: half a minute; the dry run takes the same decision"]
fn look_without_time_is_left_out_with_the_reason() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let place = Place::new();
    let words = ["--paths", "local", "--budget", "24s", "--no-gates"];
    let output = place.compare(&[&words[..], &SMALL[..]].concat()).output().unwrap();
    let all = text(&output);
    assert_eq!(output.status.code(), Some(0), "{all}");
    assert!(all.contains("scenario array left out: one round of it takes about 0:"), "{all}");
    let record = place.record();
    let array = &record.regimes[0];
    assert!(matches!(array.status, RegimeStatus::LeftOut) && array.look && array.paths.is_empty(), "{array:?}");
    assert!(array.reason.as_ref().unwrap().contains("of the budget of 0:24 were left; --budget sets more"), "{array:?}");
    assert_eq!(record.paths[0].status, PathStatus::Measured);
}

#[test]
fn dry_run_shows_regimes_and_those_the_budget_has_no_time_for() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let place = Place::new();
    let dry = |arguments: &[&str]| {
        let output = place.compare(&[&["--dry-run", "--paths", "local,dnfs"], arguments].concat()).output().unwrap();
        (output.status.code(), text(&output))
    };
    let (code, said) = dry(&[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("scenario   array: one round of local dnfs; on fc15k,") && !said.contains("left out"), "{said}");
    assert!(said.contains(" of 12:00 allowed") && !said.contains("fixed load"), "{said}");
    let (_, short) = dry(&["--budget", "7m"]);
    assert!(short.contains(" is left for it and a path takes "), "{short}");
    let (_, full) = dry(&["--full"]);
    assert!(
        full.contains("array: 6 rounds of local dnfs") && full.contains("fixed load: 6 rounds of local dnfs; 60 %"),
        "{full}"
    );
    assert!(full.contains(" of 45:00 allowed"), "{full}");
    let (code, refused) = dry(&["--full", "--budget", "5m"]);
    assert!(code == Some(2) && refused.contains("run each path once in each scenario takes about"), "{refused}");
    for one in [&["--quick"][..], &["--users", "8"], &["--medium", "fc15k"], &["--load", "users=8"]] {
        let (code, said) = dry(one);
        assert!(code == Some(0) && !said.contains("scenario"), "{one:?}: {said}");
    }
    assert_eq!(dry(&["--full", "--quick"]).0, Some(2));
    place.assert_nothing_left(0);
}

#[test]
#[ignore = "nightly: a minute, a filer killed in the second regime"]
fn regime_that_fails_leaves_the_measured_one_in_the_record() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let place = Place::new();
    let words = ["--paths", "dnfs", "--no-gates", "--warehouses", "1", "--seconds", "4", "--warmup", "2", "--repeats", "1"];
    let mut child = place.compare(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let reached = lines.by_ref().any(|line| line.contains("array: run 1 of 1, dnfs: warming up"));
    assert!(reached, "the array was never begun");
    let filers = filers_below(&place.work());
    assert_eq!(filers.len(), 1, "{filers:?}");
    succeed(Command::new("kill").args(["-KILL", &filers[0].to_string()]));
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{rest:?}");
    place.assert_nothing_left(pid);
    let record: Comparison = place.record();
    assert!(record.valid && record.paths[0].status == PathStatus::Measured, "{}", record.verdict);
    let array = &record.regimes[0];
    assert!(matches!(array.status, RegimeStatus::Failed) && !array.valid && array.paths.is_empty(), "{array:?}");
    let reason = array.reason.as_ref().unwrap();
    assert!(reason.contains("the filer nfs://") && reason.contains("in array, run 1 of 1 (dnfs, round 1)"), "{reason}");
    assert!(rest.iter().any(|line| line.contains("scenario array failed: cannot go on: the filer")), "{rest:?}");
    assert!(place.out().join("logs").is_dir() && !place.out().join("runs.jsonl").exists());
}

/// On an idle host, the disks limit both paths on the array of the built-in plan.
#[test]
#[ignore = "nightly: three minutes on a quiet host"]
fn disks_limit_both_paths_on_the_array_of_the_built_in_plan() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let place = Place::new();
    let words = ["--paths", "local,dnfs", "--repeats", "1", "--no-gates"];
    succeed(place.compare(&words).stdout(Stdio::null()));
    let record = place.record();
    for path in &record.regimes[0].paths {
        let bottleneck = path.bottleneck.as_ref().unwrap();
        assert!(matches!(bottleneck.kind, BottleneckKind::Disk), "{}: {bottleneck:?}", path.arm);
    }
}
