//! All conformance tests of libiscsi (`iscsi-test-cu`) against LUNs of Millrace. None fails, and
//! each test that skips a part is listed with its reason (docs/compat/iscsi.md).

mod report;

use std::path::Path;
use std::process::Command;

use crate::support::target::Target;
use crate::support::{Scratch, skip, succeed, text};
use report::Report;

/// Number of tests of Debian 12's version that must run without a skip.
const PASSED_MIN: usize = 190;

/// Suites and tests that skip a part, because of the LUN or because of the tool (docs/compat/iscsi.md).
const SKIPPED_PARTS: [&str; 12] = [
    "Sanitize.",              // no SANITIZE
    "PreventAllow.",          // no removable medium
    "StartStopUnit.",         // the same
    "WriteAtomic16.",         // the store reports no atomic writes
    "ReadOnly.",              // needs a LUN that refuses writes: see below
    "WriteSame10.ZeroBlocks", // WRITE SAME of no blocks is refused, as is said in VPD B0
    "WriteSame16.ZeroBlocks",
    "CompareAndWrite.InvalidDataOutSize", // need physical blocks of several logical ones: see below
    "WriteSame10.UnmapUnaligned",
    "WriteSame16.UnmapUnaligned",
    "WriteSame10.InvalidDataOutSize",
    "WriteSame16.InvalidDataOutSize",
];

/// The filer flushes nothing. These tests check the protocol, and with flushes they would take
/// hours on a busy disk.
const QUICK: [&str; 2] = ["--durability", "battery"];

fn has_tools() -> bool {
    let found = Path::new("/usr/bin/iscsi-test-cu").exists();
    if !found {
        skip("iscsi-test-cu is not installed (libiscsi-bin)");
    }
    found
}

/// Runs the tool, and kills it after 900 s.
fn run(arguments: &[&str]) -> String {
    let output = Command::new("timeout").args(["--signal", "KILL", "900", "iscsi-test-cu"]).args(arguments).output().unwrap();
    text(&output)
}

fn assert_none_failed(output: &str, report: &Report) {
    assert!(report.failed.is_empty(), "failed: {:#?}\n{output}", report.failed);
    let unknown: Vec<&String> =
        report.skipped.iter().filter(|name| !SKIPPED_PARTS.iter().any(|known| name.starts_with(known))).collect();
    assert!(unknown.is_empty(), "skipped, and nobody knows why: {unknown:#?}\n{output}");
}

#[test]
fn every_test_runs_and_none_fails_through_two_portals() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("iscsi-conformance");
    let target = Target::with_portals(&scratch, 2, &QUICK);
    // GetLBAStatus.UnmapSingle asks for a logical block and expects the next physical block. It
    // passes if both have one size.
    let lun = target.create("lun", "1GiB", &["--physical-block-size", "512"]);
    let output = run(&["-d", "-t", "ALL", &target.url(0, lun), &target.url(1, lun)]);
    let report = Report::parse(&output);
    println!("{} passed, {} skipped, {} failed", report.passed.len(), report.skipped.len(), report.failed.len());
    assert_none_failed(&output, &report);
    assert!(report.count() >= 229, "{} tests ran:\n{output}", report.count());
    assert!(report.passed.len() >= PASSED_MIN, "{} passed; skipped: {:#?}", report.passed.len(), report.skipped);
}

#[test]
#[ignore = "nightly: a second run of the whole, of minutes on a busy host"]
fn blocks_of_4096_bytes_and_a_write_cache_change_nothing() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("iscsi-conformance-4k");
    let target = Target::start(&scratch, &QUICK);
    let lun = target.create("lun", "1GiB", &["--block-size", "4096", "--write-cache"]);
    let output = run(&["-d", "-t", "SCSI", &target.url(0, lun)]);
    let report = Report::parse(&output);
    assert!(report.failed.is_empty(), "failed: {:#?}\n{output}", report.failed);
    assert!(report.count() >= 200, "{} tests ran:\n{output}", report.count());
}

#[test]
fn tests_of_large_physical_blocks_pass_where_these_are_larger() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("iscsi-conformance-physical");
    let target = Target::start(&scratch, &QUICK);
    let lun = target.create("lun", "1GiB", &[]);
    for suite in ["CompareAndWrite", "WriteSame10", "WriteSame16"] {
        let output = run(&["-d", "-t", &format!("SCSI.{suite}"), &target.url(0, lun)]);
        let report = Report::parse(&output);
        assert!(report.failed.is_empty() && report.passed.len() >= 4, "{output}");
        assert!(report.skipped.iter().all(|name| name.ends_with("ZeroBlocks")), "{:?}", report.skipped);
    }
}

#[test]
fn a_lun_that_refuses_writes_passes_the_test_for_that() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("iscsi-conformance-ro");
    let target = Target::start(&scratch, &QUICK);
    let lun = target.create("lun", "64MiB", &["--read-only"]);
    let output = run(&["-d", "-t", "SCSI.ReadOnly", &target.url(0, lun)]);
    let report = Report::parse(&output);
    assert!(report.failed.is_empty() && report.skipped.is_empty() && !report.passed.is_empty(), "{output}");
}

#[test]
fn the_other_tools_of_libiscsi_see_what_is_there() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("iscsi-tools");
    let target = Target::start(&scratch, &QUICK);
    let lun = target.create("db", "1GiB", &["--lun", "3", "--block-size", "4096"]);
    let portal = format!("iscsi://{}", target.portal(0));
    let seen = succeed(Command::new("iscsi-ls").args(["-s", &portal]));
    assert!(seen.contains(&target.iqn()) && seen.contains("Lun:3") && seen.contains("DIRECT_ACCESS"), "{seen}");
    let inquiry = succeed(Command::new("iscsi-inq").arg(target.url(0, lun)));
    assert!(inquiry.contains("MILLRACE"), "{inquiry}");
    let serial = succeed(Command::new("iscsi-inq").args(["-e", "1", "-c", "128"]).arg(target.url(0, lun)));
    assert!(serial.contains(target.listed("db")["serial"].as_str().unwrap()), "{serial}");
    let capacity = succeed(Command::new("iscsi-readcapacity16").arg(target.url(0, lun)));
    assert!(capacity.contains("4096") && capacity.contains("1073741824"), "{capacity}");
    let perf = Command::new("timeout")
        .args(["20", "iscsi-perf", "-t", "2", "-m", "16", "-b", "2", "-r"])
        .arg(target.url(0, lun))
        .output();
    let perf = perf.unwrap();
    assert!(perf.status.success() && text(&perf).contains("iops"), "{}", text(&perf));
}

#[test]
fn skips_and_failures_are_counted_as_they_are() {
    let output = "\
Suite: One
  Test: Whole ...passed
  Test: Part ...    [SKIPPED] is not implemented.
    [SKIPPED] is not implemented.
passed
  Test: Broken ...    [FAILED] something
FAILED
    1. test.c:38  - CU_ASSERT_EQUAL(_r,0)
Suite: Two
  Test: Whole ...passed
";
    let report = Report::parse(output);
    assert!(report.passed.iter().eq(["One.Whole", "Two.Whole"]));
    assert!(report.skipped.iter().eq(["One.Part"]) && report.failed.iter().eq(["One.Broken"]));
}
