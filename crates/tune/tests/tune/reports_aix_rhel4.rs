//! Captures of the hosts of TR-3408 (AIX) and TR-3495 (RHEL 4). Untuned, they have the faults that
//! the reports name. Tuned, they have none of them, and the audit names advice that was reversed
//! since.

use std::collections::BTreeSet;
use std::path::Path;

use results::audit::Verdict;
use tune::collect::capture;
use tune::judge::judge;
use tune::rules::RuleSet;

/// The rules that have a finding on a capture.
fn found(name: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("tests/captures").join(name);
    let (facts, _) = capture(&path).unwrap_or_else(|error| panic!("{error}"));
    let rules = RuleSet::folder(&root.join("../../rules")).unwrap_or_else(|error| panic!("{error}"));
    let judged = judge(&rules, &facts);
    judged.findings.into_iter().filter(|finding| finding.verdict == Verdict::Finding).map(|finding| finding.rule).collect()
}

fn has_all(capture: &str, wanted: &[&str]) {
    let found = found(capture);
    let missing: Vec<&&str> = wanted.iter().filter(|rule| !found.contains(**rule)).collect();
    assert!(missing.is_empty(), "{capture} lacks {missing:?}; it has {found:?}");
}

fn has_none(capture: &str, unwanted: &[&str]) {
    let found = found(capture);
    let there: Vec<&&str> = unwanted.iter().filter(|rule| found.contains(**rule)).collect();
    assert!(there.is_empty(), "{capture} has {there:?}");
}

const FAULTS_OF_AIX: &[&str] = &[
    "aix-kernel-64-bit",
    "aix-limit-file-size",
    "aix-limit-process-memory",
    "aix-processes-per-user",
    "aix-legacy-aio-at-start",
    "aix-legacy-aio-servers",
    "aix-level-for-nfs",
    "aix-nfs-concurrent-io",
    "aix-nfs-version-and-timeout",
    "aix-iscsi-queue-depth",
    "aix-fc-queue-depth",
    "aix-fc-adapter-commands",
    "aix-host-utilities",
    "aix-adapter-jumbo-frames",
    "aix-interface-mtu",
    "aix-filer-read-ahead",
    "aix-filer-no-access-times",
    "aix-oracle-setall",
];

const FAULTS_OF_RHEL4: &[&str] = &[
    "rhel4-shared-memory-segment",
    "rhel4-rpc-slots",
    "rhel4-iscsi-commands-of-host",
    "rhel4-iscsi-commands-of-disk",
    "rhel4-filer-iscsi-commands",
    "rhel4-filer-iscsi-public-7-0",
    "rhel4-host-utilities",
    "rhel4-qlogic-queue-depth",
    "rhel4-partition-alignment",
    "rhel4-mount-by-label",
    "rhel4-oracle-writers",
    "rhel4-oracle-setall",
];

#[test]
fn untuned_aix_has_the_faults_of_its_report() {
    has_all("tr-3408-untuned", FAULTS_OF_AIX);
}

#[test]
fn tuned_aix_has_none_of_them() {
    has_none("tr-3408-tuned", FAULTS_OF_AIX);
    has_none("tr-3408-tuned", &["aix5-file-cache-beside-direct-io", "aix5-file-pages-one-threshold", "aix-oracle-one-writer"]);
}

#[test]
fn tuned_aix_names_what_is_advised_otherwise_today() {
    let today = [
        "aix-nfs-no-cio-mount",
        "aix-nfs-no-intr",
        "aix-iscsi-queue-depth-not-above",
        "aix-fc-queue-depth-not-above",
        "aix-fc-adapter-commands-not-above",
        "aix-filer-no-flow-control",
        "aix-limit-open-files",
    ];
    has_all("tr-3408-tuned", &today);
}

#[test]
fn untuned_rhel4_has_the_faults_of_its_report() {
    has_all("tr-3495-untuned", FAULTS_OF_RHEL4);
}

#[test]
fn tuned_rhel4_has_none_of_them() {
    has_none("tr-3495-tuned", FAULTS_OF_RHEL4);
    has_none(
        "tr-3495-tuned",
        &["rhel4-rpc-slots-at-boot", "rhel4-update-for-nfs", "rhel4-oracle-async-io", "rhel4-ext3-block-size"],
    );
}

#[test]
fn tuned_rhel4_counts_shared_memory_in_the_wrong_unit() {
    has_all("tr-3495-tuned", &["rhel4-shared-memory-pages"]);
}
