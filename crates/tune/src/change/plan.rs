//! Turns findings into exact changes.

use std::collections::BTreeMap;

use host::mount_table::is_nfs;
use results::audit::{Activation, Finding, Status, Verdict};
use serde::Serialize;

use super::conflict::{Taken, why_apart};
use super::file_changes::{Fault, FileChange, combined, files_of};
use super::planned::Change;
use super::resolve::{RuleLookup, resolved};
use super::root::Root;
use super::setting::SettingChange;
use super::target::{Part, Resolved, activation, family, parts};
use crate::collect::Checked;
use crate::facts::{Database, Facts, Server, Value};
use crate::rule::{Rule, SettingKind, Standing, StandingKind};

/// Which findings to plan for.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The named rules. If there are any, only these are planned, and changes are included that are
    /// otherwise left out.
    pub rules: Vec<String>,
}

/// Asks whether a server accepts a value: server, setting, value.
pub type Check<'a> = &'a dyn Fn(&Server, &str, &str) -> Checked;

/// Changes with the same activation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What puts the changes in force.
    pub activation: Activation,
    /// What must be done before, in order.
    pub needs: Vec<String>,
    /// The changes. Those of the worst findings come first.
    pub changes: Vec<Change>,
    /// The files, each as it is after the earlier groups.
    pub files: Vec<FileChange>,
    /// Paths that no process may use while this group is applied; empty below `remount`.
    pub paths: Vec<String>,
}

/// A change that is made only if its rule is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Apart {
    /// Why it is left out.
    pub why: String,
    /// The change.
    pub change: Change,
}

/// The changes for a set of findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// `os.family`. Only a plan for `linux` can be applied.
    pub system: String,
    /// The groups, ordered by activation: the one that disturbs least comes first.
    pub groups: Vec<Group>,
    /// Each file once, with one difference for the changes of all groups.
    pub files: Vec<FileChange>,
    /// Changes that are left out unless their rule is named.
    pub apart: Vec<Apart>,
    /// Findings for which nothing can be planned: rule, subject and cause.
    pub left: Vec<String>,
    /// Named rules that have nothing to change.
    pub nothing: Vec<String>,
    #[serde(skip)]
    pub(super) root: Root,
}

impl Plan {
    /// Whether the plan changes nothing.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The tree that the plan is for.
    pub fn root(&self) -> &Root {
        &self.root
    }
}

/// Plans changes for all findings.
pub fn plan(rules: &impl RuleLookup, facts: &Facts, findings: &[Finding], root: &Root) -> Plan {
    plan_of(rules, facts, findings, root, &Choice::default())
}

/// Plans changes for some findings, without asking a server.
pub fn plan_of(rules: &impl RuleLookup, facts: &Facts, findings: &[Finding], root: &Root, choice: &Choice) -> Plan {
    plan_checked(rules, facts, findings, root, choice, &|_, _, _| Checked::Taken)
}

/// Plans changes for some findings. `check` asks a database server whether it accepts a value. A
/// refused change is left out, and the cause is listed in `left`.
pub fn plan_checked(
    rules: &impl RuleLookup,
    facts: &Facts,
    findings: &[Finding],
    root: &Root,
    choice: &Choice,
    check: Check<'_>,
) -> Plan {
    let named = |rule: &str| choice.rules.iter().any(|one| one == rule);
    let mut plan = Plan {
        system: family(facts).to_owned(),
        groups: Vec::new(),
        files: Vec::new(),
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
        for mut change in changes {
            if let Some(reason) = refusal(&mut change, facts, check) {
                plan.left.push(format!("{}: {reason}", called(finding)));
                continue;
            }
            match why_apart(&change, named(&rule.id), &mut taken) {
                Some(why) => plan.apart.push(Apart { why, change }),
                None => chosen.push(change),
            }
        }
    }
    let any = |rule: &String| findings.iter().any(|f| f.verdict == Verdict::Finding && &f.rule == rule);
    plan.nothing = choice.rules.iter().filter(|rule| !any(rule)).cloned().collect();
    plan.groups = grouped(chosen, facts, root, &mut plan.left);
    plan.files = combined(plan.groups.iter().flat_map(|group| &group.files));
    plan
}

/// Why the server of a change refuses its value. If the value could not be checked, the change gets
/// a remark.
fn refusal(change: &mut Change, facts: &Facts, check: Check<'_>) -> Option<String> {
    let set = change.set.as_ref().filter(|set| matches!(set.target.kind, SettingKind::Postgres | SettingKind::Mysql))?;
    let server = facts.server(change.server.as_deref()?)?;
    match check(server, &set.key, &set.to) {
        Checked::Taken => None,
        Checked::Refused(reason) => Some(format!("the server does not take {} = {}: {reason}", set.key, set.to)),
        Checked::Unchecked(reason) => {
            change.remarks.push(format!("not checked whether the server takes {} = {}: {reason}", set.key, set.to));
            None
        }
    }
}

/// The rule and the subject of a finding.
fn called(finding: &Finding) -> String {
    match &finding.subject {
        Some(subject) => format!("{} ({subject})", finding.rule),
        None => finding.rule.clone(),
    }
}

fn changes_of(rules: &impl RuleLookup, rule: &Rule, finding: &Finding, facts: &Facts, root: &Root) -> (Vec<Change>, Vec<String>) {
    let Some(fix) = &rule.fix else {
        return (Vec::new(), vec![format!("{}: the rule has no fix", called(finding))]);
    };
    let thing = finding.thing().and_then(|thing| thing.split_once(' '));
    let server = finding.server.as_ref().and_then(|name| facts.server(name));
    if finding.server.is_some() && server.is_none() {
        return (Vec::new(), vec![format!("{}: nothing is known of this server", called(finding))]);
    }
    let seen = server.map(|server| facts.seen_by(server));
    let facts = seen.as_ref().unwrap_or(facts);
    let mut changes = Vec::new();
    let mut faults = Vec::new();
    for setting in &fix.settings {
        let set = match resolved(rules, setting, facts, thing) {
            Ok(set) => set,
            Err(reason) => {
                faults.push(format!("{}: what {} should be cannot be worked out: {reason}", called(finding), setting.key));
                continue;
            }
        };
        let (parts, remarks) = parts(&Resolved { rule: &rule.id, change: &set, activation: fix.activation, server }, facts, root);
        let activation = activation(fix.activation, &set, facts);
        let change = Change { set: Some(set), parts, remarks, activation, ..bare(rule, finding, facts) };
        changes.push(change);
    }
    let differs = |change: &Change| change.set.as_ref().is_none_or(|set| !is_so_already(set, facts));
    if changes.iter().any(differs) {
        changes.retain(differs);
    }
    if let Some(text) = &fix.by_hand {
        let mut change = bare(rule, finding, facts);
        change.parts = vec![Part::ByHand { text: text.clone() }];
        changes.push(change);
    }
    if fix.settings.is_empty() && fix.by_hand.is_none() {
        faults.push(format!("{}: the rule has no fix", called(finding)));
    }
    (changes, faults)
}

/// Whether a setting of a database already has its new value, now and after a restart. For other
/// settings the value in a file and the value in force are separate facts.
fn is_so_already(set: &SettingChange, facts: &Facts) -> bool {
    let prefix = match set.target.kind {
        SettingKind::Postgres => "postgres",
        SettingKind::Mysql => "mysql",
        _ => return false,
    };
    let value = |begin: &str| facts.host.get(&format!("{begin}{prefix}.{}", set.key)).map(|fact| &fact.value);
    let persistent = value("persistent.");
    set.from.as_ref() == Some(&set.to) && (persistent.is_none() || persistent == value(""))
}

/// A change without its setting.
fn bare(rule: &Rule, finding: &Finding, facts: &Facts) -> Change {
    let is_contest = |standing: &&Standing| standing.kind == StandingKind::ContestedBy && standing.holds(facts);
    let contests = rule.standing.iter().filter(is_contest);
    let mut contested: Vec<String> = contests.map(|standing| format!("{}: {}", standing.by, standing.says)).collect();
    if contested.is_empty() && rule.status == Status::Contested {
        contested.push("sources of today contradict each other".to_owned());
    }
    Change {
        rule: rule.id.clone(),
        title: rule.title.clone(),
        severity: finding.severity,
        subject: finding.subject.clone(),
        server: finding.server.clone(),
        set: None,
        activation: rule.fix.as_ref().map_or(Activation::Live, |fix| fix.activation),
        needs: rule.fix.as_ref().map(|fix| fix.needs.clone()).unwrap_or_default(),
        after: rule.fix.as_ref().map(|fix| fix.after.clone()).unwrap_or_default(),
        loses_durability: rule.fix.as_ref().is_some_and(|fix| fix.loses_durability),
        contested,
        parts: Vec::new(),
        remarks: Vec::new(),
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

/// Paths in use that a remount, a restarted network interface or a reboot takes away: the mount
/// itself; otherwise all network mounts, mounts with a role, and the databases' data directories.
fn paths_of(changes: &[Change], facts: &Facts) -> Vec<String> {
    let subject = |change: &Change| change.subject.as_deref().and_then(|s| s.strip_prefix("mount ")).map(str::to_owned);
    let mut paths: Vec<String> = changes.iter().filter_map(subject).collect();
    let wide = changes.iter().any(|change| change.activation > Activation::Remount || subject(change).is_none());
    if wide {
        for (name, mount) in facts.things.get("mount").into_iter().flatten() {
            let network = match mount.get("fstype").map(|fact| &fact.value) {
                Some(Value::Text(kind)) => is_nfs(kind) || kind.starts_with("cifs"),
                _ => false,
            };
            if network || mount.contains_key("role") {
                paths.push(name.clone());
            }
        }
        // A server on another host stores nothing on this one.
        let here = facts.servers.iter().filter(|server| server.config.is_some() || server.database != Database::Postgres);
        for facts in std::iter::once(facts).chain(here.map(|server| &server.facts)) {
            for name in ["postgres.data_directory", "mysql.datadir"] {
                if let Some(Value::Text(path)) = facts.host.get(name).map(|fact| &fact.value) {
                    paths.push(path.clone());
                }
            }
        }
    }
    paths.sort();
    paths.dedup();
    paths
}
