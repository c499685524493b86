//! Turns the settings of a rule into settings to change, with their values on this host.

use super::setting::{SettingChange, Target};
use super::target::{now, written};
use crate::expression::{Outcome, parse};
use crate::facts::{Facts, Value};
use crate::rule::{Rule, Setting, SettingKind};
use crate::rules::RuleSet;

/// How a plan finds rules and the values of their expressions.
pub trait RuleLookup {
    /// The rule with this ID.
    fn rule(&self, id: &str) -> Option<&Rule>;

    /// The value of an expression, for the host or for one thing (kind and name).
    ///
    /// # Errors
    /// A phrase that says why the expression has no value.
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

/// The settings of one kind that a rule sets on the host, with their current and new values.
///
/// # Errors
/// A phrase that says which value cannot be computed, and why.
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

/// A setting of the host or of one thing (kind and name), with its current and new value.
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
