//! Titles of findings say what is wrong, with values in human units: of every rule, in each case in which it fires.

use std::fmt::Write as _;

use results::audit::{Finding, Verdict};
use tune::judge::judge_one;
use tune::rules::{Loaded, RuleSet, built_in};
use tune::test_case;

/// Rules whose title may hold a number over 1,048,576 that counts something other than bytes.
const COUNTS: [&str; 4] =
    ["aix-limit-file-size", "cross-one-file-sets-a-sysctl", "linux-oracle-file-max", "rhel4-shared-memory-pages"];

/// What a rule finds in the cases in which it fires.
fn findings(loaded: &Loaded) -> Vec<Finding> {
    let cases = loaded.rule.fires.iter();
    let found = cases.flat_map(|case| judge_one(loaded, &test_case::facts(loaded, case)));
    found.filter(|finding| finding.verdict == Verdict::Finding).collect()
}

/// Whether a text has a number of bytes that nobody can read: over 1 MiB, digit by digit.
fn has_raw_bytes(text: &str) -> bool {
    let plain = text.replace(',', "");
    plain.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok()).any(|number| number > 1 << 20)
}

fn wrong(loaded: &Loaded) -> String {
    let mut wrong = String::new();
    let rule = &loaded.rule;
    for finding in findings(loaded) {
        let title = &finding.title;
        println!("{} {:?}{}: {title}", rule.id, rule.severity, if rule.finding.is_some() { "" } else { " (default)" });
        let what = if *title == rule.title {
            "is what the rule wants"
        } else if title.contains(['{', '}']) {
            "has a placeholder"
        } else if has_raw_bytes(title) && !COUNTS.contains(&rule.id.as_str()) {
            "has a raw number of bytes"
        } else if title.ends_with('.') || title.contains('\n') {
            "is no single line without a full stop"
        } else if finding.rule_title.as_deref() != Some(&rule.title) {
            "has lost the rule's own"
        } else {
            continue;
        };
        let _ = writeln!(wrong, "{}: the title {what}: {title}", rule.id);
    }
    wrong
}

#[test]
fn every_finding_says_what_is_wrong_in_human_units() {
    let rules: RuleSet = built_in().unwrap();
    let wrong: String = rules.rules().iter().map(wrong).collect();
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn a_template_is_used_in_each_case_in_which_its_rule_fires() {
    let rules = built_in().unwrap();
    let mut unused = String::new();
    for loaded in rules.rules().iter().filter(|loaded| loaded.rule.finding.is_some()) {
        let start = loaded.rule.finding.as_deref().and_then(|text| text.split('{').next()).unwrap_or_default();
        for finding in findings(loaded).iter().filter(|finding| !finding.title.starts_with(start)) {
            let _ = writeln!(unused, "{}: {}", loaded.rule.id, finding.title);
        }
    }
    assert!(unused.is_empty(), "a fact of the template is not known where the rule fires:\n{unused}");
}
