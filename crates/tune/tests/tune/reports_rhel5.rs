//! Captures of the host of TR-3700 (RHEL 5.1). Untuned, it has the faults that the report names.
//! Tuned, it has none of them, and the audit names advice that was reversed or has another value
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

/// The faults that the report's tuning removes.
const FAULTS: &[&str] = &[
    "linux-rpc-slots-fixed",
    "linux-storage-mtu",
    "linux-socket-buffer-default",
    "linux-socket-buffer-max",
    "linux-tcp-window-max",
    "linux-window-matches-filer",
    "linux-nfs-spread-over-links",
    "linux-iscsi-queue-depth",
    "linux-iscsi-device-queue-depth",
    "linux-iscsi-two-sessions",
    "linux-iscsi-software",
    "linux-fc-qlogic-queue-depth",
    "linux-multipath-group-by-prio",
    "linux-multipath-prio-callout-then",
    "linux-multipath-queue-without-path",
    "linux-multipath-failback",
    "linux-asmlib-scans-multipath-first",
    "linux-asmlib-leaves-single-paths-out",
    "linux-partition-alignment",
    "linux-oracle-semaphores",
    "linux-oracle-pam-limits",
    "linux-oracle-shell-nofile",
    "linux-oracle-shell-nproc",
    "linux-oracle-shell-stack",
    "oracle-direct-nfs-on",
    "oracle-asm-data-over-all-controllers",
    "oracle-asm-log-group",
    "oracle-asm-fra-group",
    "storage-redo-members-on-two-controllers",
    "ontap7-nfs-window-of-linux-hosts",
    "ontap7-iscsi-window-of-linux-hosts",
    "ontap7-iscsi-ios-per-session-of-linux-hosts",
    "ontap7-release-of-linux-hosts",
];

/// Advice of the report that is not given today.
const SINCE_THEN: &[&str] = &[
    "linux-tcp-syncookies",
    "linux-tcp-timestamps",
    "linux-tcp-sack",
    "linux-multipath-path-checker",
    "linux-oracle-port-range",
    "linux-oracle-nproc-soft",
];

#[test]
fn untuned_rhel5_has_the_faults_of_its_report() {
    let found = found("tr-3700-untuned");
    let missing: Vec<&&str> = FAULTS.iter().filter(|rule| !found.contains(**rule)).collect();
    assert!(missing.is_empty(), "it lacks {missing:?}; it has {found:?}");
}

#[test]
fn tuned_rhel5_has_none_of_them() {
    let found = found("tr-3700-tuned");
    let there: Vec<&&str> = FAULTS.iter().filter(|rule| found.contains(**rule)).collect();
    assert!(there.is_empty(), "{there:?}");
}

#[test]
fn tuned_rhel5_names_what_is_advised_otherwise_today() {
    let found = found("tr-3700-tuned");
    let missing: Vec<&&str> = SINCE_THEN.iter().filter(|rule| !found.contains(**rule)).collect();
    assert!(missing.is_empty(), "it lacks {missing:?}; it has {found:?}");
}

#[test]
fn no_rule_of_today_takes_the_old_defaults_for_faults() {
    let found = found("tr-3700-untuned");
    let there: Vec<&&str> =
        ["linux-tcp-syncookies", "linux-tcp-timestamps", "linux-tcp-sack", "linux-rpc-slots-enough", "linux-nfs-nconnect"]
            .iter()
            .filter(|rule| found.contains(**rule))
            .collect();
    assert!(there.is_empty(), "{there:?}");
}
