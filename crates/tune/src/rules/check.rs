//! Checks rules before they are used.

use std::collections::BTreeSet;

use super::{KINDS, LAYERS, Loaded, PLATFORMS, Problem, ROLES};
use crate::expression::{self, Expression};
use crate::limits::{RULE_ID_BYTES_MAX, RULE_TITLE_CHARACTERS_MAX, RULES_MAX};
use crate::rule::{Fix, Rule, RuleFile, Setting, SettingKind};
use crate::template::Template;

/// Checks each rule of a file. Rules without mistakes are added.
pub(super) fn file(name: &str, file: RuleFile, rules: &mut Vec<Loaded>, problems: &mut Vec<Problem>) {
    if !LAYERS.contains(&file.layer.as_str()) {
        let what = format!("unknown layer {:?}; known are {}", file.layer, LAYERS.join(", "));
        problems.push(Problem { file: name.to_owned(), rule: None, what });
    }
    for rule in file.rules {
        let mut wrong = Vec::new();
        words(&rule, &mut wrong);
        places(&rule, &mut wrong);
        let when = rule.when.as_deref().and_then(|text| expression("when", text, &rule, &mut wrong));
        let test = expression("test", &rule.test, &rule, &mut wrong);
        let finding = rule.finding.as_deref().and_then(|text| template(text, &rule, &[&when, &test], &mut wrong));
        if let Some(fix) = &rule.fix {
            fixes(fix, &rule, &mut wrong);
        }
        let told = wrong.into_iter().map(|what| Problem { file: name.to_owned(), rule: Some(rule.id.clone()), what });
        let before = problems.len();
        problems.extend(told);
        if let Some(test) = test
            && problems.len() == before
        {
            rules.push(Loaded { rule, layer: file.layer.clone(), file: name.to_owned(), when, test, finding });
        }
    }
}

/// Checks all rules together.
pub(super) fn set(rules: &[Loaded], problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for loaded in rules {
        if !seen.insert(&loaded.rule.id) {
            let what = "another rule has this identity".to_owned();
            problems.push(Problem { file: loaded.file.clone(), rule: Some(loaded.rule.id.clone()), what });
        }
    }
    if rules.len() > RULES_MAX {
        let what = format!("more than {RULES_MAX} rules");
        problems.push(Problem { file: "all files".to_owned(), rule: None, what });
    }
}

fn words(rule: &Rule, wrong: &mut Vec<String>) {
    let id = &rule.id;
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.is_empty() || id.len() > RULE_ID_BYTES_MAX || !id.chars().all(good) {
        wrong.push(format!("an identity is lower case, digits and hyphens, at most {RULE_ID_BYTES_MAX}"));
    }
    let title = &rule.title;
    if title.trim().is_empty()
        || title.chars().count() > RULE_TITLE_CHARACTERS_MAX
        || title.contains('\n')
        || title.ends_with('.')
    {
        wrong.push(format!("a title is one line of at most {RULE_TITLE_CHARACTERS_MAX} characters without a full stop"));
    }
    if rule.reason.trim().is_empty() {
        wrong.push("there is no reason".to_owned());
    }
    if rule.sources.is_empty() || rule.sources.iter().any(|source| source.name.trim().is_empty()) {
        wrong.push("there is no source, or one without a name".to_owned());
    }
    if rule.standing.iter().any(|standing| standing.by.trim().is_empty() || standing.says.trim().is_empty()) {
        wrong.push("standing without who says it, or without what is said".to_owned());
    }
    for when in rule.standing.iter().filter_map(|standing| standing.when.as_deref()) {
        if let Err(error) = expression::parse(when) {
            wrong.push(format!("the `when` of a standing: {error}"));
        }
    }
    if rule.fires.is_empty() || rule.silent.is_empty() {
        wrong.push("a rule has at least one case of `fires` and one of `silent`".to_owned());
    }
}

fn places(rule: &Rule, wrong: &mut Vec<String>) {
    let mut known = |what: &str, named: &[String], all: &[&str]| {
        for name in named.iter().filter(|name| !all.contains(&name.as_str())) {
            wrong.push(format!("unknown {what} {name:?}; known are {}", all.join(", ")));
        }
    };
    known("platform", &rule.platforms, &PLATFORMS);
    known("role", &rule.roles, &ROLES);
    if let Some(kind) = &rule.each
        && (kind.is_empty() || !kind.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
    {
        wrong.push(format!("`each` is a kind of thing: {kind:?} is none"));
    }
    let cases = rule.fires.iter().chain(&rule.silent);
    for (kind, things) in cases.flat_map(|case| &case.things) {
        if things.iter().any(|thing| !matches!(thing.get("name"), Some(crate::facts::Value::Text(_)))) {
            wrong.push(format!("a {kind} of a case has no name, or one that is not text"));
        }
    }
}

/// Parses an expression. Attributes of things that are not in scope are refused.
fn expression(what: &str, text: &str, rule: &Rule, wrong: &mut Vec<String>) -> Option<Expression> {
    let read = match expression::parse(text) {
        Ok(read) => read,
        Err(error) => {
            wrong.push(format!("{what}: {error}"));
            return None;
        }
    };
    for name in read.host_names(rule.each.as_deref()) {
        let head = name.split('.').next().unwrap_or_default();
        if KINDS.contains(&head) {
            wrong.push(format!("{what}: {name} is of a {head}, and none is at hand: it takes each, any, all, count or sum"));
        }
    }
    Some(read)
}

/// Parses the template of a finding. Its placeholders may use only facts that the rule reads, and
/// the thing's name.
fn template(text: &str, rule: &Rule, looked_at: &[&Option<Expression>], wrong: &mut Vec<String>) -> Option<Template> {
    if text.trim().is_empty() || text.contains('\n') || text.ends_with('.') || text == rule.title {
        wrong.push("finding: it is one line without a full stop that says what is wrong, not what is wanted".to_owned());
    }
    let read = match Template::parse(text) {
        Ok(read) => read,
        Err(error) => {
            wrong.push(format!("finding: {error}"));
            return None;
        }
    };
    let known: BTreeSet<&str> = looked_at.iter().filter_map(|read| read.as_ref()).flat_map(Expression::names).collect();
    let of_thing = rule.each.as_ref().map(|kind| format!("{kind}.name"));
    for placeholder in read.expressions() {
        expression("finding", placeholder.text(), rule, wrong);
        for name in placeholder.names() {
            if !known.contains(name) && of_thing.as_deref() != Some(name) {
                wrong.push(format!("finding: placeholder {name} is no fact that `test` or `when` looks at"));
            }
        }
    }
    Some(read)
}

fn fixes(fix: &Fix, rule: &Rule, wrong: &mut Vec<String>) {
    if fix.settings.is_empty() && fix.by_hand.as_deref().is_none_or(|text| text.trim().is_empty()) {
        wrong.push("a fix has settings or says what is done by hand".to_owned());
    }
    for setting in &fix.settings {
        let key = &setting.key;
        if let Some(text) = &setting.value_of {
            expression(&format!("value_of {key}"), text, rule, wrong);
        }
        if setting.value.is_some() && setting.value_of.is_some() {
            wrong.push(format!("setting {key} has value and value_of"));
        }
        // `apply` writes both into files.
        if key.is_empty() || key.chars().chain(setting.value.iter().flat_map(|value| value.chars())).any(char::is_control) {
            wrong.push(format!("setting {key:?} is empty, or has a character that no file of settings takes"));
        }
        if let Some(form) = wrong_form(setting) {
            wrong.push(format!("setting {key}: the key is {form}"));
        }
        if setting.value.is_none() && setting.value_of.is_none() && !without_value(setting.kind) {
            wrong.push(format!("setting {key} has no value"));
        }
    }
}

/// Kinds of settings that may have no value.
fn without_value(kind: SettingKind) -> bool {
    matches!(kind, SettingKind::FstabOption | SettingKind::Oranfstab | SettingKind::Ontap7 | SettingKind::Ontap9)
}

/// The form that a key of this kind must have, if it has another one.
fn wrong_form(setting: &Setting) -> Option<&'static str> {
    let key = &setting.key;
    let (form, good) = match setting.kind {
        SettingKind::Modprobe => ("MODULE.KEY", key.contains('.')),
        SettingKind::Multipath => ("SECTION.KEY", key.contains('.')),
        SettingKind::Udev => ("SUBSYSTEM/ATTRIBUTE", key.contains('/')),
        SettingKind::Limits => ("USER TYPE ITEM", key.split_whitespace().count() == 3),
        _ => return None,
    };
    (!good).then_some(form)
}
