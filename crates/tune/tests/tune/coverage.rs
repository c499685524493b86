//! Every row of the reports is covered exactly once, and no advice repeats a misprint of the
//! reports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use tune::reference::RowKind;
use tune::rule::{Fix, Rule};
use tune::rules::RuleSet;

/// The largest number of rows for which an entry only says why no fact can decide them.
const NOT_TESTABLE_MAX: usize = 15;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../rules")
}

fn rules() -> RuleSet {
    RuleSet::folder(&folder()).unwrap_or_else(|error| panic!("{error}"))
}

/// What covers each row: a rule with its ID, or an entry of one of the other two kinds of files.
fn answers(rules: &RuleSet) -> Vec<(String, String)> {
    let by_rule = rules.rules().iter().flat_map(|loaded| {
        let rule = &loaded.rule;
        rule.covers.iter().map(|row| (row.clone(), format!("rule {}", rule.id)))
    });
    let by_reference = rules
        .references()
        .iter()
        .flat_map(|file| file.settings.iter().map(|setting| (setting.row.clone(), format!("reference of {}", file.report))));
    let by_reason = rules.not_testable().iter().map(|entry| (entry.row.clone(), "not testable".to_owned()));
    by_rule.chain(by_reference).chain(by_reason).collect()
}

#[test]
fn the_catalogue_has_each_row_of_the_reports_once() {
    let rules = rules();
    let mut of_report: BTreeMap<&str, usize> = BTreeMap::new();
    let mut of_id: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rules.catalogue() {
        *of_report.entry(&row.report).or_default() += 1;
        *of_id.entry(&row.id).or_default() += 1;
    }
    let reports = [("TR-3322", 48), ("TR-3408", 63), ("TR-3495", 60), ("TR-3557", 88), ("TR-3700", 112)];
    assert_eq!(Vec::from_iter(of_report), reports);
    assert_eq!(of_id.len(), 371);
    let kinds = [(RowKind::Rec, 234), (RowKind::Test, 118), (RowKind::Check, 15), (RowKind::Avoid, 4)];
    for (kind, count) in kinds {
        assert_eq!(rules.catalogue().iter().filter(|row| row.kind == kind).count(), count, "{kind:?}");
    }
}

#[test]
fn every_row_is_answered_for_exactly_once() {
    let rules = rules();
    let answers = answers(&rules);
    let mut wrong = String::new();
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rules.catalogue() {
        let of_row: Vec<&str> = answers.iter().filter(|(id, _)| *id == row.id).map(|(_, by)| by.as_str()).collect();
        match of_row.as_slice() {
            [] => missing.entry(&row.report).or_default().push(&row.id),
            [by] => {
                let is_test = row.kind == RowKind::Test;
                if by.starts_with("rule") && is_test || by.starts_with("reference") && !is_test {
                    let _ = writeln!(wrong, "{} is of kind {:?} and answered for by {by}", row.id, row.kind);
                }
            }
            many => {
                let _ = writeln!(wrong, "{} is answered for {} times: {}", row.id, many.len(), many.join(", "));
            }
        }
    }
    for (row, by) in &answers {
        if !rules.catalogue().iter().any(|known| known.id == *row) {
            let _ = writeln!(wrong, "{by} answers for {row}, which no report has");
        }
    }
    for (report, rows) in &missing {
        let _ = writeln!(wrong, "{} rows of {report} are missing: {}", rows.len(), rows.join(" "));
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn few_rows_are_left_to_a_reason() {
    let rules = rules();
    let left = rules.not_testable();
    let rows: Vec<&str> = left.iter().map(|entry| entry.row.as_str()).collect();
    assert!(left.len() <= NOT_TESTABLE_MAX, "{}: {rows:?}", left.len());
    assert!(left.iter().all(|entry| entry.reason.split_whitespace().count() >= 5), "a reason is a sentence");
}

/// Misprints in the reports (of wsize, rsize, semmni, /sys/block, oranfstab, hpixgbeconf, ioo,
/// recv, maxservers).
const MISPRINTS: [&str; 10] =
    ["wsiz", "rsiz", "semgni", "/sys/lbock", "lbock", "orafstab", "hpixonbeconf", "ioc", "tcp_rcv_hiwater_def", "maxaioservers"];

/// All texts of a rule itself, without those about other sources.
fn advice(rule: &Rule) -> Vec<&str> {
    let Rule { title, when, test, reason, effect, fix, .. } = rule;
    let mut texts = vec![title.as_str(), test, reason];
    texts.extend(when.as_deref().into_iter().chain(effect.as_deref()));
    texts.extend(fix.iter().flat_map(fix_texts));
    texts
}

fn fix_texts(fix: &Fix) -> Vec<&str> {
    let mut texts: Vec<&str> = fix.needs.iter().chain(&fix.after).map(String::as_str).collect();
    texts.extend(fix.by_hand.as_deref());
    for setting in &fix.settings {
        texts.push(&setting.key);
        texts.extend(setting.value.as_deref().into_iter().chain(setting.value_of.as_deref()));
    }
    texts
}

/// Whether a text contains a complete word.
fn says(text: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

#[test]
fn misprints_of_the_reports_are_nowhere_advice() {
    let rules = rules();
    let mut wrong = Vec::new();
    for loaded in rules.rules() {
        let id = &loaded.rule.id;
        for text in advice(&loaded.rule) {
            wrong.extend(MISPRINTS.iter().filter(|word| says(text, word)).map(|word| format!("{id}: {word}")));
            // A line of /etc/system needs `set`.
            for name in ["nfs:nfs3_nra", "ce:ce_taskq_disable"] {
                let bare = text.match_indices(name).any(|(at, _)| {
                    text[at + name.len()..].trim_start().starts_with('=')
                        && !text[at + name.len()..].trim_start().starts_with("==")
                        && !text[..at].trim_end().ends_with("set")
                });
                if bare {
                    wrong.push(format!("{id}: {name} without set"));
                }
            }
        }
        // The value is a number of pages and not of bytes.
        let settings = loaded.rule.fix.iter().flat_map(|fix| &fix.settings);
        for setting in settings {
            if setting.key == "kernel.shmall" && setting.value.as_deref() == Some("12884901888") {
                wrong.push(format!("{id}: kernel.shmall in bytes"));
            }
        }
    }
    for setting in rules.references().iter().flat_map(|file| &file.settings) {
        wrong.extend(
            MISPRINTS.iter().filter(|word| says(&setting.parameter, word)).map(|word| format!("{}: {word}", setting.row)),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn misprints_are_found_where_they_stand() {
    assert!(says("mount with wsiz=32768", "wsiz") && !says("wsize=32768", "wsiz"));
    assert!(says("/sys/lbock/sda", "/sys/lbock") && !says("ioctl", "ioc"));
}

#[test]
fn a_rule_that_holds_no_longer_as_printed_names_who_says_so() {
    use results::audit::Status;
    let rules = rules();
    let silent: Vec<&str> = rules
        .rules()
        .iter()
        .map(|loaded| &loaded.rule)
        .filter(|rule| matches!(rule.status, Status::Reversed | Status::Contested | Status::Superseded | Status::ValueChanged))
        .filter(|rule| rule.standing.is_empty())
        .map(|rule| rule.id.as_str())
        .collect();
    assert!(silent.is_empty(), "no standing: {silent:#?}");
}
