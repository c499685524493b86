//! Each rule gives a finding in its `fires` cases and none in its `silent` cases. Files generated
//! from the rules are current.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use results::audit::{Finding, Verdict};
use tune::expression::{Outcome, parse};
use tune::judge::{judge_one, setting_value};
use tune::rules::{Loaded, RuleSet, built_in_files};
use tune::{rules_page, test_case};

const RENEW: &str = "renew it: cargo run -p tune --example renew";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rules() -> RuleSet {
    RuleSet::folder(&root().join("rules")).unwrap_or_else(|error| panic!("{error}"))
}

fn told(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "it does not apply".to_owned();
    }
    let lines = findings.iter().map(|found| {
        let subject = found.subject.as_deref().unwrap_or("the host");
        format!("{subject}: {:?}, found [{}], missing [{}]", found.verdict, found.found.join("; "), found.missing.join("; "))
    });
    lines.collect::<Vec<_>>().join(" | ")
}

/// The mistakes in a rule's cases, one line for each.
fn wrong(loaded: &Loaded) -> String {
    let mut wrong = String::new();
    let Loaded { rule, file, .. } = loaded;
    for (index, case) in rule.fires.iter().enumerate() {
        let findings = judge_one(loaded, &test_case::facts(loaded, case));
        if !findings.iter().any(|found| found.verdict == Verdict::Finding) {
            let _ = writeln!(wrong, "{file}: {}: fires[{index}] does not fire: {}", rule.id, told(&findings));
        }
    }
    for (index, case) in rule.silent.iter().enumerate() {
        let findings = judge_one(loaded, &test_case::facts(loaded, case));
        if findings.iter().any(|found| found.verdict != Verdict::Passed) {
            let _ = writeln!(wrong, "{file}: {}: silent[{index}] is not silent: {}", rule.id, told(&findings));
        }
    }
    // One silent case must pass the test, and not only make the rule not apply.
    let passes = |case| judge_one(loaded, &test_case::facts(loaded, case)).iter().any(|found| found.verdict == Verdict::Passed);
    if !rule.silent.iter().any(passes) {
        let _ = writeln!(wrong, "{file}: {}: no silent case passes the test", rule.id);
    }
    wrong
}

#[test]
fn each_rule_fires_and_stays_silent_on_its_own_cases() {
    let rules = rules();
    let wrong: String = rules.rules().iter().map(wrong).collect();
    assert!(wrong.is_empty(), "\n{} lines\n{wrong}", wrong.lines().count());
}

#[test]
fn computed_settings_have_a_value_where_the_rule_fires() {
    let rules = rules();
    let mut wrong = String::new();
    for loaded in rules.rules() {
        let computed = loaded.rule.fix.iter().flat_map(|fix| &fix.settings).filter(|setting| setting.value_of.is_some());
        for setting in computed {
            let case = &loaded.rule.fires[0];
            let facts = test_case::facts(loaded, case);
            let findings = judge_one(loaded, &facts);
            let fired = findings.iter().find(|found| found.verdict == Verdict::Finding).and_then(|found| found.subject.clone());
            let thing = fired.as_deref().and_then(|subject| subject.split_once(' '));
            if setting_value(setting, &facts, thing).is_none() {
                let text = setting.value_of.as_deref().unwrap();
                let why = match parse(text).unwrap().value(&facts, thing) {
                    Outcome::Unknown(missing) => missing.join("; "),
                    Outcome::Known(value) => format!("{value:?}"),
                };
                let _ = writeln!(wrong, "{}: {}: {} has no value: {why}", loaded.file, loaded.rule.id, setting.key);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_program_has_the_files_of_the_folder() {
    let of_folder: BTreeSet<String> =
        RuleSet::file_names(&root().join("rules")).unwrap().into_iter().map(|file| format!("rules/{file}")).collect();
    let of_program: BTreeSet<String> = built_in_files().map(str::to_owned).collect();
    assert_eq!(of_folder, of_program, "crates/tune/src/builtin.rs is not current; {RENEW}");
}

#[test]
fn the_page_of_rules_is_current() {
    let page = fs::read_to_string(root().join("docs/rules.md")).unwrap_or_default();
    assert!(page == rules_page::rules_page(&rules()), "docs/rules.md is not current; {RENEW}");
}

#[test]
fn a_fix_in_bytes_says_so_where_a_bare_number_would_be_pages() {
    let rules = tune::rules::built_in().unwrap();
    let loaded = rules.find("postgres-shared-buffers-from-memory").unwrap();
    let facts = tune::test_case::facts(loaded, &loaded.rule.fires[0]);
    let fix = judge_one(loaded, &facts)[0].fix.join("\n");
    let after = fix.split("shared_buffers = ").nth(1).unwrap();
    let value: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
    assert!(value.ends_with('B') && value.len() > 1, "{fix}");
}
