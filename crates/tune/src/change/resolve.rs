//! From a rule's settings to settings to change: their values worked out here.

use super::setting::{SettingChange, Target};
use super::target::{now, written};
use crate::expression::{Outcome, parse};
use crate::facts::{Facts, Value};
use crate::rule::{Rule, Setting, SettingKind};
use crate::rules::RuleSet;

/// Where a plan looks rules up, and the values of their expressions.
pub trait RuleLookup {
    /// The rule of an identity.
    fn rule(&self, id: &str) -> Option<&Rule>;

    /// The value of an expression, of the host or of one thing (its kind and name).
    ///
    /// # Errors
    /// Why it has none, a phrase.
    fn value(&self, expression: &str, facts: &Facts, thing: Option<(&str, &str)>) -> Result<Value, String>;
}

impl RuleLookup for RuleSet {
    fn rule(&self, id: &str) -> Option<&Rule> {
        self.find(id).map(|loaded| &loaded.rule)
    }

    fn value(&self, expression: &str, facts: &Facts, thing: Option<(&str, &str)>) -> Result<Value, String> {
        match parse(expression).map_err(|error| error.to_string())?.value(facts, thing) {
            Outcome::Known(value) => Ok(value),
            Outcome::Unknown(missing) if missing.is_empty() => Err("it comes to nothing".to_owned()),
            Outcome::Unknown(missing) => Err(format!("{} not known", missing.join(", "))),
        }
    }
}

/// The settings of one kind that a rule sets on the host, with their values here and now.
///
/// # Errors
/// A value that cannot be worked out, and why: a phrase.
pub fn setting_changes(
    rules: &impl RuleLookup,
    rule: &Rule,
    kind: SettingKind,
    facts: &Facts,
) -> Result<Vec<SettingChange>, String> {
    let settings = rule.fix.iter().flat_map(|fix| &fix.settings).filter(|setting| setting.kind == kind);
    settings
        .map(|setting| {
            let resolved = resolved(rules, setting, facts, None);
            resolved.map_err(|why| format!("{}: the value of {} is not known here: {why}", rule.id, setting.key))
        })
        .collect()
}

/// A setting of the host, or of one thing (its kind and name), with its values here and now.
pub(super) fn resolved(
    rules: &impl RuleLookup,
    setting: &Setting,
    facts: &Facts,
    thing: Option<(&str, &str)>,
) -> Result<SettingChange, String> {
    let Setting { kind, key, .. } = setting;
    let to = match (&setting.value, &setting.value_of) {
        (Some(value), _) => value.clone(),
        (None, Some(expression)) => written(&rules.value(expression, facts, thing)?, *kind, key),
        (None, None) => String::new(),
    };
    let target = Target { kind: *kind, thing: thing.map(|(kind, name)| (kind.to_owned(), name.to_owned())) };
    Ok(SettingChange { target, key: key.clone(), from: now(*kind, key, thing, facts), to })
}
