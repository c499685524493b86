use results::audit::{Audit, Finding};

use super::*;
use crate::report::sample;

const KNOWN: [&str; 3] = ["linux-redo-hard", "linux-swappiness", "postgres-full-page-writes"];

fn read(text: &str) -> Result<Waivers, WaiverError> {
    Waivers::parse(text, KNOWN.into_iter())
}

fn waiver(rule: &str, rest: &str) -> String {
    format!("schema = 1\n[[waiver]]\nrule = '{rule}'\nreason = 'the move is planned'\n{rest}\n")
}

fn day(text: &str) -> Day {
    Day::parse(text).unwrap()
}

fn verdicts(audit: &Audit, rule: &str) -> Vec<Verdict> {
    audit.findings.iter().filter(|finding| finding.rule == rule).map(|finding| finding.verdict).collect()
}

#[test]
fn a_waiver_holds_through_its_last_day_and_its_finding_fires_again_after_it() {
    let waivers = read(&waiver("linux-swappiness", "expires = 2026-12-31")).unwrap();
    let mut audit = sample::audit();
    let applied = apply(&waivers, &mut audit, day("2026-12-31"));
    assert_eq!((applied.waived, applied.expired.len()), (1, 0));
    assert_eq!(verdicts(&audit, "linux-swappiness"), [Verdict::Waived]);

    let mut audit = sample::audit();
    let applied = apply(&waivers, &mut audit, day("2027-01-01"));
    assert_eq!(applied.expired, ["the waiver of linux-swappiness expired on 2026-12-31"]);
    assert_eq!(verdicts(&audit, "linux-swappiness"), [Verdict::Finding]);
    let finding = audit.findings.iter().find(|finding| finding.rule == "linux-swappiness").unwrap();
    assert_eq!(finding.waiver.as_deref(), Some("expired on 2026-12-31: the move is planned"));
    assert!(audit.remarks.contains(&applied.expired[0]), "{:?}", audit.remarks);
}

#[test]
fn a_newer_waiver_beside_an_expired_one_holds() {
    let text = waiver("linux-swappiness", "expires = 2026-01-01")
        + "[[waiver]]\nrule = 'linux-swappiness'\nreason = 'once more'\nexpires = '2027-01-01'\n";
    let mut audit = sample::audit();
    apply(&read(&text).unwrap(), &mut audit, day("2026-11-21"));
    let finding = audit.findings.iter().find(|finding| finding.rule == "linux-swappiness").unwrap();
    assert_eq!((finding.verdict, finding.waiver.as_deref()), (Verdict::Waived, Some("until 2027-01-01: once more")));
}

#[test]
fn a_subject_narrows_a_waiver_to_the_things_it_matches() {
    for (pattern, wanted) in [("mount /re*", Verdict::Waived), ("mount /????", Verdict::Waived), ("mount /u*", Verdict::Finding)]
    {
        let waivers = read(&waiver("linux-redo-hard", &format!("subject = '{pattern}'\nexpires = 2027-01-01"))).unwrap();
        let mut audit = sample::audit();
        apply(&waivers, &mut audit, day("2026-11-21"));
        assert_eq!(verdicts(&audit, "linux-redo-hard")[0], wanted, "{pattern}");
    }
}

#[test]
fn a_subject_tells_servers_apart_and_a_thing_of_one_may_be_named_alone() {
    let patterns =
        [("PostgreSQL at a*", Verdict::Finding), ("* of PostgreSQL at a", Verdict::Waived), ("mount /redo", Verdict::Waived)];
    for (pattern, wanted) in patterns {
        let waivers = read(&waiver("linux-redo-hard", &format!("subject = '{pattern}'\nexpires = 2027-01-01"))).unwrap();
        let mut audit = sample::audit();
        let server = Some("PostgreSQL at a".to_owned());
        audit.findings[0].subject = Finding::subject_of(Some("mount /redo"), server.as_deref());
        audit.findings[0].server = server;
        apply(&waivers, &mut audit, day("2026-11-21"));
        assert_eq!(verdicts(&audit, "linux-redo-hard")[0], wanted, "{pattern}");
    }
}

#[test]
fn a_subject_never_covers_a_finding_of_the_host() {
    let waivers = read(&waiver("linux-swappiness", "subject = '*'\nexpires = 2027-01-01")).unwrap();
    let applied = apply(&waivers, &mut sample::audit(), day("2026-11-21"));
    assert_eq!((applied.waived, applied.unused.len()), (0, 1));
}

#[test]
fn what_is_not_known_cannot_be_waived() {
    let mut audit = sample::audit();
    audit.findings.retain(|finding| finding.rule == "linux-swappiness");
    audit.findings = audit.findings.into_iter().map(|f| Finding { verdict: Verdict::Unknown, ..f }).collect();
    let applied = apply(&read(&waiver("linux-swappiness", "expires = 2027-01-01")).unwrap(), &mut audit, day("2026-11-21"));
    assert_eq!((applied.waived, applied.unused.len()), (0, 1));
    assert_eq!(verdicts(&audit, "linux-swappiness"), [Verdict::Unknown]);
}

#[test]
fn a_rule_that_there_is_not_is_an_error_with_the_nearest_name() {
    let error = read(&waiver("linux-swapiness", "expires = 2027-01-01")).unwrap_err();
    assert_eq!(error.to_string(), "waiver 1 names the rule linux-swapiness, which does not exist");
    assert_eq!(error.hint().as_deref(), Some("did you mean linux-swappiness?"));
}

#[test]
fn reason_and_last_day_are_asked_for() {
    let told = |text: &str| read(text).unwrap_err().to_string();
    let blank = "schema = 1\n[[waiver]]\nrule = 'linux-swappiness'\nreason = ' '\nexpires = 2027-01-01\n";
    assert_eq!(told(blank), "waiver 1, of linux-swappiness, gives no reason");
    assert!(told(&waiver("linux-swappiness", "")).contains("not a list of waivers"));
    for wrong in ["'soon'", "'2027-02-29'", "20270101", "'2027-01-01 or later'", "true"] {
        let text = waiver("linux-swappiness", &format!("expires = {wrong}"));
        assert!(told(&text).contains("not a date of the form"), "{wrong}: {}", told(&text));
    }
    assert!(told(&waiver("linux-swappiness", "expires = 2027-01-01\nrules = 1")).contains("not a list of waivers"));
    assert!(told("schema = 2\n").contains("schema is 2"));
    assert!(told("waiver = 3").contains("not a list of waivers"));
}

#[test]
fn patterns_match_as_in_a_shell_and_end_in_time() {
    let is = |pattern: &str, text: &str| like(text, pattern);
    assert!(
        is("*", "")
            && is("a*b*c", "axxbyyc")
            && is("mount /u0?", "mount /u01")
            && is("é*", "é")
            && is("mount /dat?", "mount /daté")
    );
    assert!(!is("a*b", "ac") && !is("", "a") && !is("a?", "a") && !is("a", "ab"));
    assert!(!is(&"*a".repeat(200), &"b".repeat(20_000)));
}

#[test]
fn only_days_of_the_calendar_are_days() {
    assert!(Day::parse("2028-02-29").is_some() && Day::parse("2026-11-21T20:00:00Z").is_some());
    for wrong in
        ["2027-02-29", "1900-02-29", "2026-13-01", "2026-00-10", "2026-04-31", "2026-1-01", "", "20261121xx", "2026-11-é1"]
    {
        assert_eq!(Day::parse(wrong), None, "{wrong}");
    }
    assert!(day("2026-11-21") < day("2026-12-01") && day("2025-12-31") < day("2026-01-01"));
}
