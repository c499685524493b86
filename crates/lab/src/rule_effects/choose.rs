//! Selects the rules to measure, and their settings.

use results::audit::{Finding, Status, Verdict};
use tune::change::setting_changes;
use tune::facts::{Facts, Server, ServerState};
use tune::judge::judge;
use tune::rule::Rule;
use tune::rules::RuleSet;

use super::change::RuleChange;
use super::target::{self, Target};
use crate::error::LabError;
use crate::paths;

/// The changes to measure.
#[derive(Debug, Default)]
pub struct Chosen {
    /// The changes, in the order in which they accumulate.
    pub changes: Vec<RuleChange>,
    /// Rules that are left out, each with the reason: a value that depends on an unknown fact.
    pub left_out: Vec<String>,
}

/// The rules with these names. Without names: all rules with a finding that may be tried without being named, because they
/// set something in the database, do not reduce durability and are not contested. `path` is the storage path, as for `--path`.
///
/// # Errors
/// [`LabError::Plan`] for several servers of which none was chosen, an unknown name, a rule that must not or cannot be measured, a
/// named rule whose value is not known here, or nothing to measure.
pub fn choose(rules: &RuleSet, facts: Facts, path: &str, names: &[String]) -> Result<Chosen, LabError> {
    let target = target::of_rules()?;
    // A wrong name is an error whatever servers there are.
    let wanted = if names.is_empty() { None } else { Some(named(rules, names, &target)?) };
    let mut facts = of_one_server(facts, &target)?;
    // The measured database will use it, whatever this host uses today.
    let name = path.split([':', '=']).next().unwrap_or_default();
    for fact in paths::find(name).map_or(&[][..], |path| path.site_facts()) {
        if !facts.host.contains_key(*fact) {
            facts.put(fact, true, "--path");
        }
    }
    let wanted = wanted.map_or_else(|| found(rules, &judge(rules, &facts).findings, &target), Ok)?;
    let mut chosen = Chosen::default();
    for rule in wanted {
        match setting_changes(rules, rule, target.settings.kind, &facts) {
            Ok(settings) => chosen.changes.push(RuleChange { rule: rule.id.clone(), settings }),
            Err(why) if names.is_empty() => chosen.left_out.push(why),
            Err(why) => return Err(LabError::plan(format!("measure {why}"), "a site file or --db may tell it")),
        }
    }
    Ok(chosen)
}

/// The facts for a single server of the database: the live one, else the only one in files that may run.
fn of_one_server(facts: Facts, target: &Target) -> Result<Facts, LabError> {
    let mut servers: Vec<&Server> = facts.servers_of(target.settings.servers).collect();
    for state in [ServerState::Live, ServerState::FromFiles] {
        if servers.iter().any(|server| server.state == state) {
            servers.retain(|server| server.state == state);
        }
    }
    match servers.as_slice() {
        [] => Ok(facts),
        [only] => Ok(facts.seen_by(only)),
        several => {
            let names: Vec<&str> = several.iter().map(|server| server.name.as_str()).collect();
            let what = format!("choose between {} servers of {}: {}", several.len(), target.database.title(), names.join(", "));
            Err(LabError::plan(what, &choices(several)))
        }
    }
}

/// The values of `--db` of these servers.
fn choices(servers: &[&Server]) -> String {
    let choice = |server: &&Server| Some(format!("--db '{}' for {}", server.dsn()?, server.name));
    let choices: Vec<String> = servers.iter().filter_map(choice).collect();
    match servers.first().map(|server| server.state) {
        Some(ServerState::Live) => "give --db once, for the server that the settings are for".to_owned(),
        Some(ServerState::Stopped) => "start one of them, and name it with --db".to_owned(),
        _ if choices.is_empty() => "name one of them with --db".to_owned(),
        _ => format!("name one of them: {}", choices.join("; ")),
    }
}

fn found<'r>(rules: &'r RuleSet, findings: &[Finding], target: &Target) -> Result<Vec<&'r Rule>, LabError> {
    let fires = |rule: &Rule| findings.iter().any(|found| found.rule == rule.id && found.verdict == Verdict::Finding);
    let unasked = |rule: &&Rule| is_set_by(rule, target) && !loses(rule) && rule.status != Status::Contested && fires(rule);
    let found: Vec<&Rule> = rules.rules().iter().map(|loaded| &loaded.rule).filter(unasked).collect();
    if found.is_empty() {
        let title = target.database.title();
        let what = format!("choose rules to measure: the audit finds nothing against {title}'s settings here");
        return Err(LabError::plan(what, "name the rules to measure, or a server by --db"));
    }
    Ok(found)
}

fn named<'r>(rules: &'r RuleSet, names: &[String], target: &Target) -> Result<Vec<&'r Rule>, LabError> {
    if let Some(twice) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)).map(|(_, name)| name) {
        return Err(LabError::plan(format!("measure the rule {twice} twice"), "name each rule once"));
    }
    let named = rules.named(names).map_err(|unknown| LabError::plan(unknown.to_string(), &unknown.hint()))?;
    for loaded in &named {
        let (rule, id) = (&loaded.rule, &loaded.rule.id);
        if !is_set_by(rule, target) {
            let title = target.database.title();
            let hint = format!("only settings of {title} are measured under the order load, before and after");
            return Err(LabError::plan(format!("measure {id}: it sets nothing in {title}"), &hint));
        }
        if loses(rule) {
            let what = format!("measure {id}: it may lose acknowledged transactions");
            return Err(LabError::plan(what, "a measurement never applies such a rule; `millrace tune apply --rule` does"));
        }
    }
    Ok(named.into_iter().map(|loaded| &loaded.rule).collect())
}

/// Whether a rule sets something in the database.
fn is_set_by(rule: &Rule, target: &Target) -> bool {
    rule.fix.as_ref().is_some_and(|fix| fix.settings.iter().any(|setting| setting.kind == target.settings.kind))
}

fn loses(rule: &Rule) -> bool {
    rule.fix.as_ref().is_some_and(|fix| fix.loses_durability)
}
