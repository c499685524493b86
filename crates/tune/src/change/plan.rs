//! From findings to exact changes.

use std::collections::BTreeMap;
use std::fmt;

use results::audit::{Activation, Finding, Severity, Status, Verdict};
use serde::Serialize;

use super::diff::unified;
use super::edit::Edit;
use super::root::Root;
use super::target::{Part, Resolved, family, now, parts, written};
use crate::expression::{Outcome, parse};
use crate::facts::{Facts, Value};
use crate::rule::{Rule, Setting, SettingKind, StandingKind};
use crate::rules::RuleSet;

/// What a plan asks of the rules and their expressions.
pub trait RuleLookup {
    /// The rule of an identity.
    fn rule(&self, id: &str) -> Option<&Rule>;

    /// The value of an expression, of the host or of one thing (its kind and name).
    ///
    /// # Errors
    /// Why it has none, a phrase.
    fn value(&self, expression: &str, facts: &Facts, thing: Option<(&str, &str)>) -> Result<Value, String>;
}

/// What is to be planned.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Rules that are named. With any, only they are planned, those included that nothing but their name lets in.
    pub rules: Vec<String>,
}

/// One change: what one rule sets in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The rule.
    pub rule: String,
    /// Its title.
    pub title: String,
    /// How bad it is as it is.
    pub severity: Severity,
    /// The thing, `mount /u02`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What is set, in the words of its place; empty for what is all by hand.
    pub setting: String,
    /// What it is now, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What it becomes; `-` is taken away.
    pub to: String,
    /// What it takes to be in force.
    pub activation: Activation,
    /// What has to be done before, in order.
    pub needs: Vec<String>,
    /// The setting may lose acknowledged data.
    pub loses_durability: bool,
    /// Who says otherwise.
    pub contested: Vec<String>,
    /// What is done.
    pub parts: Vec<Part>,
    /// What is to be known about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A file before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// The file as users name it.
    pub path: String,
    /// The file itself, links followed.
    pub real: String,
    /// The unified difference.
    pub diff: String,
    /// Rules that change it.
    pub rules: Vec<String>,
    #[serde(skip)]
    pub(super) before: Option<String>,
    #[serde(skip)]
    pub(super) after: String,
}

/// Changes that take the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What they take.
    pub activation: Activation,
    /// What has to be done before, in order.
    pub needs: Vec<String>,
    /// The changes, worst finding first.
    pub changes: Vec<Change>,
    /// The files, as they are once the groups before are done.
    pub files: Vec<FileChange>,
    /// Paths that nobody may use when this is applied: from `remount` on.
    pub paths: Vec<String>,
}

/// A change that is not done unless its rule is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Apart {
    /// Why not.
    pub why: String,
    /// The change.
    pub change: Change,
}

/// What a set of findings comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// `os.family`; only `linux` can be applied.
    pub system: String,
    /// By what they take, least first.
    pub groups: Vec<Group>,
    /// What is left out unless its rule is named.
    pub apart: Vec<Apart>,
    /// Findings that nothing can be done about from here: rule, subject, and why.
    pub left: Vec<String>,
    /// Rules that were named and have nothing to change.
    pub nothing: Vec<String>,
    #[serde(skip)]
    pub(super) root: Root,
}

impl Plan {
    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The tree it is of.
    pub fn root(&self) -> &Root {
        &self.root
    }
}

impl Change {
    /// Whether apply can do any of it.
    pub fn is_ours(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::File { .. } | Part::Running { .. }))
    }
}

/// Plans for all findings.
pub fn plan(rules: &impl RuleLookup, facts: &Facts, findings: &[Finding], root: &Root) -> Plan {
    plan_of(rules, facts, findings, root, &Choice::default())
}

/// Plans for some.
pub fn plan_of(rules: &impl RuleLookup, facts: &Facts, findings: &[Finding], root: &Root, choice: &Choice) -> Plan {
    let named = |rule: &str| choice.rules.iter().any(|one| one == rule);
    let mut plan = Plan {
        system: family(facts).to_owned(),
        groups: Vec::new(),
        apart: Vec::new(),
        left: Vec::new(),
        nothing: Vec::new(),
        root: root.clone(),
    };
    let mut taken: Vec<Taken> = Vec::new();
    let mut wanted: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Finding && (choice.rules.is_empty() || named(&finding.rule)))
        .collect();
    wanted.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.rule.cmp(&b.rule)).then(a.subject.cmp(&b.subject)));
    let mut chosen: Vec<Change> = Vec::new();
    for finding in wanted {
        let Some(rule) = rules.rule(&finding.rule) else {
            plan.left.push(format!("{}: no such rule is loaded", called(finding)));
            continue;
        };
        let (changes, faults) = changes_of(rules, rule, finding, facts, root);
        plan.left.extend(faults);
        for change in changes {
            match why_apart(&change, named(&rule.id), &mut taken) {
                Some(why) => plan.apart.push(Apart { why, change }),
                None => chosen.push(change),
            }
        }
    }
    let any = |rule: &String| findings.iter().any(|f| f.verdict == Verdict::Finding && &f.rule == rule);
    plan.nothing = choice.rules.iter().filter(|rule| !any(rule)).cloned().collect();
    plan.groups = grouped(chosen, facts, root, &mut plan.left);
    plan
}

/// A finding's rule and thing.
fn called(finding: &Finding) -> String {
    match &finding.subject {
        Some(subject) => format!("{} ({subject})", finding.rule),
        None => finding.rule.clone(),
    }
}

/// Why a change is set apart; what it sets is taken otherwise.
fn why_apart(change: &Change, named: bool, taken: &mut Vec<Taken>) -> Option<String> {
    if change.loses_durability && !named {
        return Some("may lose acknowledged data".to_owned());
    }
    if !change.contested.is_empty() && !named {
        return Some(format!("contested: {}", change.contested.join("; ")));
    }
    for part in &change.parts {
        let Some(place) = place(part) else { continue };
        let other = taken.iter().find(|one| one.place == place && one.rule != change.rule && !agree(&one.part, part));
        if let Some(other) = other {
            return Some(format!("{} says otherwise of the same setting, and is worse to leave", other.rule));
        }
    }
    for part in &change.parts {
        if let Some(place) = place(part) {
            taken.push(Taken { place, part: part.clone(), rule: change.rule.clone() });
        }
    }
    None
}

/// A setting that a change already has.
struct Taken {
    place: String,
    part: Part,
    rule: String,
}

/// What a part sets, as a key to find contradictions by.
fn place(part: &Part) -> Option<String> {
    match part {
        Part::File { path, edit } => Some(format!("{path} {}", edit.place())),
        Part::Running { path, .. } => Some(path.clone()),
        Part::Run(run) => Some(format!("{}: {}", run.place, run.lines.first()?.rsplit_once(['=', ' '])?.0)),
        Part::ByHand { .. } => None,
    }
}

fn agree(one: &Part, two: &Part) -> bool {
    match (one, two) {
        (Part::File { edit, .. }, Part::File { edit: other, .. }) => edit.agrees_with(other),
        (Part::Running { value, .. }, Part::Running { value: other, .. }) => value == other,
        (Part::Run(run), Part::Run(other)) => run.lines == other.lines,
        _ => true,
    }
}

fn changes_of(rules: &impl RuleLookup, rule: &Rule, finding: &Finding, facts: &Facts, root: &Root) -> (Vec<Change>, Vec<String>) {
    let Some(fix) = &rule.fix else {
        return (Vec::new(), vec![format!("{}: the rule has no fix", called(finding))]);
    };
    let thing = finding.subject.as_deref().and_then(|subject| subject.split_once(' '));
    let mut changes = Vec::new();
    let mut faults = Vec::new();
    for setting in &fix.settings {
        let value = match value_of(rules, setting, facts, thing) {
            Ok(value) => value,
            Err(reason) => {
                faults.push(format!("{}: what {} should be cannot be worked out: {reason}", called(finding), setting.key));
                continue;
            }
        };
        let resolved =
            Resolved { rule: &rule.id, kind: setting.kind, key: &setting.key, value: &value, thing, activation: fix.activation };
        let (parts, remarks) = parts(&resolved, facts, root);
        let from = now(setting.kind, &setting.key, thing, facts);
        let mut change = bare(rule, finding);
        let to = if setting.kind == SettingKind::FstabOption && value.is_empty() { "on".to_owned() } else { value };
        (change.setting, change.from, change.to) = (setting.key.clone(), from, to);
        (change.parts, change.remarks) = (parts, remarks);
        changes.push(change);
    }
    if let Some(text) = &fix.by_hand {
        let mut change = bare(rule, finding);
        change.parts = vec![Part::ByHand { text: text.clone() }];
        changes.push(change);
    }
    if fix.settings.is_empty() && fix.by_hand.is_none() {
        faults.push(format!("{}: the rule has no fix", called(finding)));
    }
    (changes, faults)
}

/// A change without what it sets.
fn bare(rule: &Rule, finding: &Finding) -> Change {
    let contests = rule.standing.iter().filter(|standing| standing.kind == StandingKind::ContestedBy);
    let mut contested: Vec<String> = contests.map(|standing| format!("{}: {}", standing.by, standing.says)).collect();
    if contested.is_empty() && rule.status == Status::Contested {
        contested.push("sources of today contradict each other".to_owned());
    }
    Change {
        rule: rule.id.clone(),
        title: rule.title.clone(),
        severity: finding.severity,
        subject: finding.subject.clone(),
        setting: String::new(),
        from: None,
        to: String::new(),
        activation: rule.fix.as_ref().map_or(Activation::Live, |fix| fix.activation),
        needs: rule.fix.as_ref().map(|fix| fix.needs.clone()).unwrap_or_default(),
        loses_durability: rule.fix.as_ref().is_some_and(|fix| fix.loses_durability),
        contested,
        parts: Vec::new(),
        remarks: Vec::new(),
    }
}

/// The value of a setting of the host, as its file or its command takes it.
///
/// **Errors**: what is not known here, in words.
pub fn setting_text(rules: &impl RuleLookup, setting: &Setting, facts: &Facts) -> Result<String, String> {
    value_of(rules, setting, facts, None)
}

fn value_of(rules: &impl RuleLookup, setting: &Setting, facts: &Facts, thing: Option<(&str, &str)>) -> Result<String, String> {
    match (&setting.value, &setting.value_of) {
        (Some(value), _) => Ok(value.clone()),
        (None, Some(expression)) => {
            rules.value(expression, facts, thing).map(|value| written(&value, setting.kind, &setting.key))
        }
        (None, None) => Ok(String::new()),
    }
}

fn grouped(changes: Vec<Change>, facts: &Facts, root: &Root, left: &mut Vec<String>) -> Vec<Group> {
    let mut by_activation: BTreeMap<Activation, Vec<Change>> = BTreeMap::new();
    for change in changes {
        by_activation.entry(change.activation).or_default().push(change);
    }
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut groups = Vec::new();
    for (activation, changes) in by_activation {
        let mut needs: Vec<String> = Vec::new();
        for need in changes.iter().flat_map(|change| &change.needs) {
            if !needs.contains(need) {
                needs.push(need.clone());
            }
        }
        let (files, faults) = files_of(&changes, root, &mut seen);
        left.extend(faults.iter().map(Fault::to_string));
        let paths = if activation >= Activation::Remount { paths_of(&changes, facts) } else { Vec::new() };
        groups.push(Group { activation, needs, changes, files, paths });
    }
    groups
}

/// The files that changes touch, before and after; `seen` are contents that groups before leave, by real path.
pub(super) fn files_of(changes: &[Change], root: &Root, seen: &mut BTreeMap<String, String>) -> (Vec<FileChange>, Vec<Fault>) {
    let mut files: Vec<FileChange> = Vec::new();
    let mut faults = Vec::new();
    for change in changes {
        for (path, edit) in change.parts.iter().filter_map(file_part) {
            if let Err(reason) = fold(&mut files, path, edit, &change.rule, root, seen) {
                faults.push(Fault { rule: change.rule.clone(), path: path.clone(), reason });
            }
        }
    }
    files.retain(|file| file.before.as_ref() != Some(&file.after));
    for file in &mut files {
        file.diff = unified(&file.path, file.before.as_deref(), Some(&file.after));
        seen.insert(file.real.clone(), file.after.clone());
    }
    (files, faults)
}

/// An edit that its file does not allow.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) rule: String,
    pub(super) path: String,
    pub(super) reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule, self.path, self.reason)
    }
}

fn file_part(part: &Part) -> Option<(&String, &Edit)> {
    match part {
        Part::File { path, edit } => Some((path, edit)),
        _ => None,
    }
}

fn fold(
    files: &mut Vec<FileChange>,
    path: &str,
    edit: &Edit,
    rule: &str,
    root: &Root,
    seen: &BTreeMap<String, String>,
) -> Result<(), String> {
    let real = root.resolve(path).map_err(|error| error.to_string())?;
    if let Some(file) = files.iter_mut().find(|file| file.real == real) {
        file.after = edit.made(Some(&file.after))?;
        if !file.rules.iter().any(|one| one == rule) {
            file.rules.push(rule.to_owned());
        }
        return Ok(());
    }
    let before = match seen.get(&real) {
        Some(text) => Some(text.clone()),
        None => root.read_text(&real).map_err(|error| error.to_string())?,
    };
    let after = edit.made(before.as_deref())?;
    let rules = vec![rule.to_owned()];
    files.push(FileChange { path: path.to_owned(), real, diff: String::new(), rules, before, after });
    Ok(())
}

/// Paths in use that a remount, a network interface or a start takes away: the mount itself, else all that lie on the
/// network or have a role, and the databases' own directories.
fn paths_of(changes: &[Change], facts: &Facts) -> Vec<String> {
    let subject = |change: &Change| change.subject.as_deref().and_then(|s| s.strip_prefix("mount ")).map(str::to_owned);
    let mut paths: Vec<String> = changes.iter().filter_map(subject).collect();
    let wide = changes.iter().any(|change| change.activation > Activation::Remount || subject(change).is_none());
    if wide {
        for (name, mount) in facts.things.get("mount").into_iter().flatten() {
            let network = match mount.get("fstype").map(|fact| &fact.value) {
                Some(Value::Text(kind)) => kind.starts_with("nfs") || kind.starts_with("cifs"),
                _ => false,
            };
            if network || mount.contains_key("role") {
                paths.push(name.clone());
            }
        }
        for name in ["postgres.data_directory", "mysql.datadir"] {
            if let Some(Value::Text(path)) = facts.host.get(name).map(|fact| &fact.value) {
                paths.push(path.clone());
            }
        }
    }
    paths.sort();
    paths.dedup();
    paths
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
