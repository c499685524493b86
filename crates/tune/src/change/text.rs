//! A plan as text for a person.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::file_changes::FileChange;
use super::manual::{ManualStep, manual_steps, render_steps, steps_of};
use super::plan::{Apart, Group, Plan};
use super::planned::Change;
use super::target::Part;
use crate::describe;

/// The complete plan: each group with the steps that it leaves to the user, then each file with all its changes.
pub fn render(plan: &Plan) -> String {
    let mut out = String::new();
    for group in &plan.groups {
        out.push_str(&render_group(group));
        out.push('\n');
    }
    if plan.groups.is_empty() {
        out.push_str("nothing to change\n");
    }
    if !plan.files.is_empty() {
        let _ = writeln!(out, "{}", render_files(&plan.files));
    }
    out.push_str(&render_rest(plan));
    out
}

/// The differences of all files.
pub fn render_files(files: &[FileChange]) -> String {
    files.iter().map(|file| file.diff.as_str()).collect()
}

/// What is in no group: changes left out, findings without a change, and named rules with nothing
/// to change.
fn render_rest(plan: &Plan) -> String {
    let mut out = String::new();
    if !plan.apart.is_empty() {
        out.push_str("Left out unless named with --rule:\n");
    }
    for Apart { why, change } in &plan.apart {
        let danger = if change.loses_durability { "MAY LOSE ACKNOWLEDGED DATA, " } else { "" };
        let why = if change.loses_durability { "never done by itself" } else { why };
        let _ = writeln!(out, "  {}: {}", change.named(), change.title);
        let _ = writeln!(out, "      {danger}{why}");
    }
    if !plan.left.is_empty() {
        out.push_str("Nothing can be done from here about:\n");
    }
    for left in &plan.left {
        let _ = writeln!(out, "  {left}");
    }
    for rule in &plan.nothing {
        let _ = writeln!(
            out,
            "{rule}: nothing to change: it passes here, does not apply, or its facts are not known (millrace tune explain {rule})"
        );
    }
    out
}

/// One group: when it is in force, its changes, and the steps that apply leaves to the user.
fn render_group(group: &Group) -> String {
    let count = group.changes.len();
    let plural = if count == 1 { "change" } else { "changes" };
    let mut out = format!(
        "== {}: {count} {plural}, in force {} ==\n",
        describe::stored_name(&group.activation),
        describe::activation(group.activation)
    );
    let shared = shared_remarks(&group.changes);
    for change in &group.changes {
        out.push_str(&lines(change, &shared));
    }
    for remark in shared {
        let _ = writeln!(out, "  note on several of these: {remark}");
    }
    out.push_str(&left_to_user(&manual_steps(group)));
    out
}

/// Remarks that more than one change has.
fn shared_remarks(changes: &[Change]) -> Vec<&str> {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for remark in changes.iter().flat_map(|change| &change.remarks) {
        *counted.entry(remark).or_default() += 1;
    }
    counted.into_iter().filter(|(_, count)| *count > 1).map(|(remark, _)| remark).collect()
}

/// The steps under a heading; empty if there are no steps.
fn left_to_user(steps: &[ManualStep]) -> String {
    let list = render_steps(steps);
    if list.is_empty() { list } else { format!("steps left to you, since apply runs no command:\n{list}") }
}

/// One change, with the steps that it leaves to the user.
pub(super) fn change_text(change: &Change) -> String {
    lines(change, &[]) + &left_to_user(&steps_of(std::slice::from_ref(change), change.activation))
}

/// The text of one change. `shared` are remarks of several changes; they are printed once, after
/// all changes.
fn lines(change: &Change, shared: &[&str]) -> String {
    let mut out = format!("  [{}] {}: goal: {}\n", describe::severity(change.severity), change.named(), change.title);
    if change.loses_durability {
        out.push_str("      DANGER: THIS MAY LOSE ACKNOWLEDGED DATA\n");
    }
    for contested in &change.contested {
        let _ = writeln!(out, "      contested: {contested}");
    }
    if let Some(set) = &change.set {
        let from = set.from.as_ref().map_or_else(String::new, |from| format!(" from {from}"));
        let to = match set.shown() {
            "-" => " is taken away".to_owned(),
            "" => " to ''".to_owned(),
            to => format!(" to {to}"),
        };
        let _ = writeln!(out, "      {}{from}{to}", set.key);
    }
    for part in &change.parts {
        match part {
            Part::File { path, .. } => drop(writeln!(out, "      writes {path}")),
            Part::Running { path, value, moves } => {
                let _ = writeln!(out, "      sets {path} to {value}");
                for other in moves {
                    let _ = writeln!(out, "        the kernel sets {other} to 0 with it");
                }
            }
            Part::Run(_) | Part::ByHand { .. } => {}
        }
    }
    for remark in change.remarks.iter().filter(|remark| !shared.contains(&remark.as_str())) {
        let _ = writeln!(out, "      note: {remark}");
    }
    out
}
