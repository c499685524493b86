//! A plan as text for a person.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::plan::{Apart, Group, Plan};
use super::planned::Change;
use super::target::Part;
use crate::describe;

/// The whole plan.
pub fn render(plan: &Plan) -> String {
    let mut out = String::new();
    for group in &plan.groups {
        out.push_str(&render_group(group));
        out.push('\n');
    }
    if plan.groups.is_empty() {
        out.push_str("nothing to change\n");
    }
    out.push_str(&render_rest(plan));
    out
}

/// What is in no group: left out, left over, or nothing to do.
pub fn render_rest(plan: &Plan) -> String {
    let mut out = String::new();
    if !plan.apart.is_empty() {
        out.push_str("Left out unless named with --rule:\n");
    }
    for Apart { why, change } in &plan.apart {
        let danger = if change.loses_durability { "MAY LOSE ACKNOWLEDGED DATA, " } else { "" };
        let why = if change.loses_durability { "never done by itself" } else { why };
        let _ = writeln!(out, "  {}{}: {}", change.rule, of(change), change.title);
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
            "{rule}: nothing to change: it holds here, does not apply, or cannot be told (millrace tune explain {rule})"
        );
    }
    out
}

/// One group: what it takes, its changes, and its files with their differences.
pub fn render_group(group: &Group) -> String {
    let count = group.changes.len();
    let plural = if count == 1 { "change" } else { "changes" };
    let mut out = format!(
        "== {}: {count} {plural}, in force {} ==\n",
        describe::stored_name(&group.activation),
        describe::activation(group.activation)
    );
    let shared = shared_remarks(&group.changes);
    for (change, steps) in with_steps(group) {
        out.push_str(&lines(change, steps, &shared));
    }
    for remark in shared {
        let _ = writeln!(out, "  note on several of these: {remark}");
    }
    for file in &group.files {
        out.push('\n');
        out.push_str(&file.diff);
    }
    out
}

/// What a group leaves to the user, each with the reason; empty when apply does all of it.
pub fn render_left(group: &Group) -> String {
    let mut out = String::new();
    for (change, steps) in with_steps(group) {
        for step in describe::before(steps.before) {
            let _ = writeln!(out, "  {}{}: by hand, {step}", change.rule, of(change));
        }
        let why = change.remarks.first().map_or("apply writes files and running values, and runs no command", String::as_str);
        for part in &change.parts {
            let _ = match part {
                Part::File { .. } | Part::Running { .. } => Ok(()),
                Part::Run(run) => writeln!(out, "  {}{}: the lines in {}: {why}", change.rule, of(change), run.place),
                Part::ByHand { text } => {
                    writeln!(out, "  {}{}: {text}: by hand, no file or command sets it", change.rule, of(change))
                }
            };
        }
        for step in describe::after(steps.after) {
            let _ = writeln!(out, "  {}{}: by hand, {step}", change.rule, of(change));
        }
    }
    out
}

/// What a person does before and after a change, in order.
#[derive(Clone, Copy, Default)]
struct Steps<'a> {
    before: &'a [String],
    after: &'a [String],
}

/// The changes, each with its steps: a rule that sets several things has them before the first and after the last.
fn with_steps(group: &Group) -> impl Iterator<Item = (&Change, Steps<'_>)> {
    let of = |place: usize| group.changes.get(place).map(|change| (change.rule.as_str(), change.subject.as_deref()));
    group.changes.iter().enumerate().map(move |(place, change)| {
        let is_first = place.checked_sub(1).and_then(of) != of(place);
        let is_last = of(place + 1) != of(place);
        let before = if is_first { change.needs.as_slice() } else { &[] };
        (change, Steps { before, after: if is_last { change.after.as_slice() } else { &[] } })
    })
}

/// Remarks that more than one of these changes has.
fn shared_remarks(changes: &[Change]) -> Vec<&str> {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for remark in changes.iter().flat_map(|change| &change.remarks) {
        *counted.entry(remark).or_default() += 1;
    }
    counted.into_iter().filter(|(_, count)| *count > 1).map(|(remark, _)| remark).collect()
}

/// One change.
pub(super) fn change_text(change: &Change) -> String {
    lines(change, Steps::default(), &[])
}

/// One change with its steps. `shared`: remarks that are said of several changes at once.
fn lines(change: &Change, steps: Steps<'_>, shared: &[&str]) -> String {
    let mut out = format!("  [{}] {}{}: {}\n", describe::severity(change.severity), change.rule, of(change), change.title);
    if change.loses_durability {
        out.push_str("      DANGER: THIS MAY LOSE ACKNOWLEDGED DATA\n");
    }
    for step in describe::before(steps.before) {
        let _ = writeln!(out, "      {step}");
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
            Part::Run(run) => {
                let _ = writeln!(out, "      you run, in {}:", run.place);
                for line in &run.lines {
                    let _ = writeln!(out, "        {line}");
                }
                if !run.undo.is_empty() {
                    out.push_str("      and to revert it:\n");
                }
                for line in &run.undo {
                    let _ = writeln!(out, "        {line}");
                }
            }
            Part::ByHand { text } => drop(writeln!(out, "      you do: {text}")),
        }
    }
    for step in describe::after(steps.after) {
        let _ = writeln!(out, "      {step}");
    }
    for remark in change.remarks.iter().filter(|remark| !shared.contains(&remark.as_str())) {
        let _ = writeln!(out, "      note: {remark}");
    }
    out
}

fn of(change: &Change) -> String {
    change.subject.as_ref().map_or_else(String::new, |subject| format!(" ({subject})"))
}
