//! Judges facts by rules.
//!
//! A rule is applied to the host or to each thing of a kind; a rule about a database is applied to
//! each server. If facts that `when` needs are not known, the rule does not apply, unless one of
//! them is a setting of a database that could not be read. Then, and if facts that `test` needs are
//! not known, the verdict is unknown and never passed.

mod group;
mod platforms_and_roles;
mod subjects;
mod write_back;

use std::collections::BTreeSet;

use results::audit::{Activation, Finding, Severity, Verdict};

use crate::expression::Outcome;
use crate::facts::{Facts, SetBy, Value, set_by};
use crate::limits::{LINES_MAX, THINGS_JUDGED_MAX};
use crate::rule::{Fix, Rule, Setting, SettingKind};
use crate::rules::{Loaded, RuleSet};
use crate::shown_value::shown;
use crate::{describe, expression, title};
use subjects::Subject;
use write_back::with_write_back;

/// The results of all rules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// All verdicts, the worst first. The order is the same for equal facts.
    pub findings: Vec<Finding>,
    /// Number of rules that do not apply here.
    pub not_applicable: usize,
    /// Remarks on what could not be judged.
    pub remarks: Vec<String>,
}

/// Applies every rule to the host, and every rule about databases to each database server.
#[must_use]
pub fn judge(rules: &RuleSet, facts: &Facts) -> Judgement {
    let mut judgement = Judgement::default();
    if !facts.host.contains_key("os.family") {
        judgement.remarks.push("the operating system is not known: rules of operating systems are left out".to_owned());
    }
    judgement.remarks.extend(crate::collect::unnamed(facts));
    for server in subjects::judged_in_part(facts) {
        judgement.remarks.push(format!(
            "{} does not run: only the critical rules about its data were checked; without --db the audit checks all rules",
            server.name
        ));
    }
    judgement.not_applicable = judge_all(&rules.rules().iter().collect::<Vec<_>>(), facts, &mut judgement);
    judgement.findings.sort_by(|a, b| place(a).cmp(&place(b)));
    judgement
}

/// Applies one rule. There is no verdict if it does not apply.
#[must_use]
pub fn judge_one(loaded: &Loaded, facts: &Facts) -> Vec<Finding> {
    let mut judgement = Judgement::default();
    judge_all(&[loaded], facts, &mut judgement);
    judgement.findings
}

/// Applies rules and returns how many of them do not apply. It handles one subject after the other,
/// because each has its own copy of the facts.
fn judge_all(rules: &[&Loaded], facts: &Facts, judgement: &mut Judgement) -> usize {
    let facts = &*with_write_back(facts);
    let mut asked: Vec<(&Loaded, Vec<Option<usize>>, bool)> =
        rules.iter().map(|loaded| (*loaded, subjects::asked(loaded, facts), false)).collect();
    for place in std::iter::once(None).chain((0..facts.servers.len()).map(Some)) {
        let subject = Subject::of(facts, place);
        let first = judgement.findings.len();
        for (loaded, places, applied) in &mut asked {
            if places.contains(&place) && applies(loaded, &subject) {
                let before = judgement.findings.len();
                ask(loaded, &subject, judgement);
                *applied |= judgement.findings.len() > before;
            }
        }
        leave_unasked_out(&subject, first, judgement);
    }
    asked.iter().filter(|(.., applied)| !applied).count()
}

/// Removes unknown results of a server that was not queried while others were, and adds one remark
/// instead.
fn leave_unasked_out(subject: &Subject<'_>, first: usize, judgement: &mut Judgement) {
    let Some(server) = subject.server.filter(|_| subject.is_unasked) else { return };
    let told = judgement.findings.split_off(first);
    let all = told.len();
    judgement.findings.extend(told.into_iter().filter(|finding| finding.verdict != Verdict::Unknown));
    let left_out = all - (judgement.findings.len() - first);
    if left_out > 0 {
        judgement.remarks.push(format!(
            "{} was not asked with --db; rules that need facts of the running server are left out: {left_out}",
            server.name
        ));
    }
}

/// The value of a setting here: as written or computed. `None` if it has no value or its facts are
/// not known.
#[must_use]
pub fn setting_value(setting: &Setting, facts: &Facts, thing: Option<(&str, &str)>) -> Option<String> {
    let Some(text) = &setting.value_of else { return setting.value.clone() };
    match expression::parse(text).ok()?.value(facts, thing) {
        Outcome::Known(Value::List(values)) => Some(values.iter().map(shown).collect::<Vec<_>>().join(" ")),
        Outcome::Known(value) => Some(shown(&value)),
        Outcome::Unknown(_) => None,
    }
}

fn applies(loaded: &Loaded, subject: &Subject<'_>) -> bool {
    let of = |named: &[String], there: &BTreeSet<String>| named.is_empty() || named.iter().any(|name| there.contains(name));
    of(&loaded.rule.platforms, &subject.platforms) && of(&loaded.rule.roles, &subject.roles)
}

fn ask(loaded: &Loaded, subject: &Subject<'_>, judgement: &mut Judgement) {
    let facts = &subject.facts;
    let Some(kind) = loaded.rule.each.as_deref() else {
        judgement.findings.extend(one(loaded, subject, None));
        return;
    };
    let things = subject.things(kind);
    for name in things.into_iter().flat_map(|things| things.keys()).take(THINGS_JUDGED_MAX) {
        judgement.findings.extend(one(loaded, subject, Some((kind, name))));
    }
    if things.is_some_and(|things| things.len() > THINGS_JUDGED_MAX) {
        judgement.remarks.push(format!("rule {} was asked of the first {THINGS_JUDGED_MAX} of kind {kind}", loaded.rule.id));
    }
    // No thing was found because the kind could not be looked for.
    let reason = facts.unknown.get(kind).or_else(|| facts.unknown.get(&format!("{kind}.")));
    if let Some(reason) = reason
        && things.is_none_or(|things| things.is_empty())
        && loaded.when.is_none()
    {
        let missing = vec![format!("{kind}: {reason}")];
        judgement.findings.push(finding(loaded, subject, None, Verdict::Unknown, Vec::new(), missing));
    }
}

/// The verdict on the host, a server or one thing; `None` if the rule does not apply.
fn one(loaded: &Loaded, subject: &Subject<'_>, thing: Option<(&str, &str)>) -> Option<Finding> {
    let facts = &subject.facts;
    match loaded.when.as_ref().map(|when| (when, when.value(facts, thing))) {
        None | Some((_, Outcome::Known(Value::Bool(true)))) => {}
        // Whether the rule applies depends on a setting of a database that was not read.
        Some((when, Outcome::Unknown(missing))) if when.needs_unread_setting(facts) => {
            return Some(finding(loaded, subject, thing, Verdict::Unknown, Vec::new(), missing));
        }
        Some(_) => return None,
    }
    let evaluation = loaded.test.evaluate(facts, thing);
    let (verdict, missing) = match evaluation.outcome {
        Outcome::Known(Value::Bool(true)) => (Verdict::Passed, Vec::new()),
        Outcome::Known(Value::Bool(false)) => (Verdict::Finding, Vec::new()),
        Outcome::Known(other) => (Verdict::Unknown, vec![format!("the test gives {}, neither yes nor no", shown(&other))]),
        Outcome::Unknown(missing) => (Verdict::Unknown, missing),
    };
    let found = evaluation.looked_at.iter().take(LINES_MAX).map(ToString::to_string).collect();
    Some(finding(loaded, subject, thing, verdict, found, missing))
}

fn finding(
    loaded: &Loaded,
    judged: &Subject<'_>,
    thing: Option<(&str, &str)>,
    verdict: Verdict,
    found: Vec<String>,
    missing: Vec<String>,
) -> Finding {
    let Rule { id, title, severity, reason, effect, sources, status, standing, fix, .. } = &loaded.rule;
    // A passed rule needs no fix.
    let fix = fix.as_ref().filter(|_| verdict != Verdict::Passed);
    let server = judged.server.map(|server| server.name.clone());
    let named = thing.map(|(kind, name)| format!("{kind} {}", shown(&Value::from(name))));
    Finding {
        rule: id.clone(),
        layer: loaded.layer.clone(),
        subject: Finding::subject_of(named.as_deref(), server.as_deref()),
        server,
        verdict,
        severity: *severity,
        title: title::title(loaded, verdict, &judged.facts, thing),
        rule_title: Some(title.clone()),
        found,
        missing,
        reason: reason.clone(),
        effect: effect.clone(),
        sources: sources.iter().map(describe::source).collect(),
        status: *status,
        standing: standing.iter().filter(|standing| standing.holds(&judged.facts)).map(describe::standing).collect(),
        fix: fix.map(|fix| fix_lines(fix, &judged.facts, thing)).unwrap_or_default(),
        activation: fix.map(|fix| activation(fix, &judged.facts)),
        group: fix.map(|fix| group::of(loaded, fix, activation(fix, &judged.facts))),
        measured: None,
        waiver: None,
    }
}

fn fix_lines(fix: &Fix, facts: &Facts, thing: Option<(&str, &str)>) -> Vec<String> {
    let family = match facts.host.get("os.family").map(|fact| &fact.value) {
        Some(Value::Text(family)) => Some(family.as_str()),
        _ => None,
    };
    let mut lines = Vec::new();
    if fix.loses_durability {
        lines.push("careful: this may lose data that was acknowledged".to_owned());
    }
    lines.extend(describe::before(&fix.needs));
    for setting in &fix.settings {
        let value = setting_value(setting, facts, thing).map(|text| with_unit(setting, text));
        let unknown = value.is_none() && setting.value_of.is_some();
        let value = if unknown { Some("(its value needs facts that are not known)") } else { value.as_deref() };
        lines.push(match (outweighs(setting, facts), value) {
            (Some(set_by), Some(value)) => set_by.words(&setting.key, value),
            _ => describe::setting(setting, value, thing.map(|(_, name)| name), family),
        });
    }
    lines.extend(fix.by_hand.clone());
    lines.extend(describe::after(&fix.after));
    lines
}

/// What set a PostgreSQL setting with precedence over the files.
fn outweighs<'a>(setting: &Setting, facts: &'a Facts) -> Option<SetBy<'a>> {
    let fact = facts.host.get(&format!("postgres.{}", setting.key)).filter(|_| setting.kind == SettingKind::Postgres)?;
    set_by(&fact.origin)
}

/// What puts a fix in force here. A value on the command line needs a restart.
fn activation(fix: &Fix, facts: &Facts) -> Activation {
    let by_command_line = fix.settings.iter().any(|setting| outweighs(setting, facts) == Some(SetBy::CommandLine));
    if by_command_line { fix.activation.max(Activation::DbRestart) } else { fix.activation }
}

/// A computed number with its unit. Without a unit, PostgreSQL could take bytes as pages.
fn with_unit(setting: &Setting, text: String) -> String {
    match text.parse() {
        Ok(number) if setting.value_of.is_some() => crate::change::written(&Value::Int(number), setting.kind, &setting.key),
        _ => text,
    }
}

/// The worst first, then by layer from the database down, rule and thing.
fn place(finding: &Finding) -> (Verdict, std::cmp::Reverse<Severity>, usize, &str, &Option<String>) {
    let layer = crate::rules::LAYERS.iter().position(|layer| *layer == finding.layer).unwrap_or(usize::MAX);
    (finding.verdict, std::cmp::Reverse(finding.severity), layer, &finding.rule, &finding.subject)
}

#[cfg(test)]
mod tests;
