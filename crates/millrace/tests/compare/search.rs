//! A comparison that first searches for its load.

use crate::support::postgres::server_programs;
use crate::support::{Scratch, millrace, skip, text};
use results::compare::{Comparison, PathStatus};

#[test]
#[ignore = "nightly: two minutes"]
fn saturation_is_searched_on_one_arm_and_held_for_both() {
    if server_programs().is_none() {
        return skip("PostgreSQL is not installed");
    }
    let scratch = Scratch::new("load-search");
    let out = scratch.path().join("out");
    let output = millrace()
        .args(["compare", "--path", "local:a", "--path", "local:b", "--warehouses", "1", "--load", "saturate@local:a"])
        .args(["--seconds", "3", "--warmup", "1", "--repeats", "1", "--budget", "9m", "--no-gates"])
        .arg("--work")
        .arg(scratch.folder("work"))
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    let said = text(&output);
    let record = std::fs::read_to_string(out.join("results.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    let found: Comparison = serde_json::from_str(&record).unwrap();
    assert!(found.notes.iter().any(|note| note.starts_with("load saturate found on local:a: ")), "{:?}", found.notes);
    // The search ran on one path only, and both paths were measured under the load that it found.
    assert!(found.curve.len() >= 3 && found.curve.iter().all(|point| point.arm == "local:a"), "{:?}", found.curve);
    assert!(found.curve.is_sorted_by_key(|point| point.users));
    assert!(found.curve.iter().all(|point| point.oets_per_minute > 0.0 && point.ci95.is_some()));
    let loads: Vec<_> = found.paths.iter().map(|path| path.load.clone().unwrap_or_default()).collect();
    assert!(loads[0].contains("users") && loads[0] == loads[1], "{loads:?}");
    assert!(found.paths.iter().all(|path| path.status != PathStatus::Skipped && path.runs.len() == 1), "{said}");
}
