//! The forms of an audit equal the golden texts in `tests/golden/`. `MILLRACE_BLESS=1` writes them
//! again; read them before you commit them.

use std::path::{Path, PathBuf};

use results::audit::{Audit, Finding, Severity, Verdict};
use tune::baseline::Baseline;
use tune::difference::difference;
use tune::report::{Look, html, json, junit, sarif, text};
use tune::waivers::{Day, Waivers, apply};

fn golden(name: &str, found: &str) {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("MILLRACE_BLESS").is_some() {
        std::fs::write(&file, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, wanted, "{} is not what is written now", file.display());
}

#[test]
fn the_text_is_a_line_for_each_finding_by_what_its_fix_interrupts_worst_first() {
    golden("audit.txt", &text(&crate::sample::audit(), &Look::default()));
}

#[test]
fn the_verbose_text_says_all_that_is_known() {
    golden("audit-verbose.txt", &text(&crate::sample::audit(), &Look { verbose: true, ..Look::default() }));
}

#[test]
fn the_text_against_a_baseline_shows_what_is_new() {
    let audit = crate::sample::audit();
    let before = Audit { findings: audit.findings[1..].to_vec(), taken: "2026-10-01T08:00:00Z".into(), ..audit.clone() };
    let baseline = Baseline::of(&before);
    golden("audit-baseline.txt", &text(&audit, &Look { baseline: Some(&baseline), ..Look::default() }));
}

#[test]
fn an_audit_without_findings_says_so() {
    let well = Audit { findings: Vec::new(), remarks: Vec::new(), ..crate::sample::audit() };
    golden("well.txt", &text(&well, &Look::default()));
    assert!(!Look::default().fails(&well));
}

#[test]
fn the_other_forms_are_as_they_were() {
    let audit = crate::sample::audit();
    golden("audit.json", &json(&audit, &Look::default()));
    golden("audit.sarif", &sarif(&audit, &Look::default()));
    golden("audit.junit.xml", &junit(&audit, &Look::default()));
    golden("audit.html", &html(&audit, &Look::default()));
}

#[test]
fn an_expired_waiver_is_named_where_its_finding_counts_again() {
    let waivers = "schema = 1\n[[waiver]]\nrule = 'linux-swappiness'\nreason = 'until the new host'\nexpires = 2026-11-20\n";
    let waivers = Waivers::parse(waivers, ["linux-swappiness"].into_iter()).unwrap();
    let mut audit = crate::sample::audit();
    apply(&waivers, &mut audit, Day::parse("2026-11-21").unwrap());
    let said = text(&audit, &Look::default());
    assert!(said.contains("[linux-swappiness] (its waiver has expired)"), "{said}");
    assert!(said.contains("note: the waiver of linux-swappiness expired on 2026-11-20"), "{said}");
    assert!(Look::default().fails(&audit));
}

#[test]
fn a_difference_reads_as_it_did() {
    let before = crate::sample::audit();
    let mut after = Audit { taken: "2026-11-28T20:00:00Z".into(), ..before.clone() };
    after.findings.retain(|finding| finding.rule != "linux-noatime");
    for finding in &mut after.findings {
        match finding.rule.as_str() {
            "linux-swappiness" => finding.found = vec!["sysctl.vm.swappiness is 80".into()],
            "linux-thp-never" => *finding = Finding { verdict: Verdict::Finding, severity: Severity::High, ..finding.clone() },
            "linux-redo-hard" => *finding = Finding { verdict: Verdict::Waived, ..finding.clone() },
            _ => {}
        }
    }
    after.findings.push(Finding { subject: Some("mount /u03".into()), ..crate::sample::finding("linux-rsize", "nfs-mount") });
    let found = difference(&before, &after);
    golden("difference.txt", &tune::difference::text(&found));
    golden("difference.json", &tune::difference::json(&found));
}

#[test]
fn junit_says_as_many_as_it_holds() {
    let xml = junit(&crate::sample::audit(), &Look::default());
    let total = |name: &str| -> usize {
        let head = xml.lines().find(|line| line.contains("<testsuites ")).unwrap();
        head.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    assert_eq!(total("tests"), xml.matches("<testcase ").count());
    assert_eq!(total("failures"), xml.matches("<failure ").count());
    assert_eq!(total("skipped"), xml.matches("<skipped ").count());
    assert_eq!((total("failures"), total("skipped")), (3, 4));
}
