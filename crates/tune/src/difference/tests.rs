use super::*;
use crate::report::sample;

fn with(findings: Vec<Finding>) -> Audit {
    Audit { findings, ..sample::audit() }
}

fn swappiness() -> Finding {
    sample::finding("linux-swappiness", "os-kernel")
}

#[test]
fn an_audit_and_itself_do_not_differ() {
    let audit = sample::audit();
    let same = difference(&audit, &audit);
    assert!(same.new.is_empty() && same.gone.is_empty() && same.changed.is_empty() && !same.is_worse(), "{same:?}");
    assert_eq!(same.same, 4);
}

#[test]
fn a_finding_is_new_or_gone_by_its_rule_and_its_subject() {
    let on = |subject: &str| Finding { subject: Some(subject.into()), ..swappiness() };
    let found = difference(&with(vec![on("mount /a"), on("mount /b")]), &with(vec![on("mount /b"), on("mount /c")]));
    let names = |ones: &[One]| ones.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&found.new), ["linux-swappiness@mount /c"]);
    assert_eq!(names(&found.gone), ["linux-swappiness@mount /a"]);
    assert_eq!((found.same, found.is_worse()), (1, true));
}

#[test]
fn a_finding_whose_facts_are_missing_now_is_not_gone() {
    let unknown =
        Finding { verdict: Verdict::Unknown, found: Vec::new(), missing: vec!["sysctl.vm.swappiness".into()], ..swappiness() };
    let found = difference(&with(vec![swappiness()]), &with(vec![unknown]));
    assert!(found.gone.is_empty() && !found.is_worse());
    assert_eq!(found.changed[0].after.found, ["sysctl.vm.swappiness is missing"]);
    assert!(text(&found).contains("after:  not known: sysctl.vm.swappiness is missing"), "{}", text(&found));
}

#[test]
fn another_value_is_a_change_and_a_worse_severity_makes_it_worse() {
    let other = Finding { found: vec!["sysctl.vm.swappiness is 80".into()], ..swappiness() };
    let found = difference(&with(vec![swappiness()]), &with(vec![other.clone()]));
    assert_eq!((found.changed.len(), found.is_worse()), (1, false));
    let worse = Finding { severity: Severity::High, ..other };
    assert!(difference(&with(vec![swappiness()]), &with(vec![worse])).is_worse());
}

#[test]
fn a_waiver_that_ended_is_worse_and_one_that_began_is_not() {
    let waived = Finding { verdict: Verdict::Waived, ..swappiness() };
    assert!(difference(&with(vec![waived.clone()]), &with(vec![swappiness()])).is_worse());
    assert!(!difference(&with(vec![swappiness()]), &with(vec![waived])).is_worse());
}

#[test]
fn passed_judgements_count_like_those_that_are_not_stored() {
    let passed = Finding { verdict: Verdict::Passed, ..swappiness() };
    let found = difference(&with(vec![passed.clone()]), &with(vec![swappiness()]));
    assert_eq!((found.new.len(), found.changed.len()), (1, 0));
    let found = difference(&with(vec![swappiness()]), &with(vec![passed]));
    assert_eq!((found.gone.len(), found.changed.len()), (1, 0));
}

#[test]
fn what_only_informs_makes_nothing_worse() {
    let info = Finding { severity: Severity::Info, ..swappiness() };
    let found = difference(&with(Vec::new()), &with(vec![info]));
    assert_eq!((found.new.len(), found.is_worse()), (1, false));
}

#[test]
fn two_hosts_and_two_programs_are_named() {
    let other = Audit { host: "db2".into(), program: "millrace 0.2.0".into(), ..sample::audit() };
    let said = text(&difference(&sample::audit(), &other));
    assert!(said.contains("two hosts") && said.contains("judged by millrace 0.1.0 and then by millrace 0.2.0"), "{said}");
}
