//! An audit for tests, with each verdict, each severity, and hostile names.
#![allow(dead_code, reason = "shared with tests/, where each file uses its part")]

use results::audit::{Activation, AdviceGroup, Audit, Finding, SCHEMA, Severity, Status, Verdict};
use results::rule_effects::Measured;

/// A plain finding of the host.
pub(crate) fn finding(rule: &str, layer: &str) -> Finding {
    Finding {
        rule: rule.into(),
        layer: layer.into(),
        subject: None,
        server: None,
        verdict: Verdict::Finding,
        severity: Severity::Medium,
        title: format!("What is wrong by {rule}"),
        rule_title: Some(format!("Title of {rule}")),
        found: vec!["sysctl.vm.swappiness is 60".into()],
        missing: Vec::new(),
        reason: "The database keeps its own cache, and what is swapped out must be read back before it can be used.".into(),
        effect: None,
        sources: vec!["Manual, section 1, 2026".into()],
        status: Status::Valid,
        standing: Vec::new(),
        fix: vec!["sysctl vm.swappiness=10, in /etc/sysctl.d".into()],
        activation: Some(Activation::Live),
        group: Some(AdviceGroup::Now),
        measured: None,
        waiver: None,
    }
}

/// An audit with one judgement of each kind.
pub(crate) fn audit() -> Audit {
    let redo = Finding {
        subject: Some("mount /redo".into()),
        severity: Severity::Critical,
        title: "the mount is soft: a write that times out is lost".into(),
        rule_title: Some("Redo logs are mounted hard".into()),
        found: vec!["mount.hard is false".into(), "mount.role is redo".into()],
        reason: "A soft mount gives up a write that the server is slow to answer. The database then holds a log with a hole in \
                 it, and takes itself down."
            .into(),
        effect: Some("No write is lost while the server restarts".into()),
        sources: vec!["TR-3322, 4 Mount options, 2004".into(), "nfs(5)".into()],
        fix: vec!["fstab option hard".into(), "stop the databases that use the mount".into()],
        activation: Some(Activation::Remount),
        group: Some(AdviceGroup::Restart),
        ..finding("linux-redo-hard", "nfs-mount")
    };
    let contested = Finding {
        severity: Severity::Low,
        title: "full_page_writes is off; on expected".into(),
        rule_title: Some("Full page images stay on".into()),
        found: vec!["postgres.full_page_writes is off".into()],
        status: Status::Contested,
        standing: vec!["contested by the pages of one file system: off where blocks are written atomically".into()],
        fix: vec!["ALTER SYSTEM SET full_page_writes = on".into()],
        activation: Some(Activation::Reload),
        measured: Some(Measured { percent: 12.5, shown: true, text: "+12.5 % (+9.0 to +16.0) orders per minute alone".into() }),
        ..finding("postgres-full-page-writes", "db")
    };
    let unknown = |rule: &str, layer: &str, missing: &str| Finding {
        verdict: Verdict::Unknown,
        title: format!("not known: Title of {rule}"),
        found: Vec::new(),
        missing: vec![missing.into()],
        ..finding(rule, layer)
    };
    let hostile = Finding {
        subject: Some("mount /u02\u{1b}[2J<script>alert(1)</script>&\"'".into()),
        severity: Severity::Info,
        title: "noatime is not set".into(),
        rule_title: Some("Time of last access is not kept".into()),
        found: vec!["mount.options is [rw, \u{7}]".into()],
        ..finding("linux-noatime", "nfs-mount")
    };
    let waived = Finding {
        verdict: Verdict::Waived,
        severity: Severity::High,
        waiver: Some("until 2027-03-31: the switch is replaced in March".into()),
        ..finding("cross-mtu-equal", "cross-layer")
    };
    Audit {
        schema: SCHEMA,
        program: "millrace 0.1.0".into(),
        host: "db1".into(),
        system: "Linux 6.1.0".into(),
        taken: "2026-11-21T20:00:00Z".into(),
        from: "live".into(),
        findings: vec![
            redo,
            finding("linux-swappiness", "os-kernel"),
            contested,
            hostile,
            unknown("oracle-setall", "db", "oracle.filesystemio_options"),
            unknown("oracle-async", "db", "oracle.disk_asynch_io"),
            unknown("linux-thp-never", "os-kernel", "thp.enabled"),
            waived,
        ],
        passed: 40,
        not_applicable: 200,
        remarks: vec!["/etc/fstab is not text from byte 512 on: skipped".into()],
    }
}
