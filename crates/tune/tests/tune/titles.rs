//! Titles of findings say what is wrong, with values and units. This is checked for every rule in
//! each of its `fires` cases.

use std::fmt::Write as _;

use results::audit::{Finding, Verdict};
use tune::judge::judge_one;
use tune::rules::{Loaded, RuleSet, built_in};
use tune::test_case;

/// Rules whose title may contain a number above 1,048,576 that does not count bytes.
const COUNTS: [&str; 4] =
    ["aix-limit-file-size", "cross-one-file-sets-a-sysctl", "linux-oracle-file-max", "rhel4-shared-memory-pages"];

/// The findings of a rule in its `fires` cases.
fn findings(loaded: &Loaded) -> Vec<Finding> {
    let cases = loaded.rule.fires.iter();
    let found = cases.flat_map(|case| judge_one(loaded, &test_case::facts(loaded, case)));
    found.filter(|finding| finding.verdict == Verdict::Finding).collect()
}

/// Whether a text contains a number of bytes above 1 MiB without a unit.
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

/// The words with which steps of fixes begin.
const REQUESTS: &[&str] = &[
    "back", "build", "choose", "compare", "copy", "decide", "detach", "end", "find", "give", "install", "log", "make", "measure",
    "mount", "move", "note", "open", "plan", "raise", "rebuild", "reserve", "scan", "see", "send", "set", "stop", "switch",
    "sync", "take", "unmount", "vary", "write",
];

#[test]
fn each_step_of_a_fix_asks_for_something_and_leaves_its_place_to_the_order() {
    let rules = built_in().unwrap();
    let mut wrong = String::new();
    for (rule, fix) in rules.rules().iter().filter_map(|loaded| Some((&loaded.rule, loaded.rule.fix.as_ref()?))) {
        for step in fix.needs.iter().chain(&fix.after) {
            let first = step.split(' ').next().unwrap_or_default();
            let is_good = REQUESTS.contains(&first) && !step.ends_with('.') && !step.ends_with(" first");
            let _ = if is_good { Ok(()) } else { writeln!(wrong, "{}: {step}", rule.id) };
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
