//! Rules agree with each other and with themselves. Two rules with findings on one host never ask
//! for different values of one setting, and a rule passes after its own fix.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use results::audit::{Finding, Verdict};
use tune::facts::{Fact, Facts, Value};
use tune::judge::{judge_one, setting_value};
use tune::rule::{Case, Setting, SettingKind};
use tune::rules::{Loaded, RuleSet};
use tune::test_case;

const ORIGIN: &str = "two cases taken together";

fn rules() -> RuleSet {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    RuleSet::folder(&root.join("rules")).unwrap_or_else(|error| panic!("{error}"))
}

/// The place of a setting. Two rules that set the same place must agree.
type Place = (SettingKind, String);

fn settings(loaded: &Loaded) -> &[Setting] {
    loaded.rule.fix.as_ref().map_or(&[], |fix| &fix.settings)
}

fn place(setting: &Setting) -> Place {
    (setting.kind, setting.key.clone())
}

/// The facts of one case, completed by those of another.
fn together(first: &Facts, second: &Facts) -> Facts {
    let mut both = first.clone();
    for (name, fact) in &second.host {
        both.host.entry(name.clone()).or_insert_with(|| fact.clone());
    }
    for (kind, things) in &second.things {
        let all = both.things.entry(kind.clone()).or_default();
        for (name, attributes) in things {
            let thing = all.entry(name.clone()).or_default();
            for (attribute, fact) in attributes {
                thing.entry(attribute.clone()).or_insert_with(|| fact.clone());
            }
        }
    }
    both
}

/// The values that a rule asks for at a place of a host, by the thing of its finding; empty without
/// a finding.
fn asked(loaded: &Loaded, place: &Place, facts: &Facts) -> Vec<(Option<String>, String)> {
    let found = judge_one(loaded, facts).into_iter().filter(|finding| finding.verdict == Verdict::Finding);
    let mut values = Vec::new();
    for finding in found {
        let thing = finding.subject.as_deref().and_then(|subject| subject.split_once(' '));
        for setting in settings(loaded).iter().filter(|setting| (setting.kind, &setting.key) == (place.0, &place.1)) {
            let bare = setting.value.is_none() && setting.value_of.is_none();
            if let Some(value) = if bare { Some("set".to_owned()) } else { setting_value(setting, facts, thing) } {
                values.push((finding.subject.clone(), value));
            }
        }
    }
    values
}

/// Whether one rule names the other one in its `standing`, so that users see both.
fn told_of_each_other(one: &Loaded, other: &Loaded) -> bool {
    let names = |a: &Loaded, b: &Loaded| a.rule.standing.iter().any(|standing| standing.by == b.rule.id);
    names(one, other) || names(other, one)
}

/// A contradiction between two rules, if a host with the findings of both shows one.
fn contradiction(one: &Loaded, other: &Loaded, place: &Place) -> Option<String> {
    let of =
        |loaded: &Loaded, cases: &[Case]| -> Vec<Facts> { cases.iter().map(|case| test_case::facts(loaded, case)).collect() };
    for first in of(one, &one.rule.fires) {
        for second in of(other, &other.rule.fires) {
            for facts in [together(&first, &second), together(&second, &first)] {
                let wanted = asked(other, place, &facts);
                for (subject, value) in asked(one, place, &facts) {
                    let against = wanted.iter().find(|(whose, what)| *whose == subject && *what != value);
                    if let Some((_, what)) = against {
                        let subject = subject.unwrap_or_else(|| "the host".to_owned());
                        return Some(format!("{subject}: {} asks for {value}, {} for {what}", one.rule.id, other.rule.id));
                    }
                }
            }
        }
    }
    None
}

#[test]
fn no_two_rules_ask_for_different_values_of_one_setting() {
    let rules = rules();
    let mut places: BTreeMap<Place, Vec<&Loaded>> = BTreeMap::new();
    for loaded in rules.rules() {
        for setting in settings(loaded) {
            let there = places.entry(place(setting)).or_default();
            if !there.iter().any(|known| known.rule.id == loaded.rule.id) {
                there.push(loaded);
            }
        }
    }
    let mut wrong = String::new();
    for (place, setters) in &places {
        for (index, one) in setters.iter().enumerate() {
            for other in setters.iter().skip(index + 1).filter(|other| !told_of_each_other(one, other)) {
                if let Some(line) = contradiction(one, other, place) {
                    let _ = writeln!(wrong, "{:?} {}: {line}", place.0, place.1);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn no_rule_sets_one_place_twice_otherwise() {
    let mut wrong = String::new();
    for loaded in rules().rules() {
        let mut seen: BTreeMap<Place, (&Option<String>, &Option<String>)> = BTreeMap::new();
        for setting in settings(loaded) {
            let value = (&setting.value, &setting.value_of);
            if seen.insert(place(setting), value).is_some_and(|before| before != value) {
                let _ = writeln!(wrong, "{}: {:?} {}", loaded.rule.id, setting.kind, setting.key);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The fact for a setting of these kinds, with its value as a collector notes it.
fn fact_of(setting: &Setting, value: &str) -> Option<(String, Value)> {
    let prefix = match setting.kind {
        SettingKind::Postgres => "postgres.",
        SettingKind::Mysql => "mysql.",
        SettingKind::Oracle => "oracle.",
        SettingKind::Sysctl => "sysctl.",
        SettingKind::AixNo => "aix.no.",
        SettingKind::AixNfso => "aix.nfso.",
        SettingKind::AixVmo => "aix.vmo.",
        SettingKind::AixIoo => "aix.ioo.",
        SettingKind::Kctune => "hpux.kctune.",
        _ => return None,
    };
    let database = matches!(setting.kind, SettingKind::Postgres | SettingKind::Mysql | SettingKind::Oracle);
    Some((format!("{prefix}{}", setting.key), if database { of_database(value) } else { plain(value) }))
}

/// Sets a fact. If the value has several numbers, as in `4096 131072 16777216`, it also sets each:
/// `sysctl.net.ipv4.tcp_rmem.3`.
fn put(facts: &mut Facts, name: String, value: Value) {
    let parts = match &value {
        Value::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    for (index, part) in parts.iter().enumerate() {
        facts.host.insert(format!("{name}.{}", index + 1), Fact { value: plain(part), origin: ORIGIN.to_owned() });
    }
    facts.host.insert(name, Fact { value, origin: ORIGIN.to_owned() });
}

fn plain(value: &str) -> Value {
    value.parse().map_or_else(|_| Value::from(value), Value::Int)
}

/// A value of a database in facts: `on` is yes, `8GB` and `512M` are bytes, `15min` is
/// milliseconds.
fn of_database(value: &str) -> Value {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" => return Value::Bool(true),
        "off" | "false" => return Value::Bool(false),
        _ => {}
    }
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(end);
    let factor = match unit {
        "" | "B" | "ms" => 1,
        "kB" | "K" => 1 << 10,
        "MB" | "M" => 1 << 20,
        "GB" | "G" => 1 << 30,
        "s" => 1_000,
        "min" => 60_000,
        _ => return Value::from(value),
    };
    digits.parse::<i64>().map_or_else(|_| Value::from(value), |number| Value::Int(number * factor))
}

#[test]
fn what_a_rule_sets_makes_it_content() {
    let mut wrong = String::new();
    let mut healed = 0;
    for loaded in rules().rules() {
        for fires in &loaded.rule.fires {
            let mut facts = test_case::facts(loaded, fires);
            let findings = judge_one(loaded, &facts);
            let Some(finding) = findings.iter().find(|finding| finding.verdict == Verdict::Finding) else { continue };
            let thing = finding.subject.as_deref().and_then(|subject| subject.split_once(' '));
            let set: Option<Vec<(String, Value)>> = settings(loaded)
                .iter()
                .map(|setting| setting_value(setting, &facts, thing).and_then(|value| fact_of(setting, &value)))
                .collect();
            let Some(set) = set.filter(|set| !set.is_empty()) else { continue };
            for (name, value) in set {
                put(&mut facts, name, value);
            }
            healed += 1;
            let after = judge_one(loaded, &facts);
            let same = |still: &&Finding| still.verdict == Verdict::Finding && still.subject == finding.subject;
            if let Some(still) = after.iter().find(same) {
                let _ = writeln!(wrong, "{}: {}: its fix leaves it: {}", loaded.file, loaded.rule.id, still.found.join("; "));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(healed >= 30, "only {healed} rules were looked at");
}
