//! Everything that a rule says, and its result on this host.

use std::fmt::Write as _;

use results::audit::{Activation, Finding, Severity, Status, Verdict};
use serde::Serialize;

use super::plan::{Apart, Plan};
use super::planned::Change;
use super::text::change_text;
use crate::describe;
use crate::rule::Rule;

/// A rule in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The rule's ID.
    pub rule: String,
    /// One line that says what the rule wants.
    pub title: String,
    /// Its layer.
    pub layer: String,
    /// How bad it is if the rule does not hold.
    pub severity: Severity,
    /// The rule's status today.
    pub status: Status,
    /// The platforms; empty means every platform.
    pub platforms: Vec<String>,
    /// The host must have one of these roles; empty means any role.
    pub roles: Vec<String>,
    /// The kind of thing that the rule judges; `None` for the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// The condition under which the rule applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The expression that is true if the rule holds.
    pub test: String,
    /// The reason.
    pub reason: String,
    /// The effect of following the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// The sources.
    pub sources: Vec<String>,
    /// Sources that contradict the rule, and what they say.
    pub standing: Vec<String>,
    /// The rows of the reports' catalogue that the rule covers.
    pub covers: Vec<String>,
    /// The result on this host: each subject with its verdict and what was found.
    pub here: Vec<String>,
    /// What puts the fix in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// The setting may lose acknowledged data.
    pub loses_durability: bool,
    /// How the rule is fixed on any host.
    pub fix: Vec<String>,
    /// What would change on this host if the rule is named.
    pub changes: Vec<Change>,
}

/// Explains a rule. `plan` is the plan with this rule named; without facts it may be empty.
pub fn explain(rule: &Rule, layer: &str, findings: &[Finding], plan: &Plan) -> Explanation {
    let of_rule = |finding: &&Finding| finding.rule == rule.id;
    let planned = plan.groups.iter().flat_map(|group| &group.changes);
    let changes = planned.chain(plan.apart.iter().map(|Apart { change, .. }| change));
    Explanation {
        rule: rule.id.clone(),
        title: rule.title.clone(),
        layer: layer.to_owned(),
        severity: rule.severity,
        status: rule.status,
        platforms: rule.platforms.clone(),
        roles: rule.roles.clone(),
        each: rule.each.clone(),
        when: rule.when.clone(),
        test: rule.test.clone(),
        reason: rule.reason.clone(),
        effect: rule.effect.clone(),
        sources: rule.sources.iter().map(describe::source).collect(),
        standing: rule.standing.iter().map(describe::standing).collect(),
        covers: rule.covers.clone(),
        here: findings.iter().filter(of_rule).map(came_out).collect(),
        activation: rule.fix.as_ref().map(|fix| fix.activation),
        loses_durability: rule.fix.as_ref().is_some_and(|fix| fix.loses_durability),
        fix: fix(rule),
        changes: changes.filter(|change| change.rule == rule.id).cloned().collect(),
    }
}

impl Explanation {
    /// As text for a person.
    pub fn text(&self) -> String {
        let mut out = format!("{}: {}\n", self.rule, self.title);
        let mut line = |name: &str, text: &str| {
            if !text.is_empty() {
                let _ = writeln!(out, "  {name:<11} {text}");
            }
        };
        line("layer", &self.layer);
        line("severity", describe::severity(self.severity));
        line("status", describe::status(self.status));
        line("applies to", &applies(self));
        line("holds when", &self.test);
        line("because", &self.reason);
        line("effect", self.effect.as_deref().unwrap_or(""));
        for source in &self.sources {
            line("source", source);
        }
        for standing in &self.standing {
            line("status", standing);
        }
        line("rows", &self.covers.join(", "));
        if self.loses_durability {
            line("DANGER", "this setting may lose data that was acknowledged");
        }
        for fix in &self.fix {
            line("set right by", fix);
        }
        line("in force", self.activation.map_or("", describe::activation));
        for here in &self.here {
            line("here", here);
        }
        for change in &self.changes {
            let _ = write!(out, "{}", change_text(change));
        }
        out
    }
}

fn applies(of: &Explanation) -> String {
    let platforms = if of.platforms.is_empty() { "every platform".to_owned() } else { of.platforms.join(", ") };
    let roles = if of.roles.is_empty() { String::new() } else { format!("; hosts that are {}", of.roles.join(" or ")) };
    let each = of.each.as_ref().map_or_else(String::new, |kind| format!("; each {kind}"));
    let when = of.when.as_ref().map_or_else(String::new, |when| format!("; when {when}"));
    format!("{platforms}{roles}{each}{when}")
}

fn came_out(finding: &Finding) -> String {
    let verdict = match finding.verdict {
        Verdict::Finding => "does not hold",
        Verdict::Unknown => "not known",
        Verdict::Waived => "does not hold, and is waived",
        Verdict::Passed => "holds",
    };
    let subject = finding.subject.as_deref().unwrap_or("the host");
    let mut facts = finding.found.clone();
    facts.extend(finding.missing.iter().map(|name| format!("{name} is not known")));
    let facts = if facts.is_empty() { String::new() } else { format!(": {}", facts.join("; ")) };
    format!("{subject}: {verdict}{facts}")
}

fn fix(rule: &Rule) -> Vec<String> {
    let Some(fix) = &rule.fix else { return vec!["nothing that a setting could do".to_owned()] };
    let platform = rule.platforms.first().map(String::as_str);
    let mut lines: Vec<String> = describe::before(&fix.needs).collect();
    for setting in &fix.settings {
        let worked_out = setting.value_of.as_ref().map(|expression| format!("<{expression}>"));
        let value = setting.value.as_deref().or(worked_out.as_deref());
        lines.push(describe::setting(setting, value, None, platform));
    }
    lines.extend(fix.by_hand.iter().map(|text| format!("by hand: {text}")));
    lines.extend(describe::after(&fix.after));
    lines
}
