//! Captures of the hosts of TR-3322 (Solaris) and TR-3557 (HP-UX) before and after the reports'
//! tuning. Before, the audit finds the faults that the reports name. After, it finds none of them,
//! and names the sources that have changed advice since.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use results::audit::{Finding, Severity, Status, Verdict};
use tune::judge::judge;
use tune::rules::RuleSet;

fn findings(capture: &str) -> Vec<Finding> {
    findings_of(&stored(capture))
}

fn stored(capture: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(capture)
}

fn findings_of(capture: &Path) -> Vec<Finding> {
    let rules = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../rules");
    let rules = RuleSet::folder(&rules).unwrap_or_else(|error| panic!("{error}"));
    let (facts, _) = tune::collect::capture(capture).unwrap_or_else(|error| panic!("{error}"));
    judge(&rules, &facts).findings
}

fn with(findings: &[Finding], verdict: Verdict) -> BTreeSet<&str> {
    findings.iter().filter(|finding| finding.verdict == verdict).map(|finding| finding.rule.as_str()).collect()
}

/// Checks that these faults are found before the tuning, and are neither found nor unknown after it.
/// Returns the findings after it.
fn holds(report: &str, faults: &[&str]) -> Vec<Finding> {
    let (before, after) = (findings(&format!("{report}-untuned")), findings(&format!("{report}-tuned")));
    let (found, still, unknown) =
        (with(&before, Verdict::Finding), with(&after, Verdict::Finding), with(&after, Verdict::Unknown));
    let missed: Vec<_> = faults.iter().filter(|rule| !found.contains(*rule)).collect();
    assert!(missed.is_empty(), "{report} untuned: not found: {missed:#?}");
    let left: Vec<_> = faults.iter().filter(|rule| still.contains(*rule) || unknown.contains(*rule)).collect();
    assert!(left.is_empty(), "{report} tuned: still found or not known: {left:#?}");
    let own = |finding: &&Finding| finding.sources.iter().any(|source| source.starts_with(&report.to_uppercase()));
    let worse = |finding: &&Finding| match finding.verdict {
        Verdict::Finding => finding.severity > Severity::Low,
        verdict => verdict == Verdict::Unknown,
    };
    let worse: Vec<_> =
        after.iter().filter(own).filter(worse).map(|finding| (&finding.rule, &finding.found, &finding.missing)).collect();
    assert!(worse.is_empty(), "{report} tuned: its own advice is not met, or not known to be: {worse:#?}");
    after
}

#[test]
fn solaris_before_tr_3322_has_its_faults_and_after_it_none() {
    let after = holds(
        "tr-3322",
        &[
            "cross-logs-on-own-volume",
            "cross-nfs-over-tcp",
            "ontap7-nfs-transfer-size",
            "ontap7-no-access-times",
            "ontap7-no-automatic-snapshots",
            "ontap7-read-ahead-not-cut",
            "ontap7-receive-window-2004",
            "ontap7-snapshots-not-visible",
            "ontap7-storage-mtu",
            "solaris-async-io-proven",
            "solaris-ce-accepts-jumbo",
            "solaris-ce-interrupts",
            "solaris-ce-no-task-queue",
            "solaris-data-direct-io",
            "solaris-oracle-list-io",
            "solaris-oracle-sga-share",
            "solaris-redo-direct-io",
            "solaris-release",
            "solaris-storage-mtu",
            "solaris-tcp-receive-window",
            "solaris-tcp-send-window",
        ],
    );
    let changed = after.iter().find(|finding| finding.rule == "solaris-single-instance-mount-options").unwrap();
    assert_eq!((changed.verdict, changed.status), (Verdict::Finding, Status::ValueChanged));
    assert!(changed.standing.iter().any(|line| line.contains("TR-3322 gave 32768 and intr")), "{:?}", changed.standing);
}

#[test]
fn what_stands_in_files_that_were_not_collected_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-r").arg(stored("tr-3322-untuned")).arg(folder.path().join("capture")).status();
    assert!(copied.unwrap().success());
    for file in ["etc/system", "platform/sun4u/kernel/drv/ce.conf"] {
        std::fs::remove_file(folder.path().join("capture/files").join(file)).unwrap();
    }
    let less = findings_of(&folder.path().join("capture"));
    let (found, unknown) = (with(&less, Verdict::Finding), with(&less, Verdict::Unknown));
    for rule in ["solaris-ce-no-task-queue", "solaris-ce-accepts-jumbo", "solaris-ce-interrupts"] {
        assert!(unknown.contains(rule) && !found.contains(rule), "{rule}");
    }
    let finding = less.iter().find(|finding| finding.rule == "solaris-ce-no-task-queue").unwrap();
    assert!(finding.missing.iter().any(|line| line.contains("/etc/system: the MANIFEST names it")), "{:?}", finding.missing);
}

#[test]
fn hpux_before_tr_3557_has_its_faults_and_after_it_none() {
    let after = holds(
        "tr-3557",
        &[
            "hpux-bundles-v2",
            "hpux-database-mounts-direct-io",
            "hpux-dbc-max-pct",
            "hpux-direct-io-or-local-locks",
            "hpux-filesystemio-options",
            "hpux-igelan-offload",
            "hpux-max-async-ports",
            "hpux-maxuprc",
            "hpux-nfs-async-read-avoidance-enabled",
            "hpux-nfs-fine-grain-fs-lock",
            "hpux-nfs-new-lock-code",
            "hpux-nfs-patches-v2",
            "hpux-nfs-wakeup-one",
            "hpux-nfs3-max-transfer-size",
            "hpux-nproc",
            "hpux-o-sync-is-o-dsync",
            "hpux-oracle-patches-v2",
            "hpux-sched-noage",
            "hpux-semmns",
            "hpux-shmmax",
            "hpux-tcp-receive-window",
            "hpux-tcp-send-window",
            "ontap7-nfs-transfer-size",
            "ontap7-no-access-times",
            "ontap7-receive-window",
        ],
    );
    let dated = after.iter().find(|finding| finding.rule == "hpux-cpu-count").unwrap();
    assert_eq!((dated.verdict, dated.status), (Verdict::Finding, Status::Dated));
    assert!(dated.standing.iter().any(|line| line.contains("TR-3557")), "{:?}", dated.standing);
}
